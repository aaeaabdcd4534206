"""The storage location of a stage.

On one machine, the stage is a local folder, whose files later tasks map into memory. Elsewhere an executor
can be lost together with its disk, so the stage is a folder in the table's store, from which tasks fetch byte
ranges. The files have the same content, except for compression.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from parquetry.errors import message_of
from parquetry.message import Value
from parquetry.runtime.errors import StorageError
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.stage.index import ByteRange
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.paths import escape_glob
from parquetry.runtime.storage.regular_file import MOST_BYTES

MAPPED_BYTES = 256 * 1024 * 1024
"""The mapped bytes of a stage that a task may keep resident, as these count as its memory."""

STAGE_PREFIX: Final = "parquetry-stage-"
"""The prefix of the names of local stages."""

_REQUEST_BYTES: Final = 8 * 1024 * 1024
"""The maximum size of one request, unless a single batch is larger."""

_GAP_BYTES: Final = 512 * 1024
"""The most unneeded bytes that a request fetches to save another request."""

_AHEAD_BYTES: Final = 16 * 1024 * 1024
_AHEAD_REQUESTS: Final = 8

_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)

ReadRanges = Callable[[Iterable[ByteRange]], Iterator[pa.Buffer]]
"""A function that yields the bytes of each range in order; a buffer is valid until the next."""


class StageLocation(Protocol):
    """The location of a stage, which is sent to tasks."""

    @property
    def is_mapped(self) -> bool:
        """True if tasks map the files into memory, which requires uncompressed Arrow batches."""
        ...

    def create(self, name: str) -> AbstractContextManager[Any]:
        """Return a context manager with a sink for the file ``name``, complete when the block ends."""
        ...

    def read(self, name: str) -> pa.Buffer:
        """Return the content of the file ``name``."""
        ...

    def reading(self) -> AbstractContextManager[ReadRanges]:
        """Return a context manager with a function that reads ranges of files while the block lasts."""
        ...

    def spark_uri(self, name: str) -> str:
        """Return the URI by which Spark reads the file ``name``."""
        ...

    def remove(self) -> None:
        """Remove the whole stage."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStage:
    """A folder on this machine."""

    folder: str

    @classmethod
    def make(cls, parent: str) -> LocalStage:
        """Create a new folder below ``parent``."""
        return cls(folder=tempfile.mkdtemp(prefix=STAGE_PREFIX, dir=parent))

    @property
    def is_mapped(self) -> bool:
        """True, as tasks map local files."""
        return True

    @contextmanager
    def create(self, name: str) -> Iterator[Any]:
        """Yield a sink for the file ``name``."""
        with as_storage_error(self.folder), pa.OSFile(f"{self.folder}/{name}", "wb") as sink:
            yield sink

    def read(self, name: str) -> pa.Buffer:
        """Return the content of the file ``name``, mapped into memory."""
        with pa.memory_map(f"{self.folder}/{name}") as source:
            return source.read_buffer()

    @contextmanager
    def reading(self) -> Iterator[ReadRanges]:
        """Yield a function that reads ranges of mapped files without a copy."""
        maps: dict[str, mmap.mmap] = {}

        def mapped(name: str) -> mmap.mmap:
            if name not in maps:
                with Path(self.folder, name).open("rb") as file:
                    maps[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return maps[name]

        yield lambda ranges: mapped_ranges(mapped, ranges)

    def spark_uri(self, name: str) -> str:
        """Return the URI by which Spark reads the file ``name``."""
        return "file://" + escape_glob(f"{self.folder}/{name}")

    def remove(self) -> None:
        """Remove the folder and ignore errors: a late task that still writes there affects no commit."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStage:
    """A folder in the table's store."""

    store: ObjectStore
    folder: str

    @property
    def is_mapped(self) -> bool:
        """False, as tasks fetch byte ranges."""
        return False

    def create(self, name: str) -> AbstractContextManager[Any]:
        """Return a context manager with a sink for the file ``name``."""
        return self.store.create_file(f"{self.folder}/{name}")

    def read(self, name: str) -> pa.Buffer:
        """Return the content of the file ``name``."""
        return pa.py_buffer(self.store.read(f"{self.folder}/{name}", most_bytes=MOST_BYTES))

    @contextmanager
    def reading(self) -> Iterator[ReadRanges]:
        """Yield a function that reads ranges of files. It merges adjacent ranges and sends requests ahead."""
        with ThreadPoolExecutor(max_workers=_AHEAD_REQUESTS) as pool:
            yield lambda ranges: self._fetched(pool, ranges)

    def _fetched(self, pool: ThreadPoolExecutor, ranges: Iterable[ByteRange]) -> Iterator[pa.Buffer]:
        pending: deque[tuple[list[ByteRange], Future[bytes]]] = deque()
        ahead = 0
        for request in chain(_requests(ranges), [None]):
            while pending and (
                request is None
                or len(pending) >= _AHEAD_REQUESTS
                or ahead + _bytes_of(request) > _AHEAD_BYTES
            ):
                adjacent, answer = pending.popleft()
                ahead -= _bytes_of(adjacent)
                yield from _split_by_range(adjacent, answer.result())
            if request is not None:
                pending.append((request, pool.submit(self._fetch, request)))
                ahead += _bytes_of(request)

    def _fetch(self, adjacent: list[ByteRange]) -> bytes:
        first, last = adjacent[0], adjacent[-1]
        return self.store.read_range(f"{self.folder}/{first.name}", first.start, last.stop)

    def spark_uri(self, name: str) -> str:
        """Return the URI by which Spark reads the file ``name``."""
        return self.store.spark_uri(f"{self.folder}/{name}")

    def remove(self) -> None:
        """Delete the folder from the store."""
        self.store.delete_folder(self.folder)


@contextmanager
def validated_reads(location: StageLocation, name: str) -> Iterator[Callable[[_Rows], _Rows]]:
    """Yield a function that validates the rows read from a file.

    Anyone who can write to the storage of a table can also write to a stage there, and Arrow's code uses
    offsets unchecked. A stage on the local disk belongs to the user and is not validated.

    Raises:
        StorageError: If the file is not valid Arrow data or cannot be read.
    """

    def check(rows: _Rows) -> _Rows:
        if not location.is_mapped:
            rows.validate(full=True)
        return rows

    try:
        yield check
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise StorageError(
            "cannot read the staged rows in {file}: {reason}; run again",
            file=Value.uri(location.spark_uri(name)),
            reason=quoted_library_text(str(error), kind=type(error).__name__),
        ) from error


def mapped_ranges(mapped: Callable[[str], mmap.mmap], ranges: Iterable[ByteRange]) -> Iterator[pa.Buffer]:
    """Yield the bytes of ranges of mapped files, without a copy.

    When many pages are resident, the process releases them; they stay in the system's cache.
    """
    for byte_range in ranges:
        pages = mapped(byte_range.name)
        yield pa.py_buffer(pages).slice(byte_range.start, byte_range.stop - byte_range.start)
        if mapped_bytes() > MAPPED_BYTES:
            pages.madvise(mmap.MADV_DONTNEED)


def mapped_bytes() -> int:
    """Return how much of this process's memory is mapped files, in bytes, or 0 if that is unknown."""
    try:
        text = Path("/proc/self/statm").read_bytes()
    except OSError:
        return 0
    return int(text.split()[2]) * mmap.PAGESIZE


def _requests(ranges: Iterable[ByteRange]) -> Iterator[list[ByteRange]]:
    """Yield the ranges in lists; the ranges of a list are adjacent, or nearly so, and read by one request."""
    adjacent: list[ByteRange] = []
    for byte_range in ranges:
        if adjacent and not (
            byte_range.name == adjacent[-1].name
            and 0 <= byte_range.start - adjacent[-1].stop <= _GAP_BYTES
            and byte_range.stop - adjacent[0].start <= _REQUEST_BYTES
        ):
            yield adjacent
            adjacent = []
        adjacent.append(byte_range)
    if adjacent:
        yield adjacent


def _bytes_of(adjacent: list[ByteRange]) -> int:
    return adjacent[-1].stop - adjacent[0].start


def _split_by_range(adjacent: list[ByteRange], fetched: bytes) -> Iterator[pa.Buffer]:
    whole = pa.py_buffer(fetched)
    for byte_range in adjacent:
        yield whole.slice(byte_range.start - adjacent[0].start, byte_range.stop - byte_range.start)


def scratch_folder() -> str:
    """Return a folder for temporary rows: one of Spark's local folders, or the folder for temporary files."""
    given = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    folders = [folder for folder in given if folder and Path(folder).is_dir()]
    return folders[os.getpid() % len(folders)] if folders else tempfile.gettempdir()


@contextmanager
def as_storage_error(folder: str) -> Iterator[None]:
    """Raise an OSError of the block as a StorageError about rows that are staged in the folder."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            "cannot stage rows in {folder}: {reason}; free space there, or set another spark.local.dir",
            folder=folder,
            reason=message_of(error),
        ) from error
