"""Forecast of the resources that rewriting a table takes and of the reads that it saves, as input for costs.

The ranges come from the errors of the table's own past predictions, which its replacecommits record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from parquetry.compiler.evidence.model import QueryFigures
from parquetry.compiler.evidence.money import CostForecast, QueryScan
from parquetry.runtime.clustering.forecast.intervals import PredictionInterval, Prior, error_of, interval
from parquetry.runtime.clustering.forecast.queries import QueryForecast
from parquetry.runtime.clustering.forecast.work import WorkForecast, forecast_work
from parquetry.runtime.clustering.plan.history import CompletedClustering
from parquetry.runtime.layout.clustering.model import Debt
from parquetry.runtime.layout.skipping.files import NOTHING, Reads
from parquetry.runtime.services.retention import is_by_number
from parquetry.runtime.spec.clustering import STITCH
from parquetry.runtime.spec.table_spec import Query, RetentionPolicy, TableSpec
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import parse_instant_ms

SCANS_BY_STATISTICS: Final = Prior(mean=0.1, deviation=0.75, weight=4)
SCANS_BY_SAMPLE: Final = Prior(mean=0.0, deviation=0.08, weight=4)
REQUESTS_BY_STATISTICS: Final = Prior(mean=0.1, deviation=0.4, weight=4)
REQUESTS_BY_SAMPLE: Final = Prior(mean=0.05, deviation=0.12, weight=4)

_SCAN_FLOOR: Final = 64 * 1024
_NEWEST: Final = 50
_FEWEST: Final = 2
_LONGER: Final = 2
"""The factor by which the time between commits may differ from its past mean, in either direction."""


def forecast_costs(
    handle: TableHandle,
    timeline: Timeline,
    spec: TableSpec,
    past: Sequence[CompletedClustering],
    work: WorkForecast,
    *,
    queries: Sequence[QueryFigures],
    rewritten: Sequence[QueryForecast],
    freed_bytes: int,
) -> CostForecast:
    """Return the forecast of the rewrite that pays a table's debt under a spec.

    Args:
        handle: The table.
        timeline: The timeline of the table.
        spec: The spec under which the debt is measured.
        past: Completed clusterings, whose forecast errors make the ranges.
        work: The forecast of the bytes, requests and time of the rewrite.
        queries: The reads of each declared query on the whole table.
        rewritten: The part of these reads that concerns rewritten files.
        freed_bytes: The bytes that the next clean deletes beyond those of the applied retention.
    """
    return CostForecast(
        work=work,
        storage_bytes=work.written_bytes.plus(-work.read_bytes - freed_bytes),
        kept_bytes=work.read_bytes,
        kept_seconds=_kept_seconds(spec.retention, _seconds_between_commits(handle, timeline)),
        queries=tuple(_scans(past, spec.extra.queries, queries, rewritten, most=work.written_bytes.high)),
    )


def debt_work(
    past: Sequence[CompletedClustering], spec: TableSpec, debt: Debt, sampled_bytes: int | None
) -> WorkForecast:
    """Return the forecast of the work that pays the ``debt``.

    ``sampled_bytes`` is the size of the new files according to a sample, None if there is no sample.
    """
    return forecast_work(
        [one.work for one in past if one.work is not None],
        files=debt.files_before,
        read_bytes=debt.rewritten_bytes,
        written_files=debt.files_after,
        sampled_bytes=sampled_bytes,
        layout=spec.clustering.execution.digest,
        copies=spec.clustering.execution.strategy == STITCH,
    )


def _seconds_between_commits(handle: TableHandle, timeline: Timeline) -> int | None:
    """Return the mean time between the newest commits, or None if there are fewer than two."""
    times = [write.time for write in timeline.completed_writes[-_NEWEST:]]
    if len(times) < _FEWEST:
        return None
    first, last = (parse_instant_ms(time, handle.config.timezone) for time in (times[0], times[-1]))
    return max((last - first) // 1000 // (len(times) - 1), 0)


def _kept_seconds(policy: RetentionPolicy, seconds_between_commits: int | None) -> PredictionInterval | None:
    """Return how long old versions of replaced files remain, or None if that is unknown.

    A version remains while any retention rule keeps it, and the first clean after that deletes it.
    """
    age = policy.max_age_seconds or 0
    if is_by_number(policy):
        if policy.keep_versions is None or seconds_between_commits is None:
            return None
        return PredictionInterval(low=0, high=_LONGER * seconds_between_commits)
    if seconds_between_commits is None:
        return None if policy.keep_commits is not None else PredictionInterval.exactly(age)
    commits = policy.keep_commits or 0
    return PredictionInterval(
        low=max(age, commits * seconds_between_commits // _LONGER),
        high=max(age + _LONGER * seconds_between_commits, _LONGER * (commits + 1) * seconds_between_commits),
    )


def _scans(
    past: Sequence[CompletedClustering],
    declared: Sequence[Query],
    queries: Sequence[QueryFigures],
    rewritten: Sequence[QueryForecast],
    *,
    most: int,
) -> list[QueryScan]:
    """Return what each declared query reads now and, as a range, after the clustering.

    Queries without a declaration are left out. A scan cannot read more than ``most`` bytes of the rewritten
    files, the upper bound of all bytes written.
    """
    runs = {query.name: query.runs_per_day for query in declared}
    expected_by_query = {query.query: query.expected for query in rewritten}
    measured = [query for one in past for query in one.queries]
    scans = []
    for query in queries:
        runs_per_day = runs.get(query.query)
        if runs_per_day is None:
            continue
        # Recorded predictions come from samples, so their errors say nothing about the other estimator.
        known = [(one.expected, one.after) for one in measured if one.expected is not None and query.sampled]
        scans_prior = SCANS_BY_SAMPLE if query.sampled else SCANS_BY_STATISTICS
        requests_prior = REQUESTS_BY_SAMPLE if query.sampled else REQUESTS_BY_STATISTICS
        part = expected_by_query.get(query.query, NOTHING)
        sizes = [(e.data_bytes, a.data_bytes) for e, a in known]
        size = _range(part.data_bytes, sizes, scans_prior, _SCAN_FLOOR).at_most(most)
        counts = [(requests_of(e), requests_of(a)) for e, a in known]
        count = _range(requests_of(part), counts, requests_prior, 1)
        is_certain = query.now == query.expected and part == NOTHING
        scans.append(
            QueryScan(
                query=query.query,
                runs_per_day=runs_per_day,
                now_bytes=query.now.data_bytes,
                expected_bytes=PredictionInterval.exactly(query.now.data_bytes)
                if is_certain
                else size.plus(query.expected.data_bytes - part.data_bytes),
                now_requests=requests_of(query.now),
                expected_requests=PredictionInterval.exactly(requests_of(query.now))
                if is_certain
                else count.plus(requests_of(query.expected) - requests_of(part)),
                past=len(known),
            )
        )
    return scans


def _range(expected: int, past: Sequence[tuple[int, int]], prior: Prior, floor: int) -> PredictionInterval:
    """Return the range around an expected number that follows from the errors of past predictions."""
    errors = [error_of(expected=predicted, measured=after, floor=floor) for predicted, after in past]
    return interval(expected, errors, prior, floor_at=floor)


def requests_of(read: Reads) -> int:
    """Return the number of read requests: one for the footer of each file and one for each row group."""
    return read.files + read.row_groups
