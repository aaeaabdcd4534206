"""Hudi's holder of a storage-based lock as a model: the rules of StorageBasedLockProvider of Hudi 1.2 in a few lines."""

from __future__ import annotations

import json
import uuid

from parquetry.runtime.commit.storage_lock import STORAGE_LOCK_PATH
from parquetry.runtime.storage.model import VersionedStore


class ModelledHudiLock:
    """One lock provider of a Hudi job, whose clock differs from the store's by ``skew_ms``."""

    def __init__(self, store: VersionedStore, *, skew_ms: int = 0, validity_ms: int = 300_000) -> None:
        self.store = store
        self.skew_ms = skew_ms
        self.validity_ms = validity_ms
        self.owner = str(uuid.uuid4())
        self.tag: str | None = None
        self.valid_until_ms = 0

    def now_ms(self) -> int:
        return self.store.now_ms() + self.skew_ms

    def take(self) -> bool:
        found = self.store.read_version(STORAGE_LOCK_PATH)
        if found is not None:
            data = json.loads(found.content)
            if not data["expired"] and self.now_ms() <= data["validUntil"] + 500:
                return False
        return self._put(None if found is None else found.tag)

    def believes_held(self) -> bool:
        return self.tag is not None and self.now_ms() < self.valid_until_ms

    def renew(self) -> None:
        if self.tag is not None:
            self._put(self.tag)

    def release(self) -> None:
        if self.tag is not None:
            data = {"expired": True, "validUntil": self.valid_until_ms, "owner": self.owner}
            self.store.put_if_match(STORAGE_LOCK_PATH, json.dumps(data).encode(), tag=self.tag)
        self.tag = None

    def _put(self, tag: str | None) -> bool:
        until = self.now_ms() + self.validity_ms
        data = {"expired": False, "validUntil": until, "owner": self.owner}
        self.tag = self.store.put_if_match(STORAGE_LOCK_PATH, json.dumps(data).encode(), tag=tag)
        self.valid_until_ms = until
        return self.tag is not None
