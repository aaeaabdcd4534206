"""The archive service: old instants go to the archive log, and nothing else changes.

Readers trust every file that is older than the active timeline. So an instant may leave only when
no file of a write that did not complete, and none of a group it replaced, is older than what stays.
Source: HoodieTimelineArchiver and ClusteringUtils.getOldestInstantToRetainForClustering of Hudi 0.15.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from parquetry.runtime.commit.damaged_files import damaged_files
from parquetry.runtime.commit.locking import locked_session
from parquetry.runtime.commit.recovery import recovered_timeline
from parquetry.runtime.commit.rollback import remove_completed
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.services.orphans import (
    DAY_MS,
    delete_stale_statistics,
    find_orphans,
    rolled_back_entries,
)
from parquetry.runtime.services.retention import retention_of
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import ObjectInfo
from parquetry.runtime.storage.os_errors import tidying
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.file_names import BaseFileName, instant_of_file
from parquetry.runtime.table.handle import masks_failures
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.archive_entry import archive_entries
from parquetry.runtime.timeline.archive_log import read_newest_log, write_archive_log
from parquetry.runtime.timeline.instant import Action, Instant, State, Timezone, parse_instant_ms
from parquetry.runtime.timeline.sidecars import LEDGER_FOLDER
from parquetry.runtime.timeline.versions import FileGroupId
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

ARCHIVE_BATCH: Final = 10
"""How many instants must be there to leave for an archival to be due: each writes a log file."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ArchiveResult(Brief):
    """The instants that left the active timeline, ascending."""

    instants: tuple[str, ...]


@masks_failures
def archive(
    table: TableHandle, *, policy: RetentionPolicy | None = None, timing: Timing = DEFAULT_TIMING
) -> ArchiveResult:
    """Move what the policy (the applied one by default) does not keep into the archive log.

    All partitions are listed, and the statistics of archived writes none of whose files is left go.
    Raises as :func:`parquetry.runtime.commit.recovery.recover` does.
    """
    store, zone = table.store, table.config.timezone
    timeline = recovered_timeline(table, timing=timing)
    policy = policy or retention_of(table)
    # Files first, the timeline afterwards: a file that appears later belongs to a pending write.
    files = [info for listing in map_each(table.view(timeline).partitions(), store.list) for info in listing]
    entries = store.list(LEDGER_FOLDER, recursive=True)
    # Their commits alone know of them: they stay until the files are put back, or given up.
    lost = tuple(file.instant for file in damaged_files(table, everywhere=False))
    before = timeline
    with locked_session(table, timeline, purpose="archive", timing=timing) as (_, lock):
        leaving: list[Instant] = []
        try:
            timeline = timeline.reload()
            leaving = _leaving(timeline, files, policy, zone=zone, now_ms=store.now_ms(), lost=lost)
            if leaving:
                store.delete_all(rolled_back_entries(entries, timeline))
                _log(table, timeline, leaving)
                if lock.is_held():
                    remove_completed(timeline, leaving)
        except NotFoundError:
            if lock.is_held():
                raise
            leaving = []  # whoever took the lock while this process slept has archived them
    if leaving:
        with tidying(store.uri, "statistics of what was archived are left behind"):
            _delete_stale_statistics(before, files, timeline.reload())
    return ArchiveResult(instants=tuple(instant.time for instant in leaving))


def archive_if_due(table: TableHandle, *, timing: Timing = DEFAULT_TIMING) -> ArchiveResult | None:
    """The same when a batch may leave, as far as the timeline says; None when it may not.

    No partition is listed to find that out.
    """
    timeline = Timeline.load(table.store)
    policy = retention_of(table)
    enough = policy.archive_keep_commits + ARCHIVE_BATCH
    counts = (
        len(timeline.completed_writes),
        len(timeline.of(Action.CLEAN, state=State.COMPLETED)),
        len(timeline.of(Action.ROLLBACK, state=State.COMPLETED)),
    )
    if max(counts) < enough:
        return None
    zone, now_ms = table.config.timezone, table.store.now_ms()
    if len(_leaving(timeline, (), policy, zone=zone, now_ms=now_ms)) < ARCHIVE_BATCH:
        return None
    return archive(table, policy=policy, timing=timing)


def _leaving(
    timeline: Timeline,
    files: Sequence[ObjectInfo],
    policy: RetentionPolicy,
    *,
    zone: Timezone,
    now_ms: int,
    lost: Sequence[str] = (),
) -> list[Instant]:
    """The instants that leave, ascending; those of ``lost`` files stay, and what is newer."""
    completed = [instant.time for instant in timeline.completed_writes]
    keep = writes_to_keep(
        completed, configured=policy.archive_keep_commits, earliest_retained=timeline.earliest_retained
    )
    gone: Sequence[str] = ()
    if len(completed) > keep:
        obstacles = _obstacles(timeline, files, zone=zone, now_ms=now_ms)
        obstacles = replace(obstacles, unsettled={*obstacles.unsettled, *lost})
        gone = leaving_writes(completed, keep=keep, obstacles=obstacles)
    writes = timeline.completed_writes[: len(gone)]
    first = completed[len(gone)] if len(gone) < len(completed) else None
    rollbacks = [
        rollback
        for rollback in _oldest(timeline, Action.ROLLBACK, policy.archive_keep_commits)
        if first is not None
        and not _is_recent(rollback, zone, now_ms)
        and all(victim.time < first for victim in timeline.rollback_metadata(rollback.time).instants)
    ]
    cleans = _oldest(timeline, Action.CLEAN, policy.archive_keep_commits)
    return sorted([*writes, *cleans, *rollbacks], key=lambda instant: (instant.time, instant.action))


def _oldest(timeline: Timeline, action: Action, keep: int) -> Sequence[Instant]:
    """The completed instants of an action beyond those to keep, none at or after a pending one."""
    completed = timeline.of(action, state=State.COMPLETED)
    pending = min((i.time for i in timeline.of(action) if not i.is_completed), default=None)
    return [
        instant
        for instant in completed[: max(len(completed) - max(keep, 1), 0)]
        if pending is None or instant.time < pending
    ]


def _obstacles(timeline: Timeline, files: Iterable[ObjectInfo], *, zone: Timezone, now_ms: int) -> Obstacles:
    listed = list(files)
    unsettled = {instant.time for instant in timeline.pending_writes}
    unsettled.update(time for path in find_orphans(listed, timeline) if (time := instant_of_file(path)))
    for rollback in timeline.of(Action.ROLLBACK, state=State.COMPLETED):
        if _is_recent(rollback, zone, now_ms):
            unsettled.update(victim.time for victim in timeline.rollback_metadata(rollback.time).instants)
    for restored in timeline.of(Action.RESTORE, state=State.COMPLETED):
        if _is_recent(restored, zone, now_ms):
            unsettled.update(victim.time for victim in timeline.restore_plan(restored.time).instants)
    names = (BaseFileName.parse(info.path) for info in listed)
    return Obstacles(
        unsettled=unsettled,
        savepoint=min(timeline.savepoints, default=None),
        replaced={
            instant.time: frozenset(
                (partition, file_id)
                for partition, ids in timeline.commit_metadata(instant.time).replaced.items()
                for file_id in ids
            )
            for instant in timeline.completed_writes
            if instant.action is Action.REPLACECOMMIT
        },
        on_disk=frozenset((name.partition, name.file_id) for name in names if name is not None),
        cleaned_before=_cleaned_before(timeline),
    )


def _cleaned_before(timeline: Timeline) -> str | None:
    """Before which instant the last clean has removed replaced groups; Hudi reads its requested plan."""
    cleans = timeline.of(Action.CLEAN, state=State.COMPLETED)
    if not cleans:
        return None
    try:
        return timeline.cleaner_plan(cleans[-1].time).earliest_commit_to_retain or cleans[-1].time
    except NotFoundError:
        return None


def _is_recent(instant: Instant, zone: Timezone, now_ms: int) -> bool:
    """Less than a day old: a task of the write that was undone may still wake up and write."""
    return now_ms - parse_instant_ms(instant.time, zone) < DAY_MS


def _delete_stale_statistics(before: Timeline, files: Iterable[ObjectInfo], now: Timeline) -> None:
    """Remove the statistics of writes that have left the timeline, and whose files have all been replaced."""
    instants = {time for info in files if (time := instant_of_file(info.path))}
    first = next((instant.time for instant in now.completed_writes), None)
    if first is not None:
        delete_stale_statistics(before, instants, before=first)


def _log(table: TableHandle, timeline: Timeline, leaving: Iterable[Instant]) -> None:
    """Write the instants to the archive log, but for those that an interrupted archival has written."""
    store, folder = table.store, table.config.archive_folder
    logged = {(archived.time, archived.action) for archived in read_newest_log(store, folder)}
    missing = [instant for instant in leaving if (instant.time, str(instant.action)) not in logged]
    if missing:
        write_archive_log(store, folder, archive_entries(timeline, missing, table.config.timezone))


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """What archiving must not pass.

    ``unsettled`` are instants of writes that are pending, were undone lately, or still have files:
    a completed write older than each of them has to stay. ``savepoint`` is the first one.
    ``replaced`` are the groups that each replacecommit did away with, ``on_disk`` the groups that
    have files, ``cleaned_before`` the limit of the last clean, before which replaced groups are gone;
    None when there was no such clean.
    """

    unsettled: Collection[str] = ()
    savepoint: str | None = None
    replaced: Mapping[str, frozenset[FileGroupId]] = field(default_factory=dict)
    on_disk: frozenset[FileGroupId] = frozenset()
    cleaned_before: str | None = None


def leaving_writes(completed: Sequence[str], *, keep: int, obstacles: Obstacles) -> Sequence[str]:
    """The oldest of the completed writes (times, ascending) that may leave, at least ``keep`` stay."""
    last = max(len(completed) - keep, 0)
    for unsettled in obstacles.unsettled:
        last = min(last, max(bisect_left(completed, unsettled) - 1, 0))
    if obstacles.savepoint is not None:
        last = min(last, bisect_left(completed, obstacles.savepoint))
    for position, time in enumerate(completed[:last]):
        groups = obstacles.replaced.get(time)
        if groups is None:
            continue
        if obstacles.cleaned_before is None or time >= obstacles.cleaned_before or groups & obstacles.on_disk:
            return completed[:position]
    return completed[:last]


def writes_to_keep(completed: Sequence[str], *, configured: int, earliest_retained: str | None) -> int:
    """How many writes stay: the configured number, and two more than the clean retains."""
    if earliest_retained is None:
        return max(configured, 1)
    retained = len(completed) - bisect_left(completed, earliest_retained)
    return max(configured, retained + 2)
