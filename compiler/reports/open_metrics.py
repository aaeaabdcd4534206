"""The text of metrics in the format of OpenMetrics 1.0. Needs the package prometheus-client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import push_to_gateway
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from parquetry.compiler.reports.metrics import MeasuredMetric

_TIMEOUT_SECONDS: Final = 30


def open_metrics(metrics: Iterable[MeasuredMetric]) -> str:
    """Return the text of the metrics."""
    return str(generate_latest(_registry(metrics)).decode())  # type: ignore[no-untyped-call]  # it has no types


def push(metrics: Iterable[MeasuredMetric], gateway: str, *, project: str, target: str) -> None:
    """Replace the metrics of a project at a target in a push gateway; raise OSError if that fails."""
    push_to_gateway(
        gateway,
        job="parquetry",
        registry=_registry(metrics),
        grouping_key={"project": project, "target": target},
        timeout=_TIMEOUT_SECONDS,
    )


def _registry(metrics: Iterable[MeasuredMetric]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(metrics))
    return registry


class _Families(Collector):
    """The metrics as the library collects them."""

    def __init__(self, metrics: Iterable[MeasuredMetric]) -> None:
        self._metrics = tuple(metrics)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield each metric with its values."""
        for metric in self._metrics:
            names = tuple(metric.samples[0].labels)
            family = GaugeMetricFamily(metric.name, metric.help, labels=names, unit=metric.unit)
            for sample in metric.samples:
                family.add_metric([sample.labels[name] for name in names], sample.value)
            yield family
