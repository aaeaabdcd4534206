"""What one task is told about the base files it writes, and what it tells back."""

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
"""Larger batches and row groups gain nothing: what a larger budget has more is for rows to be sorted."""

_FILE_IDS = uuid.UUID("6f0c7c1e-7d5e-5b6b-9a51-5d0e4a0f3c11")


class Guard(Protocol):
    """Knows whether a write, and a bucket of it, is still wanted."""

    def is_abandoned(self, store: ObjectStore, bucket: int) -> bool:
        """Whether the write does without the bucket of that number."""
        ...

    def still_alive(self, store: ObjectStore) -> bool:
        """Whether the in-flight file of the write's instant is there."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The rows that go to one file group, and with roll-overs to new ones beside it.

    ``base`` is the slice to merge into, None for a new file group. The expected numbers are those
    of the write's profile; they steer when a file that is nearly full may take the last rows, not
    what is written. ``file_id`` is the base's, or :func:`new_file_id` of the instant and ``index``.
    """

    index: int
    partition: str
    file_id: str
    base: FileSlice | None = None
    expected_updates: int = 0
    expected_deletes: int = 0
    expected_inserts: int = 0

    def file_bytes(self, row_bytes: float) -> float:
        """About how large its files become, which is what writing them takes."""
        return self.expected_inserts * row_bytes + (self.base.size_bytes if self.base else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext:
    """What all tasks of one write share; it travels to the workers.

    ``schema`` has the table's columns without meta columns, ``avro_schema`` is the JSON with them.
    ``ordering`` None lets every incoming row win; set it to None for a delete by key as well.
    ``record_size_bytes`` is what a row is expected to take in a file. ``marked``: the markers of
    every bucket's first file, and the partitions' metadata files, are there already.
    ``clustering`` is the digest of the clustering spec that the files are laid out by, ``sorted_by`` the
    columns in whose order rows arrive, ascending with nulls last.
    No file exceeds ``max_file_size_bytes``; files of clustering should have ``target_file_size_bytes``.
    ``memory_budget_bytes`` is a constant of the write, so that a task's second attempt cuts alike.
    """

    store: ObjectStore
    instant: str
    schema: pa.Schema
    avro_schema: str
    files: FilesPolicy
    max_file_size_bytes: int
    guard: Guard
    ordering: str | None = None
    record_size_bytes: float | None = None
    memory_budget_bytes: int = 512 * 1024 * 1024
    marked: bool = False
    clustering: str | None = None
    sorted_by: tuple[str, ...] = ()
    target_file_size_bytes: int | None = None

    @property
    def file_size_bytes(self) -> int:
        """The size of a full file."""
        return min(self.target_file_size_bytes or self.max_file_size_bytes, self.max_file_size_bytes)

    @property
    def batch_bytes(self) -> int:
        """How many Arrow bytes are worked on at once."""
        return min(max(self.memory_budget_bytes // 64, _MIB), _BATCH_BYTES_MOST)

    @property
    def row_group_arrow_bytes(self) -> int:
        """The most Arrow bytes that are collected for a row group."""
        return min(max(self.memory_budget_bytes // 5, 4 * _MIB), _ROW_GROUP_BYTES_MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One base file that stands under its name; its keys are compared as UTF-16, like Java's."""

    stat: WriteStat
    min_key: str | None
    max_key: str | None
    metadata: pq.FileMetaData

    @property
    def statistics(self) -> FileStatistics:
        """What the footer says, as it is recorded beside the timeline."""
        return file_statistics(self.stat.path, self.metadata, size_bytes=self.stat.file_size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBucket:
    """What became of a bucket: its files in the order of their rows, roll-overs behind the first.

    ``consumed_rows`` and ``consumed_hash`` (the sum of ``__hash`` modulo 2^64) count every row that
    was taken in. ``late_rows`` lost against stored rows of greater ordering values.
    """

    index: int
    files: tuple[WrittenFile, ...]
    consumed_rows: int
    consumed_hash: int
    late_rows: int


def new_file_id(instant: str, bucket: int, roll_over: int = 0) -> str:
    """The id of a new file group: the same for every attempt of the same task."""
    return f"{uuid.uuid5(_FILE_IDS, f'{instant}/{bucket}/{roll_over}')}-0"
