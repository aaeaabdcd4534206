"""Opening the object store of a table by its location."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from typing import Any

from parquetry.runtime.allowed import NOTHING_ALLOWED, Allowed
from parquetry.runtime.errors import StorageError, UnsupportedTableError
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.storage.model import ObjectStore, PutOutcome, VersionedStore

_SCHEME = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>.*)$", re.DOTALL)


def open_store(
    uri: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
    allowed: Allowed = NOTHING_ALLOWED,
) -> ObjectStore:
    """Return the store for a local path or a ``file:``, ``s3:``, ``s3a:`` or ``gs:`` URI.

    No request is sent.

    Args:
        uri: The root of the store.
        options: The options of fsspec's file system (``key``, ``secret``, ``endpoint_url``, ...).
        allowed: The keys and plug-ins that may be used for the table at this location.

    Raises:
        StorageError: If the scheme is not supported, or the URI contains no bucket or no absolute path.

    """
    text = os.fspath(uri)
    match = _SCHEME.match(text)
    if match is None:
        return LocalStore(text, allowed)
    match match["scheme"].lower():
        case "file":
            return LocalStore(_local_path(text, match["rest"]), allowed)
        case "s3" | "s3a":
            from parquetry.runtime.storage.s3 import S3Store  # noqa: PLC0415

            return S3Store(*_bucket(text, match["rest"]), options or {}, allowed)
        case "gs":
            from parquetry.runtime.storage.gcs import GcsStore  # noqa: PLC0415

            return GcsStore(*_bucket(text, match["rest"]), options or {}, allowed)
        case scheme:
            raise StorageError(
                "cannot open {location}: the scheme {scheme!r} is not supported; use a local path, file:, "
                "s3:, s3a: or gs:",
                location=text,
                scheme=scheme,
            )


def _bucket(text: str, rest: str) -> tuple[str, str]:
    """Return the bucket and the prefix in the part of a URI after its scheme.

    ``text`` is the URI for errors.
    """
    bucket, _, prefix = rest.removeprefix("//").partition("/")
    if not bucket:
        raise StorageError(
            "cannot open {location}: it does not name a bucket; write {scheme}://bucket/folder",
            location=text,
            scheme=text.partition(":")[0],
        )
    return bucket, prefix.strip("/")


def _local_path(text: str, rest: str) -> str:
    path = re.sub(r"^//(localhost)?(?=/)", "", rest)
    if not path.startswith("/") or path.startswith("//"):
        raise StorageError(
            "cannot open {location}: it is not an absolute local path; write file:///folder/table",
            location=text,
        )
    return path


def probe_put_if_absent(store: ObjectStore, path: str) -> None:
    """Raise StorageError unless the second of two conditional puts of one object fails.

    Without conditional puts, two writers could both believe that they have committed.

    Args:
        store: The store to test.
        path: A path without an object. The function deletes the object that it creates there.

    """
    # For an unreachable store, stat fails within seconds, whereas put_if_absent retries for minutes.
    store.stat(path)
    nonces = [uuid.uuid4().hex, uuid.uuid4().hex]
    try:
        outcomes = [store.put_if_absent(path, n.encode(), nonce=n) for n in nonces]
        kept = store.read(path).decode()
    finally:
        store.delete(path)
    if outcomes[1] is not PutOutcome.LOST or kept != nonces[0]:
        raise StorageError(
            "the store of {table} does not honour conditional puts, so a second writer would overwrite "
            "a commit; use a store that does",
            table=store.uri,
        )


def versioned(store: ObjectStore) -> VersionedStore:
    """Return the store as one that can have a storage lock.

    Raises:
        UnsupportedTableError: If the store is a local path.
    """
    if not isinstance(store, VersionedStore):
        raise UnsupportedTableError(
            "{table}: the table has a storage-based lock, which a local path cannot take; open the table by "
            "its s3:// or gs:// URI",
            table=store.uri,
        )
    return store


def probe_put_if_match(store: ObjectStore, path: str) -> None:
    """Raise StorageError unless only the version that was read can be replaced.

    Without that, two writers could both believe that they hold a storage-based lock.

    Args:
        store: The store to test.
        path: A path without an object. The function deletes the object that it creates there.

    Raises:
        UnsupportedTableError: If the store is a local path.

    """
    tested = versioned(store)
    contents = [uuid.uuid4().hex.encode() for _ in range(3)]
    try:
        first = tested.put_if_match(path, contents[0], tag=None)
        second = tested.put_if_match(path, contents[1], tag=first)
        third = tested.put_if_match(path, contents[2], tag=first)
        found = tested.read_version(path)
    finally:
        store.delete(path)
    kept = None if found is None else (found.content, found.tag)
    if third is not None or kept != (contents[1], second):
        raise StorageError(
            "the store of {table} does not honour conditional puts (If-Match), so two writers could hold "
            "its storage-based lock; use a store that does, or declare locks: file",
            table=store.uri,
        )
