"""Which instants count: sidecars name the write they belong to, and count while it is in effect."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property

from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.archive_log import ArchivedInstant, newest_logs_first
from parquetry.runtime.timeline.instant import Action, Instant, State
from parquetry.runtime.timeline.rollback import RollbackMetadata
from parquetry.runtime.timeline.sidecars import claim_path


class WriteState(StrEnum):
    """What became of a write."""

    COMPLETED = "completed"
    """It is in effect, and on the timeline still, so that it may be undone."""
    SETTLED = "settled"
    """It is in effect and has left the timeline: nothing undoes it."""
    ROLLED_BACK = "rolled back"
    """It took no effect, and the timeline has left it behind: it never will."""
    OPEN = "open"
    """It is not in effect as far as the timeline reaches; it may be pending."""


class EffectiveWrites:
    """What the timeline says of instants, and of those that it has left behind the archive log.

    Hudi removes no sidecar of ours when it rolls a write back, and may archive past it then. So what was
    left behind took effect unless a rollback or restore names it, or a log file has writes before and
    after it and not it. A log that is not there, or cannot be read, speaks against no write. Log files are
    read as far back as is asked; who remembers what came out asks no more.
    """

    def __init__(self, timeline: Timeline, archive_folder: str) -> None:
        self._timeline = timeline
        self._archive_folder = archive_folder
        self._states: dict[str, WriteState] = {}

    @property
    def has_asked_archive(self) -> bool:
        """Whether a write that was asked for is known neither by the timeline nor by who asked."""
        return bool(self._states)

    def counts(self, instant: str, *, is_settled: bool = False) -> bool:
        """Whether the write is in effect."""
        return self.state_of(instant, is_settled=is_settled) in (WriteState.COMPLETED, WriteState.SETTLED)

    def state_of(self, instant: str, *, is_settled: bool = False) -> WriteState:
        """What became of the write; ``is_settled`` if that was found out when it had been left behind."""
        if self._timeline.is_completed(instant):
            return WriteState.COMPLETED
        if not self._timeline.is_left_behind(instant):
            return WriteState.OPEN
        if is_settled:
            return WriteState.SETTLED
        if instant not in self._states:
            was_rolled_back = self._timeline.was_rolled_back(instant) or self._archive.contradicts(instant)
            self._states[instant] = WriteState.ROLLED_BACK if was_rolled_back else WriteState.SETTLED
        return self._states[instant]

    @cached_property
    def _archive(self) -> _Archive:
        return _Archive(self._timeline.store, self._archive_folder)


class _Archive:
    """What the archive log says of writes, read from its newest file on."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._unread = newest_logs_first(store, folder)
        self._is_whole = True
        self._completed: dict[str, int] = {}
        self._rolled_back: set[str] = set()

    def contradicts(self, time: str) -> bool:
        """Whether a write is named as rolled back, or lacks between two of one log file."""
        while time not in self._completed and time not in self._rolled_back:
            log = next(self._unread, None)
            if log is None:
                return self._is_passed_over(time)
            self._take(*log)
        return time in self._rolled_back

    def _take(self, number: int, log: Iterable[ArchivedInstant] | None) -> None:
        """Note what a file says; of a write that newer files speak of these count, whatever was asked."""
        if log is None:
            self._is_whole = False
            return
        completed = [archived for archived in log if archived.state == State.COMPLETED]
        for archived in completed:
            metadata = archived.entry.get("hoodieRollbackMetadata")
            if archived.action == Action.ROLLBACK and metadata is not None:
                named = {victim.time for victim in RollbackMetadata.from_avro(metadata).instants}
                self._rolled_back |= named - self._completed.keys()
        for archived in completed:
            if archived.is_completed_write and archived.time not in self._rolled_back:
                self._completed.setdefault(archived.time, number)

    def _is_passed_over(self, time: str) -> bool:
        position = bisect_left(self._times, time)
        if not self._is_whole or position in (0, len(self._times)):
            return False
        before, after = self._times[position - 1 : position + 1]
        return self._completed[before] == self._completed[after]

    @cached_property
    def _times(self) -> list[str]:
        """All completed writes, ascending: when this is asked for, every file has been read."""
        return sorted(self._completed)


def writes_being_rolled_back(timeline: Timeline, rollback_steps: Iterable[Instant]) -> set[str]:
    """The writes that these rollbacks and restores are taking back, completed ones too."""
    victims: set[str] = set()
    for rollback_step in rollback_steps:
        if rollback_step.action is Action.RESTORE:
            victims.update(victim.time for victim in timeline.restore_plan(rollback_step.time).instants)
        else:
            victims.add(timeline.rollback_plan(rollback_step.time).instant.time)
    return victims


def completed_being_rolled_back(timeline: Timeline) -> tuple[str, ...]:
    """The completed writes that will not stand: a rollback or restore of them was begun, or slept through.

    Nothing may be built on them, nor what they cover be deleted, until the next writer has settled that.
    """
    rollback_steps = (*timeline.of(Action.ROLLBACK), *timeline.of(Action.RESTORE))
    victims = writes_being_rolled_back(
        timeline, (rollback_step for rollback_step in rollback_steps if not rollback_step.is_completed)
    )
    victims.update(instant.time for instant in rolled_back_writes(timeline))
    return tuple(instant.time for instant in timeline.completed_writes if instant.time in victims)


def rolled_back_writes(timeline: Timeline) -> tuple[Instant, ...]:
    """Completed writes that had been rolled back before: their writer slept through its own end.

    A write of this project always has a requested file, unless a rollback has removed it.
    """
    rollbacks = timeline.of(Action.ROLLBACK, state=State.COMPLETED)
    restores = timeline.of(Action.RESTORE, state=State.COMPLETED)
    suspects = [
        instant
        for instant in timeline.completed_writes
        if (rollbacks or restores) and instant.with_state(State.REQUESTED).file_name not in timeline.files
    ]
    if not suspects:
        return ()
    rolled_back = {i.time for r in rollbacks for i in timeline.rollback_metadata(r.time).instants}
    rolled_back |= {i.time for r in restores for i in timeline.restore_plan(r.time).instants}
    return tuple(
        instant
        for instant in suspects
        if instant.time in rolled_back and timeline.store.stat(claim_path(instant.time)) is not None
    )
