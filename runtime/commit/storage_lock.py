"""Hudi's storage-based lock: one object that holders replace only in the version that they have read.

Source: StorageBasedLockProvider and StorageLockData of Hudi 1.2. The lock is free if there is no object, if
it is marked as expired, or half a second after the end of its lease. The holder renews the lease regularly
and marks the lock as expired to release it; the object is never deleted. Hudi accepts no further keys in it,
so a lock of this project names its instant in ``owner``; the claim on the instant names the process.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from parquetry.runtime.commit.claims import Session, read_claim
from parquetry.runtime.commit.lock import LockHold, LockInfo
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.model import ObjectStore, ObjectVersion, VersionedStore
from parquetry.runtime.storage.open import versioned
from parquetry.runtime.storage.os_errors import LATE_FAILURES

_LOG = logging.getLogger(__name__)

STORAGE_LOCK_PATH: Final = ".hoodie/.locks/table_lock.json"

CLOCK_DRIFT_MS: Final = 500
_ATTEMPTS_TO_RELEASE: Final = 3
_OWNER: Final = re.compile(r"parquetry-(?P<instant>[0-9]{17})-(?P<nonce>[0-9a-f]{32})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The periods of a storage lock, in seconds. The defaults of the first two are Hudi's.

    A holder takes the lock for ``validity_seconds``, and renews it every ``renewal_seconds``. It counts as
    its holder until ``margin_seconds`` before the end. A put of the lock is repeated for up to
    ``patience_seconds`` if its outcome is unknown.
    """

    validity_seconds: float = 300.0
    renewal_seconds: float = 30.0
    margin_seconds: float = 30.0
    patience_seconds: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _LockData:
    """The content of the lock object."""

    is_expired: bool
    valid_until_ms: int
    owner: str

    def to_bytes(self) -> bytes:
        document = {"expired": self.is_expired, "validUntil": self.valid_until_ms, "owner": self.owner}
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, content: bytes, *, uri: str) -> _LockData:
        try:
            document = parsed_json(content)
            expired, until, owner = document["expired"], document["validUntil"], document["owner"]
        except (ValueError, KeyError, TypeError):
            expired = until = owner = None
        if not isinstance(expired, bool) or type(until) is not int or not isinstance(owner, str):
            raise CorruptTableError(
                "{file}: the file does not contain a lock of Hudi; if no other program writes to this table, "
                "remove the file",
                file=uri,
            )
        return cls(is_expired=expired, valid_until_ms=until, owner=owner)

    def has_lapsed(self, now_ms: int) -> bool:
        """Return whether the lease is certainly over by the clock of any holder."""
        return now_ms > self.valid_until_ms + CLOCK_DRIFT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLock:
    """The method of locking by Hudi's storage-based lock."""

    lease: Lease = Lease()

    @property
    def path(self) -> str:
        """The path of the lock object, which Hudi fixes."""
        return STORAGE_LOCK_PATH

    def read(self, store: ObjectStore) -> LockInfo | None:
        """Return the lock that is held now, or None if it is free.

        A lock of this project whose lease is over is returned as well, because its write must be rolled back
        before the lock is taken.
        """
        found = versioned(store).read_version(STORAGE_LOCK_PATH)
        if found is None:
            return None
        data = _data_of(store, found)
        named = _OWNER.fullmatch(data.owner)
        if _is_free(data, found.read_ms):
            return None
        instant = None if named is None else named["instant"]
        # A session removes its claim after it has released the lock.
        claim = None if instant is None else read_claim(store, instant)
        return LockInfo(
            path=STORAGE_LOCK_PATH,
            content=found.content,
            modified_ms=found.modified_ms,
            identity=data.owner.encode(),
            instant=instant,
            owner=None if claim is None else claim.owner,
            nonce=None if named is None else named["nonce"],
            tag=found.tag,
            expires_ms=data.valid_until_ms,
            has_ended=instant is not None and data.has_lapsed(found.read_ms),
        )

    def take(self, session: Session) -> LockHold | None:
        """Replace a free lock, or create it, with two requests; return None if it is not free.

        The lease begins at the time at which the store was read.
        """
        store = versioned(session.store)
        found = store.read_version(STORAGE_LOCK_PATH)
        if found is not None and not _is_free(_data_of(store, found), found.read_ms):
            return None
        hold = StorageHold(session, store, self.lease)
        now_ms = store.now_ms() if found is None else found.read_ms
        return hold if hold.take(None if found is None else found.tag, now_ms) else None

    def is_unchanged(self, store: ObjectStore, lock: LockInfo) -> bool:
        """Return whether the lock is still in the version that was read."""
        found = versioned(store).read_version(STORAGE_LOCK_PATH)
        return found is not None and found.tag == lock.tag

    def remove(self, store: ObjectStore, lock: LockInfo) -> bool:
        """Mark the lock as expired unless it has changed since it was read."""
        data = _LockData.from_bytes(lock.content, uri=f"{store.uri}/{lock.path}")
        expired = _expired(data.owner, data.valid_until_ms)
        return versioned(store).put_if_match(STORAGE_LOCK_PATH, expired, tag=lock.tag) is not None


class StorageHold:
    """A storage lock that this process has taken, with a thread that renews the lease until the release.

    ``_tag`` is None while the version of the lock is unknown, because the answer to a put was lost.
    """

    def __init__(self, session: Session, store: VersionedStore, lease: Lease) -> None:
        self._session = session
        self._store = store
        self._owner = f"parquetry-{session.instant}-{uuid.uuid4().hex}"
        self._lease = lease
        self._tag: str | None = None
        self._valid_until_ms = 0
        self._is_lost = False
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lock-{session.instant}", daemon=True)

    def take(self, tag: str | None, now_ms: int) -> bool:
        """Replace the free lock of this version, and begin to renew it; return False if it has changed."""
        try:
            is_taken = self._put(tag, now_ms)
        except LATE_FAILURES:
            # The store may have taken the lock despite the failure. Others would wait for the lease to end.
            self.release()
            raise
        if is_taken:
            self._thread.start()
        return is_taken

    def is_held(self) -> bool:
        """Return whether the lock is still held, with enough time left to publish.

        The lock is read: the clock of the store and the object decide, not the clock of this process.
        """
        with self._guard:
            found = self._read_own()
            if found is None:
                return False
            margin_ms = int(self._lease.margin_seconds * 1000)
            return found.read_ms < self._valid_until_ms - margin_ms

    def renew(self) -> None:
        """Begin a new lease, unless another program has taken or released the lock."""
        with self._guard:
            found = self._read_own()
            if found is not None:
                self._tag = None
                self._put(found.tag, found.read_ms)

    def release(self, *, is_confirmed: bool = False) -> None:  # noqa: ARG002 - the put has a condition
        """Stop the renewals and mark the lock as expired if it is still the one of this object.

        This is tried three times, as all other writers wait for it. If the store fails each time, the lock
        stays until its lease is over.
        """
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for attempt in range(1, _ATTEMPTS_TO_RELEASE + 1):
            try:
                self._expire()
                break
            except LATE_FAILURES as error:
                self._tag = None
                if attempt == _ATTEMPTS_TO_RELEASE:
                    uri = f"{self._store.uri}/{STORAGE_LOCK_PATH}"
                    _LOG.warning("the lock %s could not be released, it will expire: %s", uri, error)

    def _expire(self) -> None:
        if self._tag is None and self._read_own() is None:
            return
        if not self._is_lost:
            expired = _expired(self._owner, self._valid_until_ms)
            patience = self._lease.patience_seconds
            self._store.put_if_match(STORAGE_LOCK_PATH, expired, tag=self._tag, patience_seconds=patience)
        self._is_lost = True

    def _run(self) -> None:
        owner = self._session.claim.owner
        while not self._is_lost and not self._stopping.wait(self._lease.renewal_seconds):
            if owner.has_ended:
                return
            # If a renewal fails, the next may succeed. Publishing notices that the lease ends.
            with suppress(*LATE_FAILURES):
                self.renew()

    def _put(self, tag: str | None, now_ms: int) -> bool:
        """Put the lock with a new lease, and return False if the lock is not in this version any more."""
        valid_until_ms = now_ms + int(self._lease.validity_seconds * 1000)
        data = _LockData(is_expired=False, valid_until_ms=valid_until_ms, owner=self._owner)
        patience = self._lease.patience_seconds
        self._tag = self._store.put_if_match(
            STORAGE_LOCK_PATH, data.to_bytes(), tag=tag, patience_seconds=patience
        )
        self._is_lost = self._tag is None
        if not self._is_lost:
            self._valid_until_ms = valid_until_ms
        return not self._is_lost

    def _read_own(self) -> ObjectVersion | None:
        """Return the lock as it is now if this object holds it. Its version and lease are noted."""
        found = None if self._is_lost else self._store.read_version(STORAGE_LOCK_PATH)
        data = None if found is None else _data_of(self._store, found)
        if found is None or data is None or data.is_expired or data.owner != self._owner:
            self._is_lost = True
            return None
        self._tag, self._valid_until_ms = found.tag, data.valid_until_ms
        return found


def _data_of(store: ObjectStore, found: ObjectVersion) -> _LockData:
    return _LockData.from_bytes(found.content, uri=f"{store.uri}/{STORAGE_LOCK_PATH}")


def _is_free(data: _LockData, now_ms: int) -> bool:
    """Return whether a writer may take the lock.

    A lock of this project is not free when its lease is over: its write must be rolled back first.
    """
    return data.is_expired or (data.has_lapsed(now_ms) and not _OWNER.fullmatch(data.owner))


def _expired(owner: str, valid_until_ms: int) -> bytes:
    return _LockData(is_expired=True, valid_until_ms=valid_until_ms, owner=owner).to_bytes()
