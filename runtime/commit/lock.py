"""The table's lock: Hudi's own lock file, so that it also excludes Hudi writers.

The file is created with put-if-absent and deleted on release, as FileSystemBasedLockProvider of Hudi 0.15
does. A lock of this project names the instant for which it is held. If that instant's writer is dead, another
writer may roll back the write and then remove the lock. If the holder was only suspended, it finds when it
resumes that it must not publish, or, if it resumed in the last step, that it must roll back.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from parquetry.message import command
from parquetry.runtime.commit.claims import Session, seconds_since_beat
from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.errors import LockHeldError, NotFoundError
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.os_errors import LATE_FAILURES, logging_failures
from parquetry.runtime.timeline.sidecars import BREAKING_FOLDER
from parquetry.runtime.timing import Timing

_LOG = logging.getLogger(__name__)

DEFAULT_LOCK_PATH: Final = ".hoodie/.aux/lock"
LOCK_PATH_PROPERTY: Final = "parquetry.lock.path"

_ATTEMPTS_TO_RELEASE: Final = 3


def lock_path(properties: Mapping[str, str]) -> str:
    """Return the path of the lock file: the table property, or by default Hudi's implicit path."""
    return properties.get(LOCK_PATH_PROPERTY) or DEFAULT_LOCK_PATH


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """A lock as it was read. ``instant``, ``owner`` and ``nonce`` are None for a lock of another program."""

    path: str
    content: bytes
    modified_ms: int
    instant: str | None = None
    owner: Owner | None = None
    nonce: str | None = None

    @property
    def holder(self) -> str:
        """A description of the holder, for messages."""
        if self.owner is not None:
            return f"{self.owner} for instant {self.instant}"
        text = self.content.decode("utf-8", errors="replace").strip()
        return f"another program ({text[:200] or 'its lock is empty'})"

    def is_dead(self, store: ObjectStore, timing: Timing) -> bool:
        """Return whether the holder is a writer of this project that will not release the lock."""
        if self.owner is None or self.instant is None:
            return False
        if self.owner.has_ended:
            return True
        silent = seconds_since_beat(store, self.instant, known_alive_ms=self.modified_ms)
        return silent > timing.dead_after_seconds


def read_lock(store: ObjectStore, path: str) -> LockInfo | None:
    """Return the lock that is held now, or None if the table is not locked."""
    try:
        content = store.read(path)
    except NotFoundError:
        return None
    info = store.stat(path)
    if info is None:
        return None
    try:
        document = parsed_json(content)["parquetry"]
        return LockInfo(
            path=path,
            content=content,
            modified_ms=info.modified_ms,
            instant=_file_name(document["instant"]),
            owner=Owner.from_json(document["owner"]),
            nonce=_file_name(document["nonce"]),
        )
    except (ValueError, KeyError, TypeError):
        return LockInfo(path=path, content=content, modified_ms=info.modified_ms)


def _file_name(value: object) -> str:
    """Return the value as a string that is safe as a file name, or raise ValueError."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9A-Za-z_-]+", value):
        raise ValueError(f"{value!r:.60} is not a file name")
    return value


def break_lock(session: Session, lock: LockInfo, *, fence: Callable[[str], None]) -> bool:
    """Remove a lock, unless it has changed since it was read; return whether this call removed it.

    If several writers find the same dead lock, only one at a time removes it. Otherwise the second could
    remove a lock that a third has taken meanwhile.

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
        if not _is_unchanged(store, lock):
            return False
        if lock.instant is not None:
            fence(lock.instant)
        return _is_unchanged(store, lock) and store.delete(lock.path)
    finally:
        with logging_failures(store.uri, f"{token} is left behind"):
            store.delete(token)


def _is_unchanged(store: ObjectStore, lock: LockInfo) -> bool:
    """Return whether the lock file still has the content that was read."""
    try:
        return store.read(lock.path) == lock.content
    except NotFoundError:
        return False


def _is_stale(session: Session, token: str) -> bool:
    """Return whether the writer that began to remove a lock died before it finished."""
    store = session.store
    try:
        breaker = Owner.from_json(parsed_json(store.read(token)))
    except (NotFoundError, ValueError, KeyError, TypeError):
        return False
    info = store.stat(token)
    if breaker.has_ended or info is None:
        return True
    return store.now_ms() - info.modified_ms > session.timing.dead_after_seconds * 1000


class TableLock:
    """A context manager that holds the table's lock for a session's instant.

    Entering waits for a living writer, removes the lock of a dead one (see :func:`break_lock` for ``fence``),
    and raises LockHeldError if another program holds the lock for too long. ``confirm`` is called once the
    lock is held; if it raises, the lock is released. Leaving removes the lock file if it is still the one of
    this object.
    """

    def __init__(
        self,
        session: Session,
        path: str,
        *,
        fence: Callable[[str], None],
        confirm: Callable[[], None] | None = None,
    ) -> None:
        self._session = session
        self._store = session.store
        self._path = path
        self._fence = fence
        self._confirm = confirm
        self._content: bytes | None = None

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
        observed_content: bytes | None = None
        observed_since_ms = 0
        round_number = 0
        while not self._try():
            held = read_lock(self._store, self._path)
            if held is None:
                continue
            if held.is_dead(self._store, timing):
                if not break_lock(self._session, held, fence=self._fence):
                    timing.poll(round_number)
                    round_number += 1
                continue
            now_ms = self._store.now_ms()
            if held.content != observed_content:
                observed_content, observed_since_ms, round_number = held.content, now_ms, 0
            limit_seconds = timing.foreign_lock_seconds if held.owner is None else timing.live_lock_seconds
            if now_ms - observed_since_ms > limit_seconds * 1000:
                raise LockHeldError(
                    "{table}/{file} has been held by {holder} for {held_seconds:.0f} s; try again, or, "
                    "if that program has ended, release the lock with {command}",
                    table=self._store.uri,
                    file=self._path,
                    holder=held.holder,
                    held_seconds=limit_seconds,
                    command=command("unlock", "TABLE"),
                )
            self._session.heartbeat.ensure()
            timing.poll(round_number)
            round_number += 1

    def is_held(self) -> bool:
        """Return whether the lock is still held; a writer that was suspended may have lost it."""
        if self._content is None:
            return False
        try:
            return self._store.read(self._path) == self._content
        except NotFoundError:
            return False

    def release(self) -> None:
        """Remove the lock file if it is still the one of this object.

        Removal is tried three times, as all other writers wait for it. If the store fails each time, the lock
        stays: it names an instant whose heartbeat ends, so the next writer removes it.
        """
        for attempt in range(1, _ATTEMPTS_TO_RELEASE + 1):
            try:
                if self.is_held():
                    self._store.delete(self._path)
                break
            except LATE_FAILURES as error:
                if attempt == _ATTEMPTS_TO_RELEASE:
                    uri = f"{self._store.uri}/{self._path}"
                    _LOG.warning("the lock %s could not be removed, the next writer will: %s", uri, error)
        self._content = None

    def _try(self) -> bool:
        """Create the lock file and return True, or return False if another lock exists."""
        self._session.heartbeat.ensure()
        nonce = uuid.uuid4().hex
        claim = self._session.claim
        document = {
            "lockCreateTime": str(self._store.now_ms()),
            "lockThreadName": f"parquetry {claim.purpose} {claim.instant}",
            "parquetry": {"instant": claim.instant, "nonce": nonce, "owner": claim.owner.to_json()},
        }
        content = json.dumps(document, indent=1).encode()
        self._content = content
        try:
            outcome = self._store.put_if_absent(self._path, content, nonce=nonce)
        except LATE_FAILURES:
            # The store may have created the file despite the failure, and nobody else would release it.
            self.release()
            raise
        if outcome is PutOutcome.LOST:
            self._content = None
        return self._content is not None
