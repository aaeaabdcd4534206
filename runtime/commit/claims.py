"""Claims: an instant belongs to one writer, and everybody can tell whether that writer lives.

A claim is the object ``.hoodie/.parquetry/instants/<T>``, put if absent, which names the owner. The
owner then refreshes the heartbeat file ``.hoodie/.heartbeat/<T>``, the one that Hudi looks at too
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
from parquetry.message import joined
from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.errors import (
    CorruptTableError,
    InvalidDataError,
    NotFoundError,
    UnsupportedTableError,
)
from parquetry.runtime.spec.codec import from_json_value, parsed_json
from parquetry.runtime.storage.open import ObjectStore, PutOutcome
from parquetry.runtime.storage.os_errors import FAILURES
from parquetry.runtime.timeline.instant import Timezone, next_instant, parse_instant_ms
from parquetry.runtime.timeline.sidecars import claim_path
from parquetry.runtime.timing import Timing

_LOG = logging.getLogger(__name__)

HEARTBEAT_FOLDER: Final = ".hoodie/.heartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who may use an instant, and for what.

    ``run`` is the instant of the first attempt of the same piece of work, ``attempt`` counts from 0:
    a run that lost before is given way to.
    """

    instant: str
    purpose: str
    run: str
    attempt: int
    owner: Owner

    def to_bytes(self) -> bytes:
        """The content of the claim's object."""
        document = {
            "instant": self.instant,
            "purpose": self.purpose,
            "run": self.run,
            "attempt": self.attempt,
            "owner": self.owner.to_json(),
        }
        return json.dumps(document, indent=1).encode()

    @classmethod
    def from_bytes(cls, content: bytes, *, place: str) -> Claim:
        """The claim that :meth:`to_bytes` wrote; CorruptTableError for anything else."""
        try:
            return from_json_value(cls, parsed_json(content), place="claim")
        except (ValueError, InvalidDataError) as error:
            raise CorruptTableError(
                f"{place} is no claim of a writer ({error!r}); remove the file if no parquetry writes here"
            ) from error


def heartbeat_path(instant: str) -> str:
    """The file whose time of change says when the writer of the instant was last alive."""
    return f"{HEARTBEAT_FOLDER}/{instant}"


def read_claim(store: ObjectStore, instant: str) -> Claim | None:
    """The claim on an instant; None when no writer of this project has one."""
    path = claim_path(instant)
    try:
        return Claim.from_bytes(store.read(path), place=f"{store.uri}/{path}")
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
    """A claim on an instant greater than ``after`` that nobody else has, and not ahead of the clock.

    Waits until the store's clock has reached it. UnsupportedTableError when ``after`` lies further
    ahead than the clock skew allows: a smaller instant would hide rows from Hudi.
    """
    while True:
        instant = _reached_instant(store, after, zone, timing)
        claim = Claim(instant=instant, purpose=purpose, run=run or instant, attempt=attempt, owner=owner)
        outcome = store.put_if_absent(claim_path(instant), claim.to_bytes(), nonce=owner.nonce)
        if outcome is not PutOutcome.LOST:
            return claim
        after = instant


def _reached_instant(store: ObjectStore, after: str | None, zone: Timezone, timing: Timing) -> str:
    while True:
        now_ms = store.now_ms()
        instant = next_instant(after, now_ms, zone)
        ahead_ms = parse_instant_ms(instant, zone) - now_ms
        # Moments, not digits: in the hour that a local zone repeats, the clock reads less than `after`
        # although that has passed.
        if ahead_ms <= 0:
            return instant
        if ahead_ms > timing.clock_skew_seconds * 1000:
            raise UnsupportedTableError(
                f"{store.uri}: instant {after} lies {ahead_ms / 1000:.0f} s ahead of the store's clock; "
                "set the clocks of the writers right and wait until that time has come"
            )
        timing.sleep(ahead_ms / 1000)


def seconds_since_beat(store: ObjectStore, instant: str, *, otherwise_ms: int) -> float:
    """How long the writer has been silent, by the store's clock.

    ``otherwise_ms`` is when it was seen for certain, for a writer that has no heartbeat file.
    """
    beat = store.stat(heartbeat_path(instant))
    seen_ms = otherwise_ms if beat is None else max(beat.modified_ms, otherwise_ms)
    return (store.now_ms() - seen_ms) / 1000


def is_alive(store: ObjectStore, claim: Claim, timing: Timing) -> bool:
    """Whether the writer of a claim may still go on by itself."""
    if claim.owner.is_known_gone:
        return False
    made = store.stat(claim_path(claim.instant))
    otherwise_ms = 0 if made is None else made.modified_ms
    return seconds_since_beat(store, claim.instant, otherwise_ms=otherwise_ms) <= timing.dead_after_seconds


class Heartbeat:
    """Keeps the heartbeat file of an instant fresh, from :meth:`start` to :meth:`stop`, in a thread."""

    def __init__(self, store: ObjectStore, instant: str, timing: Timing) -> None:
        self._store = store
        self._path = heartbeat_path(instant)
        self._timing = timing
        self._stopping = threading.Event()
        self._beaten_at = 0.0
        self._thread = threading.Thread(target=self._run, name=f"heartbeat-{instant}", daemon=True)

    def start(self) -> None:
        """Beat once, and then regularly; StorageError when the first beat fails."""
        self.beat()
        self._thread.start()

    def beat(self) -> None:
        """Beat now."""
        self._store.put(self._path, b"")
        self._beaten_at = time.monotonic()

    def ensure(self) -> None:
        """Beat now when the last beat is older than it should be: the process may have been stopped."""
        if time.monotonic() - self._beaten_at > self._timing.heartbeat_seconds:
            self.beat()

    def stop(self) -> None:
        """Beat no more; returns when a beat under way has ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._timing.heartbeat_seconds):
            try:
                self.beat()
            except FAILURES:
                # The next beat may get through; silence for too long is noticed at publishing.
                continue


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A claimed instant whose owner is this process, with its heart beating."""

    store: ObjectStore
    claim: Claim
    heartbeat: Heartbeat
    timing: Timing

    @property
    def instant(self) -> str:
        """The claimed instant."""
        return self.claim.instant

    def acknowledge(self) -> tuple[str, ...]:
        """Remove heartbeat and claim: the instant is completed, or was never used.

        Answers what stays behind because the store fails, and why: it means nothing to writers, and the next
        clean removes it. A heartbeat is known by its claim, which stays with it.
        """
        return self.withdraw() or _removed(self.store, claim_path(self.instant))

    def withdraw(self) -> tuple[str, ...]:
        """Remove the heartbeat; the claim stays and tells that the instant was undone. Answers as above."""
        self.heartbeat.stop()
        return _removed(self.store, heartbeat_path(self.instant))


def _removed(store: ObjectStore, path: str) -> tuple[str, ...]:
    try:
        store.delete(path)
    except FAILURES as error:
        _LOG.warning("%s/%s is left behind for the next clean: %s", store.uri, path, error)
        return (joined("", (f"{path} is left behind: ", message_of(error))),)
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
    """A session on a fresh instant; when the block ends, however it does, its owner counts as gone."""
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
