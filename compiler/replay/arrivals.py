"""The rows that a write brought to a table, independent of the files that it stored them in.

Commits count rows by file and record the size of each file. Any other layout has to store the same inserts,
updates and deletes. The bytes that rows gained or lost belong to them, so that a partition has the same bytes
in every layout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from parquetry.compiler.replay.history import (
    RecordedFile,
    RecordedFilesOfPartition,
    RecordedWrite,
    StartingFile,
)
from parquetry.runtime.layout.clustering.sizes import SizeLimits

RowsOfGroup = tuple[str, int]
"""A recorded file group, and a number of its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """The changes of a write to the rows of one recorded file group. ``grown_bytes`` may be negative."""

    group: str
    updates: int
    deletes: int
    grown_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The rows that a write brought to one partition.

    Attributes:
        partition: The partition.
        inserts: The new rows by the recorded group that took them.
        insert_bytes: The bytes of the new rows.
        changes: The updates and deletes by recorded group.
        moved: Groups among which the write moved existing rows, with their rows after the write.
        replaced: Groups whose rows are gone.
        replaces_all: True if the write replaced all rows of the partition.
        record_size_bytes: The record size that the writer used, None if not recorded.
    """

    partition: str
    inserts: tuple[RowsOfGroup, ...] = ()
    insert_bytes: float = 0.0
    changes: tuple[GroupChange, ...] = ()
    moved: tuple[RowsOfGroup, ...] = ()
    replaced: tuple[str, ...] = ()
    replaces_all: bool = False
    record_size_bytes: float | None = None

    @property
    def inserted_rows(self) -> int:
        """The number of all new rows."""
        return sum(rows for _, rows in self.inserts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrouping:
    """The effect of a clustering on one partition: the replaced groups, and the new groups of their rows.

    ``ratio`` is the number of new bytes per rewritten byte. ``is_whole`` is True if the clustering left at
    most one file of a wrong size, so no budget limited it.
    """

    partition: str
    replaced: tuple[str, ...]
    made: tuple[RowsOfGroup, ...]
    ratio: float
    is_whole: bool


@dataclass(slots=True)
class _Recorded:
    size_bytes: int
    rows: int
    instant: str


class RecordedTable:
    """The newest versions of a table's files as commits record them, updated write by write.

    If the rows of a file are not counted, their number is derived from the bytes per row of the partition.
    """

    def __init__(self, files: Iterable[StartingFile]) -> None:
        """Start with the files at the beginning of the period."""
        listed = tuple(files)
        self._row_bytes = _RowBytes(listed)
        self._partitions: dict[str, dict[str, _Recorded]] = defaultdict(dict)
        self._superseded: dict[tuple[str, str, str], tuple[int, str]] = {}
        self.files = 0
        self.size_bytes = 0
        self.superseded_bytes = 0
        for file in listed:
            rows = self._row_bytes.rows(file.partition, file.size_bytes, file.rows)
            self._put(file.partition, file.file_id, file.instant, file.size_bytes, rows)

    def count_small(self, limit_bytes: int) -> int:
        """Return the number of files that are smaller than the limit."""
        return sum(
            file.size_bytes < limit_bytes for files in self._partitions.values() for file in files.values()
        )

    def __iter__(self) -> Iterator[StartingFile]:
        """Yield every file with its rows, sorted by instant."""
        found = (
            (file.instant, partition, file_id, file)
            for partition, files in self._partitions.items()
            for file_id, file in files.items()
        )
        for instant, partition, file_id, file in sorted(found, key=lambda one: one[:3]):
            yield StartingFile(
                partition=partition,
                file_id=file_id,
                instant=instant,
                size_bytes=file.size_bytes,
                rows=file.rows,
            )

    def clean(self, versions: Iterable[tuple[str, str, str]]) -> str:
        """Remove versions that a clean deleted, and return the latest time at which one was superseded."""
        last = ""
        for version in versions:
            size_bytes, time = self._superseded.pop(version, (0, ""))
            self.superseded_bytes -= size_bytes
            last = max(last, time)
        return last

    def write(self, write: RecordedWrite) -> tuple[Arrivals, ...]:
        """Record a write of rows, and return the rows that it brought by partition."""
        replaced = dict(write.replaced)
        partitions = [*write.partitions]
        named = {files.partition for files in partitions}
        partitions += [
            RecordedFilesOfPartition(partition, ()) for partition in replaced if partition not in named
        ]
        return tuple(
            self._arrivals(files, write.time, replaced.get(files.partition, ())) for files in partitions
        )

    def cluster(self, write: RecordedWrite, limits: SizeLimits) -> tuple[Regrouping, ...]:
        """Record a clustering, and return its effect by partition.

        ``limits`` tell whether the clustering left files behind that are too small or too large.
        """
        regroupings = []
        new_files = {files.partition: files for files in write.partitions}
        for partition in dict.fromkeys((*write.replaced, *new_files)):
            replaced = write.replaced.get(partition, ())
            before = sum(self._drop(partition, file_id, write.time) for file_id in replaced)
            off_size_files = sum(
                limits.is_off_size(file.size_bytes) for file in self._partitions[partition].values()
            )
            after = 0
            new_groups = []
            for file in new_files.get(partition, ()):
                size, rows = self._row_bytes.bytes_and_rows(partition, file)
                self._put(partition, file.file_id, write.time, size, rows)
                new_groups.append((file.file_id, rows))
                after += size
            regroupings.append(
                Regrouping(
                    partition=partition,
                    replaced=replaced,
                    made=tuple(sorted(new_groups, key=lambda group: -group[1])),
                    ratio=after / before if before and after else 1.0,
                    is_whole=off_size_files <= 1,
                )
            )
        return tuple(regroupings)

    def _arrivals(self, files: RecordedFilesOfPartition, time: str, replaced: tuple[str, ...]) -> Arrivals:
        """Record what a write did to a partition, and return the rows that it brought."""
        partition = files.partition
        before = self._partitions[partition]
        for file_id in replaced:
            self._drop(partition, file_id, time)
        replaces_all = bool(replaced) and not before
        merged: list[tuple[RecordedFile, int, int, int, int]] = []
        inserts: list[RowsOfGroup] = []
        new: list[RowsOfGroup] = []
        insert_bytes = new_bytes = moved_bytes = 0.0
        moved_rows = 0
        moved: list[RowsOfGroup] = []
        for file in files:
            size, rows = self._row_bytes.bytes_and_rows(partition, file)
            previous = before.get(file.file_id)
            if previous is None and file.previous is not None:
                rows_before = max(rows - file.inserts + file.deletes, 0)
                previous = _Recorded(size * rows_before // max(rows, 1), rows_before, file.previous)
            if previous is None:
                # A new file may contain rows that overflowed from a full file, beside new rows or alone.
                arrived = min(file.inserts, rows) if file.inserts or file.rows else rows
                share = arrived / max(rows, 1)
                new_bytes += size * share
                if arrived:
                    new.append((file.file_id, arrived))
                if rows > arrived:
                    moved_rows += rows - arrived
                    moved_bytes += size * (1 - share)
                    moved.append((file.file_id, rows))
            else:
                merged.append((file, size, rows, previous.size_bytes, previous.rows))
            self._drop(partition, file.file_id, time)
            self._put(partition, file.file_id, time, size, rows)
        insert_bytes += new_bytes
        changes = []
        for file, size, rows, size_before, rows_before in merged:
            overflowed_rows = max(rows_before + file.inserts - file.deletes - rows, 0) if moved_rows else 0
            if overflowed_rows:
                moved.insert(0, (file.file_id, rows))
            row_bytes = size_before / rows_before if rows_before else size / max(rows, 1)
            grown_bytes = (
                size
                + overflowed_rows / max(moved_rows, 1) * moved_bytes
                - size_before
                + file.deletes * row_bytes
            )
            # Updated rows are assumed to be as large as inserted rows.
            arrived_rows = file.inserts + file.updates
            share = file.inserts / arrived_rows if arrived_rows else 0.0
            inserted_bytes = max((grown_bytes + file.updates * row_bytes) * share, float(file.inserts))
            insert_bytes += inserted_bytes
            if file.inserts:
                inserts.append((file.file_id, file.inserts))
            changes.append(
                GroupChange(
                    group=file.file_id,
                    updates=file.updates,
                    deletes=file.deletes,
                    grown_bytes=grown_bytes - inserted_bytes,
                )
            )
        return Arrivals(
            partition=partition,
            inserts=(*inserts, *sorted(new, key=lambda group: -group[1])),
            insert_bytes=insert_bytes,
            changes=tuple(changes),
            moved=tuple(moved) if moved_rows else (),
            replaced=replaced,
            replaces_all=replaces_all,
            record_size_bytes=files.record_size_bytes,
        )

    def _put(self, partition: str, file_id: str, instant: str, size: int, rows: int) -> None:
        """Add a file, or replace the former version of its group."""
        self._partitions[partition][file_id] = _Recorded(size, rows, instant)
        self.files += 1
        self.size_bytes += size

    def _drop(self, partition: str, file_id: str, time: str) -> int:
        """Supersede the version of a group, so that a clean may delete it, and return its bytes."""
        known = self._partitions[partition].pop(file_id, None)
        if known is None:
            return 0
        self.files -= 1
        self.size_bytes -= known.size_bytes
        self._superseded[partition, file_id, known.instant] = known.size_bytes, time
        self.superseded_bytes += known.size_bytes
        return known.size_bytes


class _RowBytes:
    """The average bytes per row by partition, learned from files whose rows and bytes are both recorded."""

    def __init__(self, files: Iterable[StartingFile]) -> None:
        self._known: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for file in files:
            self._learn(file.partition, file.size_bytes, file.rows or 0)

    def _learn(self, partition: str, size_bytes: int, rows: int) -> None:
        """Add a file whose bytes and rows are known to the averages."""
        if rows and size_bytes:
            for name in (partition, _ALL):
                sums = self._known[name]
                sums[0] += size_bytes
                sums[1] += rows

    def _of(self, partition: str) -> float:
        """Return the average bytes per row in a partition, or else in the table, or else a constant."""
        for name in (partition, _ALL):
            size_bytes, rows = self._known[name]
            if rows:
                return size_bytes / rows
        return _UNKNOWN

    def rows(self, partition: str, size_bytes: int, rows: int | None) -> int:
        """Return the recorded rows of a file, or an estimate if they are unknown."""
        return max(round(size_bytes / self._of(partition)), 1) if rows is None else rows

    def bytes_and_rows(self, partition: str, file: RecordedFile) -> tuple[int, int]:
        """Return the bytes and rows of a file. If its commit records only one of them, estimate the other."""
        if file.rows and not file.size_bytes:
            return round(file.rows * self._of(partition)), file.rows
        if file.size_bytes and not file.rows and not file.deletes:
            return file.size_bytes, self.rows(partition, file.size_bytes, None)
        self._learn(partition, file.size_bytes, file.rows)
        return file.size_bytes, file.rows


_ALL = "/"
"""The key for all partitions together; no partition has this path."""
_UNKNOWN = 1024.0


def arrived_bytes(write: RecordedWrite) -> float:
    """Return approximately how many bytes of a write are rows that it inserted, updated or deleted."""
    if write.is_clustering:
        return 0.0
    return sum(
        file.size_bytes * min((file.inserts + file.updates + file.deletes) / max(file.rows, 1), 1)
        for files in write.partitions
        for file in files
    )
