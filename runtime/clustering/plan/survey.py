"""What a table's timeline, listings and statistics say to a clustering plan; nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from parquetry.runtime.clustering.plan.history import unpublished_rounds
from parquetry.runtime.clustering.rewrite.strategies import check_strategies
from parquetry.runtime.commit.claims import is_alive, read_claim
from parquetry.runtime.commit.conflicts import Work, conflicting_groups, work_of_commit
from parquetry.runtime.commit.damaged_files import check_partitions, named_partitions
from parquetry.runtime.layout.clustering.model import (
    STEPS_DUE,
    ClusteringFile,
    FileKey,
    Partitioning,
    Situation,
)
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import column_types, parse_where
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.spec.clustering import ENCRYPT, PRUNE, ClusteringSpec, Existing
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.spec.paths import ColumnPath, types_by_path
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.table.applied import applied_history
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.table.statistics import look_up
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.instant import Action, Instant, format_instant
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

RUN_KEY: Final = "parquetry.clustering"
"""Where a replacecommit says how many groups of its plan were left out."""

_ROUNDS_BEFORE_WAITING: Final = 3


def survey(
    table: TableHandle, timeline: Timeline, *, timing: Timing = DEFAULT_TIMING
) -> tuple[ClusteringSpec, tuple[ClusteringFile, ...], Situation]:
    """The policy in force, the newest slices of all partitions, and what else a plan has to know.

    One listing per partition, one sidecar per instant of a slice, and footers only of files that no
    sidecar has; every commit of the timeline. InvalidDataError when the applied spec is not understood,
    CorruptTableError when files are gone or damaged.
    """
    spec = table.effective_spec(timeline)
    policy = spec.clustering
    view = table.view(timeline)
    slices = view.all_slices()
    check_partitions(table, view, named_partitions(view).union(part.partition for part in slices))
    names = {*policy.execution.columns, *policy.execution.split_by}
    known = look_up(table.store, slices, columns=names)
    return policy, *survey_under(table, timeline, spec, slices, known, timing=timing)


def survey_under(
    table: TableHandle,
    timeline: Timeline,
    spec: TableSpec,
    slices: Iterable[FileSlice],
    known: Mapping[str, FileStatistics],
    *,
    timing: Timing = DEFAULT_TIMING,
) -> tuple[tuple[ClusteringFile, ...], Situation]:
    """The slices, and what else a plan has to know, under a spec that need not be in force.

    ``known`` are their statistics by path, as far as there are any.
    """
    policy = spec.clustering
    check_strategies(policy, table.store.allowed)
    steps = further_steps(table, policy)
    files = tuple(clustering_file(part, known.get(part.path), steps) for part in slices)
    return files, situation_of(table, timeline, spec, policy, timing=timing)


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherSteps:
    """What the policy wants of every file besides its layout.

    That it is ``encrypted``, and without dropped columns: files of instants up to ``unpruned_until`` may
    still have one.
    """

    encrypted: bool = False
    unpruned_until: str | None = None

    def are_due(self, part: FileSlice, known: FileStatistics | None) -> bool:
        """Whether a file has to be rewritten for one of them."""
        if self.unpruned_until is not None and part.instant <= self.unpruned_until:
            return True
        return self.encrypted and (known is None or not known.encrypted)


def further_steps(table: TableHandle, policy: ClusteringSpec) -> FurtherSteps:
    """What ``then`` of the policy comes to for the table as it is."""
    then = policy.execution.then
    return FurtherSteps(
        encrypted=ENCRYPT in then and policy.execution.encryption_key is not None,
        unpruned_until=_last_drop(table) if PRUNE in then else None,
    )


def _last_drop(table: TableHandle) -> str | None:
    """When the newest applied spec without a column, or a field of one, of the one before was recorded."""
    later: tuple[int, set[ColumnPath]] | None = None
    for record in applied_history(table.store):
        paths = set(types_by_path(record.spec.columns))
        if later is not None and not paths <= later[1]:
            return format_instant(later[0], table.config.timezone)
        later = record.applied_at_ms, paths
    return None


def clustering_file(part: FileSlice, known: FileStatistics | None, steps: FurtherSteps) -> ClusteringFile:
    """A slice with what its statistics say, None when nothing is known.

    One for which one of the ``steps`` is due counts as one of another policy.
    """
    digest = None if known is None else known.clustering
    if steps.are_due(part, known):
        digest = STEPS_DUE
    return ClusteringFile(
        partition=part.partition,
        file_id=part.file_id,
        instant=part.instant,
        path=part.path,
        size_bytes=part.size_bytes,
        rows=None if known is None else known.rows,
        digest=digest,
        columns={} if known is None else {name.lower(): c for name, c in known.columns.items()},
    )


def situation_of(
    table: TableHandle,
    timeline: Timeline,
    spec: TableSpec,
    policy: ClusteringSpec,
    *,
    timing: Timing = DEFAULT_TIMING,
) -> Situation:
    """What holds for a plan by that policy on the table as it is."""
    types = {column.name: column.type for column in spec.columns}
    queried = {name.lower(): kind for name, kind in column_types(spec.columns).items()}
    return Situation(
        max_file_size_bytes=spec.sizing.max_file_size_bytes,
        partitioning=Partitioning(
            columns=tuple((name, types.get(name, "string")) for name in table.config.partition_by)
            if table.paths_hold_values
            else (),
            hive_style=table.config.hive_style,
            url_encode=table.config.url_encode,
        ),
        reserved={**_waiting(timeline, policy), **reserved_groups(timeline, timing=timing)},
        kept_until=_kept_until(table, timeline, policy),
        queries=tuple(parse_where(query.where, types=queried, time_zone=UTC) for query in spec.extra.queries),
        types=queried,
    )


def reserved_groups(timeline: Timeline, *, timing: Timing, but: str | None = None) -> dict[FileKey, str]:
    """Why file groups must be left alone: living writers have announced them, or a plan names them.

    ``but`` is an instant whose own plan does not count.
    """
    reserved: dict[FileKey, str] = {}
    for instant in timeline.pending_writes:
        if instant.time in timeline.pending_clusterings:
            continue
        claim = read_claim(timeline.store, instant.time)
        if claim is not None and not is_alive(timeline.store, claim, timing):
            continue
        announced = timeline.profile(instant.time)
        for stat in () if announced is None else announced.all_stats():
            if stat.file_id:
                why = f"the write {instant.time} is about to change it"
                reserved[stat.partition_path, stat.file_id] = why
    for key, time in timeline.groups_in_pending_clustering.items():
        if time != but:
            reserved[key] = f"in the pending clustering {time}"
    return reserved


def changed_groups(before: Timeline, now: Timeline, groups: Collection[FileKey]) -> frozenset[FileKey]:
    """Those of the file groups that writes have changed or replaced which completed after ``before``.

    Only what these writes say is read. A write that was rolled back since is not noticed.
    """
    mine = Work(instant="", operation=CLUSTER, replaced=frozenset(groups))
    changed: set[FileKey] = set()
    for write in now.completed_writes:
        if not before.is_completed(write.time):
            theirs = work_of_commit(write.time, now.commit_metadata(write.time))
            changed |= conflicting_groups(mine, theirs)
    return frozenset(changed)


def commits_since_clustering(timeline: Timeline) -> int:
    """How many writes the active timeline has after its newest completed clustering."""
    count = 0
    for write in reversed(timeline.completed_writes):
        if _is_clustering(timeline, write):
            break
        count += 1
    return count


def last_clustering(timeline: Timeline) -> str:
    """Return the instant of the newest completed clustering on the active timeline; "" without one."""
    found = (write.time for write in reversed(timeline.completed_writes) if _is_clustering(timeline, write))
    return next(found, "")


def _is_clustering(timeline: Timeline, write: Instant) -> bool:
    if write.action is not Action.REPLACECOMMIT:
        return False
    return timeline.commit_metadata(write.time).operation == CLUSTER


def _kept_until(table: TableHandle, timeline: Timeline, policy: ClusteringSpec) -> str | None:
    """The time when this way of arranging rows was applied; what was there before stays as it is.

    For one that is not applied yet that is all there is now.
    """
    if policy.existing is not Existing.KEEP:
        return None
    since_ms = None
    for record in applied_history(table.store):
        if record.spec.clustering.execution.digest != policy.execution.digest:
            break
        since_ms = record.applied_at_ms
    if since_ms is None:
        return timeline.completed_writes[-1].time if timeline.completed_writes else None
    return format_instant(since_ms, table.config.timezone)


def _waiting(timeline: Timeline, policy: ClusteringSpec) -> Mapping[FileKey, str]:
    """The file groups that were left out so often that they wait, each time twice as long.

    They lost to writers, or could not be rewritten. From the third time on they wait as many intervals
    of ``every_commits`` writes as 2 to the power of the times before.
    """
    lost: Counter[FileKey] = Counter()
    last: dict[FileKey, str] = {}
    for time, groups in sorted(
        [*_unpublished_groups(timeline), *unpublished_rounds(timeline)], key=lambda lost: lost[0]
    ):
        lost.update(groups)
        last.update(dict.fromkeys(groups, time))
    waiting = {}
    for key, rounds in lost.items():
        if rounds < _ROUNDS_BEFORE_WAITING:
            continue
        needed = policy.every_commits * 2 ** (rounds - _ROUNDS_BEFORE_WAITING)
        seen = sum(write.time > last[key] for write in timeline.completed_writes)
        if seen < needed:
            waiting[key] = f"left out {rounds} times; waits for {needed - seen} more commits"
    return waiting


def _unpublished_groups(timeline: Timeline) -> Iterator[tuple[str, set[FileKey]]]:
    """By clustering, the file groups of its plan that it had to leave to writers."""
    for write in timeline.completed_writes:
        if not _is_clustering(timeline, write):
            continue
        metadata = timeline.commit_metadata(write.time)
        if not _left_out(metadata.extra.get(RUN_KEY, "")):
            continue
        plan = timeline.requested_replace(write.time).plan
        replaced = {(path, name) for path, names in metadata.replaced.items() for name in names}
        groups = () if plan is None else plan.groups
        yield write.time, {(s.partition, s.file_id) for g in groups for s in g.slices} - replaced


def _left_out(description: str) -> int:
    try:
        return int(parsed_json(description)["left_out"])
    except (ValueError, KeyError, TypeError):
        return 0
