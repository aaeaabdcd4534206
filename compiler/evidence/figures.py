"""Figures of a live table: its files, the reads of its queries, and its debt under a policy.

They come from listings, commits and recorded statistics and, if queries are declared, from a bounded sample
of rows. Nothing is written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final

from parquetry.compiler.evidence.costs import debt_work, forecast_costs, requests_of
from parquetry.compiler.evidence.model import DueFigures, MetaColumnFigures, QueryFigures, TableFigures
from parquetry.compiler.evidence.money import AmountRange, PlanPrices, table_costs
from parquetry.compiler.replay.history import Reach, read_history
from parquetry.compiler.replay.layout import LayoutLimits
from parquetry.compiler.replay.model import Replay
from parquetry.compiler.replay.replaying import replay
from parquetry.runtime.clustering.forecast.by_sample import predict
from parquetry.runtime.clustering.forecast.by_statistics import estimate
from parquetry.runtime.clustering.forecast.queries import (
    DeclaredQueries,
    GroupForecast,
    QueryForecast,
    sum_by_query,
)
from parquetry.runtime.clustering.forecast.sample import IN_REVIEW
from parquetry.runtime.clustering.forecast.scope import ScopeBySample
from parquetry.runtime.clustering.plan.due import commits_until_due
from parquetry.runtime.clustering.plan.history import completed_clusterings, throughput
from parquetry.runtime.clustering.plan.survey import (
    commits_since_clustering,
    survey_under,
)
from parquetry.runtime.errors import CorruptTableError, InvalidDataError, StaleTimelineError
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.depth import overlap_depth
from parquetry.runtime.layout.clustering.model import Debt, PlannedGroup, rows_of
from parquetry.runtime.layout.clustering.run_budget import DueGroups, by_last_clustering, runs_of
from parquetry.runtime.layout.clustering.scope import Choose
from parquetry.runtime.layout.clustering.sizes import SizeLimits
from parquetry.runtime.layout.model import FileKey, FileSlice
from parquetry.runtime.layout.sizing import is_small
from parquetry.runtime.layout.skipping.files import Reads
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.dictionaries import with_dictionaries
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.services.clean_plan import clean_horizon, plan_expiry
from parquetry.runtime.spec.clustering import ClusteringSpec, Trigger
from parquetry.runtime.spec.table_spec import FilesPolicy, RetentionPolicy, TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.column_bytes import column_bytes
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.statistics import look_up
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import parse_instant_ms
from parquetry.runtime.timeline.last_clustering import last_begun, last_clustering

BUCKETS: Final = 11
"""The number of size classes: ten tenths of the maximum file size, and a last class for larger files."""

REPLAYED_COMMITS: Final = 50
"""The number of newest writes that a plan replays if it changes limits on file sizes."""

_LARGE: Final = 10_000
_ONE_LARGE_TABLE: Final = Lock()
"""A lock for samples and for tables of more than ``_LARGE`` files; their statistics take hundreds of MB."""


def memory_turn(files: int, *, samples: bool = False) -> AbstractContextManager[object]:
    """Return a lock if the table needs much memory, so that tables measured in parallel take turns."""
    return _ONE_LARGE_TABLE if samples or files > _LARGE else nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDebt:
    """The debt of one table, and what is needed to share the budget of runs with other tables.

    ``clustered`` is the instant of the table's last clustering, empty if there is none. ``commits`` is the
    number of writes since then. ``gain_bytes`` and ``gain_requests`` are the bytes and requests a day that
    queries no longer read once the debt is paid, as far as they were requested. ``waits_since_ms`` is the
    time of the oldest due file, of the last clustering, or at which a job last began one, whichever is
    latest, and None if nothing is due or it is not known. ``has_failed`` is True if what began last did not
    complete.
    """

    figures: DueFigures
    groups: DueGroups
    clustered: str
    commits: int
    spec: TableSpec
    gain_bytes: float = 0
    gain_requests: float = 0
    clustered_ms: int | None = None
    waits_since_ms: int | None = None
    has_failed: bool = False
    bytes_per_second: float | None = None

    @property
    def is_paid_by_runs(self) -> bool:
        """True if runs start the clustering instead of writes."""
        return self.spec.clustering.trigger is Trigger.ASYNC

    def commits_until_due(self, next_commits: int) -> int:
        """Return how many commits after the ``next_commits`` ones of the next run start a clustering."""
        if not self.figures.rewrite_bytes:
            return 0
        if self.is_paid_by_runs or next_commits:
            return commits_until_due(self.commits + next_commits, self.spec)
        # Only a write starts an inline clustering, and the next run makes none.
        return 1 + commits_until_due(self.commits + 1, self.spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTable:
    """The figures of a table, and its debt."""

    figures: TableFigures
    debt: MeasuredDebt


def figures_of(
    handle: TableHandle,
    before: TableSpec,
    after: TableSpec,
    *,
    budget_bytes: int,
    prices: PlanPrices | None = None,
) -> MeasuredTable:
    """Return the figures of a table under its applied spec and the declared one.

    A bounded sample of rows predicts what queries will read.

    Args:
        handle: The table.
        before: The applied spec.
        after: The declared spec, under which the debt is measured.
        budget_bytes: The bytes that one run may rewrite, here of this table alone.
        prices: The prices of the target; without them there are no costs.
    """
    timeline = handle.timeline()
    view = handle.view(timeline)
    slices = view.all_slices()
    with memory_turn(len(slices), samples=bool(after.extra.queries)):
        return _figures(handle, view, slices, before, after, budget_bytes=budget_bytes, prices=prices)


def _figures(
    handle: TableHandle,
    view: FileSystemView,
    slices: Sequence[FileSlice],
    before: TableSpec,
    after: TableSpec,
    *,
    budget_bytes: int,
    prices: PlanPrices | None,
) -> MeasuredTable:
    """Return the figures of :func:`figures_of` for a table whose files are known."""
    timeline = view.timeline
    queries = DeclaredQueries.of(after)
    policy = after.clustering
    wants_statistics = bool(queries) or policy.trigger is not Trigger.OFF
    statistics = look_up(handle.store, slices) if wants_statistics else {}
    sample = _Sample(handle.store, after, policy) if queries else None
    clustering = clustering_due(
        handle,
        timeline,
        slices,
        statistics,
        after,
        budget_bytes=budget_bytes,
        choose=None if sample is None else sample.choose,
    )
    debt = measured_debt(handle, view, slices, clustering, after, budget_bytes=budget_bytes)
    reads = _reads(queries, statistics, clustering, after, sample)
    past = completed_clusterings(handle, timeline)
    work = debt_work(past, after, clustering, reads.sampled_bytes)
    sizes = [part.size_bytes for part in slices]
    largest = after.sizing.max_file_size_bytes
    figures = TableFigures(
        instant=timeline.completed_writes[-1].time if timeline.completed_writes else None,
        files=len(slices),
        size_bytes=sum(sizes),
        size_bytes_after=work.written_bytes.plus(sum(sizes) - work.read_bytes) if work.read_bytes else None,
        small_files_before=sum(is_small(size, before.sizing) for size in sizes),
        small_files_after=sum(is_small(size, after.sizing) for size in sizes),
        sizes_before=_histogram(sizes, largest),
        sizes_after=_histogram(_sizes_after(slices, clustering, policy, largest), largest),
        queries=reads.queries,
        debt=debt.figures,
        retention=before.retention,
        costs=None
        if prices is None
        else table_costs(
            forecast_costs(
                handle,
                timeline,
                after,
                past,
                work,
                queries=reads.queries,
                rewritten=reads.rewritten,
                freed_bytes=_freed_bytes(handle, view, before.retention, after.retention),
            ),
            prices,
        ),
        replay=_replay(handle, view, before, after),
        meta_columns=emptied_columns(handle.store, slices, before.files, after.files, prices),
    )
    return MeasuredTable(figures=figures, debt=debt)


def emptied_columns(
    store: ObjectStore,
    slices: Sequence[FileSlice],
    before: FilesPolicy,
    after: FilesPolicy,
    prices: PlanPrices | None,
) -> MetaColumnFigures | None:
    """Return what the meta columns take that files leave empty after a change, or None if that is nothing.

    This reads the footers of some files; of encrypted ones nothing is read.
    """
    emptied = {*after.meta_columns.empty} - {*before.meta_columns.empty}
    is_known = emptied and before.encryption_key is None and after.encryption_key is None
    size_bytes = column_bytes(store, slices, emptied) if is_known else 0
    if not size_bytes:
        return None
    price = None if prices is None else prices.storage(size_bytes)
    monthly = None if price is None else AmountRange.of(price, price)
    return MetaColumnFigures(size_bytes=size_bytes, monthly=monthly)


def _freed_bytes(
    handle: TableHandle, view: FileSystemView, before: RetentionPolicy, after: RetentionPolicy
) -> int:
    """Return how many more bytes the next clean deletes under the new retention policy."""
    if before == after:
        return 0
    return sum(_expired(handle, view, after)) - sum(_expired(handle, view, before))


def _replay(handle: TableHandle, view: FileSystemView, before: TableSpec, after: TableSpec) -> Replay | None:
    """Return a replay of the newest writes by the limits of both specs, or None without a replay.

    There is none if the limits are equal or the history cannot be read. This takes one request for each of at
    most :data:`REPLAYED_COMMITS` writes that was not read yet.
    """
    applied, declared = (LayoutLimits(sizing=s.sizing, clustering=s.clustering) for s in (before, after))
    if (applied.sizing, applied.sizes) == (declared.sizing, declared.sizes):
        return None
    reach = Reach(newest=REPLAYED_COMMITS, archive=False, cleans=False)
    try:
        return replay(read_history(handle, view, reach), applied, declared)
    except (CorruptTableError, InvalidDataError, StaleTimelineError):
        # The plan does not need the replay; damaged tables are reported by other checks.
        return None


def due_figures(
    handle: TableHandle, spec: TableSpec, *, budget_bytes: int, with_gain: bool = False
) -> MeasuredDebt:
    """Return the debt of the table under a spec without reading rows.

    One run may rewrite ``budget_bytes``, here of this table alone. With ``with_gain``, statistics predict
    what queries gain. Only the columns of the policy and of queries are read, and large tables take turns.
    """
    timeline = handle.timeline()
    view = handle.view(timeline)
    slices = view.all_slices()
    execution = spec.clustering.execution
    names = {*execution.columns, *execution.split_by, *DeclaredQueries.of(spec).columns}
    with memory_turn(len(slices)):
        statistics = (
            {} if spec.clustering.trigger is Trigger.OFF else look_up(handle.store, slices, columns=names)
        )
        clustering = clustering_due(handle, timeline, slices, statistics, spec, budget_bytes=budget_bytes)
        debt = measured_debt(handle, view, slices, clustering, spec, budget_bytes=budget_bytes)
        if not (with_gain and clustering.groups):
            return debt
        reads = reads_by_statistics(statistics, clustering, spec)
    return replace(
        debt,
        gain_bytes=excess_read_bytes(reads, spec),
        gain_requests=_excess(reads, spec, requests_of),
    )


def excess_read_bytes(queries: Sequence[QueryFigures], spec: TableSpec) -> float:
    """Return the bytes a day that queries read and would no longer read once the debt is paid."""
    return _excess(queries, spec, lambda reads: reads.data_bytes)


def _excess(queries: Sequence[QueryFigures], spec: TableSpec, count: Callable[[Reads], int]) -> float:
    """Return how much less queries read a day once the debt is paid, as counted."""
    runs = {
        query.name: 1 if query.runs_per_day is None else query.runs_per_day for query in spec.extra.queries
    }
    return sum(max(count(query.now) - count(query.expected), 0) * runs[query.query] for query in queries)


def instant_ms(handle: TableHandle, instant: str) -> int | None:
    """Return the time of an instant, or None if there is no instant or its name is not a time."""
    with suppress(CorruptTableError):
        return parse_instant_ms(instant, handle.config.timezone) if instant else None
    return None


def measured_debt(
    handle: TableHandle,
    view: FileSystemView,
    slices: Sequence[FileSlice],
    clustering: Debt,
    spec: TableSpec,
    *,
    budget_bytes: int,
) -> MeasuredDebt:
    """Return the debt of a table, from the files that clustering would rewrite."""
    figures = debt_figures(handle, view, slices, clustering, spec, budget_bytes=budget_bytes)
    due = DueGroups.of(clustering, max_groups=spec.clustering.plan.max_groups)
    clustered = last_clustering(view.timeline) if due.groups else ""
    oldest = clustering.groups[0].oldest_instant if clustering.groups else ""
    oldest_ms, clustered_ms = (instant_ms(handle, instant) for instant in (oldest, clustered))
    begun = last_begun(handle.store) if due.groups else None
    begun_ms = None if begun is None else begun.at_ms
    return MeasuredDebt(
        figures=figures,
        groups=due,
        clustered=clustered,
        commits=commits_since_clustering(view.timeline) if due.groups else 0,
        spec=spec,
        clustered_ms=clustered_ms,
        waits_since_ms=max(
            (each for each in (oldest_ms, clustered_ms, begun_ms) if each is not None), default=None
        ),
        has_failed=begun_ms is not None and (clustered_ms is None or clustered_ms < begun_ms),
        bytes_per_second=throughput(handle, view.timeline) or None,
    )


def debt_figures(
    handle: TableHandle,
    view: FileSystemView,
    slices: Sequence[FileSlice],
    clustering: Debt,
    spec: TableSpec,
    *,
    budget_bytes: int,
) -> DueFigures:
    """Return the debt of a table as figures, from the files that clustering would rewrite."""
    small = [part.size_bytes for part in slices if is_small(part.size_bytes, spec.sizing)]
    expired = _expired(handle, view, spec.retention)
    rewritten = clustering.rewritten_bytes
    rate = throughput(handle, view.timeline)
    policy = spec.clustering
    due = DueGroups.of(clustering, max_groups=policy.plan.max_groups)
    (runs,) = runs_of([due], budget_bytes=budget_bytes)
    return DueFigures(
        rewrite_bytes=rewritten,
        rewrite_files=clustering.files_before,
        files_after=len(slices) - clustering.files_before + clustering.files_after,
        small_files=len(small),
        small_bytes=sum(small),
        expired_files=len(expired),
        expired_bytes=sum(expired),
        budget_bytes=budget_bytes,
        runs=runs,
        seconds=round(rewritten / rate) if rate and rewritten else None,
    )


def with_shared_runs(
    debts: Mapping[str, MeasuredDebt],
    *,
    budget_bytes: int,
    next_commits: Mapping[str, int],
    in_order: Sequence[str] = (),
) -> dict[str, DueFigures]:
    """Return the figures of tables whose runs share one budget.

    Tables that their writes cluster (``trigger: inline``) use no part of it. ``next_commits`` is the number
    of commits that the next run's ingestion makes, by table. ``in_order`` are the tables that come first.
    """
    figures = {
        name: replace(debt.figures, commits_until_due=debt.commits_until_due(next_commits.get(name, 0)))
        for name, debt in debts.items()
    }
    sharing = by_last_clustering(
        {name: debt.clustered for name, debt in debts.items() if debt.is_paid_by_runs}
    )
    sharing = list(dict.fromkeys([*in_order, *sharing]))
    runs = runs_of([debts[name].groups for name in sharing], budget_bytes=budget_bytes)
    return figures | {name: replace(figures[name], runs=n) for name, n in zip(sharing, runs, strict=True)}


def clustering_due(
    handle: TableHandle,
    timeline: Timeline,
    slices: Sequence[FileSlice],
    statistics: Mapping[str, FileStatistics],
    spec: TableSpec,
    *,
    budget_bytes: int | None = None,
    choose: Choose | None = None,
) -> Debt:
    """Return the files that clustering would rewrite, or an empty debt if clustering is off.

    Args:
        handle: The table.
        timeline: The timeline of the table.
        slices: The live files.
        statistics: The statistics of the files by path.
        spec: The spec with the clustering policy.
        budget_bytes: The largest size of a group, except for a group of a single file.
        choose: Chooses the scope of groups for ``scope: auto``.
    """
    policy = spec.clustering
    if policy.trigger is Trigger.OFF:
        return Debt()
    files, situation = survey_under(handle, timeline, spec, slices, statistics)
    return compute_debt(policy, files, situation, budget_bytes=budget_bytes, choose=choose)


def overlap_depths(
    column: str, slices: Iterable[FileSlice], statistics: Mapping[str, FileStatistics]
) -> dict[str, int]:
    """Return, by partition, the largest number of files that share a value of the column."""
    bounds: dict[str, list[tuple[Any, Any] | None]] = defaultdict(list)
    for part in slices:
        file = statistics[part.path]
        found = file.columns.get(column)
        if found is None or found.minimum is None or found.maximum is None:
            # A file with only nulls holds no value. Any other file without bounds may hold every value.
            if found is None or found.nulls != file.rows:
                bounds[part.partition].append(None)
        else:
            bounds[part.partition].append((found.minimum, found.maximum))
    return {partition: overlap_depth(ranges) for partition, ranges in bounds.items()}


def reads_by_statistics(
    statistics: Mapping[str, FileStatistics], clustering: Debt, spec: TableSpec
) -> tuple[QueryFigures, ...]:
    """Return what each declared query reads now and once the debt is paid, without reading rows.

    Args:
        statistics: The statistics of all live files by path.
        clustering: The files that clustering would rewrite.
        spec: The spec with the queries.
    """
    return _reads(DeclaredQueries.of(spec), statistics, clustering, spec, None).queries


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reads:
    """The reads of queries on the whole table, and on the ``rewritten`` files.

    ``sampled_bytes`` is the predicted size of the new files, None unless a sample covers all of them.
    """

    queries: tuple[QueryFigures, ...] = ()
    rewritten: tuple[QueryForecast, ...] = ()
    sampled_bytes: int | None = None


def _reads(
    queries: DeclaredQueries,
    statistics: Mapping[str, FileStatistics],
    clustering: Debt,
    spec: TableSpec,
    sample: _Sample | None,
) -> _Reads:
    """Return what each query reads now and what it will read after the clustering.

    Groups without a forecast from the sample are estimated from statistics.
    """
    if not queries:
        return _Reads()
    predicted = {} if sample is None else sample.predicted(clustering.groups)
    sampled = {f.path for group in clustering.groups if group.files[0].key in predicted for f in group.files}
    known: Mapping[str, FileStatistics] = {
        path: file for path, file in statistics.items() if path not in sampled
    }
    if sample is not None:
        # Predictions count by pages and dictionaries, so the other files must do the same.
        known = sample.with_page_statistics(known, queries)
    others = [group for group in clustering.groups if group.files[0].key not in predicted]
    estimated = [
        estimate(
            group,
            [known[file.path] for file in group.files if file.path in known],
            queries,
            spec.clustering.execution,
            spec.files,
        )
        for group in others
    ]
    forecasts = [*predicted.values(), *estimated]
    rewritten = {file.path for group in others for file in group.files}
    kept = [file for path, file in known.items() if path not in rewritten]
    rows = sum(file.rows for file in statistics.values())
    figures = tuple(
        QueryFigures(
            query=one.query,
            now=one.now,
            expected=one.expected,
            total=len(statistics),
            total_after=len(kept) + sum(len(forecast.files) for forecast in forecasts),
            rows=rows,
            sampled=bool(predicted) and not others,
        )
        for one in queries.whole(kept, forecasts)
    )
    promised = sum(file.size_bytes for forecast in predicted.values() for file in forecast.files)
    return _Reads(
        queries=figures,
        rewritten=sum_by_query(query for forecast in forecasts for query in forecast.queries),
        sampled_bytes=promised if promised and not others else None,
    )


class _Sample:
    """Forecasts of a policy from a bounded sample of rows, where statistics alone would be less exact."""

    def __init__(self, store: ObjectStore, spec: TableSpec, policy: ClusteringSpec) -> None:
        self._store = store
        self._spec = spec
        self.choose = ScopeBySample(store, spec, policy, limits=IN_REVIEW)

    def with_page_statistics(
        self, files: Mapping[str, FileStatistics], queries: DeclaredQueries
    ) -> Mapping[str, FileStatistics]:
        """Add what pages and dictionaries tell about the queries to the statistics of these files.

        Only a limited number of files is read for that. The others keep the statistics that they have.
        """
        for read in (with_pages, with_dictionaries):
            files = read(
                self._store, files, queries.predicates, queries.types, most_files=IN_REVIEW.row_groups
            )
        return files

    def predicted(self, groups: Sequence[PlannedGroup]) -> dict[FileKey, GroupForecast]:
        """Return forecasts of groups by their first file, for the groups that the limits of the sample cover.

        The result is empty if a strategy or step is not installed here.
        """
        try:
            found = predict(self._store, self._spec, groups, known=self.choose.predicted, limits=IN_REVIEW)
        except InvalidDataError:
            # A strategy or a step is not installed here, but it may be installed where the job runs.
            return {}
        return {key: forecast for key, forecast in found.items() if forecast.queries}


def _expired(handle: TableHandle, view: FileSystemView, retention: RetentionPolicy) -> list[int]:
    """Return the sizes of the file versions that the next clean deletes under a retention policy."""
    limits = clean_horizon(view.timeline, retention, handle.config, now_ms=handle.store.now_ms())
    if limits is None:
        return []
    expiry = plan_expiry(view, limits, view.partitions())
    expired_paths = {path for paths in expiry.files.values() for path in paths}
    versions = (part for partition in expiry.files for part in view.base_files(partition))
    return [part.size_bytes for part in versions if part.path in expired_paths]


def _sizes_after(
    slices: Sequence[FileSlice], clustering: Debt, policy: ClusteringSpec, largest: int
) -> list[int]:
    """Return the sizes of the live files after the clustering."""
    limits = SizeLimits.of(policy.plan, max_file_size_bytes=largest)
    rewritten = {file.path for group in clustering.groups for file in group.files}
    kept = [part.size_bytes for part in slices if part.path not in rewritten]
    made = (
        int(size)
        for group in clustering.groups
        for size in limits.outputs(group.size_bytes, rows=rows_of(group.files)).sizes
    )
    return [*kept, *made]


def _histogram(sizes: Iterable[int], largest: int) -> tuple[int, ...]:
    """Count files by size: in classes of equal width up to ``largest``, and one class above it."""
    counts = [0] * BUCKETS
    last = BUCKETS - 1
    for size in sizes:
        tenth = min(max(size - 1, 0) * last // largest, last - 1)
        counts[last if size > largest else tenth] += 1
    return tuple(counts)
