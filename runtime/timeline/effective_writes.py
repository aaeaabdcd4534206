"""The state of the write to which a sidecar belongs. A sidecar counts as long as its write is in effect."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cached_property

from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.archive_log import ArchivedInstant
from parquetry.runtime.timeline.instant import Action, Instant, State
from parquetry.runtime.timeline.layout import ArchivedFile
from parquetry.runtime.timeline.rollback import RollbackMetadata
from parquetry.runtime.timeline.sidecars import claim_path


class WriteState(StrEnum):
    """The state of a write."""

    COMPLETED = "completed"
    """In effect and still on the timeline, so a rollback is possible."""
    SETTLED = "settled"
    """In effect and no longer on the timeline, so no rollback is possible."""
    ROLLED_BACK = "rolled back"
    """Not in effect, and no longer on the timeline, so it never will be."""
    NOT_IN_EFFECT = "open"
    """Not in effect as far as the timeline shows. The write may be pending."""


class EffectiveWrites:
    """The states of writes, according to the timeline and, for archived instants, the archive log.

    Hudi does not delete our sidecars when it rolls a write back, and may archive the timeline past it later.
    So an archived write counts as in effect, unless a rollback or restore names it, or one log file contains
    the writes before and after it but not the write itself. A log file that is missing or unreadable is no
    evidence against a write. Log files are read only as far back as needed. Callers that remember a state do
    not ask for it again.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._states: dict[str, WriteState] = {}

    @property
    def has_unknown_writes(self) -> bool:
        """True if the archive log was needed for the state of a write."""
        return bool(self._states)

    def counts(self, instant: str, *, is_settled: bool = False) -> bool:
        """Return whether the write is in effect. The parameters are those of :meth:`state_of`."""
        return self.state_of(instant, is_settled=is_settled) in (WriteState.COMPLETED, WriteState.SETTLED)

    def state_of(self, instant: str, *, is_settled: bool = False) -> WriteState:
        """Return the state of the write.

        Args:
            instant: The time of the write.
            is_settled: Whether the caller already knows that the write is in effect if it is no longer on the
                timeline. The archive log is then not read.

        """
        if self._timeline.is_completed(instant):
            return WriteState.COMPLETED
        if not self._timeline.counts_as_archived(instant):
            return WriteState.NOT_IN_EFFECT
        if is_settled:
            return WriteState.SETTLED
        if instant not in self._states:
            was_rolled_back = self._timeline.was_rolled_back(instant) or self._archive.contradicts(instant)
            self._states[instant] = WriteState.ROLLED_BACK if was_rolled_back else WriteState.SETTLED
        return self._states[instant]

    @cached_property
    def _archive(self) -> _Archive:
        return _Archive(self._timeline.layout.archived(self._timeline.store))


class _Archive:
    """The writes in the archive. Its files are read from the newest to the oldest, as far as needed."""

    def __init__(self, files: Iterator[ArchivedFile]) -> None:
        self._unread = files
        self._is_complete = True
        self._completed: dict[str, int] = {}
        self._rolled_back: set[str] = set()

    def contradicts(self, time: str) -> bool:
        """Return whether the archive log shows that the write was rolled back.

        That is so if the log contains a rollback of it, or if one log file contains the completed writes just
        before and just after it but not the write itself.
        """
        while time not in self._completed and time not in self._rolled_back:
            log = next(self._unread, None)
            if log is None:
                return self._is_missing_between(time)
            self._add_log(*log)
        return time in self._rolled_back

    def _add_log(self, number: int, log: Iterable[ArchivedInstant] | None) -> None:
        """Add the writes of a log file, which is None if it cannot be read.

        Files are taken from the newest to the oldest. If two of them disagree about a write, the newer one
        counts.
        """
        if log is None:
            self._is_complete = False
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

    def _is_missing_between(self, time: str) -> bool:
        """Return whether one log file contains the writes just before and just after ``time``.

        The function is called if all log files lack the write. If a file could not be read, the result is
        False.
        """
        position = bisect_left(self._times, time)
        if not self._is_complete or position in (0, len(self._times)):
            return False
        before, after = self._times[position - 1 : position + 1]
        return self._completed[before] == self._completed[after]

    @cached_property
    def _times(self) -> list[str]:
        """The times of all completed writes, ascending. All files have been read before this is used."""
        return sorted(self._completed)


def writes_being_rolled_back(timeline: Timeline, rollback_steps: Iterable[Instant]) -> set[str]:
    """Return the times of the writes that these rollbacks and restores undo, including completed writes."""
    victims: set[str] = set()
    for rollback_step in rollback_steps:
        if rollback_step.action is Action.RESTORE:
            victims.update(victim.time for victim in timeline.restore_plan(rollback_step.time).instants)
        else:
            victims.add(timeline.rollback_plan(rollback_step.time).instant.time)
    return victims


def invalid_completed_writes(timeline: Timeline) -> tuple[str, ...]:
    """Return the times of the completed writes that are going to be rolled back.

    Either a rollback or restore of them has started, or their writer completed them without noticing that
    they had been rolled back. Until the next writer has finished the rollback, no write may use their rows,
    and no slice that they supersede may be deleted.
    """
    rollback_steps = (*timeline.of(Action.ROLLBACK), *timeline.of(Action.RESTORE))
    victims = writes_being_rolled_back(
        timeline, (rollback_step for rollback_step in rollback_steps if not rollback_step.is_completed)
    )
    victims.update(instant.time for instant in completed_after_rollback(timeline))
    return tuple(instant.time for instant in timeline.completed_writes if instant.time in victims)


def completed_after_rollback(timeline: Timeline) -> tuple[Instant, ...]:
    """Return the completed writes that had been rolled back before their writer completed them.

    This happens if a writer is suspended and does not notice that another one rolls its write back. Such a
    write lacks its requested file, which the rollback deleted.
    """
    rollbacks = timeline.of(Action.ROLLBACK, state=State.COMPLETED)
    restores = timeline.of(Action.RESTORE, state=State.COMPLETED)
    without_requested = [
        instant
        for instant in timeline.completed_writes
        if (rollbacks or restores) and instant.requested.file_name not in timeline.files
    ]
    if not without_requested:
        return ()
    rolled_back = {i.time for r in rollbacks for i in timeline.rollback_metadata(r.time).instants}
    rolled_back |= {i.time for r in restores for i in timeline.restore_plan(r.time).instants}
    return tuple(
        instant
        for instant in without_requested
        if instant.time in rolled_back and timeline.store.stat(claim_path(instant.time)) is not None
    )
