"""Claims: an instant belongs to one writer, and all others can determine whether that writer is alive.

A claim is the object ``.hoodie/.parquetry/instants/<T>``, created with put-if-absent, which names the owner.
The owner then refreshes the heartbeat file ``.hoodie/.heartbeat/<T>``, which Hudi checks too
(HoodieHeartbeatClient of Hudi 0.15).
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from parquetry.errors import message_of
from parquetry.message import Message
from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.errors import (
    CorruptTableError,
    InvalidDataError,
    NotFoundError,
    UnsupportedTableError,
)
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.codec import from_json_value, parsed_json
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.os_errors import LATE_FAILURES
from parquetry.runtime.timeline.instant import Timezone, next_instant, parse_instant_ms
from parquetry.runtime.timeline.sidecars import claim_path
from parquetry.runtime.timing import Timing

_LOG = logging.getLogger(__name__)

HEARTBEAT_FOLDER: Final = ".hoodie/.heartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right of one writer to use an instant, with its purpose.

    ``run`` is the instant of the first attempt of the same work. ``attempt`` counts from 0; other writers
    give way to a run that has lost before.
    """

    instant: str
    purpose: str
    run: str
    attempt: int
    owner: Owner

    def to_bytes(self) -> bytes:
        """Return the content of the claim object."""
        document = {
            "instant": self.instant,
            "purpose": self.purpose,
            "run": self.run,
            "attempt": self.attempt,
            "owner": self.owner.to_json(),
        }
        return json.dumps(document, indent=1).encode()

    @classmethod
    def from_bytes(cls, content: bytes, *, uri: str) -> Claim:
        """Return the claim that :meth:`to_bytes` wrote; ``uri`` is for messages.

        Raises:
            CorruptTableError: If the content is anything else.
        """
        try:
            return from_json_value(cls, parsed_json(content), place="claim")
        except (ValueError, InvalidDataError) as error:
            raise CorruptTableError(
                "{file}: the file does not contain a claim of a writer ({reason}); if no parquetry "
                "writes to this table, remove the file",
                file=uri,
                reason=quoted_library_text(repr(error), kind=type(error).__name__),
            ) from error


def heartbeat_path(instant: str) -> str:
    """Return the path of the heartbeat file, whose modification time shows when the writer was last alive."""
    return f"{HEARTBEAT_FOLDER}/{instant}"


def read_claim(store: ObjectStore, instant: str) -> Claim | None:
    """Return the claim on an instant, or None if no writer of this project has claimed it."""
    path = claim_path(instant)
    try:
        return Claim.from_bytes(store.read(path), uri=f"{store.uri}/{path}")
    except NotFoundError:
        return None


def claim_instant(
    store: ObjectStore,
    owner: Owner,
    *,
    purpose: str,
    after: str | None,
    zone: Timezone,
    timing: Timing,
    run: str | None = None,
    attempt: int = 0,
) -> Claim:
    """Claim an instant that is greater than ``after``, not in the future, and of no other writer.

    The call waits until the store's clock has reached the instant.

    Args:
        store: The store of the table.
        owner: The unit of work that claims the instant.
        purpose: The operation, such as "UPSERT" or "rollback", as recorded in the claim.
        after: The greatest instant that exists, or None.
        zone: The time zone of the table's instants.
        timing: The allowed clock skew, and the function that waits.
        run: The instant of the first attempt of this work, or None if this is the first attempt.
        attempt: The number of attempts that were lost before.

    Raises:
        UnsupportedTableError: If ``after`` is further ahead of the clock than the allowed clock skew. A
            smaller instant would hide rows from Hudi.
    """
    while True:
        instant = _reached_instant(store, after, zone, timing)
        claim = Claim(instant=instant, purpose=purpose, run=run or instant, attempt=attempt, owner=owner)
        outcome = store.put_if_absent(claim_path(instant), claim.to_bytes(), nonce=owner.nonce)
        if outcome is not PutOutcome.LOST:
            return claim
        after = instant


def _reached_instant(store: ObjectStore, after: str | None, zone: Timezone, timing: Timing) -> str:
    """Return the next instant after ``after`` once the store's clock has reached it."""
    while True:
        now_ms = store.now_ms()
        instant = next_instant(after, now_ms, zone)
        ahead_ms = parse_instant_ms(instant, zone) - now_ms
        # Compare points in time, not digits: in the hour that a local time zone repeats, the clock shows less
        # than `after` although `after` is past.
        if ahead_ms <= 0:
            return instant
        if ahead_ms > timing.clock_skew_seconds * 1000:
            raise UnsupportedTableError(
                "{table}: instant {instant} lies {ahead_seconds:.0f} s ahead of the store's clock; correct "
                "the clocks of the writers, and wait until that time has passed",
                table=store.uri,
                instant=after,
                ahead_seconds=ahead_ms / 1000,
            )
        timing.sleep(ahead_ms / 1000)


def seconds_since_beat(store: ObjectStore, instant: str, *, known_alive_ms: int) -> float:
    """Return the seconds, by the store's clock, since the writer last showed that it is alive.

    ``known_alive_ms`` is a time at which the writer was certainly alive, in milliseconds since the epoch. It
    counts if there is no heartbeat file or if the heartbeat is older.
    """
    beat = store.stat(heartbeat_path(instant))
    seen_ms = known_alive_ms if beat is None else max(beat.modified_ms, known_alive_ms)
    return (store.now_ms() - seen_ms) / 1000


def is_alive(store: ObjectStore, claim: Claim, timing: Timing) -> bool:
    """Return whether the writer of a claim may still continue its work."""
    if claim.owner.has_ended:
        return False
    made = store.stat(claim_path(claim.instant))
    known_alive_ms = 0 if made is None else made.modified_ms
    return (
        seconds_since_beat(store, claim.instant, known_alive_ms=known_alive_ms) <= timing.dead_after_seconds
    )


class Heartbeat:
    """A thread that refreshes the heartbeat file of an instant from :meth:`start` to :meth:`stop`."""

    def __init__(self, store: ObjectStore, instant: str, timing: Timing) -> None:
        self._store = store
        self._path = heartbeat_path(instant)
        self._timing = timing
        self._stopping = threading.Event()
        self._beaten_at = 0.0
        self._thread = threading.Thread(target=self._run, name=f"heartbeat-{instant}", daemon=True)

    def start(self) -> None:
        """Refresh the file once, then regularly in a thread.

        Raise StorageError if the first refresh fails.
        """
        self.beat()
        self._thread.start()

    def beat(self) -> None:
        """Refresh the heartbeat file now."""
        self._store.put(self._path, b"")
        self._beaten_at = time.monotonic()

    def ensure(self) -> None:
        """Refresh the file if the last refresh is overdue, as after a suspension of the process."""
        if time.monotonic() - self._beaten_at > self._timing.heartbeat_seconds:
            self.beat()

    def stop(self) -> None:
        """Stop refreshing the file, and wait for a refresh in progress."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._timing.heartbeat_seconds):
            try:
                self.beat()
            except LATE_FAILURES:
                # The next refresh may succeed. Publishing notices a silence that lasts too long.
                continue


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A claimed instant that this process owns, with a running heartbeat."""

    store: ObjectStore
    claim: Claim
    heartbeat: Heartbeat
    timing: Timing

    @property
    def instant(self) -> str:
        """The claimed instant."""
        return self.claim.instant

    def acknowledge(self) -> tuple[Message, ...]:
        """Remove heartbeat and claim, because the instant is completed or was never used.

        Returns:
            Messages about files that could not be deleted. Writers ignore such files, and the next clean
            deletes them.
        """
        self.heartbeat.stop()
        return _delete(self.store, heartbeat_path(self.instant), claim_path(self.instant))

    def withdraw(self) -> tuple[Message, ...]:
        """Remove the heartbeat. The claim stays, and shows that the instant was rolled back.

        Returns:
            Messages about files that could not be deleted.

        """
        self.heartbeat.stop()
        return _delete(self.store, heartbeat_path(self.instant))


def _delete(store: ObjectStore, *paths: str) -> tuple[Message, ...]:
    """Delete the files with one request; return a message for each if that fails."""
    try:
        store.delete_all(paths)
    except LATE_FAILURES as error:
        _LOG.warning("%s: %s left behind for the next clean: %s", store.uri, " and ".join(paths), error)
        reason = message_of(error)
        return tuple(Message("{file} is left behind: {reason}", file=path, reason=reason) for path in paths)
    return ()


@contextmanager
def open_session(
    store: ObjectStore,
    *,
    purpose: str,
    after: str | None,
    zone: Timezone,
    timing: Timing,
    run: str | None = None,
    attempt: int = 0,
) -> Iterator[Session]:
    """Yield a session on a newly claimed instant. When the block ends, the owner of the session has ended.

    ``purpose`` is recorded in the claim. See :func:`claim_instant` for the other parameters and the errors.
    """
    owner = Owner.here()
    heartbeat = None
    try:
        claim = claim_instant(
            store, owner, purpose=purpose, after=after, zone=zone, timing=timing, run=run, attempt=attempt
        )
        heartbeat = Heartbeat(store, claim.instant, timing)
        heartbeat.start()
        yield Session(store=store, claim=claim, heartbeat=heartbeat, timing=timing)
    finally:
        if heartbeat is not None:
            heartbeat.stop()
        owner.finish()
