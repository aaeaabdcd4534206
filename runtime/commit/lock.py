"""The table's lock: Hudi's own lock file, so that real Hudi writers are kept out too.

The file is put if absent and deleted, as by FileSystemBasedLockProvider of Hudi 0.15. Ours names the
instant it is held for. Whoever finds that instant's writer dead may remove the lock, after he has
rolled the write back: a holder that was only asleep then finds, when it wakes up, that it may not
publish, or, if it woke up with the last step, that it has to undo it.
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
from parquetry.runtime.storage.open import ObjectStore, PutOutcome
from parquetry.runtime.storage.os_errors import FAILURES, tidying
from parquetry.runtime.timeline.sidecars import BREAKING_FOLDER
from parquetry.runtime.timing import Timing

_LOG = logging.getLogger(__name__)

DEFAULT_LOCK_PATH: Final = ".hoodie/.aux/lock"
LOCK_PATH_PROPERTY: Final = "parquetry.lock.path"

_ATTEMPTS_TO_RELEASE: Final = 3


def lock_path(properties: Mapping[str, str]) -> str:
    """Where the table's writers lock: a property of the table, Hudi's implicit place by default."""
    return properties.get(LOCK_PATH_PROPERTY) or DEFAULT_LOCK_PATH


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """A lock as it was found. ``instant``, ``owner`` and ``nonce`` are None for another program's."""

    path: str
    content: bytes
    modified_ms: int
    instant: str | None = None
    owner: Owner | None = None
    nonce: str | None = None

    @property
    def holder(self) -> str:
        """The holder in words."""
        if self.owner is not None:
            return f"{self.owner} for instant {self.instant}"
        text = self.content.decode("utf-8", errors="replace").strip()
        return f"another program ({text[:200] or 'which left no name'})"

    def is_dead(self, store: ObjectStore, timing: Timing) -> bool:
        """Whether the holder is a writer of this project that will not release the lock."""
        if self.owner is None or self.instant is None:
            return False
        if self.owner.is_known_gone:
            return True
        silent = seconds_since_beat(store, self.instant, otherwise_ms=self.modified_ms)
        return silent > timing.dead_after_seconds


def read_lock(store: ObjectStore, path: str) -> LockInfo | None:
    """The lock that is held now, None when it is free."""
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
            instant=_name(document["instant"]),
            owner=Owner.from_json(document["owner"]),
            nonce=_name(document["nonce"]),
        )
    except (ValueError, KeyError, TypeError):
        return LockInfo(path=path, content=content, modified_ms=info.modified_ms)


def _name(said: object) -> str:
    """What is to become the name of a file."""
    if not isinstance(said, str) or not re.fullmatch(r"[0-9A-Za-z_-]+", said):
        raise ValueError(f"{said!r:.60} is no name")
    return said


def break_lock(session: Session, lock: LockInfo, *, fence: Callable[[str], None]) -> bool:
    """Remove a lock unless it has changed since it was found; True when this call removed it.

    ``fence`` gets the instant that one of our locks is held for, and sees to it that its write
    can never be published. Of several that find the same dead lock one at a time does this: else
    the second would remove the lock that a third has taken meanwhile.
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
        if not _still_stands(store, lock):
            return False
        if lock.instant is not None:
            fence(lock.instant)
        return _still_stands(store, lock) and store.delete(lock.path)
    finally:
        with tidying(store.uri, f"{token} is left behind"):
            store.delete(token)


def _still_stands(store: ObjectStore, lock: LockInfo) -> bool:
    try:
        return store.read(lock.path) == lock.content
    except NotFoundError:
        return False


def _is_stale(session: Session, token: str) -> bool:
    """Whether the one who was about to remove a lock has died over it."""
    store = session.store
    try:
        breaker = Owner.from_json(parsed_json(store.read(token)))
    except (NotFoundError, ValueError, KeyError, TypeError):
        return False
    standing = store.stat(token)
    if breaker.is_known_gone or standing is None:
        return True
    return store.now_ms() - standing.modified_ms > session.timing.dead_after_seconds * 1000


class TableLock:
    """The lock held for a session's instant; use as a context manager.

    Entering waits for a living writer, removes a dead one's lock (see :func:`break_lock` for
    ``fence``), and raises LockHeldError when another program keeps the lock too long. What
    ``confirm`` raises once it is held gives it up again. Leaving removes the lock if it is still this one.
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
        """Hold the lock when this returns."""
        timing = self._session.timing
        waited_for: bytes | None = None
        waiting_since_ms = 0
        round_number = 0
        while not self._try():
            found = read_lock(self._store, self._path)
            if found is None:
                continue
            if found.is_dead(self._store, timing):
                if not break_lock(self._session, found, fence=self._fence):
                    timing.poll(round_number)
                    round_number += 1
                continue
            now_ms = self._store.now_ms()
            if found.content != waited_for:
                waited_for, waiting_since_ms, round_number = found.content, now_ms, 0
            patience = timing.foreign_lock_seconds if found.owner is None else timing.live_lock_seconds
            if now_ms - waiting_since_ms > patience * 1000:
                raise LockHeldError(
                    f"{self._store.uri}/{self._path} is held by {found.holder} since {patience:.0f} s; "
                    "try again, or release it with "
                    + command("unlock", "TABLE")
                    + " when that program has ended"
                )
            self._session.heartbeat.ensure()
            timing.poll(round_number)
            round_number += 1

    def is_held(self) -> bool:
        """Whether the lock is still this one: a writer that slept too long may have lost it."""
        if self._content is None:
            return False
        try:
            return self._store.read(self._path) == self._content
        except NotFoundError:
            return False

    def release(self) -> None:
        """Remove the lock if it is still this one; tried a few times, as every other writer waits for it.

        A store that goes on failing is passed over: the lock names an instant whose heartbeat ends, so that
        the next writer removes it.
        """
        for attempt in range(1, _ATTEMPTS_TO_RELEASE + 1):
            try:
                if self.is_held():
                    self._store.delete(self._path)
                break
            except FAILURES as error:
                if attempt == _ATTEMPTS_TO_RELEASE:
                    place = f"{self._store.uri}/{self._path}"
                    _LOG.warning("%s is left to the next writer, who breaks it: %s", place, error)
        self._content = None

    def _try(self) -> bool:
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
        except FAILURES:
            # It may stand all the same, and nobody would release it.
            self.release()
            raise
        if outcome is PutOutcome.LOST:
            self._content = None
        return self._content is not None
