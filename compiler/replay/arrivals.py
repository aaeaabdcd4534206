"""What a write brought to a table, apart from the files that it was put into.

Commits count rows by file and tell the size of each file. Inserted rows, updates and deletes are what another
layout would have had to take in too; the bytes that rows gained or lost are kept with them, so that the bytes
of a partition are the same in every layout.
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
"""A recorded file group, and how many of its rows are meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """What a write changed in the rows of one recorded file group; ``grown_bytes`` may be negative."""

    group: str
    updates: int
    deletes: int
    grown_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """What a write brought to one partition.

    ``inserts`` are the new rows by the recorded group that took them, and have ``insert_bytes``. Rows of
    the groups in ``moved`` went to others, so that they are in these groups now. Those in ``replaced`` are
    gone, and all that there was if ``replaces_all``. ``record_size_bytes`` is the size of a row that the
    writer went by, where that is recorded.
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
        """All new rows."""
        return sum(rows for _, rows in self.inserts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrouping:
    """What a clustering did in one partition: the groups that went, and those that their rows are in now.

    ``ratio`` is how many bytes there are for each that was rewritten. ``is_whole``: it left no files of a bad
    size together, so that no budget cut it.
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
    """The newest versions of a table's files as commits record them, write by write.

    A file of which no rows are counted has as many as its bytes have in the others of the partition.
    """

    def __init__(self, files: Iterable[StartingFile]) -> None:
        """The files at the beginning."""
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
        """How many files are smaller than that."""
        return sum(
            file.size_bytes < limit_bytes for files in self._partitions.values() for file in files.values()
        )

    def __iter__(self) -> Iterator[StartingFile]:
        """Every file with its rows, by their instants."""
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
        """Forget versions that a clean deleted; the last time at which one of them was superseded."""
        last = ""
        for version in versions:
            size_bytes, time = self._superseded.pop(version, (0, ""))
            self.superseded_bytes -= size_bytes
            last = max(last, time)
        return last

    def write(self, write: RecordedWrite) -> tuple[Arrivals, ...]:
        """Take in a write of rows; what it brought, by partition."""
        gone = dict(write.replaced)
        partitions = [*write.partitions]
        named = {files.partition for files in partitions}
        partitions += [
            RecordedFilesOfPartition(partition, ()) for partition in gone if partition not in named
        ]
        return tuple(self._arrivals(files, write.time, gone.get(files.partition, ())) for files in partitions)

    def cluster(self, write: RecordedWrite, limits: SizeLimits) -> tuple[Regrouping, ...]:
        """Take in a clustering by these sizes; what it did, by partition."""
        found = []
        made_in = {files.partition: files for files in write.partitions}
        for partition in dict.fromkeys((*write.replaced, *made_in)):
            replaced = write.replaced.get(partition, ())
            before = sum(self._drop(partition, file_id, write.time) for file_id in replaced)
            left = sum(limits.is_off_size(file.size_bytes) for file in self._partitions[partition].values())
            after = 0
            made = []
            for file in made_in.get(partition, ()):
                size, rows = self._row_bytes.both(partition, file)
                self._put(partition, file.file_id, write.time, size, rows)
                made.append((file.file_id, rows))
                after += size
            found.append(
                Regrouping(
                    partition=partition,
                    replaced=replaced,
                    made=tuple(sorted(made, key=lambda group: -group[1])),
                    ratio=after / before if before and after else 1.0,
                    is_whole=left <= 1,
                )
            )
        return tuple(found)

    def _arrivals(self, files: RecordedFilesOfPartition, time: str, replaced: tuple[str, ...]) -> Arrivals:
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
        after: list[RowsOfGroup] = []
        for file in files:
            size, rows = self._row_bytes.both(partition, file)
            known = before.get(file.file_id)
            if known is None and file.previous is not None:
                rows_before = max(rows - file.inserts + file.deletes, 0)
                known = _Recorded(size * rows_before // max(rows, 1), rows_before, file.previous)
            if known is None:
                # Rows that a full file had no room for any more come with new ones, or alone.
                arrived = min(file.inserts, rows) if file.inserts or file.rows else rows
                share = arrived / max(rows, 1)
                new_bytes += size * share
                if arrived:
                    new.append((file.file_id, arrived))
                if rows > arrived:
                    moved_rows += rows - arrived
                    moved_bytes += size * (1 - share)
                    after.append((file.file_id, rows))
            else:
                merged.append((file, size, rows, known.size_bytes, known.rows))
            self._drop(partition, file.file_id, time)
            self._put(partition, file.file_id, time, size, rows)
        insert_bytes += new_bytes
        changes = []
        for file, size, rows, size_before, rows_before in merged:
            left = max(rows_before + file.inserts - file.deletes - rows, 0) if moved_rows else 0
            if left:
                after.insert(0, (file.file_id, rows))
            row_bytes = size_before / rows_before if rows_before else size / max(rows, 1)
            grown = size + left / max(moved_rows, 1) * moved_bytes - size_before + file.deletes * row_bytes
            # Rows that come as updates are as large as those that come as inserts.
            arrived_rows = file.inserts + file.updates
            share = file.inserts / arrived_rows if arrived_rows else 0.0
            brought = max((grown + file.updates * row_bytes) * share, float(file.inserts))
            insert_bytes += brought
            if file.inserts:
                inserts.append((file.file_id, file.inserts))
            changes.append(
                GroupChange(
                    group=file.file_id,
                    updates=file.updates,
                    deletes=file.deletes,
                    grown_bytes=grown - brought,
                )
            )
        return Arrivals(
            partition=partition,
            inserts=(*inserts, *sorted(new, key=lambda group: -group[1])),
            insert_bytes=insert_bytes,
            changes=tuple(changes),
            moved=tuple(after) if moved_rows else (),
            replaced=replaced,
            replaces_all=replaces_all,
            record_size_bytes=files.record_size_bytes,
        )

    def _put(self, partition: str, file_id: str, instant: str, size: int, rows: int) -> None:
        self._partitions[partition][file_id] = _Recorded(size, rows, instant)
        self.files += 1
        self.size_bytes += size

    def _drop(self, partition: str, file_id: str, time: str) -> int:
        """Make the version of a group one that a clean may delete; its bytes."""
        known = self._partitions[partition].pop(file_id, None)
        if known is None:
            return 0
        self.files -= 1
        self.size_bytes -= known.size_bytes
        self._superseded[partition, file_id, known.instant] = known.size_bytes, time
        self.superseded_bytes += known.size_bytes
        return known.size_bytes


class _RowBytes:
    """How many bytes a row has in a partition, of the files whose rows and bytes are both counted."""

    def __init__(self, files: Iterable[StartingFile]) -> None:
        self._known: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for file in files:
            self._learn(file.partition, file.size_bytes, file.rows or 0)

    def _learn(self, partition: str, size_bytes: int, rows: int) -> None:
        if rows and size_bytes:
            for name in (partition, _ALL):
                sums = self._known[name]
                sums[0] += size_bytes
                sums[1] += rows

    def _of(self, partition: str) -> float:
        for name in (partition, _ALL):
            size_bytes, rows = self._known[name]
            if rows:
                return size_bytes / rows
        return _UNKNOWN

    def rows(self, partition: str, size_bytes: int, rows: int | None) -> int:
        """The rows of a file, or about as many as it has."""
        return max(round(size_bytes / self._of(partition)), 1) if rows is None else rows

    def both(self, partition: str, file: RecordedFile) -> tuple[int, int]:
        """Bytes and rows of a file; where its commit counts one alone, the other is about so many."""
        if file.rows and not file.size_bytes:
            return round(file.rows * self._of(partition)), file.rows
        if file.size_bytes and not file.rows and not file.deletes:
            return file.size_bytes, self.rows(partition, file.size_bytes, None)
        self._learn(partition, file.size_bytes, file.rows)
        return file.size_bytes, file.rows


_ALL = "/"
"""No partition has this path."""
_UNKNOWN = 1024.0


def arrived_bytes(write: RecordedWrite) -> float:
    """About how many of the bytes of a write are rows that it inserted, updated or deleted."""
    if write.is_clustering:
        return 0.0
    return sum(
        file.size_bytes * min((file.inserts + file.updates + file.deletes) / max(file.rows, 1), 1)
        for files in write.partitions
        for file in files
    )
