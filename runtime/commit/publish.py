"""The one place where a write becomes a commit.

A write announces itself, writes its files, and is then published under the table's lock, after all
it relied on has been checked again. Its completed file on the timeline is the commit, and nothing
else is. A write that lost is undone and done again on what the winner left.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from enum import Enum, auto
from itertools import count
from typing import Final

from parquetry.errors import message_of
from parquetry.message import Message, joined
from parquetry.runtime.commit.conflicts import Conflict, Verdict, work_of_outcome
from parquetry.runtime.commit.outcome import CommitResult, WriteOutcome
from parquetry.runtime.commit.recovery import withdraw_pending
from parquetry.runtime.commit.rollback import find_rollback_of
from parquetry.runtime.commit.transaction import Transaction, begin, checked_record
from parquetry.runtime.commit.validation import NONCE_KEY, SOURCES_KEY, read_ahead, revalidate, validate
from parquetry.runtime.errors import (
    ConflictError,
    NotFoundError,
    RetryWrite,
    StaleTimelineError,
    StorageError,
    UnknownOutcomeError,
)
from parquetry.runtime.spec.masking import masked_message
from parquetry.runtime.storage.open import PutOutcome
from parquetry.runtime.storage.os_errors import FAILURES
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.table.creation import TABLE_ID_KEY, VERSION_KEY
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import SCHEMA_KEY, CommitMetadata
from parquetry.runtime.timeline.instant import Action, State
from parquetry.runtime.timeline.markers import remove_markers
from parquetry.runtime.timing import DEFAULT_TIMING, Timing
from parquetry.version import VERSION

_LOG = logging.getLogger(__name__)

Narrow = Callable[[WriteOutcome, Timeline], WriteOutcome | None]
"""Which part of a write still holds by the timeline as it is now, asked while the lock is held."""

APPLIED_KEY: Final = "parquetry.applied"
PLAN_KEY: Final = "parquetry.plan_id"

_ATTEMPTS_TO_READ_BACK: Final = 5


class _ConflictFound(Exception):  # noqa: N818 - a signal between publishing and the retry loop
    """The transaction may not be published; it has been undone."""

    def __init__(self, conflict: Conflict) -> None:
        super().__init__(conflict.reason)
        self.conflict = conflict


def run_write(
    table: TableHandle,
    *,
    action: Action,
    operation: str,
    body: Callable[[Transaction], WriteOutcome | None],
    timing: Timing = DEFAULT_TIMING,
) -> CommitResult:
    """The result of a write that was published, or found to be unnecessary.

    ``body`` writes the files of a transaction and says what they are; None means that there is
    nothing to write. It is called again, with a new transaction, when another writer got ahead.
    ``operation`` is Hudi's name for it.

    Raises ConflictError when the write lost too often or may not follow what another writer did,
    UnknownOutcomeError when the store did not say whether the commit was written (the next write
    finds out), and whatever ``body`` raises, after the transaction was rolled back.
    """
    reasons: list[str] = []
    run: str | None = None
    for attempt in count():
        if attempt > 0:
            table = table.reopen()
        try:
            with begin(
                table, action=action, operation=operation, timing=timing, run=run, attempt=attempt
            ) as transaction:
                run = transaction.run
                outcome = _written(transaction, body)
                if outcome is None:
                    transaction.roll_back()
                    return _result(transaction, None, reasons)
                outcome, warnings = _publish(transaction, outcome)
        except (RetryWrite, StaleTimelineError) as lost:
            conflict = Conflict(verdict=Verdict.RETRY, reason=message_of(lost))
        except _ConflictFound as lost:
            conflict = lost.conflict
        else:
            return _result(transaction, outcome, reasons, warnings=warnings)
        shown = masked_message(conflict.reason, table.spec, location=table.store.uri)
        _LOG.info("%s: attempt %d lost: %s", table.store.uri, attempt, shown)
        reasons.append(conflict.reason)
        if conflict.verdict is Verdict.SUPERSEDED:
            return CommitResult(
                instant=None,
                action=action,
                operation=operation,
                superseded=True,
                retries=attempt,
                retry_reasons=tuple(reasons),
            )
        if conflict.verdict is Verdict.REFUSED:
            text = joined("", (f"{table.store.uri}: ", conflict.reason, "; nothing was written"))
            raise ConflictError(text)
        if attempt >= timing.retries:
            raise ConflictError(
                Message(
                    f"{table.store.uri}: lost {attempt + 1} times to other writers, at last because ",
                    conflict.reason,
                    "; run again when fewer of them write the same files",
                )
            )
    raise AssertionError


def _written(
    transaction: Transaction, body: Callable[[Transaction], WriteOutcome | None]
) -> WriteOutcome | None:
    """What the body has written; when it raises, the transaction is undone first.

    Whatever a body dies of after another writer has rolled its transaction back is due to that:
    its files were deleted under its hands. It is then tried again.
    """
    try:
        outcome = body(transaction)
        if outcome is not None:
            transaction.ensure_inflight()
            for path, content in outcome.sidecars:
                # Nobody could read more, and footers say the same.
                if len(content) <= MOST_BYTES:
                    transaction.store.put(path, content)
    except BaseException as error:
        was_rolled_back = isinstance(error, Exception) and _was_rolled_back(transaction)
        _roll_back_after(transaction, error)
        if was_rolled_back and not isinstance(error, RetryWrite):
            raise RetryWrite(f"another writer has rolled {transaction.instant} back") from error
        raise
    return outcome


def _was_rolled_back(transaction: Transaction) -> bool:
    """Whether another writer has taken the transaction for dead and undone it, or is about to."""
    requested = transaction.state(State.REQUESTED)
    try:
        now = transaction.timeline.reload()
        return requested.file_name not in now.files or find_rollback_of(now, requested.time) is not None
    except FAILURES:
        return False


def run_once(
    transaction: Transaction,
    *,
    body: Callable[[Transaction], WriteOutcome | None],
    narrow: Narrow,
) -> CommitResult:
    """The result of one attempt of a write that gives way to every other one: clustering.

    ``narrow`` is asked under the lock which part of the outcome still holds, and has deleted the files
    of the rest when it answers: the same outcome for all of it, None for no part. What is lost is not
    tried again: the result then has no instant, and says why.
    """
    reasons: list[str] = []
    outcome: WriteOutcome | None = None
    warnings: tuple[str, ...] = ()
    try:
        outcome = _written(transaction, body)
        if outcome is None:
            transaction.roll_back()
        else:
            outcome, warnings = _publish(transaction, outcome, narrow=narrow)
    except (RetryWrite, StaleTimelineError) as lost:
        outcome, reasons = None, [message_of(lost)]
    except _ConflictFound as lost:
        outcome, reasons = None, [lost.conflict.reason]
    return _result(transaction, outcome, reasons, warnings=warnings)


def _publish(
    transaction: Transaction, outcome: WriteOutcome, *, narrow: Narrow | None = None
) -> tuple[WriteOutcome | None, tuple[str, ...]]:
    """Make the write a commit; answers what was published and what could not be tidied up.

    Raises _ConflictFound when it may not be. Nothing is published, and the write rolled back, when ``narrow``
    leaves nothing of it.
    """
    publication = _Publication(transaction, outcome)
    try:
        published = publication.publish(narrow)
    except _ConflictFound:
        raise
    except BaseException as error:
        if not publication.is_committed_after(error):
            publication.roll_back_after(error)
            raise
        why = message_of(error)
        checked = f"the commit {transaction.instant} is complete, but could not be checked again: "
        warning = joined("", (checked, why))
        return publication.outcome, (warning, *_tidy(transaction))
    return published, () if published is None else _tidy(transaction)


class _State(Enum):
    """How far the publication of a write is; what a failure undoes depends on it."""

    PENDING = auto()
    """The completed file was not read back: it is not there, or the store failed while it was put."""
    PUBLISHED = auto()
    """The completed file is there; the write only remains to be validated again if the lock was lost."""
    REJECTED = auto()
    """The write may not be a commit and is undone, even if it was published."""


class _Publication:
    """A write on its way to be a commit, and what is to be done about a failure on that way.

    ``outcome`` is the part of the write that still holds.
    """

    def __init__(self, transaction: Transaction, outcome: WriteOutcome) -> None:
        self.outcome = outcome
        self._transaction = transaction
        self._state = _State.PENDING
        self._content = b""

    def publish(self, narrow: Narrow | None) -> WriteOutcome | None:
        """What was published; None when ``narrow`` leaves nothing, and the write was undone.

        Raises _ConflictFound when the write may not be a commit, after it was undone.
        """
        transaction = self._transaction
        ahead = read_ahead(transaction, self.outcome)
        self._content = _content(transaction, self.outcome)
        validated = ahead.timeline
        while True:
            with transaction.table_lock() as lock:
                if self._state is _State.PUBLISHED:
                    self._reject_for(revalidate(transaction, self.outcome, validated))
                else:
                    validated = ahead.timeline.reload()
                    if not self._holds(narrow, validated):
                        transaction.roll_back(also=_paths(self.outcome), is_locked=True)
                        return None
                    self._reject_for(validate(transaction, self.outcome, ahead, validated))
                    if lock.is_held() and _put_commit(transaction, self.outcome, self._content, validated):
                        self._state = _State.PUBLISHED
                # After a pause longer than the lease somebody else may have published beside us, or be about
                # to take the lock away and have begun with the rollback.
                if self._state is _State.PUBLISHED and lock.is_held() and not _was_rolled_back(transaction):
                    return self.outcome

    def is_committed_after(self, error: BaseException) -> bool:
        """Whether the write is a commit, though ``error`` ended its publication.

        Only failures of the store leave that open. A failed put may have come through, so the completed file
        is read, unless the store says itself that its outcome is unknown. What was published stands.
        """
        if not isinstance(error, FAILURES):
            return False
        match self._state:
            case _State.PENDING:
                is_unknown = isinstance(error, UnknownOutcomeError)
                stands = not is_unknown and _is_there(self._transaction, self._content)
            case _State.PUBLISHED:
                stands = True
            case _State.REJECTED:
                stands = False
        return stands and not _was_rolled_back(self._transaction)

    def roll_back_after(self, error: BaseException) -> None:
        """Undo what ``error`` ended; a write of unknown outcome is left to the next writer."""
        if not isinstance(error, UnknownOutcomeError):
            _roll_back_after(self._transaction, error, self.outcome)

    def _holds(self, narrow: Narrow | None, now: Timeline) -> bool:
        """Whether something of the write still holds, which it is narrowed to."""
        narrowed = self.outcome if narrow is None else narrow(self.outcome, now)
        if narrowed is not None and narrowed is not self.outcome:
            self.outcome, self._content = narrowed, _content(self._transaction, narrowed)
        return narrowed is not None

    def _reject_for(self, conflict: Conflict | None) -> None:
        """Roll the write back and raise _ConflictFound if there is a conflict; the lock is held.

        If undoing fails the next writer does it. Unless the write was published: nobody takes that back, so
        the error is raised.
        """
        if conflict is None:
            return
        was_published = self._state is _State.PUBLISHED
        self._state = _State.REJECTED
        try:
            self._transaction.roll_back(also=_paths(self.outcome), is_locked=True)
        except StorageError as failure:
            if was_published:
                raise
            table, instant = self._transaction.table, self._transaction.instant
            reason = masked_message(failure.message, table.spec, location=table.store.uri)
            _LOG.warning("%s is left pending, the next write rolls it back: %s", instant, reason)
        raise _ConflictFound(conflict)


def _content(transaction: Transaction, outcome: WriteOutcome) -> bytes:
    metadata = CommitMetadata(
        operation=outcome.operation,
        stats=outcome.stats,
        replaced=outcome.replaced,
        extra=_extra(transaction, outcome),
    )
    return checked_record(metadata, place=transaction.table.store.uri)


def _put_commit(transaction: Transaction, outcome: WriteOutcome, content: bytes, now: Timeline) -> bool:
    """Put the completed file and read it back; True when it is there.

    Clustering plans that it puts out of date are withdrawn before.

    False when the file is gone again: another writer has rolled the write back.
    """
    touched = work_of_outcome(transaction.instant, outcome).touched
    withdraw_pending(touched, now, but=transaction.instant)
    completed = transaction.state(State.COMPLETED)
    nonce = transaction.session.claim.owner.nonce
    put = transaction.store.put_if_absent(completed.path, content, nonce=nonce)
    for _ in range(_ATTEMPTS_TO_READ_BACK):
        try:
            there = transaction.store.read(completed.path)
        except NotFoundError:
            return False
        except FAILURES:
            # The put was acknowledged: not being able to look does not undo it.
            continue
        return there == content
    return put is not PutOutcome.LOST


def _is_there(transaction: Transaction, content: bytes) -> bool:
    """Whether the completed file stands as it was to be put, though the store reported a failure."""
    try:
        return transaction.store.read(transaction.state(State.COMPLETED).path) == content
    except FAILURES:
        return False


def _extra(transaction: Transaction, outcome: WriteOutcome) -> Mapping[str, str]:
    table = transaction.table
    sources = sorted({consumption.source for consumption in outcome.footprint.consumed})
    marks = {
        SCHEMA_KEY: outcome.schema_json,
        VERSION_KEY: VERSION,
        TABLE_ID_KEY: table.table_id or "",
        APPLIED_KEY: "" if table.applied is None else str(table.applied.number),
        PLAN_KEY: (table.applied.plan_id or "") if table.applied is not None else "",
        SOURCES_KEY: json.dumps(sources) if sources else "",
        NONCE_KEY: transaction.session.claim.owner.nonce,
    }
    return {**{key: value for key, value in marks.items() if value}, **outcome.extra}


def _roll_back_after(
    transaction: Transaction, error: BaseException, outcome: WriteOutcome | None = None
) -> None:
    """Undo what ``error`` ended, unless it is committed already; failing at that hides no error."""
    try:
        if transaction.store.stat(transaction.state(State.COMPLETED).path) is None:
            transaction.roll_back(also=_paths(outcome))
        elif not _was_rolled_back(transaction):
            error.add_note(f"the commit {transaction.instant} is complete")
    except FAILURES as failure:
        table = transaction.table
        reason = masked_message(message_of(failure), table.spec, location=table.store.uri)
        error.add_note(f"{transaction.instant} is left pending, the next write rolls it back: {reason}")


def _tidy(transaction: Transaction) -> tuple[str, ...]:
    """Remove what only a pending write needs; the next clean does it else."""
    left: list[str] = []
    try:
        remove_markers(transaction.store, transaction.instant)
    except FAILURES as error:
        left.append(message_of(error))
    left += transaction.session.acknowledge()
    return tuple(
        joined("", (f"{transaction.instant} was committed, but could not be tidied up after: ", reason))
        for reason in left
    )


def _paths(outcome: WriteOutcome | None) -> list[str]:
    return [] if outcome is None else [stat.path for stats in outcome.stats.values() for stat in stats]


def _result(
    transaction: Transaction,
    outcome: WriteOutcome | None,
    reasons: list[str],
    *,
    warnings: tuple[str, ...] = (),
) -> CommitResult:
    stats = [] if outcome is None else [stat for group in outcome.stats.values() for stat in group]
    return CommitResult(
        instant=None if outcome is None else transaction.instant,
        action=transaction.action,
        operation=transaction.operation,
        inserted_rows=sum(stat.num_inserts for stat in stats),
        updated_rows=sum(stat.num_update_writes for stat in stats),
        deleted_rows=sum(stat.num_deletes for stat in stats),
        files_added=sum(stat.prev_commit is None for stat in stats),
        files_rewritten=sum(stat.prev_commit is not None for stat in stats),
        groups_replaced=0 if outcome is None else sum(len(ids) for ids in outcome.replaced.values()),
        bytes_written=sum(stat.file_size_bytes for stat in stats),
        retries=transaction.attempt,
        retry_reasons=tuple(reasons),
        warnings=warnings,
    )
