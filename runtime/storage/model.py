"""What an object store promises: atomic objects by path, and one that cannot be put twice."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from parquetry.confined_folder import FileIdentity
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.storage.regular_file import MOST_RECORD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """One object. ``modified_ms`` is in the store's clock; ``etag`` None where there is none.

    ``is_link`` says, in listings, that the path is another name of a file: a symbolic link. ``identity``
    is the same for all names of a file, and None where a file has only one.
    """

    path: str
    size_bytes: int
    modified_ms: int
    etag: str | None = None
    is_link: bool = False
    identity: FileIdentity | None = None


# Inside the stores the name ``list`` is a method.
Objects = list[ObjectInfo]
Paths = list[str]


class PutOutcome(StrEnum):
    """How ``put_if_absent`` ended.

    ``MINE``: the object was there already, and it was put by this caller: by an attempt of the
    same call whose answer got lost, or by an earlier call with the same nonce.
    """

    WON = "won"
    LOST = "lost"
    MINE = "mine"


class ObjectStore(Protocol):
    """Objects below one root, the base path of a table.

    Paths are relative to the root and separated by ``/``, without a leading ``/``; a path that
    leaves the root is refused with a StorageError. Stores travel to workers, so they pickle.
    Every failure is a StorageError that names the object, the reason and a remedy; an absent
    object is a NotFoundError.
    """

    @property
    def uri(self) -> str:
        """The root, such as ``file:///data/t`` or ``s3://bucket/t``; no trailing ``/``."""
        ...

    @property
    def allowed(self) -> Allowed:
        """Return the keys and plug-ins that may be used for the table; they come from who opened it."""
        ...

    def read(self, path: str, *, most_bytes: int = MOST_RECORD_BYTES) -> bytes:
        """The whole object, by one request; TooLargeError, before it is read, if it has more bytes."""
        ...

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        """Bytes ``start`` to ``stop`` (exclusive) of the object, which has them, by one request."""
        ...

    def open_input(self, path: str) -> Any:
        """A seekable pyarrow file over the object, to be closed by the caller."""
        ...

    def stat(self, path: str) -> ObjectInfo | None:
        """The object's facts, None when there is none (a folder is none)."""
        ...

    def list(self, prefix: str = "", *, recursive: bool = False) -> Objects:
        """The objects in folder ``prefix``, sorted by path; a missing folder has none.

        Everything is listed, temporary and hidden names too.
        """
        ...

    def list_folders(self, prefix: str = "") -> Paths:
        """The paths of the direct sub-folders of ``prefix``, sorted."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object, durably; readers see the old or the new one whole."""
        ...

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        """Create the object, durably, unless there is one.

        ``nonce`` is a text that ``data`` contains and nobody else writes; with it an object
        that stands there is recognised as one's own. An unknown outcome is never reported as a
        failure: it is resolved, or ends in an UnknownOutcomeError.
        """
        ...

    def create_file(self, path: str) -> AbstractContextManager[Any]:
        """A writable file for ``with``: appears under ``path``, whole, when the block ends well.

        When the block raises nothing appears. An object that is there is replaced.
        """
        ...

    def delete(self, path: str) -> bool:
        """Remove the object; True if there was one (as far as the store can tell)."""
        ...

    def delete_all(self, paths: Iterable[str]) -> None:
        """Remove the objects; absent ones are passed over."""
        ...

    def delete_folder(self, prefix: str) -> None:
        """Remove everything below the folder and the folder; an absent one is passed over."""
        ...

    def now_ms(self) -> int:
        """The clock that ``modified_ms`` is taken from; never ahead of it."""
        ...

    def spark_uri(self, path: str) -> str:
        """The object's or folder's path for Spark, with what Hadoop would glob escaped."""
        ...
