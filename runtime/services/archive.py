"""The archive service, which moves old instants to the archive log and changes nothing else.

Readers trust every file that is older than the active timeline. So an instant may be archived only if all
files of uncompleted writes and of the groups that it replaced are newer than the remaining timeline, or
deleted. Source: HoodieTimelineArchiver and ClusteringUtils.getOldestInstantToRetainForClustering of Hudi
0.15.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from parquetry.runtime.commit.damaged_files import damaged_files
from parquetry.runtime.commit.recovery import recovered_timeline
from parquetry.runtime.commit.rollback import remove_completed
from parquetry.runtime.commit.table_lock import locked_session
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.services.orphans import (
    find_orphans,
    stale_ledger_entries,
    stale_statistics,
)
from parquetry.runtime.services.retention import retention_of
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.model import ObjectInfo
from parquetry.runtime.storage.os_errors import logging_failures
from parquetry.runtime.table.file_names import BaseFileName, instant_of_file
from parquetry.runtime.table.handle import TableHandle, with_masked_failures
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Action, Instant, State, Timezone, parse_instant_ms
from parquetry.runtime.timeline.last_clustering import keep_last_clustering
from parquetry.runtime.timeline.layout import DAY_MS
from parquetry.runtime.timeline.sidecars import LEDGER_FOLDER, STATISTICS_FOLDER
from parquetry.runtime.timeline.versions import FileGroupId
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

ARCHIVE_BATCH: Final = 10
"""The number of archivable instants at which an archival is due: each archival writes a log file."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ArchiveResult(Brief):
    """The instants that were archived, ascending."""

    instants: tuple[str, ...]


@with_masked_failures
def archive(
    table: TableHandle, *, policy: RetentionPolicy | None = None, timing: Timing = DEFAULT_TIMING
) -> ArchiveResult:
    """Move the instants that the policy does not keep to the archive log. The default is the applied policy.

    All partitions are listed. The statistics of archived writes that have no file left are deleted. Errors
    are those of :func:`parquetry.runtime.commit.recovery.recover`.
    """
    store, zone = table.store, table.config.timezone
    timeline = recovered_timeline(table, timing=timing)
    policy = policy or retention_of(table)
    # The files are listed before the timeline is read: a file that appears later belongs to a pending write.
    listings = store.list_each(table.view(timeline).partitions())
    files = [info for listing in listings.values() for info in listing]
    entries = store.list(LEDGER_FOLDER, recursive=True)
    # Only their commits name the damaged files, so these stay until the files are put back or given up.
    lost = tuple(file.instant for file in damaged_files(table, every_partition=False))
    before = timeline
    with locked_session(table, timeline, purpose="archive", timing=timing) as (_, lock):
        archivable: list[Instant] = []
        try:
            timeline = timeline.reload()
            archivable = _archivable_instants(
                timeline, files, policy, zone=zone, now_ms=store.now_ms(), lost=lost
            )
            if archivable:
                keep_last_clustering(timeline, archivable)
                store.delete_all(stale_ledger_entries(entries, timeline))
                timeline.layout.archive(store, timeline.files, archivable)
                if lock.is_held():
                    remove_completed(timeline, archivable)
        except NotFoundError:
            if lock.is_held():
                raise
            archivable = []  # the process that took over the lock has archived them
    if archivable:
        with logging_failures(store.uri, "statistics of what was archived are left behind"):
            _delete_stale_statistics(before, files, timeline.reload())
    return ArchiveResult(instants=tuple(instant.time for instant in archivable))


def archive_if_due(
    table: TableHandle,
    *,
    policy: RetentionPolicy | None = None,
    timeline: Timeline | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> ArchiveResult | None:
    """Archive if a full batch of instants may be archived, and return the result, or None if not.

    ``timeline`` decides if it is due. If it is None, it is listed. The check lists no partition.
    """
    timeline = timeline or table.timeline()
    policy = policy or retention_of(table)
    enough = policy.archive_keep_commits + ARCHIVE_BATCH
    counts = (
        len(timeline.completed_writes),
        len(timeline.of(Action.CLEAN, state=State.COMPLETED)),
        len(timeline.of(Action.ROLLBACK, state=State.COMPLETED)),
    )
    if max(counts) < enough:
        return None
    zone, now_ms = table.config.timezone, table.store.now_ms()
    if len(_archivable_instants(timeline, (), policy, zone=zone, now_ms=now_ms)) < ARCHIVE_BATCH:
        return None
    return archive(table, policy=policy, timing=timing)


def _archivable_instants(
    timeline: Timeline,
    files: Sequence[ObjectInfo],
    policy: RetentionPolicy,
    *,
    zone: Timezone,
    now_ms: int,
    lost: Sequence[str] = (),
) -> list[Instant]:
    """Return the instants that may be archived now, ascending.

    Args:
        timeline: The timeline.
        files: The files of all partitions.
        policy: The retention policy.
        zone: The time zone of the instants.
        now_ms: The current time.
        lost: The instants of writes with missing or damaged files. These and all later writes stay.

    """
    completed = [instant.time for instant in timeline.completed_writes]
    keep = writes_to_keep(
        completed, configured=policy.archive_keep_commits, earliest_retained=timeline.earliest_retained
    )
    leaving: Sequence[str] = ()
    if len(completed) > keep:
        obstacles = _obstacles(timeline, files, zone=zone, now_ms=now_ms)
        obstacles = replace(obstacles, unsettled={*obstacles.unsettled, *lost})
        leaving = archivable_writes(completed, keep=keep, obstacles=obstacles)
    writes = timeline.completed_writes[: len(leaving)]
    first = completed[len(leaving)] if len(leaving) < len(completed) else None
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
    """Return the completed instants of an action without the newest ``keep``.

    Instants after a pending one are left out too.
    """
    completed = timeline.of(action, state=State.COMPLETED)
    pending = min((i.time for i in timeline.of(action) if not i.is_completed), default=None)
    return [
        instant
        for instant in completed[: max(len(completed) - max(keep, 1), 0)]
        if pending is None or instant.time < pending
    ]


def _obstacles(timeline: Timeline, files: Iterable[ObjectInfo], *, zone: Timezone, now_ms: int) -> Obstacles:
    """Return the limits of archiving that the timeline and the listed files set."""
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
    """Return the limit of the last clean, before which replaced groups are deleted, or None.

    Hudi reads it from the requested plan too.
    """
    cleans = timeline.of(Action.CLEAN, state=State.COMPLETED)
    if not cleans:
        return None
    try:
        return timeline.cleaner_plan(cleans[-1].time).earliest_commit_to_retain or cleans[-1].time
    except NotFoundError:
        return None


def _is_recent(instant: Instant, zone: Timezone, now_ms: int) -> bool:
    """Return whether the instant is less than a day old.

    A task of a rolled back write may resume and write a file within this time.
    """
    return now_ms - parse_instant_ms(instant.time, zone) < DAY_MS


def _delete_stale_statistics(before: Timeline, files: Iterable[ObjectInfo], current: Timeline) -> None:
    """Delete the statistics of archived writes that have no file left."""
    instants = {time for info in files if (time := instant_of_file(info.path))}
    first = next((instant.time for instant in current.completed_writes), None)
    if first is not None:
        store = current.store
        store.delete_all(stale_statistics(store.list(STATISTICS_FOLDER), before, instants, before=first))


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """The limits of archiving.

    ``unsettled`` are instants of writes that are pending, were rolled back recently, or still have files: for
    each of them, an older completed write must stay. ``savepoint`` is the first savepoint. ``replaced`` are
    the file groups that each replacecommit replaced, and ``on_disk`` the groups that have files.
    ``cleaned_before`` is the limit of the last clean, before which replaced groups are deleted; None if there
    was no such clean.
    """

    unsettled: Collection[str] = ()
    savepoint: str | None = None
    replaced: Mapping[str, frozenset[FileGroupId]] = field(default_factory=dict)
    on_disk: frozenset[FileGroupId] = frozenset()
    cleaned_before: str | None = None


def archivable_writes(completed: Sequence[str], *, keep: int, obstacles: Obstacles) -> Sequence[str]:
    """Return the oldest completed writes that may be archived. At least ``keep`` writes stay.

    ``completed`` are the instants of all completed writes, ascending.
    """
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
    """Return how many writes stay: the configured number, and at least two more than clean retains."""
    if earliest_retained is None:
        return max(configured, 1)
    retained = len(completed) - bisect_left(completed, earliest_retained)
    return max(configured, retained + 2)
