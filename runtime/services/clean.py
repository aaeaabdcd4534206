"""The clean service, which deletes expired file versions and orphan files.

The plan is made without the lock, confirmed under the lock, and executed without it. The files of a requested
plan are needed again only by a savepoint or a restore, and both finish pending cleans first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from parquetry.runtime.commit.abandoned_buckets import partitions_with_abandoned
from parquetry.runtime.commit.claims import open_session
from parquetry.runtime.commit.recovery import recover, recovered_timeline
from parquetry.runtime.commit.rollback import withdraw_request
from parquetry.runtime.commit.table_lock import locked_session, table_lock
from parquetry.runtime.publish.publishing import expire_published, files_still_named
from parquetry.runtime.services.clean_plan import (
    Expiry,
    clean_horizon,
    cleaner_plan,
    execute_clean,
    finish_cleans,
    pending_cleans,
    plan_expiry,
    superseded_versions,
    without_files,
)
from parquetry.runtime.services.clean_progress import (
    CleanProgress,
    note_progress,
    partitions_to_check,
    read_progress,
)
from parquetry.runtime.services.orphans import (
    OrphanCleanup,
    delete_leftovers,
    drop_statistics,
    remove_orphans,
    stale_statistics,
)
from parquetry.runtime.services.retention import retention_of
from parquetry.runtime.spec.codec import Brief, omit
from parquetry.runtime.spec.masking import log_failure
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.os_errors import LATE_FAILURES, is_full, logging_failures
from parquetry.runtime.table.handle import TableHandle, with_masked_failures
from parquetry.runtime.table.metadata_table import finish_drop
from parquetry.runtime.table.version_leftovers import finish_version_change
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clean import CleanerPlan
from parquetry.runtime.timeline.effective_writes import invalid_completed_writes
from parquetry.runtime.timeline.instant import TIMELINE_FOLDER, Action, State
from parquetry.runtime.timeline.sidecars import METADATA_DROP_PATH, VERSION_CHANGE_PATH
from parquetry.runtime.timeline.versions import FileGroupId
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

_LOG = logging.getLogger(__name__)

_PLANS_WITHOUT_LOCK: Final = 3

_FindExpired = Callable[[Timeline], Expiry | None]
"""A function that returns the files that a clean would delete, or None if nothing may be deleted."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CleanResult(Brief):
    """The files that a clean deleted. ``instant`` is None if no version had expired.

    ``orphans_deleted`` counts data files of dead writes, also those whose quarantine is over, and
    ``leftovers_deleted`` their small files. ``orphans_moved`` counts those that are in the quarantine now.
    """

    instant: str | None
    files_deleted: int
    orphans_deleted: int
    leftovers_deleted: int
    orphans_moved: int = field(default=0, metadata=omit(0))


@with_masked_failures
def clean(
    table: TableHandle, *, policy: RetentionPolicy | None = None, timing: Timing = DEFAULT_TIMING
) -> CleanResult:
    """Delete the file versions that the policy does not keep, and remove all orphan files.

    Orphans are deleted, or moved to the quarantine if the policy has one. All partitions are checked. On a
    full disk, clean first makes room for its own files: it deletes what dead writers left, also from the
    quarantine, then recorded statistics.

    Raises:
        StorageError: If the disk is full and no room can be made.
        ConflictError: As in :func:`parquetry.runtime.commit.recovery.recover`.
    """
    policy = policy or retention_of(table)
    find_expired = partial(_expired_by_policy, table, policy=policy, whole_table=True)
    scope = _Scope(whole_table=True, quarantine_seconds=policy.quarantine_seconds)
    return _clean_with_room(table, find_expired=find_expired, timing=timing, scope=scope)


def clean_if_due(
    table: TableHandle,
    *,
    policy: RetentionPolicy | None = None,
    timeline: Timeline | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> CleanResult | None:
    """Clean after a write, in partitions where something may have expired; return None if no clean is due.

    A clean is due if the earliest commit to retain has changed since the last clean (if versions are kept by
    number: after every write), or if a savepoint was deleted. ``timeline`` decides if it is due. If it is
    None, it is listed.
    """
    timeline = timeline or table.timeline()
    policy = policy or retention_of(table)
    limits = clean_horizon(timeline, policy, table.config, now_ms=table.store.now_ms())
    if limits is None:
        return None
    progress = read_progress(timeline)
    if progress is not None and progress.covers(limits, timeline):
        return None
    find_expired = partial(_expired_by_policy, table, policy=policy, whole_table=False)
    scope = _Scope(whole_table=False, quarantine_seconds=policy.quarantine_seconds)
    return _clean_with_room(table, find_expired=find_expired, timing=timing, scope=scope)


@with_masked_failures
def clean_groups(
    table: TableHandle, groups: Collection[FileGroupId], *, timing: Timing = DEFAULT_TIMING
) -> CleanResult:
    """Delete all versions of these file groups except the current ones, and all orphan files of the table.

    Retention keeps none of these versions; only the files of savepoints stay. The quarantine is emptied.

    Raises:
        ConflictError: If an unfinished write may need one of the versions.
        StorageError: As in :func:`clean`.

    """

    def find_expired(timeline: Timeline) -> Expiry | None:
        return superseded_versions(table.view(timeline), groups) if timeline.completed_writes else None

    scope = _Scope(whole_table=True, quarantine_seconds=None)
    return _clean_with_room(table, find_expired=find_expired, timing=timing, scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """The partitions in which a clean looks for orphans, and for how long these stay in the quarantine."""

    whole_table: bool
    quarantine_seconds: int | None


def _clean_with_room(
    table: TableHandle, *, find_expired: _FindExpired, timing: Timing, scope: _Scope
) -> CleanResult:
    """Clean; on a full disk, delete orphan files or statistics and try again, without a quarantine."""
    has_cleaned_up = False
    while True:
        try:
            return _clean(table, find_expired=find_expired, timing=timing, scope=scope)
        except LATE_FAILURES as error:
            if not is_full(error):
                raise
            # Only once, because each failed attempt leaves new orphan files.
            freed = 0 if has_cleaned_up else _clean_up_without_room(table, timing)
            has_cleaned_up = True
            scope = replace(scope, quarantine_seconds=None)
            if not freed and not drop_statistics(table.store):
                raise


def _clean_up_without_room(table: TableHandle, timing: Timing) -> int:
    """Delete orphan files and leftovers without writing a file, and return how many were deleted.

    The quarantine gives way too, because moving a file to it makes no room.
    """
    table.check_owner()
    what = "some orphans are left until the disk has room"
    with logging_failures(table.store.uri, what, shown=table.cleared):
        scope = _Scope(whole_table=True, quarantine_seconds=None)
        orphans, leftovers = _clean_up(table, table.timeline(), timing=timing, scope=scope)
        return orphans.deleted + leftovers
    return 0


def _clean(table: TableHandle, *, find_expired: _FindExpired, timing: Timing, scope: _Scope) -> CleanResult:
    """Recover, finish pending cleans, delete expired versions, and clean up after dead writes."""
    store = table.store
    timeline = recovered_timeline(table, timing=timing)
    # A change of the version may take over writes whose files are orphans until then.
    if changes := _finish_changes(table, timing) if scope.whole_table else 0:
        timeline = recovered_timeline(table, timing=timing)
    instant, deleted = None, 0
    if pending_cleans(timeline, ours=True):
        with locked_session(table, timeline, purpose="clean", timing=timing):
            deleted += finish_cleans(table, timeline.reload())
        timeline = timeline.reload()
    expiry = find_expired(timeline)
    if expiry is not None and expiry.count > 0:

        def unnamed(timeline: Timeline) -> Expiry | None:
            return _unnamed(table, timeline, find_expired(timeline))

        instant, count = _delete_expired(table, timeline, _unnamed(table, timeline, expiry), unnamed, timing)
        deleted += count
    elif expiry is not None and not expiry.is_partial:
        note_progress(
            store,
            CleanProgress(
                earliest=expiry.limits.earliest,
                last_completed=timeline.completed_writes[-1].time,
                barrier=expiry.limits.barrier,
                savepoints=timeline.savepoints,
            ),
        )
    if expiry is not None and (expiry.count > 0 or not expiry.is_partial):
        # By number, no state before the newest is sure to have all its files.
        expire_published(table, expiry.limits.earliest or timeline.completed_writes[-1].time)
    orphans, leftovers = OrphanCleanup(deleted=0, moved=0, instants=frozenset()), 0
    try:
        orphans, leftovers = _clean_up(table, timeline, timing=timing, scope=scope)
    except LATE_FAILURES as error:
        if instant is None:
            raise
        what = f"{store.uri}: the clean {instant} is committed, orphans are left behind"
        log_failure(_LOG, what, error, table.shown_by, location=store.uri)
    return CleanResult(
        instant=instant,
        files_deleted=deleted,
        orphans_deleted=orphans.deleted,
        leftovers_deleted=leftovers + changes,
        orphans_moved=orphans.moved,
    )


def _clean_up(
    table: TableHandle, timeline: Timeline, *, timing: Timing, scope: _Scope
) -> tuple[OrphanCleanup, int]:
    """Remove orphan files and delete leftovers of dead writes; return both results."""
    store = table.store
    table.check_owner()
    view = table.view(timeline)
    partitions = set(view.partitions()) if scope.whole_table else set()
    partitions |= _partitions_of_rolled_back_writes(timeline)
    partitions |= partitions_with_abandoned(store)
    view.list_partitions(sorted(partitions))
    files = [info for partition in sorted(partitions) for info in view.listing(partition)]
    listed_ms = store.now_ms()
    below_hoodie = store.list(TIMELINE_FOLDER, recursive=True)
    current = table.timeline()
    # In a timeline that is being deleted, files of completed writes look like orphans.
    table.check_layout()
    cleaned = remove_orphans(
        files,
        below_hoodie,
        current,
        quarantine_seconds=scope.quarantine_seconds,
        listed_ms=listed_ms,
        timing=timing,
    )
    stale = stale_statistics(below_hoodie, timeline, cleaned.instants) if scope.whole_table else ()
    leftovers = delete_leftovers(below_hoodie, current, listed_ms=listed_ms, further=stale, timing=timing)
    return cleaned, leftovers


def _finish_changes(table: TableHandle, timing: Timing) -> int:
    """Finish interrupted changes of the table, and return the number of changes.

    These are the drop of a metadata table and the change of the version.
    """
    store = table.store
    if all(store.stat(path) is None for path in (METADATA_DROP_PATH, VERSION_CHANGE_PATH)):
        return 0
    with locked_session(table, table.timeline(), purpose="clean", timing=timing):
        return finish_drop(store) + finish_version_change(store)


def _expired_by_policy(
    table: TableHandle, timeline: Timeline, *, policy: RetentionPolicy, whole_table: bool
) -> Expiry | None:
    """Return the files that have expired under the policy, or None if nothing may be deleted."""
    limits = clean_horizon(timeline, policy, table.config, now_ms=table.store.now_ms())
    if limits is None:
        return None
    view = table.view(timeline)
    partitions = None
    if not whole_table:
        partitions = partitions_to_check(timeline, limits, read_progress(timeline))
    return plan_expiry(view, limits, view.partitions() if partitions is None else partitions)


def _unnamed(table: TableHandle, timeline: Timeline, expiry: Expiry | None) -> Expiry | None:
    """Publish the table, and return the expiry without the files that its formats name nevertheless.

    The table is published after its expired files were found: what is published before that may name one.
    """
    if expiry is None or expiry.count == 0:
        return expiry
    return without_files(expiry, files_still_named(table), timeline)


def _delete_expired(
    table: TableHandle, timeline: Timeline, expiry: Expiry | None, find_expired: _FindExpired, timing: Timing
) -> tuple[str | None, int]:
    """Request and execute a clean; return its instant and file count, or (None, 0) if nothing is due."""
    store, zone = table.store, table.config.timezone
    with open_session(
        store, purpose="clean", after=timeline.last_instant, zone=zone, timing=timing
    ) as session:
        requested = timeline.layout.requested(session.instant, Action.CLEAN)
        plan: CleanerPlan | None = None
        is_overtaken = False
        for round_number in range(1_000_000):
            with table_lock(table, session) as lock:
                current = timeline.reload()
                # The cleans of a timeline are in the order of the states that they saw, so that readers check
                # only a few.
                is_overtaken = any(clean.time > requested.time for clean in current.of(Action.CLEAN))
                # A pending rollback restores older versions, which look expired until it is done.
                is_overtaken = is_overtaken or bool(invalid_completed_writes(current))
                if is_overtaken:
                    break
                if _plan_inputs(current) != _plan_inputs(timeline):
                    timeline, expiry = current, None
                    if round_number >= _PLANS_WITHOUT_LOCK:
                        expiry = find_expired(timeline)
                if expiry is not None and expiry.count > 0:
                    plan = cleaner_plan(store, timeline, expiry)
                    store.put_if_absent(requested.path, plan.encode())
                    # A process that took over the lock may have created a savepoint or restored at the same
                    # time.
                    if lock.is_held() or not withdraw_request(store, requested):
                        break
                    plan, expiry = None, None
            if expiry is None:
                expiry = find_expired(timeline)
            if expiry is None or expiry.count == 0:
                break
        count = 0 if plan is None else execute_clean(table, requested, plan)
        session.acknowledge()
    if is_overtaken:
        timeline = recover(table, timeline.reload(), timing=timing)
        return _delete_expired(table, timeline, None, find_expired, timing)
    return (None, 0) if plan is None else (requested.time, count)


def _plan_inputs(timeline: Timeline) -> tuple[object, ...]:
    """Return the parts of the timeline on which the plan of a clean depends, to compare two timelines."""
    pending = tuple(instant.time for instant in timeline.pending_writes)
    return (timeline.completed_writes, pending[:1], timeline.savepoints, timeline.of(Action.RESTORE))


def _partitions_of_rolled_back_writes(timeline: Timeline) -> set[str]:
    """Return the partitions in which tasks of rolled back writes may have written files afterwards."""
    touched: set[str] = set()
    for rollback in timeline.of(Action.ROLLBACK, state=State.COMPLETED):
        touched |= set(timeline.rollback_metadata(rollback.time).partitions)
    return touched
