"""Unfinished work of other writers, and what a new write has to do about it first.

Under the lock, dead writes of this project are rolled back, and their rollbacks and restores are finished,
newest first, as Hudi requires (BaseRollbackActionExecutor.validateRollbackCommitSequence of Hudi 0.15).
Pending work of another program is never touched, because that program may be alive.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from parquetry.message import Message, Value, command
from parquetry.runtime.commit.claims import Claim, Session, heartbeat_path, is_alive, read_claim
from parquetry.runtime.commit.restore_execution import finish_restore
from parquetry.runtime.commit.rollback import finish_rollback, has_quarantine, roll_back
from parquetry.runtime.commit.table_lock import locked_session
from parquetry.runtime.errors import ConflictError
from parquetry.runtime.table.admission import check_stored_columns, check_writable
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.effective_writes import completed_after_rollback, writes_being_rolled_back
from parquetry.runtime.timeline.instant import Action, Instant, State
from parquetry.runtime.timeline.sidecars import claim_path, sample_path
from parquetry.runtime.timing import Timing

_LOG = logging.getLogger(__name__)

SCHEDULED: Final = "clustering plan"
"""The purpose of a claim on an instant whose clustering plan another process may execute."""

_HUDI_HEARTBEAT_SECONDS = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """The pending instants, by what is to be done about them.

    ``own_rollbacks`` are rollbacks and restores that this project began. ``dead`` are writes of this project
    whose writer is gone. ``completed_after_rollback`` are writes that were completed after their rollback.
    ``blocking`` are rollbacks and restores of another program, and ``foreign`` are writes of another program.
    """

    own_rollbacks: tuple[Instant, ...]
    dead: tuple[Instant, ...]
    completed_after_rollback: tuple[Instant, ...]
    blocking: tuple[Instant, ...]
    foreign: tuple[Instant, ...]

    @property
    def needs_lock(self) -> bool:
        """True if a new write has to take the lock first, to finish or to roll back work."""
        return bool(self.own_rollbacks or self.dead or self.completed_after_rollback)


def recovered_timeline(table: TableHandle, *, timing: Timing, known: Timeline | None = None) -> Timeline:
    """Load the timeline of a table, recover from dead writes of this project, and return the new timeline.

    A ``known`` timeline without a pending instant is not loaded again: a write that is begun and abandoned
    after it counts as one that is begun after this call.

    Raises:
        UnsupportedTableError: If the table must not be written to.
        ConflictError: As in :func:`recover`.
    """
    if known is None or any(not instant.is_completed for instant in known.instants):
        known = table.timeline()
    return recovered(table, known, timing=timing)


def recovered(table: TableHandle, timeline: Timeline, *, timing: Timing) -> Timeline:
    """Check that the table may be written to, recover from dead writes, and return the new timeline.

    The errors are those of :func:`recovered_timeline`.
    """
    check_writable(table, timeline, table.store.now_ms())
    check_stored_columns(table)
    return recover(table, timeline, timing=timing)


def recover(table: TableHandle, timeline: Timeline, *, timing: Timing) -> Timeline:
    """Roll back or finish all dead work of this project, and return the new timeline.

    Raises:
        ConflictError: If another program has left a write, a rollback or a restore pending that may be alive.
            The message contains the command that removes it.
    """
    store = table.store
    started_ms = store.now_ms()
    round_number = 0
    while True:
        unfinished = find_unfinished(timeline, timing)
        _raise_if_abandoned(timeline, unfinished.foreign, timing)
        if unfinished.needs_lock:
            with locked_session(table, timeline, purpose="recovery", timing=timing) as (session, _):
                _finish(table, session, timeline.reload())
        elif unfinished.blocking:
            if store.now_ms() - started_ms > timing.foreign_lock_seconds * 1000:
                raise _blocked_error(timeline, unfinished.blocking[0])
            timing.poll(round_number)
            round_number += 1
        else:
            return timeline
        timeline = timeline.reload()


def find_unfinished(timeline: Timeline, timing: Timing) -> Unfinished:
    """Return the pending work that prevents a new write. Only pending instants cost storage requests."""
    store = timeline.store
    own_rollbacks: list[Instant] = []
    blocking: list[Instant] = []
    for action in (Action.RESTORE, Action.ROLLBACK):
        for instant in timeline.of(action):
            if not instant.is_completed:
                is_own = store.stat(claim_path(instant.time)) is not None
                (own_rollbacks if is_own else blocking).append(instant)
    dead: list[Instant] = []
    foreign: list[Instant] = []
    being_rolled_back = writes_being_rolled_back(timeline, [*own_rollbacks, *blocking])
    for instant in reversed(timeline.pending_writes):
        if instant.time in being_rolled_back:
            continue
        claim = read_claim(store, instant.time)
        if claim is None:
            foreign.append(instant)
        elif not (is_alive(store, claim, timing) or _is_scheduled_plan(timeline, instant, claim, timing)):
            dead.append(instant)
    return Unfinished(
        own_rollbacks=tuple(own_rollbacks),
        dead=tuple(dead),
        completed_after_rollback=completed_after_rollback(timeline),
        blocking=tuple(blocking),
        foreign=tuple(foreign),
    )


def _is_scheduled_plan(timeline: Timeline, instant: Instant, claim: Claim, timing: Timing) -> bool:
    """Return whether the instant is a scheduled clustering plan that waits and has not expired."""
    requested = timeline.files.get(instant.requested.file_name)
    if claim.purpose != SCHEDULED or instant.state is not State.REQUESTED or requested is None:
        return False
    return timeline.store.now_ms() - requested.modified_ms <= timing.plan_expires_seconds * 1000


def _finish(table: TableHandle, session: Session, timeline: Timeline) -> None:
    """Finish pending rollbacks and restores and roll back dead writes; the lock must be held.

    The files of dead writes are moved to the quarantine if the table has one. Those of a rollback that was
    begun are too, because it does not record who began it.
    """
    timing = session.timing
    keeps_files = has_quarantine(session.store)
    for restore in find_unfinished(timeline, timing).own_rollbacks:
        if restore.action is Action.RESTORE:
            partitions = table.view(timeline).partitions()
            finish_restore(session, timeline, restore, partitions=partitions)
            timeline = timeline.reload()
    for rollback in find_unfinished(timeline, timing).own_rollbacks:
        finish_rollback(timeline, rollback, keeps_files=keeps_files)
    unfinished = find_unfinished(timeline.reload(), timing)
    for instant in (*unfinished.dead, *unfinished.completed_after_rollback):
        result = roll_back(session, timeline.reload(), instant, keeps_files=keeps_files)
        if result is not None:
            _LOG.warning(
                "rolled back %s of a writer that has ended: deleted %d files%s",
                instant.time,
                result.files_deleted,
                f", moved {result.files_moved} to the quarantine" if result.files_moved else "",
            )


def foreign_clustering_conflict(groups: Collection[tuple[str, str]], timeline: Timeline) -> Message | None:
    """Return the reason why these file groups must not be changed now, or None if they may be.

    Pending clustering of another program would silently revert a change to its file groups. Hudi's own
    writers refuse such a change too (SparkRejectUpdateStrategy of Hudi 0.15).
    """
    pending = {time for group, time in timeline.groups_in_pending_clustering.items() if group in groups}
    unclaimed = {time for time in pending if read_claim(timeline.store, time) is None}
    if not unclaimed:
        return None
    # A clustering of this project removes its claim when it ends, so it may just have ended.
    for group, time in timeline.reload().groups_in_pending_clustering.items():
        if group in groups and time in unclaimed:
            return Message(
                "file group {file_group} of partition {partition} is reserved for the pending clustering "
                "{clustering} of another program; let Hudi execute it, or roll it back with {command}",
                file_group=group[1],
                partition=Value.partition(group[0]),
                clustering=time,
                command=_rollback(time),
            )
    return None


def withdraw_pending(groups: Collection[tuple[str, str]], timeline: Timeline, *, except_instant: str) -> None:
    """Withdraw this project's scheduled clustering plans that name one of the groups.

    The caller holds the lock. A program that executes such a plan from its files alone, as Hudi does, would
    revert the change of the groups. ``except_instant`` is the instant that changes them; its own plan stays.
    """
    plans = {time for group, time in timeline.groups_in_pending_clustering.items() if group in groups}
    for time in sorted(plans - {except_instant}):
        claim = read_claim(timeline.store, time)
        if claim is not None and claim.purpose == SCHEDULED:
            requested = timeline.layout.requested(time, Action.REPLACECOMMIT, is_clustering=True)
            timeline.store.delete_all([requested.path, sample_path(time)])
            _LOG.info("%s: the clustering plan %s is out of date and was withdrawn", timeline.store.uri, time)


def _raise_if_abandoned(timeline: Timeline, foreign: tuple[Instant, ...], timing: Timing) -> None:
    """Raise ConflictError if a write of another program is in flight and its writer may be dead.

    A write that is only requested has written no file. Pending clustering is left for Hudi to execute.
    """
    if not foreign:
        return
    # A write of this project removes its claim when it is completed, so it may just have been completed.
    current = timeline.reload()
    store = timeline.store
    for instant in foreign:
        if current.write_at(instant.time) != instant or instant.time in current.pending_clusterings:
            continue
        if instant.state is State.REQUESTED:
            _LOG.warning("%s: %s was requested by another program", store.uri, instant.file_name)
            continue
        beat = store.stat(heartbeat_path(instant.time))
        longest_ms = max(_HUDI_HEARTBEAT_SECONDS, timing.dead_after_seconds) * 1000
        if beat is None or store.now_ms() - beat.modified_ms > longest_ms:
            raise ConflictError(
                "{table}: another program began the write {instant} and shows no sign of life; if it "
                "has ended, roll the write back with {command}",
                table=store.uri,
                instant=instant.time,
                command=_rollback(instant.time),
            )


def _blocked_error(timeline: Timeline, instant: Instant) -> ConflictError:
    """Return the error for a pending rollback or restore of another program."""
    remedy = Message("let Hudi finish it by running a write of its own")
    if instant.action is Action.ROLLBACK:
        victim = timeline.rollback_plan(instant.time).instant.time
        remedy = Message(
            "if that program has ended, finish the rollback with {command}", command=_rollback(victim)
        )
    return ConflictError(
        "{table}: another program's {action} {instant} is in progress; try again, or {remedy}",
        table=timeline.store.uri,
        action=instant.action,
        instant=instant.time,
        remedy=remedy,
    )


def _rollback(time: str) -> Message:
    """Return the command that rolls back a write."""
    return command("service", "rollback", "TABLE", time)
