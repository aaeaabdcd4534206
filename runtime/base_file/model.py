"""The input and the result of a task that writes the base files of one bucket."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.footer import file_statistics
from parquetry.runtime.spec.table_spec import FilesPolicy
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.timeline.commit import WriteStat

POSITION: Final = "__position"
DELETE: Final = "__delete"
HASH: Final = "__hash"
ORDERING: Final = "__ordering"

_MIB: Final = 1024 * 1024

_BATCH_BYTES_MOST: Final = 8 * _MIB
_ROW_GROUP_BYTES_MOST: Final = 128 * _MIB
"""Larger batches and row groups gain nothing; the rest of a larger memory budget is for sorting rows."""

_FILE_IDS = uuid.UUID("6f0c7c1e-7d5e-5b6b-9a51-5d0e4a0f3c11")


class WriteGuard(Protocol):
    """Knows whether a write, or one bucket of it, is still wanted."""

    def is_abandoned(self, store: ObjectStore, bucket: int) -> bool:
        """Return whether the write has abandoned the bucket with that number."""
        ...

    def is_pending(self, store: ObjectStore) -> bool:
        """Return whether the in-flight file of the write's instant exists."""
        ...

    def is_published(self, store: ObjectStore) -> bool:
        """Return whether a write that is not pending has been published, and the whole of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The rows of a write that go to one file group and, after a rollover, to new file groups.

    ``base`` is the slice to merge into; it is None for a new file group. The expected row counts come from
    the workload profile. They do not limit what is written; they only help to decide whether a file that is
    nearly full takes the last rows. ``file_id`` is that of the base, or :func:`new_file_id` of the instant
    and ``index``.
    """

    index: int
    partition: str
    file_id: str
    base: FileSlice | None = None
    expected_updates: int = 0
    expected_deletes: int = 0
    expected_inserts: int = 0

    def file_bytes(self, row_bytes: float) -> float:
        """Return the approximate size of the bucket's files, which measures the work of its task."""
        return self.expected_inserts * row_bytes + (self.base.size_bytes if self.base else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext:
    """The settings that all tasks of one write share. Spark sends them to the workers.

    ``schema`` has the table's columns without meta columns; ``avro_schema`` is JSON that includes them. If
    ``ordering`` is None, every incoming row wins; a delete by key sets it to None as well.
    ``record_size_bytes`` is the expected size of a row in a file. ``has_markers`` means that the markers of
    the first file of every bucket and the metadata files of the partitions already exist. ``clustering`` is
    the layout digest for the files' footers. ``sorted_by`` are the columns by which the incoming rows are
    sorted, ascending with nulls last. No file exceeds ``max_file_size_bytes``; clustering aims at files of
    ``target_file_size_bytes``. ``memory_budget_bytes`` is constant for a write, so that a second attempt of a
    task cuts rows at the same positions.
    """

    store: ObjectStore
    instant: str
    schema: pa.Schema
    avro_schema: str
    files: FilesPolicy
    max_file_size_bytes: int
    guard: WriteGuard
    ordering: str | None = None
    record_size_bytes: float | None = None
    memory_budget_bytes: int = 512 * 1024 * 1024
    has_markers: bool = False
    clustering: str | None = None
    sorted_by: tuple[str, ...] = ()
    target_file_size_bytes: int | None = None

    @property
    def file_size_bytes(self) -> int:
        """The size of a full file."""
        return min(self.target_file_size_bytes or self.max_file_size_bytes, self.max_file_size_bytes)

    @property
    def batch_bytes(self) -> int:
        """The size of the batches that a task processes, in Arrow bytes."""
        return min(max(self.memory_budget_bytes // 64, _MIB), _BATCH_BYTES_MOST)

    @property
    def row_group_arrow_bytes(self) -> int:
        """The largest number of Arrow bytes that a task collects for one row group."""
        return min(max(self.memory_budget_bytes // 5, 4 * _MIB), _ROW_GROUP_BYTES_MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A base file that exists under its final name. Keys are compared as UTF-16, as in Java."""

    stat: WriteStat
    min_key: str | None
    max_key: str | None
    metadata: pq.FileMetaData

    @property
    def statistics(self) -> FileStatistics:
        """The statistics of the footer, in the form that is recorded beside the timeline."""
        return file_statistics(self.stat.path, self.metadata, size_bytes=self.stat.file_size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBucket:
    """The files of a bucket in the order of their rows, rollovers after the first, and counts of its input.

    ``consumed_rows`` and ``consumed_hash`` (the sum of ``__hash`` modulo 2^64) cover every incoming row.
    ``late_rows`` is the number of incoming rows that lost to stored rows with greater ordering values.
    """

    index: int
    files: tuple[WrittenFile, ...]
    consumed_rows: int
    consumed_hash: int
    late_rows: int


def new_file_id(instant: str, bucket: int, rollover: int = 0) -> str:
    """Return the id of a new file group. It is the same in every attempt of a task.

    ``rollover`` is the number of the file within its bucket, 0 for the first.
    """
    return f"{uuid.uuid5(_FILE_IDS, f'{instant}/{bucket}/{rollover}')}-0"
