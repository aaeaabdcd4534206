"""The condition of each table of a project: its files, its debt and its cadence, in one reading.

The figures are those of layout tests (:mod:`parquetry.compiler.testing.kinds`) and of plans
(:mod:`parquetry.compiler.evidence.figures`). No rows are read and nothing is written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil, inf
from typing import Any, Final, TypeAlias

from parquetry.compiler.evidence.figures import (
    debt_figures,
    excess_read_bytes,
    instant_ms,
    memory_turn,
    reads_by_statistics,
)
from parquetry.compiler.evidence.model import DueFigures, QueryFigures
from parquetry.compiler.testing.kinds import KINDS, Measure
from parquetry.compiler.testing.live_table import LiveTable, Scope, UnmeasurableError
from parquetry.compiler.workspace.opened import Workspace
from parquetry.compiler.workspace.run_results import LastRun
from parquetry.errors import ParquetryError
from parquetry.message import Text
from parquetry.project import ResolvedTable
from parquetry.project.model.table_tests import ERROR, ITSELF
from parquetry.runtime.clustering.plan.due import commits_until_due
from parquetry.runtime.clustering.plan.history import (
    ForecastErrorSummary,
    completed_clusterings,
    forecast_error,
)
from parquetry.runtime.clustering.plan.survey import commits_since_clustering
from parquetry.runtime.clustering.rewrite.strategies import are_allowed
from parquetry.runtime.errors import (
    CorruptTableError,
    ForeignTableError,
    KeyUnavailableError,
    StaleTimelineError,
    StorageError,
    TableNotFoundError,
    UnsupportedTableError,
)
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.publish.publishing import formats_of, publish_lag
from parquetry.runtime.services.archive import writes_to_keep
from parquetry.runtime.services.clean_plan import clean_horizon
from parquetry.runtime.services.clean_progress import read_progress
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.spec.masking import cleared
from parquetry.runtime.spec.table_spec import RetentionPolicy, TableTest
from parquetry.runtime.storage.os_errors import LATE_FAILURES
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Action, State
from parquetry.runtime.timeline.last_clustering import last_clustering
from parquetry.runtime.timeline.rereading import retry_stale

PERCENTILES: Final = (0, 25, 50, 75, 90, 100)
"""The percentiles of file sizes that are measured; 0 is the smallest file and 100 the largest."""

AMPLIFICATION_COMMITS: Final = 10
"""The number of newest commits over which write amplification is measured."""


class Unreadable(StrEnum):
    """The classes of reasons why a table has no figures."""

    NOT_APPLIED = "not_applied"
    FOREIGN = "foreign"
    CORRUPT = "corrupt"
    UNSUPPORTED = "unsupported"
    KEY = "key"
    BUSY = "busy"
    STORAGE = "storage"
    OTHER = "other"


_CLASSES: Final[tuple[tuple[type[ParquetryError], Unreadable], ...]] = (
    (TableNotFoundError, Unreadable.NOT_APPLIED),
    (ForeignTableError, Unreadable.FOREIGN),
    (CorruptTableError, Unreadable.CORRUPT),
    (UnsupportedTableError, Unreadable.UNSUPPORTED),
    (KeyUnavailableError, Unreadable.KEY),
    (StaleTimelineError, Unreadable.BUSY),
    (StorageError, Unreadable.STORAGE),
)
"""The class of each kind of error; the first that fits applies."""


class UnreadableTablesError(ParquetryError):
    """Some tables could not be read; the others were."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UnreadTable(Brief):
    """A table that could not be read: the class of the reason, and the reason itself."""

    table: str
    reason: Unreadable
    message: Text
    last_run: LastRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableCondition(Brief):
    """A table as of its newest completed write. Figures that cannot be measured are None.

    Times are in milliseconds since 1970 (UTC), and None for what the active timeline does not have.

    Attributes:
        table: The name in the project.
        now_ms: The time of the reading, by the clock of the store.
        files: The number of live files.
        files_needed: The number that the declared limits make of the same rows; None with ``split_by``,
            where values decide.
        small_files: The number of small ones.
        size_bytes: The bytes of the live files.
        rows: Their rows.
        file_size_bytes: The file size at each of :data:`PERCENTILES`; empty without files.
        partitions: The number of partitions with live files.
        skew: The largest partition divided by the median one; None if there is a single one.
        file_versions: The largest number of versions of a file.
        file_versions_kept: The largest number that retention keeps; None if age decides.
        debt: The work that is due under the applied spec, None if none is applied. ``commits_until_due`` is
            the number of writes until the policy starts the clustering.
        oldest_due_ms: The oldest file that is due for clustering, None if none is.
        queries: What each declared query reads now, and will read once the debt is paid.
        excess_read_bytes: The bytes a day that the declared queries would no longer read once the debt is
            paid. A query without ``runs_per_day`` counts once a day.
        orphans: The number of data files that no commit names.
        write_amplification: Written bytes divided by bytes of rows that arrived.
        forecast_error: The error of past forecasts.
        commits: The number of completed writes on the active timeline.
        commits_since_clean: The number of those since the last clean.
        commits_to_clean: The number of those that passed out of retention since the last clean, which may
            have found nothing to delete.
        archivable_commits: The number of those that neither a rule of retention nor a savepoint keeps there.
        last_commit_ms: The newest write that is not a clustering.
        publish_lag_seconds: By format, the age of the oldest write that its metadata does not show, and
            infinity if the metadata cannot be read.
        last_clean_ms: The newest clean.
        last_archive_ms: The newest archival.
        last_clustering_ms: The newest clustering.
        savepoints_ms: The time of each savepoint by its instant, oldest first.
        pending_writes_ms: The time at which each pending write began, by its instant, oldest first.
        last_run: The newest recorded run of the table.
    """

    table: str
    now_ms: int
    files: int
    files_needed: int | None
    small_files: int
    size_bytes: int
    rows: int
    file_size_bytes: Mapping[int, int]
    partitions: int
    skew: float | None
    file_versions: int
    file_versions_kept: int | None
    debt: DueFigures | None
    oldest_due_ms: int | None
    queries: tuple[QueryFigures, ...]
    excess_read_bytes: float
    orphans: int
    write_amplification: float | None
    forecast_error: ForecastErrorSummary | None
    commits: int
    commits_since_clean: int
    commits_to_clean: int
    archivable_commits: int
    last_commit_ms: int | None
    publish_lag_seconds: Mapping[str, float]
    last_clean_ms: int | None
    last_archive_ms: int | None
    last_clustering_ms: int | None
    savepoints_ms: Mapping[str, int]
    pending_writes_ms: Mapping[str, int]
    last_run: LastRun | None = None


LakeTable: TypeAlias = TableCondition | UnreadTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """The selected tables of a project at a target."""

    project: str
    target: str
    tables: tuple[LakeTable, ...] = field(default=())


def read_lake(workspace: Workspace, *, last_runs: Mapping[str, LastRun]) -> Lake:
    """Return the condition of the selected tables. Tables are read in parallel.

    A table that cannot be read does not stop the others. Personal values are masked.

    Args:
        workspace: The project with its selected tables.
        last_runs: The newest recorded run of each table.
    """

    def read(table: ResolvedTable) -> LakeTable:
        last_run = last_runs.get(table.name)
        try:
            handle = open_table(workspace.store(table), owner=workspace.owner, declared=table.spec)
            with handle.failures_masked():
                return read_table(handle, table=table.name, last_run=last_run)
        except ParquetryError as error:
            if isinstance(error, TableNotFoundError):
                error = workspace.unapplied_error(table)
                reason = Unreadable.NOT_APPLIED
            else:
                reason = _class_of(error)
            unread = UnreadTable(table=table.name, reason=reason, message=error.message, last_run=last_run)
            return cleared(unread, table.spec, location=table.location)

    project = workspace.project
    return Lake(
        project=project.name, target=project.target.name, tables=tuple(map_each(workspace.tables, read))
    )


def _class_of(error: ParquetryError) -> Unreadable:
    return next((found for kind, found in _CLASSES if isinstance(error, kind)), Unreadable.OTHER)


@retry_stale
def read_table(handle: TableHandle, *, table: str, last_run: LastRun | None = None) -> TableCondition:
    """Return the condition of an open table; arguments are as in :func:`read_lake`.

    Raises:
        CorruptTableError: if the statistics of a live file are missing and it cannot be read.

    """
    timeline = handle.timeline()
    spec = handle.effective_spec(timeline)
    # Clustering debt needs the statistics of columns.
    debt = TableTest(kind="clustering_debt", arguments={}, severity=ERROR)
    live = LiveTable(handle, spec, (debt,), timeline=timeline)
    with memory_turn(len(live.slices)):
        return _condition(live, table=table, last_run=last_run)


def _condition(live: LiveTable, *, table: str, last_run: LastRun | None) -> TableCondition:
    """Return the condition of a table; each part of it is read once."""
    handle, spec, timeline, slices = live.handle, live.spec, live.timeline, live.slices
    scope = Scope(table=live, partitions=None)
    is_governed = handle.applied is not None and are_allowed(spec.clustering, handle.store.allowed)
    cleans = timeline.of(Action.CLEAN, state=State.COMPLETED)
    last_clean = cleans[-1].time if cleans else ""
    age = _value(scope, "max_commit_age")
    due_age = _value(scope, "clustering_debt", limit="max_age") if is_governed else None
    queries = reads_by_statistics(live.statistics, live.debt, spec) if is_governed else ()
    savepoints_ms = _savepoints_ms(timeline)
    return TableCondition(
        table=table,
        now_ms=live.now_ms,
        files=len(slices),
        files_needed=_files_needed(scope),
        small_files=_count(scope, "max_small_files"),
        size_bytes=sum(part.size_bytes for part in slices),
        rows=scope.rows(slices),
        file_size_bytes={
            percentile: int(size)
            for percentile in PERCENTILES
            if (size := _value(scope, "file_size", {"percentile": percentile}, limit="min")) is not None
        },
        partitions=len({part.partition for part in slices}),
        skew=_value(scope, "max_skew"),
        file_versions=_count(scope, "max_file_versions"),
        file_versions_kept=_file_versions_kept(spec.retention, savepoints=len(savepoints_ms)),
        debt=_debt(live) if is_governed else None,
        oldest_due_ms=live.now_ms - round(due_age * 1000) if due_age else None,
        queries=queries,
        excess_read_bytes=excess_read_bytes(queries, spec),
        orphans=_count(scope, "max_orphans"),
        write_amplification=_value(
            scope, "write_amplification", {"commits": AMPLIFICATION_COMMITS}, limit="max"
        ),
        forecast_error=forecast_error(completed_clusterings(handle, timeline)),
        commits=len(timeline.completed_writes),
        commits_since_clean=sum(write.time > last_clean for write in timeline.completed_writes),
        commits_to_clean=_commits_to_clean(handle, timeline, spec.retention, now_ms=live.now_ms),
        archivable_commits=_archivable_commits(timeline, spec.retention),
        last_commit_ms=None if age is None else live.now_ms - round(age * 1000),
        publish_lag_seconds=_publish_lag_seconds(handle, now_ms=live.now_ms),
        last_clean_ms=instant_ms(handle, last_clean),
        last_archive_ms=timeline.layout.newest_archive_ms(handle.store),
        last_clustering_ms=instant_ms(handle, last_clustering(timeline)),
        savepoints_ms=savepoints_ms,
        pending_writes_ms=_pending_writes_ms(handle, timeline),
        last_run=last_run,
    )


def _debt(live: LiveTable) -> DueFigures:
    """Return the work that is due under the applied spec, and how many writes start the clustering."""
    figures = debt_figures(live.handle, live.view, live.slices, live.debt, live.spec, budget_bytes=0)
    commits = commits_since_clustering(live.timeline) if figures.rewrite_bytes else 0
    return replace(figures, commits_until_due=commits_until_due(commits, live.spec))


def _publish_lag_seconds(handle: TableHandle, *, now_ms: int) -> Mapping[str, float]:
    """Return how far each format is behind: infinitely if its metadata cannot be read."""
    lags: dict[str, float] = {}
    for one in formats_of(handle):
        try:
            since_ms = instant_ms(handle, publish_lag(handle, one).since or "")
        except StaleTimelineError:
            raise  # the table changes, and is read again
        except LATE_FAILURES:
            lags[one.name] = inf
        else:
            lags[one.name] = 0 if since_ms is None else max(0, now_ms - since_ms) / 1000
    return lags


def _measures(scope: Scope, kind: str, arguments: Any) -> list[Measure]:
    """Return what the tests of a kind measure, or nothing if it cannot be known."""
    try:
        return list(KINDS[kind](scope, TableTest(kind=kind, arguments=arguments, severity=ERROR)))
    except UnmeasurableError:
        return []


def _value(scope: Scope, kind: str, arguments: Any = None, *, limit: str = ITSELF) -> float | None:
    """Return the value that tests of a kind compare with a limit, or None if there is none."""
    found = _measures(scope, kind, arguments or {})
    return next((measure.value for measure in found if measure.limit == limit), None)


def _count(scope: Scope, kind: str) -> int:
    """Return what tests of a kind count, which is always known."""
    return int(_value(scope, kind) or 0)


def _savepoints_ms(timeline: Timeline) -> Mapping[str, int]:
    """Return when each savepoint was made, by its instant, oldest first."""
    made = {time: timeline.savepoint_metadata(time).created_at_ms for time in timeline.savepoints}
    return dict(sorted(made.items(), key=lambda entry: entry[1]))


def _pending_writes_ms(handle: TableHandle, timeline: Timeline) -> Mapping[str, int]:
    """Return when each pending write began, by its instant, oldest first, if the instant is a time."""
    begun = ((write.time, instant_ms(handle, write.time)) for write in timeline.pending_writes)
    return {instant: begun_ms for instant, begun_ms in begun if begun_ms is not None}


def _files_needed(scope: Scope) -> int | None:
    """Return the number of files that the declared limits make of the table's rows."""
    spec, plan = scope.table.spec, scope.table.spec.clustering.plan
    if spec.clustering.execution.split_by:
        return None
    largest, most_rows = spec.sizing.max_file_size_bytes, spec.sizing.insert_split_size
    if spec.clustering.trigger is not Trigger.OFF:
        largest = min(largest, plan.target_file_size_bytes)
    parts: defaultdict[str, list[FileSlice]] = defaultdict(list)
    for part in scope.slices:
        parts[part.partition].append(part)
    return sum(
        max(
            ceil(sum(part.size_bytes for part in found) / largest),
            0 if most_rows is None else ceil(scope.rows(found) / most_rows),
        )
        for found in parts.values()
    )


def _file_versions_kept(retention: RetentionPolicy, *, savepoints: int) -> int | None:
    """Return the largest number of versions of a file that retention and savepoints keep, None if unknown.

    The oldest of the kept commits reads a version that is older than it.
    """
    commits, versions = retention.keep_commits, retention.keep_versions
    if retention.max_age_seconds is not None or (commits is None and versions is None):
        return None
    return max(0 if commits is None else commits + 1, versions or 0) + savepoints


def _commits_to_clean(
    handle: TableHandle, timeline: Timeline, retention: RetentionPolicy, *, now_ms: int
) -> int:
    """Return the number of completed writes that passed out of retention since the last clean."""
    limits = clean_horizon(timeline, retention, handle.config, now_ms=now_ms)
    if limits is None:
        return 0
    progress = read_progress(timeline)
    since = "" if progress is None else progress.earliest or progress.last_completed
    completed = [write.time for write in timeline.completed_writes]
    until = len(completed) if limits.earliest is None else bisect_left(completed, limits.earliest)
    return max(until - bisect_left(completed, since), 0)


def _archivable_commits(timeline: Timeline, retention: RetentionPolicy) -> int:
    """Return the number of completed writes that archivals may take from the active timeline."""
    completed = [write.time for write in timeline.completed_writes]
    keep = writes_to_keep(
        completed,
        configured=retention.archive_keep_commits,
        earliest_retained=timeline.earliest_retained,
    )
    limit = len(completed) if not timeline.savepoints else bisect_left(completed, min(timeline.savepoints))
    return max(min(len(completed) - keep, limit), 0)
