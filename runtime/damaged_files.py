"""Files that commits say are there, and that are gone or of another size.

Readers list folders, as Hudi's do: a deleted file is missing from every read, and nothing fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parquetry.runtime.parallel import map_each
from parquetry.runtime.table_handle import TableHandle
from parquetry.runtime.timeline.commit import WriteStat

_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedFile:
    """A file that ``instant`` wrote with ``written_bytes``; ``size_bytes`` is None where it is gone."""

    partition: str
    path: str
    instant: str
    written_bytes: int
    size_bytes: int | None


def damaged_files(handle: TableHandle) -> tuple[DamagedFile, ...]:
    """The newest version of every file that a write on the active timeline wrote, where it is not as written.

    By partition and path. Files of archived writes are not looked for. A write and a clean may come in
    between timeline and listing, so what is found is looked at again.
    """
    return _damaged(handle) and _damaged(handle)


def damage_warnings(handle: TableHandle, *, shown_by: Callable[[str], str]) -> tuple[str, ...]:
    """One text for each of them, the first ten by name; ``shown_by`` says how a partition may be shown."""
    found = damaged_files(handle)
    texts = [_warning(handle.store.uri, file, shown_by(file.partition)) for file in found[:_NAMED]]
    if len(found) > _NAMED:
        texts.append(f"{len(found) - _NAMED:,} more files are gone, or of another size than was written")
    return tuple(texts)


def _damaged(handle: TableHandle) -> tuple[DamagedFile, ...]:
    timeline = handle.timeline()
    times = [instant.time for instant in timeline.completed_writes]
    newest: dict[tuple[str, str], tuple[str, WriteStat]] = {}
    for instant, metadata in zip(times, map_each(times, timeline.commit_metadata), strict=True):
        for partition, file_ids in metadata.replaced.items():
            for file_id in file_ids:
                newest.pop((partition, file_id), None)
        written = ((stat.partition_path, stat.file_id, stat) for stat in metadata.all_stats() if stat.path)
        newest |= {(partition, file_id): (instant, stat) for partition, file_id, stat in written}
    there = {part.path: part.size_bytes for part in handle.view(timeline).all_slices()} if newest else {}
    found = (
        DamagedFile(
            partition=stat.partition_path,
            path=stat.path,
            instant=instant,
            written_bytes=stat.file_size_bytes,
            size_bytes=there.get(stat.path),
        )
        for instant, stat in newest.values()
        if not _is_as_written(stat, there.get(stat.path))
    )
    return tuple(sorted(found, key=lambda file: (file.partition, file.path)))


def _is_as_written(stat: WriteStat, size_bytes: int | None) -> bool:
    """Whether a file is there with the size of its commit, which may not say one (0)."""
    return size_bytes is not None and stat.file_size_bytes in (0, size_bytes)


def _warning(uri: str, file: DamagedFile, partition: str) -> str:
    name = file.path.rpartition("/")[2]
    place = "/".join(part for part in (uri, partition, name) if part)
    if file.size_bytes is None:
        return (
            f"{place} is gone, which {file.instant} wrote: its rows are missing from every read; restore the "
            "file from a copy, or the table to a savepoint"
        )
    return (
        f"{place} has {file.size_bytes:,} bytes, and {file.instant} wrote {file.written_bytes:,}; restore "
        "the file from a copy, or the table to a savepoint"
    )
