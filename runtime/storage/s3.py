"""Objects of an S3 bucket, over s3fs; what may not be put twice is put with If-None-Match."""

from __future__ import annotations

import asyncio
import email.utils
import importlib
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

import pyarrow as pa

from parquetry.message import Message, Value
from parquetry.runtime.errors import NotFoundError, StorageError, UnknownOutcomeError
from parquetry.runtime.quoting import of_library
from parquetry.runtime.storage.model import ObjectInfo, Objects, ObjectStore, Paths, PutOutcome
from parquetry.runtime.storage.paths import checked_path, escape_glob
from parquetry.runtime.storage.s3_errors import Answer, client_errors, failure

_PART_SIZE_BYTES = 16 * 1024 * 1024
_READ_AHEAD_BYTES = 128 * 1024
_DELETE_BATCH = 1000
_READ_ATTEMPTS = 5
_CLOCK_VALID_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 15.0


class S3Store(ObjectStore):
    """Objects below ``s3://bucket/prefix``; ``options`` are those of s3fs.

    Nothing is connected before the first request, and each process connects by itself.
    A conditional put is repeated for ``patience_seconds`` while its outcome is unknown.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str,
        options: Mapping[str, Any],
        *,
        patience_seconds: float = 600.0,
    ) -> None:
        self.bucket = bucket
        self.prefix = prefix
        self.options = dict(options)
        self.patience_seconds = patience_seconds
        self._clock: tuple[float, int] | None = None
        self._connection: tuple[int, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None, "_clock": None}

    def __repr__(self) -> str:
        return f"S3Store({self.uri!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, S3Store) and (other.uri, other.options) == (self.uri, self.options)

    def __hash__(self) -> int:
        return hash(self.uri)

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def read(self, path: str) -> bytes:
        where = self._where(path)
        return self._get(self._key(path), where)

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        with self._reporting("read", self._where(path)):
            data: bytes = self._s3fs().cat_file(f"{self.bucket}/{self._key(path)}", start=start, end=stop)
        return data

    def open_input(self, path: str) -> pa.NativeFile:
        where = self._where(checked_path(path, root=self.uri))
        with self._reporting("read", where):
            file = self._s3fs().open(
                f"{self.bucket}/{self._key(path)}",
                "rb",
                block_size=_READ_AHEAD_BYTES,
                cache_type="readahead",
            )
        return pa.PythonFile(file, mode="r")

    def stat(self, path: str) -> ObjectInfo | None:
        where = self._where(path)
        try:
            head = self._call("head_object", "look at", where, Key=self._key(path))
        except NotFoundError:
            return None
        return ObjectInfo(
            path=path,
            size_bytes=head["ContentLength"],
            modified_ms=_milliseconds(head["LastModified"].timestamp()),
            etag=head["ETag"].strip('"'),
        )

    def list(self, prefix: str = "", *, recursive: bool = False) -> Objects:
        delimiter = {} if recursive else {"Delimiter": "/"}
        found = [
            ObjectInfo(
                path=self._path(entry["Key"]),
                size_bytes=entry["Size"],
                modified_ms=_milliseconds(entry["LastModified"].timestamp()),
                etag=entry["ETag"].strip('"'),
            )
            for page in self._pages(prefix, delimiter)
            for entry in page.get("Contents", ())
            # Other tools put empty objects that end in "/" to make folders visible.
            if not entry["Key"].endswith("/")
        ]
        return sorted(found, key=lambda info: info.path)

    def list_folders(self, prefix: str = "") -> Paths:
        return sorted(
            self._path(entry["Prefix"].rstrip("/"))
            for page in self._pages(prefix, {"Delimiter": "/"})
            for entry in page.get("CommonPrefixes", ())
        )

    def put(self, path: str, data: bytes) -> None:
        self._call("put_object", "write", self._where(path), Key=self._key(path), Body=data)

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        key = self._key(path)
        where = self._where(path)
        deadline = time.monotonic() + self.patience_seconds
        uncertain = False
        for attempt in itertools.count():
            try:
                self._send_put_if_absent(key, data)
            except client_errors() as error:
                answer = Answer.of(error)
                uncertain = uncertain or answer.may_have_worked
                if answer.status == HTTPStatus.PRECONDITION_FAILED:
                    outcome = self._whose(key, where, data, nonce=nonce, uncertain=uncertain)
                    if outcome is not None:
                        return outcome
                expired = attempt > 0 and time.monotonic() > deadline
                if (answer.final or expired) and not uncertain:
                    raise failure("write", where, error) from error
                if expired:
                    reason = of_library(str(error), kind=type(error).__name__)
                    raise UnknownOutcomeError(
                        Message(
                            "whether ",
                            where,
                            " was written is unknown: ",
                            reason,
                            "; restore the connection, then run again",
                        )
                    ) from error
            else:
                return PutOutcome.WON
            time.sleep(min(_FIRST_PAUSE_SECONDS * 1.7**attempt, _LONGEST_PAUSE_SECONDS))
        raise AssertionError

    @contextmanager
    def create_file(self, path: str) -> Iterator[Any]:
        where = self._where(path)
        with self._reporting("write", where):
            sink = self._s3fs().open(f"{self.bucket}/{self._key(path)}", "wb", block_size=_PART_SIZE_BYTES)
        try:
            yield sink
        except BaseException as error:
            # A closed file would upload what it has; one not discarded would leave its parts.
            with suppress(*client_errors()):
                sink.discard()
            sink.closed = True
            if isinstance(error, client_errors()) and Answer.is_from_store(error):
                raise failure("write", where, error) from error
            raise
        with self._reporting("write", where):
            sink.close()

    def delete(self, path: str) -> bool:
        there = self.stat(path) is not None
        self._call("delete_object", "delete", self._where(path), Key=self._key(path))
        return there

    def delete_all(self, paths: Iterable[str]) -> None:
        keys = [self._key(path) for path in paths]
        for start in range(0, len(keys), _DELETE_BATCH):
            batch = [{"Key": key} for key in keys[start : start + _DELETE_BATCH]]
            answer = self._call(
                "delete_objects", "delete", Value.uri(self.uri), Delete={"Objects": batch, "Quiet": True}
            )
            for failed in answer.get("Errors", ()):
                raise StorageError(
                    Message(
                        "cannot delete ",
                        Value.uri(f"s3://{self.bucket}/{failed.get('Key')}"),
                        ": ",
                        of_library(str(failed.get("Message")), kind=str(failed.get("Code"))),
                        "; grant s3:DeleteObject",
                    )
                )

    def delete_folder(self, prefix: str) -> None:
        folder = checked_path(prefix, root=self.uri)
        self.delete_all([info.path for info in self.list(folder, recursive=True)])

    def now_ms(self) -> int:
        if self._clock is None or time.monotonic() - self._clock[0] > _CLOCK_VALID_SECONDS:
            self._clock = self._read_clock()
        measured_at, store_ms = self._clock
        return store_ms + int((time.monotonic() - measured_at) * 1000)

    def spark_uri(self, path: str) -> str:
        folder = checked_path(path, root=self.uri, folder=True)
        key = f"{self.prefix}/{folder}".strip("/")
        return f"s3a://{self.bucket}/{escape_glob(key)}".rstrip("/")

    def _where(self, path: str) -> Value:
        return Value.uri(f"{self.uri}/{path}")

    def _key(self, path: str) -> str:
        return f"{self.prefix}/{checked_path(path, root=self.uri)}".lstrip("/")

    def _path(self, key: str) -> str:
        return key.removeprefix(f"{self.prefix}/") if self.prefix else key

    def _pages(self, prefix: str, request: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        folder = checked_path(prefix, root=self.uri, folder=True)
        below = "".join(f"{part}/" for part in (self.prefix, folder) if part)
        token: dict[str, str] = {}
        while True:
            page = self._call(
                "list_objects_v2", "list", self._where(folder), Prefix=below, **request, **token
            )
            yield page
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def _get(self, key: str, where: Value) -> bytes:
        """One request; s3fs asks for the size of a whole object first, to read parts of it at once."""
        filesystem = self._s3fs()

        async def get() -> bytes:
            for attempt in range(1, _READ_ATTEMPTS + 1):
                answer = await filesystem._call_s3("get_object", Bucket=self.bucket, Key=key)  # noqa: SLF001
                try:
                    data: bytes = await answer["Body"].read()
                except client_errors():  # the answer broke off
                    if attempt == _READ_ATTEMPTS:
                        raise
                    await asyncio.sleep(_FIRST_PAUSE_SECONDS * 2**attempt)
                else:
                    return data
                finally:
                    answer["Body"].close()
            raise AssertionError

        with self._reporting("read", where):
            found: bytes = importlib.import_module("fsspec.asyn").sync(filesystem.loop, get)
        return found

    def _whose(
        self, key: str, where: Value, data: bytes, *, nonce: str | None, uncertain: bool
    ) -> PutOutcome | None:
        """Whose object stands there; None when it is gone, or unreadable for the moment."""
        if nonce is None and not uncertain:
            return PutOutcome.LOST
        try:
            there = self._get(key, where)
        except StorageError:
            return None
        mine = there == data if nonce is None else nonce.encode() in there
        return PutOutcome.MINE if mine else PutOutcome.LOST

    def _send_put_if_absent(self, key: str, data: bytes) -> None:
        """One request; s3fs's own retries would hide that an answer got lost."""
        filesystem = self._s3fs()

        async def send() -> None:
            await filesystem.set_session()
            client = await filesystem.get_s3(self.bucket)
            await client.put_object(Bucket=self.bucket, Key=key, Body=data, IfNoneMatch="*")

        asyn = importlib.import_module("fsspec.asyn")
        asyn.sync(filesystem.loop, send)

    def _read_clock(self) -> tuple[float, int]:
        """The date the store answers with. It has whole seconds: it is never ahead."""
        answer = self._call("list_objects_v2", "look at", Value.uri(self.uri), MaxKeys=1, Prefix=self.prefix)
        date = answer["ResponseMetadata"]["HTTPHeaders"]["date"]
        moment = email.utils.parsedate_to_datetime(date)
        return time.monotonic(), _milliseconds(moment.timestamp())

    def _call(self, method: str, doing: str, where: Value, **request: Any) -> dict[str, Any]:
        with self._reporting(doing, where):
            answer: dict[str, Any] = self._s3fs().call_s3(method, Bucket=self.bucket, **request)
        return answer

    @contextmanager
    def _reporting(self, doing: str, where: Value) -> Iterator[None]:
        try:
            yield
        except client_errors() as error:
            raise failure(doing, where, error) from error

    def _s3fs(self) -> Any:
        """The connection of this process: an event loop does not survive a fork."""
        if self._connection is None or self._connection[0] != os.getpid():
            try:
                s3fs = importlib.import_module("s3fs")
            except ImportError as error:
                why = f"{error.name} is not installed, which S3 needs" if error.name else f"s3fs: {error}"
                msg = f"cannot open {self.uri}: {why}; run `pip install s3fs`"
                raise StorageError(msg) from error
            filesystem = s3fs.S3FileSystem(
                **{"use_listings_cache": False, "default_cache_type": "none", **self.options}
            )
            self._connection = (os.getpid(), filesystem)
        return self._connection[1]


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
