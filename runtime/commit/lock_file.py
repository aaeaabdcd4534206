"""Hudi's lock file, which is created with put-if-absent and deleted on release.

Source: FileSystemBasedLockProvider of Hudi 0.15. In its content, a lock of this project names its instant.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from dataclasses import dataclass
from typing import Final

from parquetry.runtime.commit.claims import Session
from parquetry.runtime.commit.lock import LockHold, LockInfo
from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.os_errors import LATE_FAILURES

_LOG = logging.getLogger(__name__)

DEFAULT_LOCK_PATH: Final = ".hoodie/.aux/lock"

_ATTEMPTS_TO_RELEASE: Final = 3


@dataclass(frozen=True, slots=True)
class LockFile:
    """The method of locking by a file; by default at Hudi's implicit path."""

    path: str = DEFAULT_LOCK_PATH

    def read(self, store: ObjectStore) -> LockInfo | None:
        """Return the lock that is held now, or None if the table is not locked."""
        try:
            content = store.read(self.path)
        except NotFoundError:
            return None
        info = store.stat(self.path)
        if info is None:
            return None
        instant, owner, nonce = _parsed(content) or (None, None, None)
        return LockInfo(
            path=self.path,
            content=content,
            modified_ms=info.modified_ms,
            identity=content,
            instant=instant,
            owner=owner,
            nonce=nonce,
        )

    def take(self, session: Session) -> LockHold | None:
        """Create the lock file, or return None if another lock exists."""
        nonce = uuid.uuid4().hex
        claim = session.claim
        document = {
            "lockCreateTime": str(session.store.now_ms()),
            "lockThreadName": f"parquetry {claim.purpose} {claim.instant}",
            "parquetry": {"instant": claim.instant, "nonce": nonce, "owner": claim.owner.to_json()},
        }
        hold = _FileHold(session.store, self.path, json.dumps(document, indent=1).encode())
        try:
            outcome = session.store.put_if_absent(self.path, hold.content, nonce=nonce)
        except LATE_FAILURES:
            # The store may have created the file despite the failure, and nobody else would release it.
            hold.release()
            raise
        return None if outcome is PutOutcome.LOST else hold

    def is_unchanged(self, store: ObjectStore, lock: LockInfo) -> bool:
        """Return whether the lock file still has the content that was read."""
        return _contains(store, lock.path, lock.content)

    def remove(self, store: ObjectStore, lock: LockInfo) -> bool:
        """Delete the lock file unless it has changed since it was read."""
        if not self.is_unchanged(store, lock):
            return False
        store.delete(lock.path)
        return True


@dataclass(frozen=True, slots=True)
class _FileHold:
    """A lock file that this process has created with a content of its own."""

    store: ObjectStore
    path: str
    content: bytes

    def is_held(self) -> bool:
        return _contains(self.store, self.path, self.content)

    def release(self, *, is_confirmed: bool = False) -> None:
        """Remove the lock file if it is still the one of this object.

        Removal is tried three times, as all other writers wait for it. If the store fails each time, the lock
        stays: it names an instant whose heartbeat ends, so the next writer removes it.
        """
        for attempt in range(1, _ATTEMPTS_TO_RELEASE + 1):
            try:
                if is_confirmed or self.is_held():
                    self.store.delete(self.path)
                break
            except LATE_FAILURES as error:
                is_confirmed = False
                if attempt == _ATTEMPTS_TO_RELEASE:
                    uri = f"{self.store.uri}/{self.path}"
                    _LOG.warning("the lock %s could not be removed, the next writer will: %s", uri, error)


def _contains(store: ObjectStore, path: str, content: bytes) -> bool:
    """Return whether the file exists with this content."""
    try:
        return store.read(path) == content
    except NotFoundError:
        return False


def _parsed(content: bytes) -> tuple[str, Owner, str] | None:
    """Return the instant, the owner and the nonce of a lock, or None if it is not of this project."""
    try:
        document = parsed_json(content)["parquetry"]
        return (
            _file_name(document["instant"]),
            Owner.from_json(document["owner"]),
            _file_name(document["nonce"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _file_name(value: object) -> str:
    """Return the value as a string that is safe as a file name, or raise ValueError."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9A-Za-z_-]+", value):
        raise ValueError(f"{value!r:.60} is not a file name")
    return value
