"""Objects of a bucket through an fsspec file system: the part that S3 and Google Cloud Storage share."""

from __future__ import annotations

import asyncio
import email.utils
import importlib
import itertools
import os
import time
from abc import abstractmethod
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, Final, Protocol, TypeVar

from parquetry.errors import message_of
from parquetry.message import Message, Value
from parquetry.runtime.allowed import NOTHING_ALLOWED, Allowed
from parquetry.runtime.errors import NotFoundError, StorageError, TooLargeError, UnknownOutcomeError
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.storage.answers import Answer, failure
from parquetry.runtime.storage.model import (
    ObjectInfo,
    Objects,
    ObjectStore,
    ObjectVersion,
    Paths,
    PutOutcome,
    VersionedStore,
)
from parquetry.runtime.storage.object_cache import ObjectCache
from parquetry.runtime.storage.parallel import MOST_AT_ONCE, map_each
from parquetry.runtime.storage.paths import checked_path, escape_glob
from parquetry.runtime.storage.ranged_input import TAIL_BYTES, RangedFile, RangedInput
from parquetry.runtime.storage.regular_file import MOST_RECORD_BYTES, check_size, count_read
from parquetry.text import shell

PART_SIZE_BYTES = 16 * 1024 * 1024
FIRST_PAUSE_SECONDS = 0.05
_CLOCK_VALID_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 15.0
_LOST: Final = ""
"""The result of a put that found another version. No tag is empty."""

_OPENED_AHEAD: Final = 4

_Result = TypeVar("_Result")


class _WithPath(Protocol):
    @property
    def path(self) -> str: ...


_File = TypeVar("_File", bound=_WithPath)


class _OutcomeOfRefusal(Protocol):
    """Returns the outcome of a put that the store refused, or None if it is not known yet."""

    def __call__(self, *, uncertain: bool) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingPage:
    """One page of a listing: objects by key, and the prefixes of folders, each with its trailing ``/``.

    ``is_last`` is False if further pages follow.
    """

    objects: Objects
    folders: Paths
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPart:
    """A part of an object, with the tag of its version and the size of the whole object."""

    content: bytes
    tag: str
    size_bytes: int

    @classmethod
    def answered(cls, content: bytes, tag: str, content_range: str | None) -> ObjectPart:
        """Return the part in an answer. Without a header ``Content-Range``, it is the whole object."""
        size_bytes = len(content) if content_range is None else int(content_range.rpartition("/")[2])
        return cls(content=content, tag=tag, size_bytes=size_bytes)


class BucketStore(VersionedStore):
    """Objects below ``scheme://bucket/prefix``; ``options`` are those of fsspec's file system.

    The store connects at the first request, separately in each process. While the outcome of a conditional
    put is unknown, the put is repeated for up to ``patience_seconds``.
    """

    scheme: ClassVar[str]
    spark_scheme: ClassVar[str]

    def __init__(
        self,
        bucket: str,
        prefix: str,
        options: Mapping[str, Any],
        allowed: Allowed = NOTHING_ALLOWED,
        *,
        patience_seconds: float = 600.0,
    ) -> None:
        self.bucket = bucket
        self.prefix = prefix
        self.options = dict(options)
        self._allowed = allowed
        self.patience_seconds = patience_seconds
        self._clock: tuple[float, int] | None = None
        self._connection: tuple[int, Any] | None = None
        self._tails: dict[str, Future[ObjectPart]] = {}
        self._cache = ObjectCache()

    @abstractmethod
    def _connect(self) -> Any:
        """Return a connected file system, or raise ImportError if the driver's package is missing."""

    @abstractmethod
    def _client_errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions that the client raises if a request fails."""

    @abstractmethod
    def _answer(self, error: BaseException) -> Answer:
        """Return the meaning of an error of the client."""

    def _is_from_store(self, error: BaseException) -> bool:
        """Return whether the error comes from a request to the store and not from a local file."""
        return not isinstance(error, OSError) or isinstance(error, (ConnectionError, TimeoutError))

    @abstractmethod
    def _get(self, key: str, *, most_bytes: int) -> tuple[bytes, str]:
        """Return an object and the tag of its version with one request.

        Raise TooLargeError if it exceeds ``most_bytes``.
        """

    def _listed_etag(self, content: bytes, tag: str) -> str:
        """Return the ETag with which listings show the version of an object that has this tag and content."""
        del content
        return tag.strip('"')

    @abstractmethod
    def _get_version(self, key: str, *, most_bytes: int) -> tuple[bytes, str, int, str]:
        """Return an object with one request: content, tag, ms of its last change, and the ``Date`` header.

        Raise TooLargeError if it exceeds ``most_bytes``.
        """

    @abstractmethod
    async def _get_part(self, key: str, byte_range: str) -> ObjectPart:
        """Return a part of an object, such as ``bytes=0-9`` or ``bytes=-9``, with one request."""

    @abstractmethod
    def _head(self, key: str) -> ObjectInfo:
        """Return the metadata of an object with one request. Its ``path`` is the key."""

    @abstractmethod
    def _pages(self, prefix: str, *, recursive: bool, after: str | None = None) -> Iterator[ListingPage]:
        """Yield the pages of the listing below a prefix, with one request for each page.

        If ``after`` is given, the listing begins behind this key.
        """

    @abstractmethod
    def _put(self, key: str, data: bytes) -> None:
        """Create or replace an object with one request."""

    @abstractmethod
    def _send_put_if(self, key: str, data: bytes, *, tag: str | None) -> str:
        """Put an object with one request without retries, and return the tag of the new version.

        The request fails if there is another version than that of ``tag``, or any if ``tag`` is None.
        """

    @abstractmethod
    def _copy(self, key: str, to: str) -> None:
        """Copy an object to the key ``to`` within the store, without downloading it."""

    @abstractmethod
    def _delete(self, key: str) -> None:
        """Delete an object with one request. An absent object is ignored."""

    @abstractmethod
    def _delete_all(self, keys: list[str]) -> None:
        """Delete objects. Absent ones are ignored."""

    @abstractmethod
    def _date(self) -> str:
        """Return the ``Date`` header of the response to a cheap request."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None, "_clock": None, "_tails": {}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BucketStore) and (other.uri, other.options) == (self.uri, self.options)

    def __hash__(self) -> int:
        return hash(self.uri)

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def allowed(self) -> Allowed:
        return self._allowed

    def read(
        self, path: str, *, most_bytes: int = MOST_RECORD_BYTES, listed: ObjectInfo | None = None
    ) -> bytes:
        cached = None if listed is None else self._cache.get(path, listed.etag)
        if cached is not None and len(cached) <= most_bytes:
            return cached
        with self._reporting("read", self._uri_of(path)):
            content, tag = self._get(self._key_of_path(path), most_bytes=most_bytes)
        count_read(len(content))
        if listed is not None:
            self._cache.put(path, self._listed_etag(content, tag), content)
        return content

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        with self._reporting("read", self._uri_of(path)):
            content = self._submit(self._get_range(path, start, stop)).result()
        count_read(len(content))
        return content

    def open_input(self, path: str) -> RangedInput:
        key, where = self._key_of_path(path), self._uri_of(path)
        with self._reporting("read", where):
            requested = self._tails.pop(path, None)
            tail = self._get_tail(key, self._request_tail(path) if requested is None else requested)

        def fetch(start: int, stop: int) -> Future[bytes]:
            return self._submit(self._get_range(path, start, stop, tag=tail.tag))

        return RangedInput(RangedFile(tail.content, tail.size_bytes, fetch))

    def request_tails(self, paths: Iterable[str]) -> None:
        """Request the last bytes of objects that will be opened, unless they were requested."""
        for path in paths:
            if path not in self._tails:
                self._tails[path] = self._request_tail(path)

    def drop_tails(self, paths: Iterable[str]) -> None:
        """Drop the requests for objects that were not opened."""
        for path in paths:
            if requested := self._tails.pop(path, None):
                requested.cancel()

    def _request_tail(self, path: str) -> Future[ObjectPart]:
        return self._submit(self._get_part(self._key_of_path(path), f"bytes=-{TAIL_BYTES}"))

    def _get_tail(self, key: str, requested: Future[ObjectPart]) -> ObjectPart:
        """Return the requested last bytes of an object. For an empty one, this sends a second request."""
        try:
            return requested.result()
        except self._client_errors() as error:
            is_refused = self._answer(error).status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            if not is_refused or (info := self._head(key)).size_bytes:
                raise
            return ObjectPart(content=b"", tag=info.etag or "", size_bytes=0)

    async def _get_range(self, path: str, start: int, stop: int, *, tag: str | None = None) -> bytes:
        """Return the bytes ``start`` to ``stop`` (exclusive) of an object with one request.

        Raises:
            StorageError: If the object has another tag, or lacks the bytes.
        """
        where = self._uri_of(path)
        with self._reporting("read", where):
            part = await self._get_part(self._key_of_path(path), f"bytes={start}-{stop - 1}")
        if tag is not None and part.tag != tag:
            raise StorageError("cannot read {uri}: it was replaced meanwhile; run again", uri=where)
        if len(part.content) != stop - start:
            raise StorageError(
                "cannot read {uri}: the store returned {found_bytes} bytes for a range of {expected_bytes}; "
                "use a store that honours ranges",
                uri=where,
                found_bytes=len(part.content),
                expected_bytes=stop - start,
            )
        return part.content

    def stat(self, path: str) -> ObjectInfo | None:
        try:
            with self._reporting("check", self._uri_of(path)):
                return self._with_relative_path(self._head(self._key_of_path(path)))
        except NotFoundError:
            return None

    def list(self, prefix: str = "", *, recursive: bool = False) -> Objects:
        return self._objects(
            info for page in self._listing_pages(prefix, recursive=recursive) for info in page.objects
        )

    def list_each(self, prefixes: Iterable[str]) -> dict[str, Objects]:
        """Return the result of :meth:`list` for each folder.

        A page of all keys behind the first folder may also contain the folders that follow. While a page
        contains more folders than requests run at a time, or all that are left, the next page is requested.
        The other folders are then listed one by one. No listing takes more pages than those of all folders.
        A store that does not sort its keys lists all of them one by one.
        """
        unlisted = sorted(set(prefixes), key=self._folder_prefix)
        listed: dict[str, Objects] = {}
        while len(unlisted) > 1 and unlisted[0]:
            first = self._folder_prefix(unlisted[0])
            with self._reporting("list", self._uri_of(unlisted[0])):
                page = next(self._pages(self._folder_prefix(""), recursive=True, after=first))
            keys = [first, *(info.path for info in page.objects)]
            if any(key >= following for key, following in itertools.pairwise(keys)):
                break  # not all stores sort the keys
            end = None if page.is_last else keys[-1]
            # A folder below another one may end first. The other one comes before it here.
            ended = [_ends_before(self._folder_prefix(path), end) for path in unlisted]
            whole = unlisted[: [*ended, False].index(False)]
            for path in whole:
                listed[path] = self._objects(_children(page.objects, self._folder_prefix(path)))
            if not whole:
                with self._reporting("list", self._uri_of(unlisted[0])):
                    rest = [
                        info
                        for page in self._pages(first, recursive=False, after=end)
                        for info in page.objects
                    ]
                whole = unlisted[:1]
                listed[whole[0]] = self._objects([*_children(page.objects, first), *rest])
            unlisted = unlisted[len(whole) :]
            if len(whole) < MOST_AT_ONCE:
                break
        return listed | dict(zip(unlisted, map_each(unlisted, self.list), strict=True))

    def list_folders(self, prefix: str = "") -> Paths:
        pages = self._listing_pages(prefix, recursive=False)
        return sorted(self._path_of_key(folder.rstrip("/")) for page in pages for folder in page.folders)

    def put(self, path: str, data: bytes) -> None:
        with self._reporting("write", self._uri_of(path)):
            self._put(self._key_of_path(path), data)

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        def outcome(*, uncertain: bool) -> PutOutcome | None:
            return self._outcome_for_existing(path, data, nonce=nonce, uncertain=uncertain)

        put = self._put_until_known(path, data, tag=None, outcome=outcome)
        if isinstance(put, PutOutcome):
            return put
        self._cache.put(path, self._listed_etag(data, put), data)
        return PutOutcome.WON

    def read_version(self, path: str) -> ObjectVersion | None:
        try:
            with self._reporting("read", self._uri_of(path)):
                content, tag, modified_ms, date = self._get_version(
                    self._key_of_path(path), most_bytes=MOST_RECORD_BYTES
                )
        except NotFoundError:
            return None
        count_read(len(content))
        return ObjectVersion(content=content, tag=tag, modified_ms=modified_ms, read_ms=_date_ms(date))

    def put_if_match(
        self, path: str, data: bytes, *, tag: str | None, patience_seconds: float | None = None
    ) -> str | None:
        def outcome(*, uncertain: bool) -> str | None:
            if not uncertain:
                return _LOST
            try:
                found = self.read_version(path)
            except StorageError:
                return None
            return found.tag if found is not None and found.content == data else _LOST

        put = self._put_until_known(path, data, tag=tag, outcome=outcome, patience_seconds=patience_seconds)
        return put or None

    def _put_until_known(
        self,
        path: str,
        data: bytes,
        *,
        tag: str | None,
        outcome: _OutcomeOfRefusal,
        patience_seconds: float | None = None,
    ) -> str:
        """Repeat a conditional put until its outcome is known.

        Return the tag of the new version, or what ``outcome`` returns once the store reports another version.
        While ``outcome`` returns None, the put is repeated.
        """
        key = self._key_of_path(path)
        where = self._uri_of(path)
        patience = self.patience_seconds if patience_seconds is None else patience_seconds
        deadline = time.monotonic() + patience
        uncertain = False
        for attempt in itertools.count():
            try:
                return self._send_put_if(key, data, tag=tag)
            except self._client_errors() as error:
                answer = self._answer(error)
                uncertain = uncertain or answer.may_have_worked
                is_gone = tag is not None and answer.status == HTTPStatus.NOT_FOUND and not answer.no_bucket
                if is_gone or answer.status == HTTPStatus.PRECONDITION_FAILED:
                    found = outcome(uncertain=uncertain)
                    if found is not None:
                        return found
                expired = attempt > 0 and time.monotonic() > deadline
                if (answer.final or expired) and not uncertain:
                    raise failure("write", where, error, answer) from error
                if expired:
                    reason = quoted_library_text(str(error), kind=type(error).__name__)
                    raise UnknownOutcomeError(
                        "cannot tell if {uri} was written: {reason}; restore the connection, then run again",
                        uri=where,
                        reason=reason,
                    ) from error
            time.sleep(min(FIRST_PAUSE_SECONDS * 1.7**attempt, _LONGEST_PAUSE_SECONDS))
        raise AssertionError

    @contextmanager
    def create_file(self, path: str) -> Iterator[Any]:
        where = self._uri_of(path)
        with self._reporting("write", where):
            sink = self._filesystem().open(
                f"{self.bucket}/{self._key_of_path(path)}", "wb", block_size=PART_SIZE_BYTES
            )
        try:
            yield sink
        except BaseException as error:
            # close() would upload incomplete content; without discard(), uploaded parts would remain.
            with suppress(*self._client_errors()):
                sink.discard()
            sink.closed = True
            if isinstance(error, self._client_errors()) and self._is_from_store(error):
                raise failure("write", where, error, self._answer(error)) from error
            raise
        with self._reporting("write", where):
            sink.close()

    def move(self, path: str, to: str) -> None:
        try:
            with self._reporting("copy", self._uri_of(path)):
                self._copy(self._key_of_path(path), self._key_of_path(to))
        except NotFoundError:
            return
        self.delete(path)

    def delete(self, path: str) -> None:
        with self._reporting("delete", self._uri_of(path)):
            self._delete(self._key_of_path(path))

    def delete_all(self, paths: Iterable[str]) -> None:
        keys = [self._key_of_path(path) for path in paths]
        with self._reporting("delete", Value.uri(self.uri)):
            self._delete_all(keys)

    def delete_folder(self, prefix: str, *, objects: Iterable[str] | None = None) -> None:
        folder = checked_path(prefix, root=self.uri)
        if objects is None:
            objects = [info.path for info in self.list(folder, recursive=True)]
        self.delete_all(objects)

    def now_ms(self) -> int:
        clock = self._valid_clock()
        if clock is None:
            clock = self._clock = self._read_clock()
        measured_at, store_ms = clock
        return store_ms + int((time.monotonic() - measured_at) * 1000)

    def _valid_clock(self) -> tuple[float, int] | None:
        """Return the local monotonic time and the store's time in ms of a response, or None if it is old."""
        is_valid = self._clock is not None and time.monotonic() - self._clock[0] <= _CLOCK_VALID_SECONDS
        return self._clock if is_valid else None

    def _note_date(self, date: str | None) -> None:
        """Read the clock from the ``Date`` header of a response if it is due, which saves a request."""
        if date is not None and self._valid_clock() is None:
            self._clock = time.monotonic(), _date_ms(date)

    def spark_uri(self, path: str) -> str:
        folder = checked_path(path, root=self.uri, folder=True)
        key = f"{self.prefix}/{folder}".strip("/")
        return f"{self.spark_scheme}://{self.bucket}/{escape_glob(key)}".rstrip("/")

    def _uri_of(self, path: str) -> Value:
        return Value.uri(f"{self.uri}/{path}")

    def _key_of_path(self, path: str) -> str:
        return f"{self.prefix}/{checked_path(path, root=self.uri)}".lstrip("/")

    def _check_size(self, key: str, size_bytes: int, *, most_bytes: int) -> None:
        check_size(Value.uri(f"{self.scheme}://{self.bucket}/{key}"), size_bytes, most_bytes=most_bytes)

    def _path_of_key(self, key: str) -> str:
        return key.removeprefix(f"{self.prefix}/") if self.prefix else key

    def _with_relative_path(self, info: ObjectInfo) -> ObjectInfo:
        """Return the metadata with the path relative to the root instead of the key."""
        return ObjectInfo(
            path=self._path_of_key(info.path),
            size_bytes=info.size_bytes,
            modified_ms=info.modified_ms,
            etag=info.etag,
        )

    def _objects(self, listed: Iterable[ObjectInfo]) -> Objects:
        """Return listed objects by their paths, sorted."""
        # Other tools create empty objects whose keys end in "/" to make folders visible.
        objects = [self._with_relative_path(info) for info in listed if not info.path.endswith("/")]
        return sorted(objects, key=lambda info: info.path)

    def _folder_prefix(self, folder: str) -> str:
        checked = checked_path(folder, root=self.uri, folder=True)
        return "".join(f"{part}/" for part in (self.prefix, checked) if part)

    def _listing_pages(self, prefix: str, *, recursive: bool) -> Iterator[ListingPage]:
        folder_prefix = self._folder_prefix(prefix)
        with self._reporting("list", self._uri_of(prefix.removesuffix("/"))):
            yield from self._pages(folder_prefix, recursive=recursive)

    def _outcome_for_existing(
        self, path: str, data: bytes, *, nonce: str | None, uncertain: bool
    ) -> PutOutcome | None:
        """Return MINE if this caller wrote the existing object, and LOST if another one did.

        The result is None if the object is gone or cannot be read now.
        """
        if nonce is None and not uncertain:
            return PutOutcome.LOST
        try:
            existing = self.read(path, most_bytes=max(MOST_RECORD_BYTES, len(data)))
        except TooLargeError:
            return PutOutcome.LOST
        except StorageError:
            return None
        mine = existing == data if nonce is None else nonce.encode() in existing
        return PutOutcome.MINE if mine else PutOutcome.LOST

    def _read_clock(self) -> tuple[float, int]:
        """Return the local monotonic time and the time of the store in milliseconds.

        The ``Date`` header has whole seconds, rounded down, so the time is never ahead of the store's clock.
        """
        with self._reporting("check", Value.uri(self.uri)):
            date = self._date()
        return time.monotonic(), _date_ms(date)

    @contextmanager
    def _reporting(self, operation: str, where: Value) -> Iterator[None]:
        try:
            yield
        except self._client_errors() as error:
            raise failure(operation, where, error, self._answer(error)) from error

    def _filesystem(self) -> Any:
        """Return the file system of this process. An event loop does not survive a fork."""
        if self._connection is None or self._connection[0] != os.getpid():
            try:
                filesystem = self._connect()
            except ImportError as error:
                driver = DRIVERS[self.scheme]
                reason = (
                    Message(
                        "{module} is not installed, which {store} needs",
                        module=error.name,
                        store=driver.store,
                    )
                    if error.name
                    else message_of(error)
                )
                raise StorageError(
                    "cannot open {uri}: {reason}; run {command}",
                    uri=self.uri,
                    reason=reason,
                    command=shell.named("pip", "install", driver.package),
                ) from error
            self._connection = (os.getpid(), filesystem)
        return self._connection[1]

    def _submit(self, coroutine: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        """Start a coroutine on the event loop of the file system."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._filesystem().loop)

    def _run(self, coroutine: Any) -> Any:
        """Run a coroutine function on the event loop of the file system, and return its result."""
        filesystem = self._filesystem()
        return importlib.import_module("fsspec.asyn").sync(filesystem.loop, coroutine)


def opened_in_turn(store: ObjectStore, files: Sequence[_File]) -> Iterator[_File]:
    """Yield files that the caller opens one after the other. Of a bucket, the next ones are requested before.

    Args:
        store: The store.
        files: The files, each with its path.

    """
    if not isinstance(store, BucketStore):
        yield from files
        return
    paths = [file.path for file in files]
    try:
        for number, file in enumerate(files):
            store.request_tails(paths[number : number + _OPENED_AHEAD])
            yield file
    finally:
        store.drop_tails(paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The fsspec package for a kind of store."""

    store: str
    package: str


DRIVERS: Mapping[str, Driver] = {
    "s3": Driver(store="S3", package="s3fs"),
    "gs": Driver(store="Google Cloud Storage", package="gcsfs"),
}


def _ends_before(folder_prefix: str, end: str | None) -> bool:
    """Return whether all keys of a folder precede the key ``end``; None stands for the end of all keys."""
    return end is None or (folder_prefix < end and not end.startswith(folder_prefix))


def _children(objects: Iterable[ObjectInfo], folder_prefix: str) -> Iterator[ObjectInfo]:
    """Yield the objects that lie directly in a folder, without the object that represents the folder."""
    start = len(folder_prefix)
    for info in objects:
        if info.path.startswith(folder_prefix) and "/" not in info.path[start:]:
            yield info


def milliseconds(seconds: float) -> int:
    """Return seconds as whole milliseconds, rounded down."""
    return int(seconds * 1000)


def _date_ms(date: str) -> int:
    """Return the time of a ``Date`` header in milliseconds."""
    return milliseconds(email.utils.parsedate_to_datetime(date).timestamp())
