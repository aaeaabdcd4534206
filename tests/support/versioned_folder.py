"""A folder that replaces versions of objects as an object store does, so that tests of the storage lock need no server."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.storage.model import ObjectVersion, PutOutcome, VersionedStore


class VersionedFolder(LocalStore, VersionedStore):
    """Tags are digests of the content. The clock is ``ahead_ms`` ahead; tests advance it."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def put(self, path: str, data: bytes) -> None:
        super().put(path, data)
        self._date(path)

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        outcome = super().put_if_absent(path, data, nonce=nonce)
        if outcome is PutOutcome.WON:
            self._date(path)
        return outcome

    def _date(self, path: str) -> None:
        if self.ahead_ms:
            os.utime(self.root / path, (self.now_ms() / 1000,) * 2)

    def read_version(self, path: str) -> ObjectVersion | None:
        try:
            content = self.read(path)
        except NotFoundError:
            return None
        info = self.stat(path)
        if info is None:
            return None
        return ObjectVersion(
            content=content, tag=_tag(content), modified_ms=info.modified_ms, read_ms=self.now_ms()
        )

    def put_if_match(
        self, path: str, data: bytes, *, tag: str | None, patience_seconds: float | None = None
    ) -> str | None:
        with self._alone():
            found = self.read_version(path)
            if (None if found is None else found.tag) != tag:
                return None
            self.put(path, data)
        return _tag(data)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.root.parent.mkdir(parents=True, exist_ok=True)
        with (self.root.parent / f".{self.root.name}.flock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
