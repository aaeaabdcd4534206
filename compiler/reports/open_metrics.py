"""The text of metrics in the format of OpenMetrics 1.0. Needs the package prometheus-client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from parquetry.compiler.reports.metrics import MeasuredMetric


def open_metrics(metrics: Iterable[MeasuredMetric]) -> str:
    """Return the text of the metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(metrics))
    return str(generate_latest(registry).decode())  # type: ignore[no-untyped-call]  # it has no types


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
