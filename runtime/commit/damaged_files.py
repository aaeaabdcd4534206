"""Files that commits name but that are missing or have another size.

Readers list folders, as Hudi's readers do. If a file was deleted, its rows are missing from every read, or an
older version is read in its place; Spark ignores empty files. So readers and writers compare the files that
they list with those that the commits of the active timeline wrote. The files of archived commits are no
longer known; archiving waits until damage is repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from parquetry.message import FILE_FIELD, PARTITION_FIELD, Message, Text, Value, command, joined
from parquetry.runtime.errors import CorruptTableError, StaleTimelineError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.partition_metadata import PARTITION_METADATA
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import WriteStat
from parquetry.runtime.timeline.effective_writes import invalid_completed_writes
from parquetry.runtime.timeline.versions import FileGroupId

_NAMED: Final = 10
_LEAST_BYTES: Final = 12
"""The size of the smallest possible Parquet file: two magic numbers and the length of the footer."""

Written: TypeAlias = tuple[str, WriteStat]
"""The instant of a write and its statistics of one file."""

PartitionChoice: TypeAlias = Callable[[Sequence[str]], Sequence[str]]
"""A function that returns those of the given partitions that are to be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedFile:
    """A file that ``instant`` wrote with ``rows`` and ``written_bytes``, in its present state.

    ``size_bytes`` is None if readers do not find the file: it is missing, or ``is_outside``, in the root of a
    partitioned table. ``older`` is the version that is read in its place, or None if there is none. ``rows``
    and ``written_bytes`` are None if an archived commit wrote the file.
    """

    partition: str = field(metadata=PARTITION_FIELD)
    file_id: str
    path: str = field(metadata=FILE_FIELD)
    instant: str
    rows: int | None
    written_bytes: int | None
    size_bytes: int | None
    older: str | None = None
    is_outside: bool = False


def damaged_files(
    handle: TableHandle,
    *,
    until: str | None = None,
    choose: PartitionChoice = list,
    every_partition: bool = True,
) -> tuple[DamagedFile, ...]:
    """Return the file groups whose newest version differs from what its commit wrote, by partition and path.

    A write or a clean may happen between reading the timeline and listing the files, so damage is confirmed
    by a second check.

    Args:
        handle: The table to check.
        until: The instant as of which to check, or None for the newest state.
        choose: Selects the partitions to check.
        every_partition: Whether to check partitions that no write on the active timeline names, for files
            that are too small.
    """

    def check() -> tuple[DamagedFile, ...]:
        view = handle.view(handle.timeline())
        return damaged_as_of(
            view, view.newest if until is None else until, choose, every_partition=every_partition
        )

    return check() and check()


def damaged_as_of(
    view: FileSystemView, time: str, choose: PartitionChoice = list, *, every_partition: bool = True
) -> tuple[DamagedFile, ...]:
    """Return the damaged files in one view, of the versions that readers saw at ``time``.

    Args:
        view: The view whose files and commits are compared.
        time: The instant as of which to check.
        choose: Selects the partitions to check.
        every_partition: Whether to check partitions that no write on the active timeline names, for files
            that are too small.
    """
    times = [instant.time for instant in view.timeline.completed_writes if instant.time <= time]
    named = newest_files(view.timeline, times)
    return _damaged_in(view, named, time, choose, further=view.partitions() if every_partition else ())


def damage_warnings(
    handle: TableHandle,
    found: Sequence[DamagedFile] | None = None,
) -> tuple[Text, ...]:
    """Return one warning per damaged file, with at most ten files named."""
    found = damaged_files(handle) if found is None else found
    texts = [_damage_message(handle.store.uri, file) for file in found[:_NAMED]]
    if len(found) > _NAMED:
        texts.append(
            Message(
                "{count:,} more files are missing or do not have the size that was written",
                count=len(found) - _NAMED,
            )
        )
    return tuple(joined("; ", (text, remedy(handle))) for text in texts)


def remedy(handle: TableHandle) -> Message:
    """Return the sentence that tells a user what to do about a damaged file."""
    return Message(
        "restore the file from a copy, or the table to a savepoint, or accept the loss of its rows "
        "with {command}",
        command=command("doctor", "--accept-loss", handle.store.uri),
    )


def raise_if_damaged(handle: TableHandle, found: Sequence[DamagedFile], *advice: Text) -> None:
    """Raise CorruptTableError with the names of the damaged files, if any; ``advice`` replaces the remedy."""
    if not found:
        return
    named = [_damage_message(handle.store.uri, file) for file in found[:_NAMED]]
    more = [Message("{count:,} more files", count=len(found) - _NAMED)] if len(found) > _NAMED else []
    raise CorruptTableError(joined("; ", [*named, *more, *(advice or (remedy(handle),))]))


def check_read(
    handle: TableHandle,
    view: FileSystemView,
    files: Sequence[FileSlice],
    *,
    after: str = "",
    until: str,
    choose: PartitionChoice,
) -> None:
    """Check the files that a read needs against the commits that the read uses anyway.

    These are the commits that wrote the ``files``, and those that the timeline has already read: the newest,
    and those that replaced files. Only if these show damage is the whole table checked.

    Args:
        handle: The table, for the check of the whole table and for messages.
        view: The view that the read uses.
        files: The file slices that the read opens.
        after: Files that were written up to this instant are not checked.
        until: The instant as of which the table is read.
        choose: Selects the partitions that the read needs.

    Raises:
        CorruptTableError: If files that the read needs are damaged.
    """
    timeline = view.timeline
    map_each(
        sorted({f.instant for f in files if timeline.is_completed(f.instant)}),
        lambda time: _cache_commit(timeline, time),
    )
    known = [i.time for i in timeline.completed_writes if i.time <= until and timeline.is_cached(i.time)]
    named = {group: one for group, one in newest_files(timeline, known).items() if one[0] > after}
    if _damaged_in(view, named, until, choose) or any(f.size_bytes < _LEAST_BYTES for f in files):
        raise_if_damaged(handle, damaged_files(handle, until=until, choose=choose))


def _cache_commit(timeline: Timeline, time: str) -> None:
    """Read a commit into the timeline. A commit that was archived meanwhile is ignored.

    Archiving requires that all files of a commit are intact.
    """
    with suppress(StaleTimelineError):
        timeline.commit_metadata(time)


def check_partitions(handle: TableHandle, view: FileSystemView, partitions: Collection[str]) -> None:
    """Raise CorruptTableError if a file of these partitions is damaged.

    A write must not use the files that remain. The function reads all commits of the active timeline, which
    keeps them.
    """

    def choose(paths: Sequence[str]) -> Sequence[str]:
        return [path for path in paths if path in partitions]

    if _damaged_in(view, newest_files(view.timeline), view.newest, choose, further=partitions):
        raise_if_damaged(handle, damaged_files(handle, choose=choose))


def check_published(
    handle: TableHandle,
    current: Timeline,
    listed: Mapping[str, int],
    *,
    partitions: Collection[str],
    replaced: Collection[FileGroupId],
) -> None:
    """Raise CorruptTableError if one of the partitions that a write changes has a damaged file.

    Args:
        handle: The table, for messages.
        current: The timeline, as read under the lock.
        listed: The sizes in bytes of all files in these partitions, by path.
        partitions: The partitions that the write changes.
        replaced: File groups that the write replaces; these may be damaged.

    """
    found = [
        _damage_of_written(group, instant, stat, part)
        for group, (instant, stat) in newest_files(current).items()
        if group[0] in partitions
        and group not in replaced
        and not _is_whole(instant, stat, part := _listed(group, instant, stat.path, listed))
    ]
    raise_if_damaged(handle, sorted(found, key=lambda file: (file.partition, file.path)))


def recorded_partitions(view: FileSystemView) -> frozenset[str]:
    """Return the partitions in which files should exist according to the active timeline."""
    named = newest_files(view.timeline)
    return frozenset(group[0] for group in named if not view.is_replaced(group, view.newest))


def damaged_groups(view: FileSystemView, partitions: Collection[str] | None = None) -> dict[str, list[str]]:
    """Return the ids of the file groups of which no file exists any more, by partition.

    A listing of the partition does not show these groups.
    """
    found = _damaged_in(
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
    """Return the newest version of every file group according to all completed writes, or those at ``times``.

    Writes that are being rolled back do not count. Replaced file groups are left out.
    """
    listed = [i.time for i in timeline.completed_writes] if times is None else sorted(times)
    rolled_back = invalid_completed_writes(timeline)
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


def _damaged_in(
    view: FileSystemView,
    expected: Mapping[FileGroupId, Written],
    time: str,
    choose: PartitionChoice,
    *,
    further: Iterable[str] = (),
) -> tuple[DamagedFile, ...]:
    """Return the files of a view that differ from their commits, or are too small, as of ``time``.

    ``expected`` has the versions that commits name. Only the partitions of ``expected`` and of ``further``
    that ``choose`` selects are checked.
    """
    expected = {group: written for group, written in expected.items() if not view.is_replaced(group, time)}
    partitions = choose(sorted({partition for partition, _ in expected}.union(further)))
    view.list_partitions(partitions)
    listed = {part.key: part for partition in partitions for part in view.slices(partition, time)}
    within = set(partitions)
    found = []
    for group, (instant, stat) in expected.items():
        if group[0] not in within:
            continue
        part = listed.get(group)
        if not view.is_read(group[0]):
            found.append(replace(_damage_of_written(group, instant, stat, None), is_outside=True))
        elif not _is_whole(instant, stat, part):
            found.append(_damage_of_written(group, instant, stat, part))
    found += [
        _damage_of_listed(part)
        for group, part in listed.items()
        if group not in expected and part.size_bytes < _LEAST_BYTES
    ]
    return tuple(sorted(found, key=lambda file: (file.partition, file.path)))


def _is_whole(instant: str, stat: WriteStat, part: FileSlice | None) -> bool:
    """Return whether the version of ``instant`` exists with its recorded size, or a newer version exists.

    A commit of Hudi may record no size (0 or less).
    """
    if part is None or part.instant < instant:
        return False
    if part.instant > instant:
        return True
    is_sized = stat.file_size_bytes <= 0 or part.size_bytes == stat.file_size_bytes
    return part.path == stat.path and is_sized and part.size_bytes >= _LEAST_BYTES


def _damage_of_written(
    group: FileGroupId, instant: str, stat: WriteStat, part: FileSlice | None
) -> DamagedFile:
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


def _damage_of_listed(part: FileSlice) -> DamagedFile:
    return DamagedFile(
        partition=part.partition,
        file_id=part.file_id,
        path=part.path,
        instant=part.instant,
        rows=None,
        written_bytes=None,
        size_bytes=part.size_bytes,
    )


def _listed(group: FileGroupId, instant: str, path: str, listed: Mapping[str, int]) -> FileSlice | None:
    """Return the file slice at ``path``, or None if the listing ``listed`` does not contain it."""
    size_bytes = listed.get(path)
    if size_bytes is None:
        return None
    return FileSlice(partition=group[0], file_id=group[1], instant=instant, path=path, size_bytes=size_bytes)


def _damage_message(uri: str, file: DamagedFile) -> Message:
    """Return the message about one damaged file."""
    file_uri = Value.uri(f"{uri}/{file.path}")
    if file.is_outside:
        return Message(
            "{file}, a file of {instant}, is in no partition, so every read lacks its rows; if "
            "{instant} is the newest write, roll it back with {command} and delete {partition_file}",
            file=file_uri,
            instant=file.instant,
            partition_file=Value.uri(f"{uri}/{PARTITION_METADATA}"),
            command=command("service", "rollback", uri, file.instant),
        )
    if file.size_bytes is None:
        effect = "every read lacks its rows"
        if file.older is not None:
            effect = f"reads use its older version of {file.older} instead"
        return Message(
            "{file}, a file of {instant}, is missing: {effect}",
            file=file_uri,
            instant=file.instant,
            effect=effect,
        )
    written = "a Parquet file cannot be that small"
    if file.written_bytes is not None:
        written = f"{file.instant} wrote {file.written_bytes:,}"
    return Message(
        "{file} has {found_bytes:,} bytes, but {expected}",
        file=file_uri,
        found_bytes=file.size_bytes,
        expected=written,
    )
