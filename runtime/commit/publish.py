"""The publication of a write: the only place where a write becomes a commit.

A write announces itself, writes its files, and is then published under the table's lock, after everything it
relied on has been checked again. The commit is the completed file on the timeline and nothing else. A write
that lost is rolled back and repeated on the state that the winner left.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count
from typing import Final

from parquetry.errors import message_of
from parquetry.message import Message, Text, command, message
from parquetry.runtime.commit.conflicts import Conflict, Verdict, effects_of_write
from parquetry.runtime.commit.outcome import CommitResult, WriteOutcome
from parquetry.runtime.commit.recovery import withdraw_pending
from parquetry.runtime.commit.rollback import find_rollback_of
from parquetry.runtime.commit.transaction import Transaction, begin, checked_record
from parquetry.runtime.commit.validation import (
    NONCE_KEY,
    SOURCES_KEY,
    Candidate,
    FileSizes,
    list_partitions,
    prefetch,
    revalidate,
    validate,
)
from parquetry.runtime.errors import (
    ConflictError,
    NotFoundError,
    RetryWrite,
    StaleTimelineError,
    StorageError,
    UnknownOutcomeError,
)
from parquetry.runtime.sources.ledger import record
from parquetry.runtime.spec.masking import log_failure
from parquetry.runtime.storage.model import PutOutcome
from parquetry.runtime.storage.os_errors import LATE_FAILURES
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.table.creation import TABLE_ID_KEY, VERSION_KEY
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.partition_metadata import partition_metadata_path, put_partition_metadata
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import SCHEMA_KEY, CommitMetadata
from parquetry.runtime.timeline.instant import Action, Instant
from parquetry.runtime.timing import DEFAULT_TIMING, Timing
from parquetry.version import VERSION

_LOG = logging.getLogger(__name__)

Narrow = Callable[[WriteOutcome, Timeline], WriteOutcome | None]
"""A function that returns the part of a write that is still valid at the current timeline, or None.

It is called while the lock is held.
"""

Services = Callable[[TableHandle, CommitResult, Timeline | None], CommitResult]
"""A function that runs the due services after a write, and returns its result with theirs.

It gets the table as the last attempt opened it, and the timeline that shows the commit, if it was listed.
"""

APPLIED_KEY: Final = "parquetry.applied"
PLAN_KEY: Final = "parquetry.plan_id"

_ATTEMPTS_TO_READ_BACK: Final = 5


class _ConflictFound(Exception):  # noqa: N818 - a signal between publishing and the retry loop
    """The transaction must not be published; it has been rolled back."""

    def __init__(self, conflict: Conflict) -> None:
        super().__init__(str(conflict.reason))
        self.conflict = conflict


def run_write(
    table: TableHandle,
    *,
    action: Action,
    operation: str,
    body: Callable[[Transaction], WriteOutcome | None],
    timing: Timing = DEFAULT_TIMING,
    services: Services | None = None,
    known: Timeline | None = None,
) -> CommitResult:
    """Run a write until it is published or turns out to be unnecessary, and return its result.

    If another writer gets ahead, the write is repeated with a new transaction.

    Args:
        table: The table to write to.
        action: The action on the timeline.
        operation: Hudi's name of the operation, such as "UPSERT".
        body: Writes the files of a transaction and returns what they are, or None if there is nothing to
            write. It is called again for each attempt.
        timing: The waiting periods and the number of retries.
        services: Runs the services that are due after the write, or None for no services.
        known: A timeline of the table that the caller has listed, or None.

    Raises:
        ConflictError: If the write lost too often, or must not follow a write of another writer.
        UnknownOutcomeError: If the store did not report whether the commit was written. The next write finds
            out.
        Exception: Whatever ``body`` raises, after the transaction was rolled back.
    """
    reasons: list[Text] = []
    run: str | None = None
    for attempt in count():
        if attempt > 0:
            table, known = table.reopen(), None
        try:
            with begin(
                table,
                action=action,
                operation=operation,
                timing=timing,
                run=run,
                attempt=attempt,
                known=known,
            ) as transaction:
                run = transaction.run
                candidate = _run_body(transaction, body)
                if candidate is None:
                    transaction.roll_back()
                    return _result(transaction, None, reasons)
                published = _publish(transaction, candidate)
        except (RetryWrite, StaleTimelineError) as lost:
            conflict = Conflict(verdict=Verdict.RETRY, reason=message_of(lost))
        except _ConflictFound as lost:
            conflict = lost.conflict
        else:
            result = _result(transaction, published.outcome, reasons, warnings=published.warnings)
            return result if services is None else services(table, result, published.timeline)
        uri = table.store.uri
        what = f"{uri}: attempt {attempt} lost"
        log_failure(_LOG, what, message(conflict.reason), table.shown_by, location=uri, level=logging.INFO)
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
            raise ConflictError(
                "{table}: {reason}; nothing was written", table=table.store.uri, reason=conflict.reason
            )
        if attempt >= timing.retries:
            raise ConflictError(
                "{table}: the write conflicted with other writers {attempts} times; the last time "
                "because {reason}; run it again when fewer writers change the same files",
                table=table.store.uri,
                attempts=attempt + 1,
                reason=conflict.reason,
            )
    raise AssertionError


def _run_body(
    transaction: Transaction, body: Callable[[Transaction], WriteOutcome | None]
) -> Candidate | None:
    """Run the body, and write its ledger entries and sidecars.

    If this fails, roll back the transaction first.

    If another writer has rolled back the transaction, it deleted the files of the body while the body ran.
    Any exception of the body is then taken as a consequence, and the write is repeated.
    """
    outcome = None
    try:
        outcome = body(transaction)
        if outcome is None:
            return None
        candidate = _candidate(transaction, outcome)
        transaction.ensure_inflight()
        for consumption in outcome.footprint.consumed:
            record(transaction.store, transaction.instant, consumption)
        for path, content in outcome.sidecars:
            # No reader accepts a larger sidecar, and the footers contain the same data.
            if len(content) <= MOST_BYTES:
                transaction.store.put(path, content)
    except BaseException as error:
        has_rollback = isinstance(error, Exception) and _has_rollback(transaction)
        _roll_back_after(transaction, error, outcome)
        if has_rollback and not isinstance(error, RetryWrite):
            raise RetryWrite(
                "another writer has rolled {instant} back", instant=transaction.instant
            ) from error
        raise
    return candidate


def _has_rollback(transaction: Transaction) -> bool:
    """Return whether another writer has rolled back the transaction, or is rolling it back."""
    try:
        return _is_rolled_back(transaction, transaction.timeline.reload())
    except LATE_FAILURES:
        return False


def _is_rolled_back(transaction: Transaction, current: Timeline) -> bool:
    """Return whether the timeline shows a rollback of the transaction, begun or completed."""
    requested = transaction.requested
    return requested.file_name not in current.files or find_rollback_of(current, requested.time) is not None


def run_once(
    transaction: Transaction,
    *,
    body: Callable[[Transaction], WriteOutcome | None],
    narrow: Narrow,
) -> tuple[CommitResult, Timeline | None]:
    """Make one attempt of a write that gives way to every other write (clustering).

    A lost attempt is not repeated: its result has no instant and states the reason. ``body`` is as in
    :func:`run_write`.

    ``narrow`` is called under the lock. It deletes the files of the parts that are no longer valid, and
    returns the valid part of the outcome: the same object for all of it, None for nothing.

    Returns:
        The result, and the timeline that shows the commit, if it was listed.

    """
    reasons: list[Text] = []
    published = _Published(outcome=None)
    try:
        candidate = _run_body(transaction, body)
        if candidate is None:
            transaction.roll_back()
        else:
            published = _publish(transaction, candidate, narrow=narrow)
    except (RetryWrite, StaleTimelineError) as lost:
        reasons = [message_of(lost)]
    except _ConflictFound as lost:
        reasons = [lost.conflict.reason]
    result = _result(transaction, published.outcome, reasons, warnings=published.warnings)
    return result, published.timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    """The published outcome, or None if the write was rolled back, as ``narrow`` left nothing of it.

    ``warnings`` are about files that could not be deleted. ``timeline`` is as in :data:`Services`.
    """

    outcome: WriteOutcome | None
    warnings: tuple[Text, ...] = ()
    timeline: Timeline | None = None


def _publish(transaction: Transaction, candidate: Candidate, *, narrow: Narrow | None = None) -> _Published:
    """Publish the write.

    Raises:
        _ConflictFound: If the write must not be published.
    """
    publication = _Publication(transaction, candidate)
    try:
        published = publication.publish(narrow)
    except _ConflictFound:
        raise
    except BaseException as error:
        if not publication.is_committed_after(error):
            publication.roll_back_after(error)
            raise
        warning = Message(
            "the commit {instant} is complete, but could not be checked again: {reason}",
            instant=transaction.instant,
            reason=message_of(error),
        )
        warnings = (warning, *_clean_up(transaction, candidate.outcome))
        return _Published(outcome=publication.candidate.outcome, warnings=warnings)
    if published is None:
        return _Published(outcome=None)
    warnings = _clean_up(transaction, candidate.outcome)
    return _Published(outcome=published, warnings=warnings, timeline=publication.timeline)


class _State(Enum):
    """The progress of a publication, which decides how a failure is handled."""

    PENDING = auto()
    """The completed file does not exist, or the store failed while it was put."""
    PUBLISHED = auto()
    """The completed file exists. If the lock was lost, the write still has to be validated again."""
    REJECTED = auto()
    """The write must not be a commit and is rolled back, even if it was published."""


class _Publication:
    """A publication in progress, and the handling of its failures.

    ``candidate`` is the part of the write that is still valid. ``timeline`` is the one that shows the commit,
    or None before it was listed.
    """

    def __init__(self, transaction: Transaction, candidate: Candidate) -> None:
        self.candidate = candidate
        self._transaction = transaction
        self.timeline: Timeline | None = None
        self._state = _State.PENDING
        self._completed: Instant | None = None

    def publish(self, narrow: Narrow | None) -> WriteOutcome | None:
        """Publish the write under the lock and return the published outcome.

        Returns:
            None if ``narrow`` leaves nothing; the write was then rolled back.

        Raises:
            _ConflictFound: If the write must not be a commit, after it was rolled back.
        """
        transaction = self._transaction
        prefetched = prefetch(transaction, self.candidate.outcome)
        validated = prefetched.timeline
        while True:
            with transaction.table_lock() as lock:
                if self._state is _State.PUBLISHED:
                    self._check_layout()
                    self._reject_for(revalidate(transaction, self.candidate, validated))
                else:
                    validated = prefetched.timeline.reload()
                    if not self._keep_valid_part(narrow, validated):
                        transaction.roll_back(
                            further_files=_file_paths(self.candidate.outcome), is_locked=True
                        )
                        return None
                    listings = list_partitions(transaction.store, self.candidate.outcome)
                    self._reject_for(validate(transaction, self.candidate, prefetched, validated, listings))
                    if lock.is_held() and self._put_commit(validated, listings):
                        self._state = _State.PUBLISHED
                # After a pause longer than the lease, another writer may have published at the same time, or
                # may have begun the rollback in order to remove the lock. A rollback that begins after this
                # listing finds the commit, and gives way.
                try:
                    is_published = self._state is _State.PUBLISHED and not self._finds_rollback(validated)
                except LATE_FAILURES:
                    if lock.is_held():
                        raise
                    continue
                if is_published and lock.is_held():
                    lock.release(is_confirmed=True)
                    return self.candidate.outcome

    def _finds_rollback(self, validated: Timeline) -> bool:
        """List the timeline, and return whether it shows that the write was rolled back."""
        self.timeline = validated.reload()
        return _is_rolled_back(self._transaction, self.timeline)

    def _check_layout(self) -> None:
        """Raise UnknownOutcomeError if the table got another layout after the write was published."""
        try:
            self._transaction.table.config_under_lock()
        except StaleTimelineError as error:
            raise UnknownOutcomeError(
                "{reason}; see with {command} whether it has the commit {instant}",
                reason=error.message,
                command=command("history", self._transaction.table.name),
                instant=self._transaction.instant,
            ) from error

    def is_committed_after(self, error: BaseException) -> bool:
        """Return whether the write is a commit although ``error`` ended its publication.

        Only a failure of the store leaves this open. A failed put may have taken effect, so the completed
        file is read, unless the store itself reports an unknown outcome. A published write stays published.
        """
        if not isinstance(error, LATE_FAILURES):
            return False
        match self._state:
            case _State.PENDING:
                is_unknown = isinstance(error, UnknownOutcomeError)
                is_committed = not is_unknown and self._is_stored()
            case _State.PUBLISHED:
                is_committed = True
            case _State.REJECTED:
                is_committed = False
        return is_committed and not _has_rollback(self._transaction)

    def roll_back_after(self, error: BaseException) -> None:
        """Roll back the write that ``error`` ended; the next writer handles a write of unknown outcome."""
        if not isinstance(error, UnknownOutcomeError):
            _roll_back_after(self._transaction, error, self.candidate.outcome)

    def _put_commit(self, current: Timeline, listings: FileSizes) -> bool:
        """Put the completed file; return whether it exists.

        Before that, partition metadata is put where it is missing, and clustering plans that this commit
        makes obsolete are withdrawn. If the file existed, an earlier put whose answer got lost may have made
        it: it is read. The result is False if it is another one, or gone again because another writer has
        rolled back the write.

        A repeated put uses the first completion time: a file of the first put that appears late is then not
        a second completion.

        Raises:
            RetryWrite: If another write was completed after that time.
        """
        transaction, content = self._transaction, self.candidate.content
        store = transaction.store
        if self._completed is None:
            self._completed = current.layout.completion_of(
                transaction.requested, after=current.last_instant, now_ms=store.now_ms()
            )
        elif self._completed.completed_at and any(
            write.position > self._completed.position for write in current.completed_writes
        ):
            raise RetryWrite("another write was completed before {instant}", instant=transaction.instant)
        for partition, sizes in listings.items():
            if partition_metadata_path(partition) not in sizes:
                put_partition_metadata(store, partition, instant=transaction.instant)
        withdraw_pending(self.candidate.effects.touched, current, except_instant=transaction.instant)
        nonce = transaction.session.claim.owner.nonce
        transaction.may_be_completed = True
        put = store.put_if_absent(self._completed.path, content, nonce=nonce)
        if put is PutOutcome.WON:
            return True
        for _ in range(_ATTEMPTS_TO_READ_BACK):
            try:
                stored = store.read(self._completed.path)
            except NotFoundError:
                return False
            except LATE_FAILURES:
                # The store acknowledged the put; a failed read does not revert it.
                continue
            return stored == content
        return put is not PutOutcome.LOST

    def _is_stored(self) -> bool:
        """Return whether the completed file exists although the store reported a failure."""
        if self._completed is None:
            return False
        try:
            return self._transaction.store.read(self._completed.path) == self.candidate.content
        except LATE_FAILURES:
            return False

    def _keep_valid_part(self, narrow: Narrow | None, current: Timeline) -> bool:
        """Reduce the write to its valid part by ``narrow``, and return whether anything is left."""
        outcome = self.candidate.outcome
        narrowed = outcome if narrow is None else narrow(outcome, current)
        if narrowed is not None and narrowed is not outcome:
            self.candidate = _candidate(self._transaction, narrowed)
        return narrowed is not None

    def _reject_for(self, conflict: Conflict | None) -> None:
        """Roll back the write and raise _ConflictFound if there is a conflict; the lock must be held.

        If the rollback fails, the next writer repeats it. If the write was already published, no other writer
        rolls it back, so the storage error is raised.
        """
        if conflict is None:
            return
        was_published = self._state is _State.PUBLISHED
        self._state = _State.REJECTED
        try:
            self._transaction.roll_back(further_files=_file_paths(self.candidate.outcome), is_locked=True)
        except StorageError as failure:
            if was_published:
                raise
            table, instant = self._transaction.table, self._transaction.instant
            what = f"{instant} is left pending, the next write rolls it back"
            log_failure(_LOG, what, failure, table.shown_by, location=table.store.uri)
        raise _ConflictFound(conflict)


def _candidate(transaction: Transaction, outcome: WriteOutcome) -> Candidate:
    """Return the write with its effects and the content of its completed file.

    Raises:
        InvalidDataError: If the completed file would be too large for readers.
    """
    metadata = CommitMetadata(
        operation=outcome.operation,
        stats=outcome.stats,
        replaced=outcome.replaced,
        extra=_extra(transaction, outcome),
    )
    return Candidate(
        outcome=outcome,
        effects=effects_of_write(transaction.instant, metadata, outcome.footprint),
        content=checked_record(
            transaction.table, metadata, transaction.timeline.layout.encode_commit(metadata)
        ),
    )


def _extra(transaction: Transaction, outcome: WriteOutcome) -> Mapping[str, str]:
    """Return the extra metadata of the commit: schema, version, applied record, plan, sources and nonce."""
    table = transaction.table
    sources = sorted({consumption.source for consumption in outcome.footprint.consumed})
    properties = {
        SCHEMA_KEY: outcome.schema_json,
        VERSION_KEY: VERSION,
        TABLE_ID_KEY: table.table_id or "",
        APPLIED_KEY: "" if table.applied is None else str(table.applied.number),
        PLAN_KEY: (table.applied.plan_id or "") if table.applied is not None else "",
        SOURCES_KEY: json.dumps(sources) if sources else "",
        NONCE_KEY: transaction.session.claim.owner.nonce,
    }
    return {**{key: value for key, value in properties.items() if value}, **outcome.extra}


def _roll_back_after(
    transaction: Transaction, error: BaseException, outcome: WriteOutcome | None = None
) -> None:
    """Roll back the transaction that ``error`` ended, unless it is committed.

    A failure of the rollback is added to ``error`` as a note.
    """
    try:
        if transaction.timeline.layout.find_completed(transaction.store, transaction.requested) is None:
            transaction.roll_back(further_files=_file_paths(outcome))
        elif not _has_rollback(transaction):
            error.add_note(f"the commit {transaction.instant} is complete")
    except LATE_FAILURES as failure:
        reason = str(transaction.table.cleared(message_of(failure)))
        error.add_note(f"{transaction.instant} is left pending, the next write rolls it back: {reason}")


def _clean_up(transaction: Transaction, outcome: WriteOutcome) -> tuple[Text, ...]:
    """Remove the files that only a pending write needs, and return a warning for each failure.

    ``outcome`` has all files that the tasks wrote. The next clean removes the files that are left.
    """
    left: list[Text] = []
    try:
        transaction.remove_markers(_file_paths(outcome))
    except LATE_FAILURES as error:
        left.append(message_of(error))
    left += transaction.session.acknowledge()
    return tuple(
        Message(
            "{instant} is committed, but its temporary files remain: {reason}",
            instant=transaction.instant,
            reason=reason,
        )
        for reason in left
    )


def _file_paths(outcome: WriteOutcome | None) -> list[str]:
    """Return the paths of all files of the outcome."""
    return [] if outcome is None else [stat.path for stats in outcome.stats.values() for stat in stats]


def _result(
    transaction: Transaction,
    outcome: WriteOutcome | None,
    reasons: list[Text],
    *,
    warnings: tuple[Text, ...] = (),
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
