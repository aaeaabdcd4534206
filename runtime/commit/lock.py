"""The table's lock: Hudi's own lock, so that it also excludes Hudi writers.

A table is locked by a lock file or by Hudi's storage-based lock (:class:`LockMethod`). A lock of this project
names the instant for which it is held. If that instant's writer is dead, another writer may roll back the
write and then remove the lock. If the holder was only suspended, it finds when it resumes that it must not
publish, or, if it resumed in the last step, that it must roll back.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

from parquetry.message import command
from parquetry.runtime.commit.claims import Session, seconds_since_beat
from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.errors import LockHeldError, NotFoundError
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.os_errors import logging_failures
from parquetry.runtime.timeline.sidecars import BREAKING_FOLDER
from parquetry.runtime.timing import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """A lock as it was read. ``instant``, ``owner`` and ``nonce`` are None for a lock of another program.

    ``identity`` is the same as long as the same holder keeps the lock. ``expires_ms`` is the time of the
    store's clock at which a lock expires unless it is renewed, or None if it never does. ``has_ended`` is
    True if its holder has lost the lock already or has given up its instant.
    """

    path: str
    content: bytes
    modified_ms: int
    identity: bytes
    instant: str | None = None
    owner: Owner | None = None
    nonce: str | None = None
    tag: str | None = None
    expires_ms: int | None = None
    has_ended: bool = False

    @property
    def holder(self) -> str:
        """A description of the holder, for messages."""
        if self.owner is not None:
            return f"{self.owner} for instant {self.instant}"
        if self.instant is not None:
            return f"a writer of parquetry that has ended, for instant {self.instant}"
        text = self.content.decode("utf-8", errors="replace").strip()
        return f"another program ({text[:200] or 'its lock is empty'})"

    def is_dead(self, store: ObjectStore, timing: Timing) -> bool:
        """Return whether the holder is a writer of this project that will not release the lock."""
        if self.instant is None:
            return False
        if self.has_ended or self.owner is None or self.owner.has_ended:
            return True
        silent = seconds_since_beat(store, self.instant, known_alive_ms=self.modified_ms)
        return silent > timing.dead_after_seconds

    def longest_wait_seconds(self, timing: Timing) -> float:
        """Return for how long a writer waits while the holder is the same.

        The holder of a lock that expires shows that it is alive, as live writers of this project do.
        """
        is_silent = self.instant is None and self.expires_ms is None
        return timing.foreign_lock_seconds if is_silent else timing.live_lock_seconds


class LockHold(Protocol):
    """A lock that this process has taken."""

    def is_held(self) -> bool:
        """Return whether the lock is still held; a writer that was suspended may have lost it."""
        ...

    def release(self, *, is_confirmed: bool = False) -> None:
        """Give up the lock if it is still held. If the store fails each time, a warning is logged.

        ``is_confirmed``: ``is_held`` has just returned True, so that the lock need not be read again.
        """
        ...


class LockMethod(Protocol):
    """A way to lock a table. Two methods are equal if they lock the same object in the same way."""

    @property
    def path(self) -> str:
        """The path of the object that represents the lock."""
        ...

    def read(self, store: ObjectStore) -> LockInfo | None:
        """Return the lock that must be released or broken before another writer gets it, or None."""
        ...

    def take(self, session: Session) -> LockHold | None:
        """Take the lock for the session, or return None if it is not free."""
        ...

    def is_unchanged(self, store: ObjectStore, lock: LockInfo) -> bool:
        """Return whether the lock is still the one that was read."""
        ...

    def remove(self, store: ObjectStore, lock: LockInfo) -> bool:
        """Remove the lock unless it has changed since it was read; return whether this call removed it."""
        ...


def break_lock(session: Session, method: LockMethod, lock: LockInfo, *, fence: Callable[[str], None]) -> bool:
    """Remove a lock, unless it has changed since it was read; return whether this call removed it.

    If several writers find the same dead lock, only one at a time removes it. Otherwise the second could
    remove a lock that a third has taken meanwhile, and two could roll back the same write.

    If the lock is one of this project, ``fence`` is called with its instant before the lock is removed. It
    must ensure that the write of this instant can never be published.
    """
    store = session.store
    token = f"{BREAKING_FOLDER}/{lock.nonce or uuid.uuid5(uuid.NAMESPACE_OID, lock.content.hex()).hex}"
    owner = session.claim.owner
    content = json.dumps(owner.to_json()).encode()
    if store.put_if_absent(token, content, nonce=owner.nonce) is PutOutcome.LOST:
        if _is_stale(session, token):
            store.delete(token)
        return False
    try:
        if not method.is_unchanged(store, lock):
            return False
        if lock.instant is not None:
            fence(lock.instant)
        return method.remove(store, lock)
    finally:
        with logging_failures(store.uri, f"{token} is left behind"):
            store.delete(token)


def _is_stale(session: Session, token: str) -> bool:
    """Return whether the writer that began to remove a lock died before it finished."""
    store = session.store
    try:
        breaker = Owner.from_json(parsed_json(store.read(token)))
    except (NotFoundError, ValueError, KeyError, TypeError):
        # The removal has ended, or the file is not one of parquetry's.
        return False
    info = store.stat(token)
    if breaker.has_ended or info is None:
        return True
    return store.now_ms() - info.modified_ms > session.timing.dead_after_seconds * 1000


class TableLock:
    """A context manager that holds the table's lock for a session's instant.

    Entering waits for a living writer, removes the lock of a dead one (see :func:`break_lock` for ``fence``),
    and raises LockHeldError if another program holds the lock for too long. ``confirm`` is called once the
    lock is held; if it raises, the lock is released. Leaving gives up the lock if this object still holds it.
    """

    def __init__(
        self,
        session: Session,
        method: LockMethod,
        *,
        fence: Callable[[str], None],
        confirm: Callable[[], None] | None = None,
    ) -> None:
        self._session = session
        self._store = session.store
        self._method = method
        self._fence = fence
        self._confirm = confirm
        self._hold: LockHold | None = None

    def __enter__(self) -> Self:
        self.acquire()
        try:
            if self._confirm is not None:
                self._confirm()
        except BaseException:
            self.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Wait until this object holds the lock.

        Raises:
            LockHeldError: If the same holder keeps the lock longer than the timing allows.
        """
        timing = self._session.timing
        observed: bytes | None = None
        observed_since_ms = 0
        round_number = 0
        while not self._try():
            held = self._method.read(self._store)
            if held is None:
                continue
            if held.is_dead(self._store, timing):
                if not break_lock(self._session, self._method, held, fence=self._fence):
                    timing.poll(round_number)
                    round_number += 1
                continue
            now_ms = self._store.now_ms()
            if held.identity != observed:
                observed, observed_since_ms, round_number = held.identity, now_ms, 0
            limit_seconds = held.longest_wait_seconds(timing)
            if now_ms - observed_since_ms > limit_seconds * 1000:
                raise LockHeldError(
                    "{table}/{file} has been held by {holder} for {held_seconds:.0f} s; try again, or, "
                    "if that program has ended, release the lock with {command}",
                    table=self._store.uri,
                    file=held.path,
                    holder=held.holder,
                    held_seconds=limit_seconds,
                    command=command("unlock", "TABLE"),
                )
            timing.poll(round_number)
            round_number += 1

    def is_held(self) -> bool:
        """Return whether the lock is still held; a writer that was suspended may have lost it."""
        return self._hold is not None and self._hold.is_held()

    def release(self, *, is_confirmed: bool = False) -> None:
        """Give up the lock if it is still the one of this object (see :meth:`LockHold.release`)."""
        if self._hold is not None:
            self._hold.release(is_confirmed=is_confirmed)
        self._hold = None

    def _try(self) -> bool:
        """Take the lock and return True, or return False if it is not free."""
        self._session.heartbeat.ensure()
        self._hold = self._method.take(self._session)
        return self._hold is not None
