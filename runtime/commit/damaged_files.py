"""Files that commits say are there, and that are gone or of another size.

Readers list folders, as Hudi's do: a file that was deleted is missing from every read, or its last version
but one is read in its place, and Spark passes over files without a byte. So whoever reads or writes holds
what it has listed against what the commits of the active timeline wrote. What archived commits wrote is not
known any more; archiving waits for whoever fixes the table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from parquetry.message import Message, Value, command, joined
from parquetry.runtime.errors import CorruptTableError, StaleTimelineError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import WriteStat
from parquetry.runtime.timeline.effective_writes import completed_being_rolled_back
from parquetry.runtime.timeline.versions import FileGroupId

_NAMED: Final = 10
_LEAST_BYTES: Final = 12
"""No parquet file is smaller: two magic numbers and the length of the footer."""

Written: TypeAlias = tuple[str, WriteStat]
"""The instant of a write and what it says of one file."""

PartitionChoice: TypeAlias = Callable[[Sequence[str]], Sequence[str]]
"""Which of these partitions are asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedFile:
    """A file that ``instant`` wrote with ``rows`` and ``written_bytes``, as it is now.

    ``size_bytes`` is None where it is gone. ``older`` is the version that is read in its place, None without
    one. What an archived commit wrote is not known: ``rows`` and ``written_bytes`` are then None.
    """

    partition: str
    file_id: str
    path: str
    instant: str
    rows: int | None
    written_bytes: int | None
    size_bytes: int | None
    older: str | None = None


def damaged_files(
    handle: TableHandle,
    *,
    until: str | None = None,
    wanted: PartitionChoice = list,
    everywhere: bool = True,
) -> tuple[DamagedFile, ...]:
    """The newest version of every file that a write on the active timeline wrote, where it is not as written.

    By partition and path; with ``until`` the versions of that time, and of ``wanted`` partitions only.
    Partitions that no such write touched are looked at ``everywhere`` only, for files that are too small.
    A write and a clean may come in between timeline and listing, so what is found is looked at again.
    """

    def look() -> tuple[DamagedFile, ...]:
        view = handle.view(handle.timeline())
        return damaged_as_of(view, view.newest if until is None else until, wanted, everywhere=everywhere)

    return look() and look()


def damaged_as_of(
    view: FileSystemView, time: str, wanted: PartitionChoice = list, *, everywhere: bool = True
) -> tuple[DamagedFile, ...]:
    """The same by one view: the versions that readers saw at that time."""
    times = [instant.time for instant in view.timeline.completed_writes if instant.time <= time]
    named = newest_files(view.timeline, times)
    return _look(view, named, time, wanted, also=view.partitions() if everywhere else ())


def damage_warnings(
    handle: TableHandle,
    found: Sequence[DamagedFile] | None = None,
) -> tuple[str, ...]:
    """One text for each of them, the first ten by name."""
    found = damaged_files(handle) if found is None else found
    texts: list[str] = [_told(handle.store.uri, file) for file in found[:_NAMED]]
    if len(found) > _NAMED:
        texts.append(f"{len(found) - _NAMED:,} more files are gone, or of another size than was written")
    return tuple(joined("; ", (text, remedy(handle))) for text in texts)


def remedy(handle: TableHandle) -> str:
    """What to do about a damaged file."""
    return "restore the file from a copy, or the table to a savepoint, or give its rows up with " + command(
        "doctor", "--accept-loss", handle.store.uri
    )


def refuse_damage(handle: TableHandle, found: Sequence[DamagedFile], *advice: str) -> None:
    """CorruptTableError that names the files, unless there are none; ``advice`` replaces the remedy."""
    if not found:
        return
    named = [_told(handle.store.uri, file) for file in found[:_NAMED]]
    more = [f"{len(found) - _NAMED:,} more files"] if len(found) > _NAMED else []
    raise CorruptTableError(*named, *more, *(advice or (remedy(handle),)))


def check_read(
    handle: TableHandle,
    view: FileSystemView,
    files: Sequence[FileSlice],
    *,
    after: str = "",
    until: str,
    wanted: PartitionChoice,
) -> None:
    """CorruptTableError when files that a read needs are damaged, by the commits that it reads anyway.

    These are the commits that wrote the ``files`` it opens, and what is remembered of the others: the newest,
    and those that replaced files. Only when they make it suspect is the table looked at as a whole.
    """
    timeline = view.timeline
    map_each(
        sorted({f.instant for f in files if timeline.is_completed(f.instant)}),
        lambda time: _remember(timeline, time),
    )
    known = [i.time for i in timeline.completed_writes if i.time <= until and timeline.has_read(i.time)]
    named = {group: one for group, one in newest_files(timeline, known).items() if one[0] > after}
    if _look(view, named, until, wanted) or any(f.size_bytes < _LEAST_BYTES for f in files):
        refuse_damage(handle, damaged_files(handle, until=until, wanted=wanted))


def _remember(timeline: Timeline, time: str) -> None:
    """Read a commit, unless it has been archived meanwhile: then all that it wrote was whole."""
    with suppress(StaleTimelineError):
        timeline.commit_metadata(time)


def check_partitions(handle: TableHandle, view: FileSystemView, partitions: Collection[str]) -> None:
    """CorruptTableError when a file of these partitions is damaged: nothing may be built on what is left.

    All commits of the active timeline are read, and remembered.
    """

    def wanted(paths: Sequence[str]) -> Sequence[str]:
        return [path for path in paths if path in partitions]

    if _look(view, newest_files(view.timeline), view.newest, wanted, also=partitions):
        refuse_damage(handle, damaged_files(handle, wanted=wanted))


def check_published(
    handle: TableHandle,
    now: Timeline,
    there: Mapping[str, int],
    *,
    partitions: Collection[str],
    replaced: Collection[FileGroupId],
) -> None:
    """CorruptTableError when a write would build on what is left of a damaged one of its partitions.

    ``there`` are the sizes of all files in these partitions, by path. Groups that are ``replaced`` may be
    damaged.
    """
    found = [
        _of_commit(group, instant, stat, part)
        for group, (instant, stat) in newest_files(now).items()
        if group[0] in partitions
        and group not in replaced
        and not _is_whole(instant, stat, part := _listed(group, instant, stat.path, there))
    ]
    refuse_damage(handle, sorted(found, key=lambda file: (file.partition, file.path)))


def named_partitions(view: FileSystemView) -> frozenset[str]:
    """The partitions in which the active timeline says that there are files."""
    named = newest_files(view.timeline)
    return frozenset(group[0] for group in named if not view.is_replaced(group, view.newest))


def damaged_groups(view: FileSystemView, partitions: Collection[str] | None = None) -> dict[str, list[str]]:
    """The file ids by partition of which no version is left, so that a listing does not have them."""
    found = _look(
        view,
        newest_files(view.timeline),
        view.newest,
        lambda paths: [path for path in paths if partitions is None or path in partitions],
    )
    lost: dict[str, list[str]] = {}
    for file in found:
        if file.size_bytes is None and file.older is None:
            lost.setdefault(file.partition, []).append(file.file_id)
    return lost


def newest_files(timeline: Timeline, times: Iterable[str] | None = None) -> dict[FileGroupId, Written]:
    """The newest version of every file group, as all completed writes, or those of ``times``, say.

    Writes that are being undone do not count. Of a file that is replaced there is none.
    """
    listed = [i.time for i in timeline.completed_writes] if times is None else sorted(times)
    rolled_back = completed_being_rolled_back(timeline)
    listed = [time for time in listed if time not in rolled_back]
    newest: dict[FileGroupId, Written] = {}
    for instant, metadata in zip(listed, map_each(listed, timeline.commit_metadata), strict=True):
        for partition, file_ids in metadata.replaced.items():
            for file_id in file_ids:
                newest.pop((partition, file_id), None)
        newest |= {
            (stat.partition_path, stat.file_id): (instant, stat) for stat in metadata.all_stats() if stat.path
        }
    return newest


def _look(
    view: FileSystemView,
    named: Mapping[FileGroupId, Written],
    time: str,
    wanted: PartitionChoice,
    *,
    also: Iterable[str] = (),
) -> tuple[DamagedFile, ...]:
    """What is not as it is ``named``, or too small, in the wanted of these partitions and of ``also``."""
    named = {group: one for group, one in named.items() if not view.is_replaced(group, time)}
    partitions = wanted(sorted({partition for partition, _ in named}.union(also)))
    listed = map_each(partitions, lambda partition: view.slices(partition, time))
    there = {(part.partition, part.file_id): part for parts in listed for part in parts}
    within = set(partitions)
    found = [
        _of_commit(group, instant, stat, there.get(group))
        for group, (instant, stat) in named.items()
        if group[0] in within and not _is_whole(instant, stat, there.get(group))
    ]
    found += [
        _of_listing(part)
        for group, part in there.items()
        if group not in named and part.size_bytes < _LEAST_BYTES
    ]
    return tuple(sorted(found, key=lambda file: (file.partition, file.path)))


def _is_whole(instant: str, stat: WriteStat, part: FileSlice | None) -> bool:
    """Whether the version of ``instant`` is there with its size, or a newer one is.

    A commit of Hudi may say no size (0 or less).
    """
    if part is None or part.instant < instant:
        return False
    if part.instant > instant:
        return True
    is_sized = stat.file_size_bytes <= 0 or part.size_bytes == stat.file_size_bytes
    return part.path == stat.path and is_sized and part.size_bytes >= _LEAST_BYTES


def _of_commit(group: FileGroupId, instant: str, stat: WriteStat, part: FileSlice | None) -> DamagedFile:
    is_there = part is not None and part.path == stat.path
    return DamagedFile(
        partition=group[0],
        file_id=group[1],
        path=stat.path,
        instant=instant,
        rows=stat.num_writes,
        written_bytes=stat.file_size_bytes if stat.file_size_bytes > 0 else None,
        size_bytes=part.size_bytes if part is not None and is_there else None,
        older=None if part is None or is_there else part.instant,
    )


def _of_listing(part: FileSlice) -> DamagedFile:
    return DamagedFile(
        partition=part.partition,
        file_id=part.file_id,
        path=part.path,
        instant=part.instant,
        rows=None,
        written_bytes=None,
        size_bytes=part.size_bytes,
    )


def _listed(group: FileGroupId, instant: str, path: str, there: Mapping[str, int]) -> FileSlice | None:
    size_bytes = there.get(path)
    if size_bytes is None:
        return None
    return FileSlice(partition=group[0], file_id=group[1], instant=instant, path=path, size_bytes=size_bytes)


def _told(uri: str, file: DamagedFile) -> str:
    place = Value.uri(f"{uri}/{file.path}")
    if file.size_bytes is None:
        means = "its rows are missing from every read"
        if file.older is not None:
            means = f"its older version of {file.older} is read in its place"
        return Message(place, f" is gone, which {file.instant} wrote: {means}")
    written = "no parquet file is that small"
    if file.written_bytes is not None:
        written = f"{file.instant} wrote {file.written_bytes:,}"
    return Message(place, f" has {file.size_bytes:,} bytes, and {written}")
