"""Metrics, as OpenMetrics text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from math import isfinite
from types import ModuleType
from typing import Any

from parquetry.cli.terminal.output import Paint, json_document
from parquetry.compiler.errors import MissingPackageError
from parquetry.compiler.reports.metrics import MeasuredMetric


class MetricsView:
    """Every metric with its values."""

    def text(self, outcome: Sequence[MeasuredMetric], paint: Paint) -> str:  # noqa: ARG002  # for programs
        """Return the OpenMetrics text, without the end of its last line."""
        return self.document(outcome, "text").removesuffix("\n")

    def json(self, outcome: Sequence[MeasuredMetric]) -> Any:
        """Return the metrics as plain values."""
        return {
            "metrics": [
                {
                    "name": metric.name,
                    "help": metric.help,
                    "unit": metric.unit or None,
                    "samples": [
                        # JSON has no infinity.
                        {
                            "labels": dict(sample.labels),
                            "value": sample.value if isfinite(sample.value) else None,
                        }
                        for sample in metric.samples
                    ],
                }
                for metric in outcome
            ]
        }

    def document(self, outcome: Sequence[MeasuredMetric], shape: str) -> str:
        """Return the complete text of a file in the format ``shape``: json, or OpenMetrics text."""
        if shape == "json":
            return json_document(self, outcome) + "\n"
        text: str = open_metrics_library().open_metrics(outcome)
        return text


def open_metrics_library() -> ModuleType:
    """Return the module that writes OpenMetrics text; raise MissingPackageError without prometheus-client."""
    try:
        return import_module("parquetry.compiler.reports.open_metrics")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prometheus_client":
            raise
        raise MissingPackageError(
            "metrics as text need the package prometheus-client; run `pip install prometheus-client`"
        ) from error
