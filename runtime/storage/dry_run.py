"""A store for dry runs: it keeps all changes in memory, so that a service can show what it would delete."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import pyarrow as pa

from parquetry.message import Value
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.errors import NotFoundError, StorageError
from parquetry.runtime.storage.model import (
    ObjectInfo,
    Objects,
    ObjectStore,
    ObjectVersion,
    Paths,
    PutOutcome,
    VersionedStore,
)
from parquetry.runtime.storage.paths import checked_path
from parquetry.runtime.storage.regular_file import MOST_RECORD_BYTES, check_size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Put:
    """An object that was put during the dry run."""

    content: bytes
    modified_ms: int
    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    """An object of the other store that was moved during the dry run from the path ``source``."""

    source: ObjectInfo
    info: ObjectInfo


class DryRunStore(ObjectStore):
    """The objects of another store, to which no change is written.

    What is put is kept in memory, and what is deleted is absent from then on, for callers of this store only.
    The store is used by one process and cannot be pickled. Every method of the interface is defined here, so
    that none reaches the other store by accident.
    """

    def __init__(self, inner: ObjectStore, *, hidden: Iterable[str] = ()) -> None:
        """Create a store over ``inner``, in which the ``hidden`` objects are absent."""
        self._inner = inner
        self._puts: dict[str, _Put] = {}
        self._moved: dict[str, _Moved] = {}
        self._absent = set(hidden)
        self._deleted: dict[str, ObjectInfo] = {}
        self._listed: dict[str, ObjectInfo] = {}
        # Heartbeats put from a thread of their own.
        self._lock = threading.RLock()

    def __reduce__(self) -> Any:
        """Refuse to be pickled: a copy in another process would not see the changes."""
        raise TypeError("a dry run stays in its process")

    @property
    def deleted(self) -> tuple[ObjectInfo, ...]:
        """The objects of the other store that were deleted and not put again, by path."""
        with self._lock:
            there = self._puts.keys() | self._moved.keys()
            return tuple(info for path, info in sorted(self._deleted.items()) if path not in there)

    @property
    def moved(self) -> frozenset[str]:
        """The paths to which objects of the other store were moved."""
        with self._lock:
            return frozenset(self._moved)

    @property
    def uri(self) -> str:
        """The root of the other store."""
        return self._inner.uri

    @property
    def allowed(self) -> Allowed:
        """The permissions of the other store."""
        return self._inner.allowed

    def read(
        self, path: str, *, most_bytes: int = MOST_RECORD_BYTES, listed: ObjectInfo | None = None
    ) -> bytes:
        """Return the content of the object as it would be now."""
        content = self._content(path)
        if content is None:
            where = self._inner_path(path)
            known = listed if where == path else None
            return self._inner.read(where, most_bytes=most_bytes, listed=known)
        check_size(self._name(path), len(content), most_bytes=most_bytes)
        return content

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        """Return bytes of the object as it would be now."""
        content = self._content(path)
        if content is not None:
            return content[start:stop]
        return self._inner.read_range(self._inner_path(path), start, stop)

    def open_input(self, path: str) -> Any:
        """Open the object as it would be now."""
        content = self._content(path)
        return self._inner.open_input(self._inner_path(path)) if content is None else pa.BufferReader(content)

    def stat(self, path: str) -> ObjectInfo | None:
        """Return the metadata of the object as it would be now."""
        with self._lock:
            put, moved = self._puts.get(path), self._moved.get(path)
            if moved is not None:
                return moved.info
            if put is None and path in self._absent:
                return None
        return self._inner.stat(path) if put is None else _info(path, put)

    def list(self, prefix: str = "", *, recursive: bool = False) -> Objects:
        """Return the objects in the folder as they would be now."""
        return self._merged(prefix, self._inner.list(prefix, recursive=recursive), recursive=recursive)

    def list_each(self, prefixes: Iterable[str]) -> dict[str, Objects]:
        """Return the objects in each folder as they would be now."""
        return {
            prefix: self._merged(prefix, found, recursive=False)
            for prefix, found in self._inner.list_each(prefixes).items()
        }

    def list_folders(self, prefix: str = "") -> Paths:
        """Return the subfolders that would exist now."""
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        with self._lock:
            puts, absent = (*self._puts, *self._moved), tuple(self._absent)
        folders = {
            f"{folder}{path.removeprefix(folder).partition('/')[0]}"
            for path in puts
            if path.startswith(folder) and "/" in path.removeprefix(folder)
        }
        for found in self._inner.list_folders(prefix):
            is_touched = any(path.startswith(f"{found}/") for path in absent)
            if not is_touched or self.list(found, recursive=True):
                folders.add(found)
        return sorted(folders)

    def put(self, path: str, data: bytes) -> None:
        """Keep the object in memory."""
        self._keep(path, data)

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        """Keep the object in memory, unless it would exist now."""
        with self._lock:
            if self.stat(path) is None:
                self._keep(path, data)
                return PutOutcome.WON
            is_own = nonce is not None and nonce.encode() in self.read(path)
            return PutOutcome.MINE if is_own else PutOutcome.LOST

    def read_version(self, path: str) -> ObjectVersion | None:
        """Return the version of the object that would exist now."""
        with self._lock:
            put = self._puts.get(path)
            if put is None and path in self._absent and path not in self._moved:
                return None
        if put is None:
            return self._versioned(path).read_version(self._inner_path(path))
        return ObjectVersion(
            content=put.content, tag=put.tag, modified_ms=put.modified_ms, read_ms=self.now_ms()
        )

    def put_if_match(
        self,
        path: str,
        data: bytes,
        *,
        tag: str | None,
        patience_seconds: float | None = None,  # noqa: ARG002 - the outcome is always known
    ) -> str | None:
        """Keep the object in memory if the version that would exist now is the one with the ``tag``."""
        with self._lock:
            found = self.read_version(path)
            if (None if found is None else found.tag) != tag:
                return None
            return self._keep(path, data)

    @contextmanager
    def create_file(self, path: str) -> Iterator[Any]:
        """Yield a file in memory, which appears when the block ends without an error."""
        file = BytesIO()
        yield file
        self._keep(path, file.getvalue())

    def move(self, path: str, to: str) -> None:
        """Move the object in this dry run."""
        for each in (path, to):
            checked_path(each, root=self.uri)
        with self._lock:
            info = self.stat(path)
            if info is None:
                return
            self._puts.pop(to, None)
            put, moved = self._puts.pop(path, None), self._moved.pop(path, None)
            self._absent.add(path)
            if put is not None:
                self._puts[to] = replace(put, modified_ms=self.now_ms())
                return
            source = info if moved is None else moved.source
            self._moved[to] = _Moved(source=source, info=replace(info, path=to, modified_ms=self.now_ms()))

    def delete(self, path: str) -> None:
        """Delete the object in this dry run."""
        self.delete_all([path])

    def delete_all(self, paths: Iterable[str]) -> None:
        """Delete the objects in this dry run."""
        for path in paths:
            checked_path(path, root=self.uri)
            with self._lock:
                self._puts.pop(path, None)
                moved = self._moved.pop(path, None)
                if moved is not None:
                    self._deleted[moved.source.path] = moved.source
                info = None if path in self._absent else self._listed.get(path) or self._inner.stat(path)
                self._absent.add(path)
                if info is not None:
                    self._deleted[path] = info

    def delete_folder(self, prefix: str, *, objects: Iterable[str] | None = None) -> None:  # noqa: ARG002 - the folder is listed
        """Delete everything in the folder in this dry run."""
        folder = checked_path(f"{prefix}/", root=self.uri, folder=True)
        self.delete_all([info.path for info in self.list(folder, recursive=True)])

    def now_ms(self) -> int:
        """Return the time of the other store's clock."""
        return self._inner.now_ms()

    def spark_uri(self, path: str) -> str:
        """Return the URI of the object in the other store."""
        return self._inner.spark_uri(path)

    def _content(self, path: str) -> bytes | None:
        """Return what was put, or None if the other store has the object; raise NotFoundError if deleted."""
        with self._lock:
            put = self._puts.get(path)
            if put is None and path in self._absent and path not in self._moved:
                raise NotFoundError("{file}: no such object", file=self._name(path))
        return None if put is None else put.content

    def _keep(self, path: str, data: bytes) -> str:
        """Keep the object, and return the tag of its version."""
        checked_path(path, root=self.uri)
        put = _Put(content=bytes(data), modified_ms=self.now_ms(), tag=uuid.uuid4().hex)
        with self._lock:
            self._puts[path] = put
            self._moved.pop(path, None)
        return put.tag

    def _inner_path(self, path: str) -> str:
        """Return the path at which the other store has an object."""
        with self._lock:
            moved = self._moved.get(path)
        return path if moved is None else moved.source.path

    def _merged(self, prefix: str, found: Objects, *, recursive: bool) -> Objects:
        """Return listed objects of a folder without those deleted, and with those put."""
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        with self._lock:
            self._listed.update((info.path, info) for info in found)
            merged = {info.path: info for info in found if info.path not in self._absent}
            made = {path: _info(path, put) for path, put in self._puts.items()}
            made |= {path: moved.info for path, moved in self._moved.items()}
            for path, info in made.items():
                below = path.removeprefix(folder)
                if path.startswith(folder) and (recursive or "/" not in below):
                    merged[path] = info
        return [merged[path] for path in sorted(merged)]

    def _versioned(self, path: str) -> VersionedStore:
        """Return the other store if it has versions, or raise StorageError."""
        if not isinstance(self._inner, VersionedStore):
            raise StorageError("{file}: the store has no versions of objects", file=self._name(path))
        return self._inner

    def _name(self, path: str) -> Value:
        return Value.uri(f"{self.uri}/{path}")


def _info(path: str, put: _Put) -> ObjectInfo:
    return ObjectInfo(path=path, size_bytes=len(put.content), modified_ms=put.modified_ms, etag=put.tag)
