"""The condition of a lake as metrics.

All metrics are gauges, so that their text in the format of OpenMetrics is also valid in the older text
format of Prometheus, which the textfile collector of node_exporter reads. Times are timestamps, which stay
right while a file of metrics ages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from parquetry.compiler.reports.health import HEALTH_CHECKS
from parquetry.compiler.reports.lake import PERCENTILES, Lake, LakeTable, TableCondition

PREFIX: Final = "parquetry_table_"
"""The beginning of each name."""

SAVEPOINT_AGES_DAYS: Final = (0, 7, 30, 90)
"""The ages by which savepoints are counted: those that are at least so old."""

_DAY_MS: Final = 86_400_000

Values: TypeAlias = Iterator[tuple[float | None, Mapping[str, str]]]
"""Values with the labels that they have beside project, target and table; None is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric of tables. The ``unit`` is the end of the name, or empty for counts.

    ``values`` yields the values of one table. ``labels`` are the names of the labels beside those of all
    metrics.
    """

    name: str
    help: str
    unit: str
    values: Callable[[LakeTable], Values]
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name with prefix and unit."""
        return f"{PREFIX}{self.name}{self.unit and f'_{self.unit}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value with all of its labels."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredMetric:
    """A metric with its values in a lake; metrics without any value are left out."""

    name: str
    help: str
    unit: str
    samples: tuple[Sample, ...]


def measured(lake: Lake) -> tuple[MeasuredMetric, ...]:
    """Return the metrics of a lake, in the order of :data:`METRICS`."""
    common = {"project": lake.project, "target": lake.target}
    found = (
        MeasuredMetric(
            name=metric.full_name,
            help=metric.help,
            unit=metric.unit,
            samples=tuple(
                Sample(labels={**common, "table": table.table, **labels}, value=float(value))
                for table in lake.tables
                for value, labels in metric.values(table)
                if value is not None
            ),
        )
        for metric in METRICS
    )
    return tuple(metric for metric in found if metric.samples)


def _of(value: Callable[[TableCondition], float | None]) -> Callable[[LakeTable], Values]:
    """Return the values of a metric that has one value for each table that can be read."""

    def values(table: LakeTable) -> Values:
        if isinstance(table, TableCondition):
            yield value(table), {}

    return values


def _seconds(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / 1000


def _is_readable(table: LakeTable) -> Values:
    yield isinstance(table, TableCondition), {}


def _unreadable(table: LakeTable) -> Values:
    if not isinstance(table, TableCondition):
        yield 1, {"reason": str(table.reason)}


def _unhealthy(table: LakeTable) -> Values:
    if isinstance(table, TableCondition):
        for check in HEALTH_CHECKS:
            yield check.find(table) is not None, {"check": check.name}


def _file_sizes(table: LakeTable) -> Values:
    if isinstance(table, TableCondition):
        for percentile in PERCENTILES:
            yield table.file_size_bytes.get(percentile), {"quantile": f"{percentile / 100:g}"}


def _savepoints(table: LakeTable) -> Values:
    if isinstance(table, TableCondition):
        for days in SAVEPOINT_AGES_DAYS:
            before_ms = table.now_ms - days * _DAY_MS
            number = sum(time <= before_ms or not days for time in table.savepoints_ms.values())
            yield number, {"min_age_days": str(days)}


def _query_reads(table: LakeTable) -> Values:
    if isinstance(table, TableCondition):
        for query in table.queries:
            yield query.now.data_bytes, {"query": query.query}


def _query_reads_expected(table: LakeTable) -> Values:
    if isinstance(table, TableCondition):
        for query in table.queries:
            yield query.expected.data_bytes, {"query": query.query}


def _forecast_error(table: LakeTable) -> Values:
    if isinstance(table, TableCondition) and table.forecast_error is not None:
        error = table.forecast_error.error
        yield error.files, {"of": "files"}
        yield error.row_groups, {"of": "row_groups"}
        yield error.rows, {"of": "rows"}
        yield error.data_bytes, {"of": "bytes"}


def _publish_lag(table: LakeTable) -> Values:
    if isinstance(table, TableCondition):
        for name, seconds in table.publish_lag_seconds.items():
            yield seconds, {"format": name}


def _run_started(table: LakeTable) -> Values:
    if table.last_run is not None:
        yield table.last_run.started_ms / 1000, {}


def _run_succeeded(table: LakeTable) -> Values:
    if table.last_run is not None:
        yield table.last_run.succeeded, {}


METRICS: Final[tuple[Metric, ...]] = (
    Metric(name="readable", help="1 if the table could be read, else 0.", unit="", values=_is_readable),
    Metric(
        name="unreadable",
        help="1 for a table that could not be read, by the class of the reason.",
        unit="",
        values=_unreadable,
        labels=("reason",),
    ),
    Metric(
        name="measured_timestamp",
        help="Time at which the table was measured.",
        unit="seconds",
        values=_of(lambda table: _seconds(table.now_ms)),
    ),
    Metric(
        name="unhealthy",
        help="1 for each health check that finds something in the table, else 0.",
        unit="",
        values=_unhealthy,
        labels=("check",),
    ),
    Metric(name="files", help="Live files.", unit="", values=_of(lambda table: table.files)),
    Metric(
        name="small_files",
        help="Live files below the limit for small files, which the next writes fill.",
        unit="",
        values=_of(lambda table: table.small_files),
    ),
    Metric(
        name="size", help="Bytes of the live files.", unit="bytes", values=_of(lambda table: table.size_bytes)
    ),
    Metric(name="rows", help="Rows of the live files.", unit="", values=_of(lambda table: table.rows)),
    Metric(
        name="file_size",
        help="Size of a live file at a quantile.",
        unit="bytes",
        values=_file_sizes,
        labels=("quantile",),
    ),
    Metric(
        name="partitions",
        help="Partitions with live files.",
        unit="",
        values=_of(lambda table: table.partitions),
    ),
    Metric(
        name="skew",
        help="Size of the largest partition divided by the median one.",
        unit="ratio",
        values=_of(lambda table: table.skew),
    ),
    Metric(
        name="file_versions",
        help="Largest number of versions of a file.",
        unit="",
        values=_of(lambda table: table.file_versions),
    ),
    Metric(
        name="expired_files",
        help="Expired file versions, which the next clean deletes.",
        unit="",
        values=_of(lambda table: None if table.debt is None else table.debt.expired_files),
    ),
    Metric(
        name="expired",
        help="Bytes of expired file versions, which the next clean deletes.",
        unit="bytes",
        values=_of(lambda table: None if table.debt is None else table.debt.expired_bytes),
    ),
    Metric(
        name="orphans",
        help="Data files that no commit names.",
        unit="",
        values=_of(lambda table: table.orphans),
    ),
    Metric(
        name="clustering_debt",
        help="Bytes that are due for clustering by the applied policy.",
        unit="bytes",
        values=_of(lambda table: None if table.debt is None else table.debt.rewrite_bytes),
    ),
    Metric(
        name="oldest_due_file_timestamp",
        help="Time of the oldest file that is due for clustering.",
        unit="seconds",
        values=_of(lambda table: _seconds(table.oldest_due_ms)),
    ),
    Metric(
        name="query_read",
        help="Bytes that a declared query reads, by statistics.",
        unit="bytes",
        values=_query_reads,
        labels=("query",),
    ),
    Metric(
        name="query_read_expected",
        help="Bytes that a declared query will read once the clustering debt is paid, by statistics.",
        unit="bytes",
        values=_query_reads_expected,
        labels=("query",),
    ),
    Metric(
        name="forecast_error",
        help="Median error of the forecasts of past clusterings, as a share of what was measured.",
        unit="ratio",
        values=_forecast_error,
        labels=("of",),
    ),
    Metric(
        name="write_amplification",
        help="Bytes written by the newest commits divided by the bytes of rows that arrived in them.",
        unit="ratio",
        values=_of(lambda table: table.write_amplification),
    ),
    Metric(
        name="timeline_commits",
        help="Completed writes on the active timeline, which archivals shorten.",
        unit="",
        values=_of(lambda table: table.commits),
    ),
    Metric(
        name="commits_since_clean",
        help="Completed writes on the active timeline since the newest clean.",
        unit="",
        values=_of(lambda table: table.commits_since_clean),
    ),
    Metric(
        name="last_commit_timestamp",
        help="Time of the newest write that is not a clustering.",
        unit="seconds",
        values=_of(lambda table: _seconds(table.last_commit_ms)),
    ),
    Metric(
        name="oldest_pending_write_timestamp",
        help="Time at which the oldest write began that has not ended.",
        unit="seconds",
        values=_of(lambda table: _seconds(next(iter(table.pending_writes_ms.values()), None))),
    ),
    Metric(
        name="publish_lag",
        help="Age of the oldest write that a published format does not show, 0 without one, and infinity if "
        "its metadata cannot be read.",
        unit="seconds",
        values=_publish_lag,
        labels=("format",),
    ),
    Metric(
        name="last_clean_timestamp",
        help="Time of the newest clean on the active timeline.",
        unit="seconds",
        values=_of(lambda table: _seconds(table.last_clean_ms)),
    ),
    Metric(
        name="last_archive_timestamp",
        help="Time of the newest archival.",
        unit="seconds",
        values=_of(lambda table: _seconds(table.last_archive_ms)),
    ),
    Metric(
        name="last_clustering_timestamp",
        help="Time of the newest clustering on the active timeline.",
        unit="seconds",
        values=_of(lambda table: _seconds(table.last_clustering_ms)),
    ),
    Metric(
        name="savepoints",
        help="Savepoints that are at least so many days old.",
        unit="",
        values=_savepoints,
        labels=("min_age_days",),
    ),
    Metric(
        name="last_run_timestamp",
        help="Start of the newest recorded run of the table.",
        unit="seconds",
        values=_run_started,
    ),
    Metric(
        name="last_run_success",
        help="1 if the newest recorded run of the table ended and all jobs of the table succeeded, else 0.",
        unit="",
        values=_run_succeeded,
    ),
)
"""All metrics, in the order of the text."""
