"""The interface of an object store: atomic objects by path, and a put that fails if the object exists."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from parquetry.confined_folder import FileIdentity
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.storage.regular_file import MOST_RECORD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """The metadata of one object.

    ``modified_ms`` is in the clock of the store. ``etag`` is None if the store has none. In listings,
    ``is_link`` is True if the path is a symbolic link to a file. ``identity`` is equal for all names of one
    file, and None if the file has only one name.
    """

    path: str
    size_bytes: int
    modified_ms: int
    etag: str | None = None
    is_link: bool = False
    identity: FileIdentity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVersion:
    """An object as it was read. ``tag`` identifies this version: an ETag or a generation.

    ``modified_ms`` and ``read_ms``, the time at which it was read, are in the clock of the store. ``read_ms``
    is never ahead of that clock.
    """

    content: bytes
    tag: str
    modified_ms: int
    read_ms: int


# Inside the stores, ``list`` is the name of a method.
Objects = list[ObjectInfo]
Paths = list[str]


class PutOutcome(StrEnum):
    """The result of ``put_if_absent``.

    ``MINE`` means that the object existed and that this caller had put it: by an attempt of the same call
    whose answer got lost, or by an earlier call with the same nonce.
    """

    WON = "won"
    LOST = "lost"
    MINE = "mine"


class ObjectStore(Protocol):
    """Objects below one root, the base path of a table.

    Paths are relative to the root and separated by ``/``, without a leading ``/``. A path that leaves the
    root raises a StorageError. Stores are sent to Spark workers, so they can be pickled. Every failure is a
    StorageError that names the object, the reason and a remedy; an absent object is a NotFoundError.
    """

    @property
    def uri(self) -> str:
        """The root, such as ``file:///data/t`` or ``s3://bucket/t``, without a trailing ``/``."""
        ...

    @property
    def allowed(self) -> Allowed:
        """The keys and plug-ins that the opener of the store permits for the table."""
        ...

    def read(
        self, path: str, *, most_bytes: int = MOST_RECORD_BYTES, listed: ObjectInfo | None = None
    ) -> bytes:
        """Return the content of the object, with one request.

        If ``listed`` is given, the object as a listing shows it, a bucket sends no request for a version that
        this store has read so before, or has put by :meth:`put_if_absent`.

        Raises:
            NotFoundError: If the object is absent.
            TooLargeError: If the object has more than ``most_bytes`` bytes. The content is not read.

        """
        ...

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        """Return bytes ``start`` to ``stop`` (exclusive), with one request. The object must contain them."""
        ...

    def open_input(self, path: str) -> Any:
        """Open the object as a seekable pyarrow file, which the caller closes."""
        ...

    def stat(self, path: str) -> ObjectInfo | None:
        """Return the metadata of the object, or None if there is no object (a folder is not an object)."""
        ...

    def list(self, prefix: str = "", *, recursive: bool = False) -> Objects:
        """Return the objects in the folder ``prefix``, sorted by path.

        If there is no such folder, the list is empty. Temporary and hidden objects are included.
        """
        ...

    def list_each(self, prefixes: Iterable[str]) -> dict[str, Objects]:
        """Return the result of :meth:`list` for each folder. In a bucket, near folders share requests."""
        ...

    def list_folders(self, prefix: str = "") -> Paths:
        """Return the paths of the direct subfolders of ``prefix``, sorted."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object durably. Readers see either the old or the new content, in full."""
        ...

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        """Create the object durably, unless it exists.

        Args:
            path: The path of the object.
            data: The content.
            nonce: A text that ``data`` contains and that no other writer uses. It makes it possible to
                recognise an existing object as the caller's own.

        Raises:
            UnknownOutcomeError: If the store could not find out if the object was created. An unknown outcome
                is never reported as a failure.

        """
        ...

    def create_file(self, path: str) -> AbstractContextManager[Any]:
        """Yield a writable file that appears under ``path``, complete, when the block ends without an error.

        If the block raises, no object appears. An existing object is replaced.
        """
        ...

    def move(self, path: str, to: str) -> None:
        """Move the object durably to the path ``to``, with ``modified_ms`` of now.

        An object there is replaced, and an absent object is ignored. At any moment the whole object is at one
        of the two paths at least; after a crash it may be at both.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete the object. An absent object is ignored."""
        ...

    def delete_all(self, paths: Iterable[str]) -> None:
        """Delete the objects. Absent ones are ignored."""
        ...

    def delete_folder(self, prefix: str, *, objects: Iterable[str] | None = None) -> None:
        """Delete the folder and everything below it. An absent folder is ignored.

        Args:
            prefix: The path of the folder.
            objects: The paths of the objects in it, if the caller knows them. Then a bucket lists nothing,
                and an object that is not among them may stay.

        """
        ...

    def now_ms(self) -> int:
        """Return the time of the clock that sets ``modified_ms``. It is never ahead of that clock."""
        ...

    def spark_uri(self, path: str) -> str:
        """Return the URI of the object or folder for Spark, with Hadoop's glob characters escaped."""
        ...


@runtime_checkable
class VersionedStore(ObjectStore, Protocol):
    """A store that can replace exactly the version of an object that was read. Folders cannot do that."""

    def read_version(self, path: str) -> ObjectVersion | None:
        """Return the object with the tag of its version, with one request, or None if it is absent.

        Raises:
            TooLargeError: If the object exceeds the size limit of records.

        """
        ...

    def put_if_match(
        self, path: str, data: bytes, *, tag: str | None, patience_seconds: float | None = None
    ) -> str | None:
        """Replace a version of the object durably, unless there is another version by now.

        Args:
            path: The path of the object.
            data: The content. It must differ from that of all other puts.
            tag: The tag of the version to replace, or None if the object must be absent.
            patience_seconds: For how long the put is repeated while its outcome is unknown, or None for the
                time of other conditional puts.

        Returns:
            The tag of the new version, or None if nothing was replaced.

        Raises:
            UnknownOutcomeError: If the store could not find out if the version was replaced.

        """
        ...
