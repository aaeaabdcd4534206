"""The file system view: the files with the rows of a table, now, as of an instant, or since an instant.

The name of a file gives its file group and its instant. A file is committed if its instant is a completed
write of the active timeline. It is also committed if its instant is older than all of them (its commit was
archived), not pending, and not rolled back behind a savepoint. It is never committed if its instant is newer
than the newest completed write. hudi-rs also hides every file that is newer than an abandoned request, and
Java shows the files of a pending first write. This view gives the rows on which both agree for an undamaged
table, and always hides unfinished writes. Source: AbstractTableFileSystemView, HoodieFileGroup and
FileSystemBackedTableMetadata of Hudi 0.15.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from parquetry.message import Value
from parquetry.runtime.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore
from parquetry.runtime.storage.parallel import OnceProperty, map_each
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.file_names import SUFFIX, BaseFileName
from parquetry.runtime.table.partition_metadata import PARTITION_METADATA
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import TIMELINE_FOLDER, Action
from parquetry.runtime.timeline.versions import FileGroupId, cleanable_slices_as_of, slices_as_of

_NAME_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """The committed slices of a file group, the newest first.

    ``replaced_at`` is the first completed replacecommit that replaced the group, or None.
    """

    partition: str
    file_id: str
    slices: tuple[FileSlice, ...]
    replaced_at: str | None

    def as_of(self, time: str) -> FileSlice | None:
        """Return the slice that readers saw at that time, or None if there was none."""
        if self.replaced_at is not None and self.replaced_at <= time:
            return None
        return next((part for part in self.slices if part.instant <= time), None)

    def without(self, writes: Collection[str]) -> FileSlice | None:
        """Return the current slice if these writes had not been completed, or None if there is none."""
        if self.replaced_at is not None and self.replaced_at not in writes:
            return None
        return next((part for part in self.slices if part.instant not in writes), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalSlices:
    """The file slices with the rows that were written after the position ``begin`` and up to ``end``.

    The next read starts from ``end``, which equals ``begin`` if nothing is new. Each row is contained once,
    in the version of the instant ``as_of``, the newest write up to ``end``. These are the rows of ``slices``
    with ``begin < _hoodie_commit_time <= end``, without the commit times in ``too_late``, and those of the
    commit times in ``earlier``. Both are empty if no write completed after one that was requested later.
    """

    begin: str
    end: str
    slices: tuple[FileSlice, ...]
    as_of: str
    too_late: frozenset[str] = frozenset()
    earlier: frozenset[str] = frozenset()

    @property
    def after(self) -> str:
        """An instant up to which no file of the rows was written."""
        return min((f"{int(time) - 1:0{len(time)}}" for time in self.earlier), default=self.begin)


class FileSystemView:
    """The files of a table under one timeline snapshot. Every folder is listed at most once."""

    def __init__(self, store: ObjectStore, timeline: Timeline, config: TableConfig) -> None:
        """Create a view that has listed nothing yet."""
        self._store = store
        self._timeline = timeline
        self._config = config
        self._listings: dict[str, tuple[ObjectInfo, ...]] = {}
        self._groups: dict[str, Sequence[FileGroup]] = {}

    @property
    def timeline(self) -> Timeline:
        """The snapshot that determines which files are committed."""
        return self._timeline

    @property
    def newest(self) -> str:
        """The newest completed write, or an empty text before the first."""
        return self._commit_times[-1] if self._commit_times else ""

    def partitions(self) -> list[str]:
        """Return the paths of all partitions, sorted. The path of an unpartitioned table is empty.

        A folder is a partition if it contains Hudi's partition metadata file.
        """
        return list(self._partitions)

    def is_read(self, partition: str) -> bool:
        """Return whether readers look for files there: not in the root of a partitioned table."""
        return bool(partition) or not self._config.partition_by

    def slices(self, partition: str, as_of: str | None = None) -> list[FileSlice]:
        """Return the slices of all file groups of a partition, current or as of a time, by file id."""
        newest = self.newest if as_of is None else as_of
        found = (group.as_of(newest) for group in self.file_groups(partition))
        return [part for part in found if part is not None]

    def all_slices(self, as_of: str | None = None) -> list[FileSlice]:
        """Return the slices of all partitions, current or as of a time.

        Partitions are listed concurrently.
        """
        self.list_partitions(self._partitions)
        return [part for partition in self._partitions for part in self.slices(partition, as_of)]

    def file_groups(self, partition: str) -> list[FileGroup]:
        """Return all file groups of a partition with their committed slices, by file id.

        Replaced groups are included.
        """
        if partition not in self._groups:
            self._groups[partition] = self._file_groups(partition)
        return list(self._groups[partition])

    def _file_groups(self, partition: str) -> Sequence[FileGroup]:
        versions: dict[str, dict[str, FileSlice]] = defaultdict(dict)
        committed: dict[str, bool] = {}
        for part in self.base_files(partition):
            is_committed = committed.get(part.instant)
            if is_committed is None:
                is_committed = committed[part.instant] = self._is_committed(part.instant)
            if is_committed:
                other = versions[part.file_id].get(part.instant)
                versions[part.file_id][part.instant] = (
                    part if other is None else self._committed_one(other, part)
                )
        return [
            FileGroup(
                partition=partition,
                file_id=file_id,
                slices=tuple(sorted(parts.values(), key=lambda part: part.instant, reverse=True)),
                replaced_at=self._replaced.get((partition, file_id)),
            )
            for file_id, parts in sorted(versions.items())
        ]

    def is_needed_at(self, partition: str, names: Iterable[str], time: str) -> bool:
        """Return whether readers of that time need one of these base files, even if it is no longer listed.

        If this view has not listed the folder of the partition, the result is False.
        """
        if partition not in self._listings:
            return False
        seen = {part.file_id: part.instant for part in self.slices(partition, time)}
        for file in filter(None, map(BaseFileName.parse, names)):
            replaced_at = self._replaced.get((partition, file.file_id))
            is_visible = file.instant <= time and (replaced_at is None or replaced_at > time)
            is_newest = seen.get(file.file_id, "") <= file.instant
            if is_visible and is_newest and self._is_committed(file.instant):
                return True
        return False

    def is_replaced(self, group: FileGroupId, time: str) -> bool:
        """Return whether a replacecommit had replaced the file group at that time."""
        replaced_at = self._replaced.get(group)
        return replaced_at is not None and replaced_at <= time

    def base_files(self, partition: str) -> list[FileSlice]:
        """Return all base files in the folder of a partition, also those of unfinished and failed writes.

        Raises:
            CorruptTableError: If no Hudi reader can parse the name of a ``.parquet`` file.

        """
        uri = self._store.uri
        return [_slice(partition, info, uri) for info in self.listing(partition) if _is_base_file(info.path)]

    def check_time_travel(self, as_of: str) -> None:
        """Raise InvalidDataError if a clean may have deleted file slices of that time.

        The message names the next time that can be read. The last clean records the earliest commit that it
        retained. For savepoints, and for cleans that counted versions or retained less, the listing is
        compared with the commits of that time.
        """
        times, timeline = self._commit_times, self._timeline
        if as_of >= self.newest:
            return
        seen = max((time for time in times if time <= as_of), default=None)
        earliest = timeline.earliest_retained
        if earliest is not None and as_of < earliest and seen not in timeline.savepoints:
            whole = next((time for time in times if time >= earliest), self.newest)
        elif timeline.may_be_cleaned(as_of) and (seen is None or self._changed_and_cleaned_as_of(seen)):
            later = (time for time in times if as_of < time < self.newest)
            whole = next((time for time in later if not self._changed_and_cleaned_as_of(time)), self.newest)
        else:
            return
        raise InvalidDataError(
            "{table}: versions before {earliest_instant} were cleaned, so the table cannot be read as of "
            "{instant}; ask for {earliest_instant} or later, and raise retention.clean to keep more",
            table=self._store.uri,
            earliest_instant=whole,
            instant=as_of,
        )

    def cleaned_as_of(self, time: str) -> list[FileGroupId]:
        """Return the file groups whose slice of that time is deleted, sorted.

        The commits of the active timeline show which slices existed.
        """
        return self.missing_slices(slices_as_of(self._timeline, time), time)

    def missing_slices(self, versions: Mapping[FileGroupId, str | None], time: str) -> list[FileGroupId]:
        """Return the file groups of ``versions`` whose slice at that time is missing or has another instant.

        Args:
            versions: The expected instants of the slices, by file group. None accepts any instant.
            time: The time of the read.

        """
        partitions = sorted({partition for partition, _ in versions})
        self.list_partitions(partitions)
        present = {p.key: p.instant for path in partitions for p in self.slices(path, time)}
        return sorted(
            group
            for group, instant in versions.items()
            if group not in present or instant not in {None, present[group]}
        )

    def changed_between(self, begin: str, end: str | None = None) -> IncrementalSlices:
        """Return the slices with the rows written after ``begin`` and up to ``end``, or up to now.

        ``begin`` and ``end`` are positions, or times of completed writes (see :attr:`Instant.position`). The
        range ends where the next read misses no row, see :meth:`Timeline.newest_position`. Clustering moves
        rows and does not count as a change.

        Raises:
            InvalidDataError: If a clean deleted slices of ``end``.
            UnsupportedTableError: If the rows have no commit time.

        """
        if not self._config.meta_columns.has_commit_times:
            raise UnsupportedTableError(
                "{table}: hoodie.populate.meta.fields=false, so rows have no commit time; "
                "read the whole table",
                table=self._store.uri,
            )
        timeline = self._timeline
        begin = timeline.position_of(begin)
        last = timeline.newest_position(None if end is None else timeline.position_of(end))
        if last is None or last <= begin:
            return IncrementalSlices(begin=begin, end=begin, slices=(), as_of=self.newest)
        positions = timeline.positions_after(begin)
        later = {time for time, position in positions.items() if position > last}
        changes = IncrementalSlices(
            begin=begin,
            end=last,
            slices=(),
            as_of=max(time for time in self._commit_times if time not in later),
            too_late=frozenset(time for time in later if begin < time <= last),
            earlier=frozenset(t for t, position in positions.items() if t <= begin < position <= last),
        )
        self.check_time_travel(changes.as_of)
        touched = self._touched_partitions(positions, begin, last)
        self.list_partitions(touched)
        current = (group.without(later) for path in touched for group in self.file_groups(path))
        slices = tuple(part for part in current if part is not None and part.instant > changes.after)
        return replace(changes, slices=slices)

    def _changed_and_cleaned_as_of(self, time: str) -> list[FileGroupId]:
        """Return the sorted file groups that later writes changed and whose slice of that time is deleted."""
        return self.missing_slices(cleanable_slices_as_of(self._timeline, time), time)

    @OnceProperty
    def _commit_times(self) -> tuple[str, ...]:
        return tuple(instant.time for instant in self._timeline.completed_writes)

    def _is_committed(self, time: str) -> bool:
        if time > self.newest:
            return False
        return self._timeline.is_completed(time) or self._timeline.counts_as_archived(time)

    @OnceProperty
    def _replaced(self) -> Mapping[tuple[str, str], str]:
        """Return the time of the first replacecommit that replaced each file group."""
        times = [
            instant.time
            for instant in self._timeline.completed_writes
            if instant.action is Action.REPLACECOMMIT
        ]
        replaced: dict[tuple[str, str], str] = {}
        for time, metadata in zip(times, map_each(times, self._timeline.commit_metadata), strict=True):
            for partition, file_ids in metadata.replaced.items():
                for file_id in file_ids:
                    replaced.setdefault((partition, file_id), time)
        return replaced

    def _committed_one(self, one: FileSlice, other: FileSlice) -> FileSlice:
        """Return the one of two files of the same group and instant that the commit names."""
        if self._timeline.is_completed(one.instant):
            named = {stat.path for stat in self._timeline.commit_metadata(one.instant).all_stats()}
            for part in (one, other):
                if part.path in named:
                    return part
        raise CorruptTableError(
            "{table}: {file} and {other_file} are the same version of one file group; delete the one that is "
            "not in the commit {instant}",
            table=self._store.uri,
            file=Value.file(one.path),
            other_file=Value.file(other.path),
            instant=one.instant,
        )

    def _touched_partitions(self, positions: Mapping[str, str], begin: str, end: str) -> list[str]:
        """Return the partitions that the commits of the range changed.

        If one of these commits was archived, the result is all partitions.
        """
        timeline = self._timeline
        times = [time for time, position in positions.items() if begin < position <= end]
        if begin < (timeline.first_contiguous_write or "") or not all(map(timeline.is_completed, times)):
            return self.partitions()
        commits = map_each(times, self._timeline.commit_metadata)
        return sorted({partition for metadata in commits for partition in metadata.stats})

    @OnceProperty
    def _partitions(self) -> Sequence[str]:
        """Return the partitions, found from the base folder downwards.

        Folders above the level of the last partition field contain no files, so only their subfolders are
        listed. Partitions of a value with ``/`` are deeper.
        """
        levels = len(self._config.partition_by)
        if levels == 0 and _is_partition(self.listing("")):
            return [""]
        found: list[str] = []
        folders, level = self._sub_folders([""]), 1
        while folders:
            if level >= levels:
                self.list_partitions(folders)
                found += [folder for folder in folders if _is_partition(self.listing(folder))]
                folders = [folder for folder in folders if not _is_partition(self.listing(folder))]
            folders, level = self._sub_folders(folders), level + 1
        return sorted(found)

    def _sub_folders(self, folders: Iterable[str]) -> list[str]:
        nested = map_each(folders, self._store.list_folders)
        return [path for paths in nested for path in paths if path.rpartition("/")[2] != TIMELINE_FOLDER]

    def list_partitions(self, partitions: Iterable[str]) -> None:
        """List the folders of the given partitions that this view has not listed yet."""
        missing = [partition for partition in partitions if partition not in self._listings]
        for partition, infos in self._store.list_each(missing).items():
            self._listings[partition] = tuple(infos)

    def listing(self, partition: str) -> tuple[ObjectInfo, ...]:
        """Return all objects in the folder of a partition."""
        self.list_partitions([partition])
        return self._listings[partition]


def _is_partition(listing: Iterable[ObjectInfo]) -> bool:
    return any(info.path.rpartition("/")[2].startswith(PARTITION_METADATA) for info in listing)


def _is_base_file(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(SUFFIX) and not name.startswith(PARTITION_METADATA)


def _slice(partition: str, info: ObjectInfo, uri: str) -> FileSlice:
    """Return the slice of a file name ``<file id>_<write token>_<instant>.parquet``."""
    parts = info.path.rpartition("/")[2].split("_")
    if len(parts) < _NAME_PARTS or not parts[0]:
        raise CorruptTableError(
            "{file}: not the name of a Hudi base file, and Hudi's readers fail on it; move it out of "
            "the table",
            file=Value.uri(f"{uri}/{info.path}"),
        )
    return FileSlice(
        partition=partition,
        file_id=parts[0],
        instant=parts[2].partition(".")[0],
        path=info.path,
        size_bytes=info.size_bytes,
    )
