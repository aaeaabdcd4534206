"""The input of a clustering plan from the timeline, listings and statistics of a table; it writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from parquetry.runtime.clustering.plan.history import unpublished_rounds
from parquetry.runtime.clustering.rewrite.strategies import check_strategies
from parquetry.runtime.commit.claims import is_alive, read_claim
from parquetry.runtime.commit.conflicts import WriteEffects, conflicting_groups, effects_of_commit
from parquetry.runtime.commit.damaged_files import check_partitions, recorded_partitions
from parquetry.runtime.commit.recovery import find_unfinished
from parquetry.runtime.layout.clustering.model import STEPS_DUE, ClusteringFile, Partitioning, Situation
from parquetry.runtime.layout.model import FileKey, FileSlice
from parquetry.runtime.layout.skipping.files import column_types, parse_where
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.spec.clustering import ENCRYPT, PRUNE, ClusteringSpec, Existing
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.spec.paths import ColumnPath, types_by_path
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.table.applied import applied_history
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.statistics import look_up
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.instant import format_instant
from parquetry.runtime.timeline.last_clustering import is_clustering
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

RUN_KEY: Final = "parquetry.clustering"
"""The key of a replacecommit's description, with the number of groups of its plan that were left out."""

_ROUNDS_BEFORE_BACKOFF: Final = 3


def survey(
    table: TableHandle, timeline: Timeline, *, timing: Timing = DEFAULT_TIMING
) -> tuple[ClusteringSpec, tuple[ClusteringFile, ...], Situation]:
    """Return the applied policy, the newest slices of all partitions, and the situation of the table.

    It costs one listing per partition, one sidecar per instant of a slice, every commit of the timeline, and
    the footers of files that no sidecar contains.

    Raises:
        InvalidDataError: If the applied spec cannot be understood.
        CorruptTableError: If files are missing or damaged.

    """
    spec = table.effective_spec(timeline)
    policy = spec.clustering
    view = table.view(timeline)
    slices = view.all_slices()
    check_partitions(table, view, recorded_partitions(view).union(part.partition for part in slices))
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
    """Return the files and the situation under a spec, which need not be the applied one.

    Args:
        table: The table.
        timeline: The timeline of the table.
        spec: The spec that the plan uses.
        slices: The newest slices of all partitions.
        known: The known statistics of the slices, by path.
        timing: The time limits that decide whether a writer is alive.

    """
    policy = spec.clustering
    check_strategies(policy, table.store.allowed)
    steps = further_steps(table, policy)
    files = tuple(clustering_file(part, known.get(part.path), steps) for part in slices)
    return files, situation_of(table, timeline, spec, policy, timing=timing)


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherSteps:
    """The requirements of the policy on every file besides its layout.

    If ``encrypted`` is set, each file has to be encrypted. Files of instants up to ``unpruned_until`` may
    still contain dropped columns, which have to be removed.
    """

    encrypted: bool = False
    unpruned_until: str | None = None

    def are_due(self, part: FileSlice, known: FileStatistics | None) -> bool:
        """Return whether a file has to be rewritten for one of the steps."""
        if self.unpruned_until is not None and part.instant <= self.unpruned_until:
            return True
        return self.encrypted and (known is None or not known.encrypted)


def further_steps(table: TableHandle, policy: ClusteringSpec) -> FurtherSteps:
    """Return the steps that ``then`` of the policy requires on the current table."""
    then = policy.execution.then
    return FurtherSteps(
        encrypted=ENCRYPT in then and policy.execution.encryption_key is not None,
        unpruned_until=_last_drop(table) if PRUNE in then else None,
    )


def _last_drop(table: TableHandle) -> str | None:
    """Return the time at which the newest applied spec that dropped a column or a field was recorded."""
    later: tuple[int, set[ColumnPath]] | None = None
    for record in applied_history(table.store):
        paths = set(types_by_path(record.spec.columns))
        if later is not None and not paths <= later[1]:
            return format_instant(later[0], table.config.timezone)
        later = record.applied_at_ms, paths
    return None


def clustering_file(part: FileSlice, known: FileStatistics | None, steps: FurtherSteps) -> ClusteringFile:
    """Return a slice with its statistics, as a clustering file.

    If a step is due for the file, its digest is STEPS_DUE, so it counts as a file of another policy. Without
    statistics the digest and the rows are None.
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
    """Return the situation of a plan under that policy on the current table.

    Args:
        table: The table.
        timeline: The timeline of the table.
        spec: The spec that the plan uses.
        policy: The clustering policy.
        timing: The time limits that decide whether a writer is alive.

    """
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
        reserved={
            **_groups_backing_off(timeline, policy),
            # The next write or clustering rolls back plans whose process has died.
            **reserved_groups(timeline, timing=timing, except_instants=_dead_plans(timeline, timing)),
        },
        kept_until=_kept_until(table, timeline, policy),
        queries=tuple(parse_where(query.where, types=queried, time_zone=UTC) for query in spec.extra.queries),
        types=queried,
    )


def reserved_groups(
    timeline: Timeline, *, timing: Timing, except_instants: Collection[str] = ()
) -> dict[FileKey, str]:
    """Return the file groups that must not be rewritten, with the reason.

    A live writer has announced them, or a pending plan names them.

    Args:
        timeline: The timeline of the table.
        timing: The time limits that decide whether a writer is alive.
        except_instants: Instants whose plans do not count.

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
        if time not in except_instants:
            reserved[key] = f"in the pending clustering {time}"
    return reserved


def _dead_plans(timeline: Timeline, timing: Timing) -> frozenset[str]:
    """Return the instants of pending plans of this project whose process has died, or that have expired."""
    if not timeline.pending_clusterings:
        return frozenset()
    return frozenset(instant.time for instant in find_unfinished(timeline, timing).dead)


def changed_groups(before: Timeline, now: Timeline, groups: Collection[FileKey]) -> frozenset[FileKey]:
    """Return those of the file groups that writes completed after ``before`` have changed or replaced.

    Only the metadata of these writes is read. A write that was rolled back since is not noticed.
    """
    clustering = WriteEffects(instant="", operation=CLUSTER, replaced=frozenset(groups))
    changed: set[FileKey] = set()
    for write in now.completed_writes:
        if not before.is_completed(write.time):
            effects = effects_of_commit(write.time, now.commit_metadata(write.time))
            changed |= conflicting_groups(clustering, effects)
    return frozenset(changed)


def commits_since_clustering(timeline: Timeline) -> int:
    """Return the number of writes on the active timeline after its newest completed clustering."""
    count = 0
    for write in reversed(timeline.completed_writes):
        if is_clustering(timeline, write):
            break
        count += 1
    return count


def _kept_until(table: TableHandle, timeline: Timeline, policy: ClusteringSpec) -> str | None:
    """Return the time when this execution policy was applied, up to which ``existing: keep`` keeps files.

    If the policy is not applied yet, it is the instant of the newest write. Without ``existing: keep`` it is
    None.
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


def _groups_backing_off(timeline: Timeline, policy: ClusteringSpec) -> Mapping[FileKey, str]:
    """Return the file groups that have to wait because plans left them out repeatedly, with the reason.

    They lost to writers, or could not be rewritten. From the third time on they wait for ``every_commits``
    writes, and each further time doubles the number.
    """
    lost: Counter[FileKey] = Counter()
    last: dict[FileKey, str] = {}
    for time, groups in sorted(
        [*_unpublished_groups(timeline), *unpublished_rounds(timeline)], key=lambda lost: lost[0]
    ):
        lost.update(groups)
        last.update(dict.fromkeys(groups, time))
    backing_off = {}
    for key, rounds in lost.items():
        if rounds < _ROUNDS_BEFORE_BACKOFF:
            continue
        needed = policy.every_commits * 2 ** (rounds - _ROUNDS_BEFORE_BACKOFF)
        seen = sum(write.time > last[key] for write in timeline.completed_writes)
        if seen < needed:
            backing_off[key] = f"left out {rounds} times; waits for {needed - seen} more commits"
    return backing_off


def _unpublished_groups(timeline: Timeline) -> Iterator[tuple[str, set[FileKey]]]:
    """Yield each clustering that did not publish all its groups: its instant and the file groups left out.

    A clustering whose time ended does not count, because some of these groups did not begin.
    """
    for write in timeline.completed_writes:
        if not is_clustering(timeline, write):
            continue
        metadata = timeline.commit_metadata(write.time)
        if not _left_out_count(metadata.extra.get(RUN_KEY, "")):
            continue
        plan = timeline.requested_replace(write.time).plan
        replaced = {(path, name) for path, names in metadata.replaced.items() for name in names}
        groups = () if plan is None else plan.groups
        yield write.time, {part.key for group in groups for part in group.slices} - replaced


def _left_out_count(description: str) -> int:
    try:
        described = parsed_json(description)
        return 0 if described.get("deferred") else int(described["left_out"])
    except (ValueError, KeyError, TypeError, AttributeError):
        # Another program wrote this key, or the clustering left nothing out.
        return 0
