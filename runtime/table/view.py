"""The file system view: which files of a table are its rows, now, as of an instant, or since one.

A file belongs to the group and the instant that its name gives. It is committed when that instant
is a completed write of the active timeline, or older than all of them (its commit was archived)
and not pending, nor undone behind a savepoint; never when it is newer than the newest completed
write. hudi-rs also hides every file that is newer than a dead request; Java shows the files of a
pending first write: the rule here gives the rows both agree on where the table is sound, and hides
unfinished writes always.
Source: AbstractTableFileSystemView, HoodieFileGroup and FileSystemBackedTableMetadata of Hudi 0.15.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from parquetry.message import Message, Value
from parquetry.runtime.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.storage.open import ObjectInfo, ObjectStore
from parquetry.runtime.storage.parallel import OnceProperty, map_each
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.file_names import SUFFIX, BaseFileName
from parquetry.runtime.table.partition_metadata import PARTITION_METADATA
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import TIMELINE_FOLDER, Action
from parquetry.runtime.timeline.versions import FileGroupId, cleanable_as_of, versions_as_of

_NAME_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """The committed versions of one file, newest first.

    ``replaced_at`` is the first completed replacecommit that did away with the group.
    """

    partition: str
    file_id: str
    slices: tuple[FileSlice, ...]
    replaced_at: str | None

    def as_of(self, time: str) -> FileSlice | None:
        """The version that readers saw at that time; None when there was none."""
        if self.replaced_at is not None and self.replaced_at <= time:
            return None
        return next((part for part in self.slices if part.instant <= time), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalSlices:
    """Where the rows are that were written after ``begin`` and no later than ``end``.

    They are the rows of ``slices`` with ``begin < _hoodie_commit_time <= end``, each once, in the
    version of ``end``. ``end`` is the instant to go on from; it equals ``begin`` when nothing is new.
    """

    begin: str
    end: str
    slices: tuple[FileSlice, ...]


class FileSystemView:
    """The files of a table under one timeline snapshot; every folder is listed at most once."""

    def __init__(self, store: ObjectStore, timeline: Timeline, config: TableConfig) -> None:
        """A view that has listed nothing yet."""
        self._store = store
        self._timeline = timeline
        self._config = config
        self._listings: dict[str, tuple[ObjectInfo, ...]] = {}
        self._groups: dict[str, Sequence[FileGroup]] = {}

    @property
    def timeline(self) -> Timeline:
        """The snapshot that decides what is committed."""
        return self._timeline

    @property
    def newest(self) -> str:
        """The newest completed write; the empty text before the first."""
        return self._commit_times[-1] if self._commit_times else ""

    def partitions(self) -> list[str]:
        """The paths of all partitions, sorted; the empty path for a table without partitions.

        A folder is a partition when it holds Hudi's partition metadata file.
        """
        return list(self._partitions)

    def slices(self, partition: str, as_of: str | None = None) -> list[FileSlice]:
        """The current version of every file group of a partition, or those of a time; by file id."""
        newest = self.newest if as_of is None else as_of
        found = (group.as_of(newest) for group in self.file_groups(partition))
        return [part for part in found if part is not None]

    def all_slices(self, as_of: str | None = None) -> list[FileSlice]:
        """The same for all partitions, which are listed side by side."""
        self._list_all(self._partitions)
        return [part for partition in self._partitions for part in self.slices(partition, as_of)]

    def file_groups(self, partition: str) -> list[FileGroup]:
        """All committed versions of a partition's files, replaced groups too; by file id."""
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
                versions[part.file_id][part.instant] = part if other is None else self._named(other, part)
        return [
            FileGroup(
                partition=partition,
                file_id=file_id,
                slices=tuple(sorted(parts.values(), key=lambda part: part.instant, reverse=True)),
                replaced_at=self._replaced.get((partition, file_id)),
            )
            for file_id, parts in sorted(versions.items())
        ]

    def needs(self, partition: str, names: Iterable[str], time: str) -> bool:
        """Whether readers of that time need one of these base files, which may be gone from the listing.

        No in folders that were not listed.
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
        """Whether a replacecommit had done away with the file group at that time."""
        replaced_at = self._replaced.get(group)
        return replaced_at is not None and replaced_at <= time

    def base_files(self, partition: str) -> list[FileSlice]:
        """Every base file that lies in a partition's folder, those of unfinished and dead writes too.

        CorruptTableError for a ``.parquet`` file whose name no Hudi reader can understand.
        """
        uri = self._store.uri
        return [_slice(partition, info, uri) for info in self.listing(partition) if _is_base_file(info.path)]

    def check_time_travel(self, as_of: str) -> None:
        """Refuses a time of which files may have been cleaned already, naming the next one that is whole.

        The last clean says so. What is savepointed, and what cleans took that kept versions by number
        or kept less, is compared with the commits of the time.
        """
        times, timeline = self._commit_times, self._timeline
        if as_of >= self.newest:
            return
        seen = max((time for time in times if time <= as_of), default=None)
        earliest = timeline.earliest_retained
        if earliest is not None and as_of < earliest and seen not in timeline.savepoints:
            whole = next((time for time in times if time >= earliest), self.newest)
        elif timeline.may_be_cleaned(as_of) and (seen is None or self._cleaned_as_of(seen)):
            later = (time for time in times if as_of < time < self.newest)
            whole = next((time for time in later if not self._cleaned_as_of(time)), self.newest)
        else:
            return
        raise InvalidDataError(
            f"{self._store.uri}: versions before {whole} were cleaned, so the table cannot be read as of "
            f"{as_of}; ask for {whole} or later, and raise retention.clean to keep more"
        )

    def cleaned_as_of(self, time: str) -> list[FileGroupId]:
        """The file groups whose version of that time is gone, by what the active timeline says; sorted."""
        return self.lacking(versions_as_of(self._timeline, time), time)

    def lacking(self, versions: Mapping[FileGroupId, str | None], time: str) -> list[FileGroupId]:
        """Of these file groups, with the instants of their versions, those that look otherwise at that time.

        None is any version.
        """
        partitions = sorted({partition for partition, _ in versions})
        self._list_all(partitions)
        there = {(p.partition, p.file_id): p.instant for path in partitions for p in self.slices(path, time)}
        return sorted(
            group
            for group, instant in versions.items()
            if group not in there or instant not in {None, there[group]}
        )

    def changed_between(self, begin: str, end: str | None = None) -> IncrementalSlices:
        """What was written after ``begin``, up to ``end`` or now.

        Stops before the oldest pending write: it may complete with an instant that a later reader
        would take for seen. Clustering moves rows and is no change. InvalidDataError when the
        versions of ``end`` were cleaned, UnsupportedTableError when rows do not carry their time.
        """
        if not self._config.populate_meta_fields:
            raise UnsupportedTableError(
                f"{self._store.uri}: hoodie.populate.meta.fields=false, so rows do not say when they were "
                f"written; read the table as a whole"
            )
        last = self._timeline.last_settled(end)
        if last is None or last <= begin:
            return IncrementalSlices(begin=begin, end=begin, slices=())
        self.check_time_travel(last)
        touched = self._touched_partitions(begin, last)
        self._list_all(touched)
        slices = [part for path in touched for part in self.slices(path, last) if part.instant > begin]
        return IncrementalSlices(begin=begin, end=last, slices=tuple(slices))

    def _cleaned_as_of(self, time: str) -> list[FileGroupId]:
        """Of the file groups that a clean can have hit, those whose version of that time is gone."""
        return self.lacking(cleanable_as_of(self._timeline, time), time)

    @OnceProperty
    def _commit_times(self) -> tuple[str, ...]:
        return tuple(instant.time for instant in self._timeline.completed_writes)

    @property
    def _first(self) -> str:
        return self._timeline.unbroken_since or ""

    def _is_committed(self, time: str) -> bool:
        if time > self.newest:
            return False
        return self._timeline.is_completed(time) or self._timeline.is_left_behind(time)

    @OnceProperty
    def _replaced(self) -> Mapping[tuple[str, str], str]:
        """When each replaced group was replaced, by the first replacecommit that says so."""
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

    def _named(self, one: FileSlice, other: FileSlice) -> FileSlice:
        """Of two files of one group and instant the one that the commit names."""
        if self._timeline.is_completed(one.instant):
            named = {stat.path for stat in self._timeline.commit_metadata(one.instant).all_stats()}
            for part in (one, other):
                if part.path in named:
                    return part
        raise CorruptTableError(
            Message(
                f"{self._store.uri}: ",
                Value.file(one.path),
                " and ",
                Value.file(other.path),
                " are the same version of one file group; "
                f"delete the one that is not in the commit {one.instant}",
            )
        )

    def _touched_partitions(self, begin: str, end: str) -> list[str]:
        """The partitions of the commits in the range; all of them when part of it was archived."""
        if begin < self._first:
            return self.partitions()
        times = [time for time in self._commit_times if begin < time <= end]
        commits = map_each(times, self._timeline.commit_metadata)
        return sorted({partition for metadata in commits for partition in metadata.stats})

    @OnceProperty
    def _partitions(self) -> Sequence[str]:
        """Discovery from the base folder downwards.

        Folders above the level of the last partition field hold no files, so only their sub-folders
        are asked for; a value with ``/`` in it lies deeper.
        """
        levels = len(self._config.partition_by)
        if levels == 0 and _is_partition(self.listing("")):
            return [""]
        found: list[str] = []
        folders, level = self._sub_folders([""]), 1
        while folders:
            if level >= levels:
                self._list_all(folders)
                found += [folder for folder in folders if _is_partition(self.listing(folder))]
                folders = [folder for folder in folders if not _is_partition(self.listing(folder))]
            folders, level = self._sub_folders(folders), level + 1
        return sorted(found)

    def _sub_folders(self, folders: Iterable[str]) -> list[str]:
        nested = map_each(folders, self._store.list_folders)
        return [path for paths in nested for path in paths if path.rpartition("/")[2] != TIMELINE_FOLDER]

    def _list_all(self, partitions: Iterable[str]) -> None:
        missing = [partition for partition in partitions if partition not in self._listings]
        for partition, infos in zip(missing, map_each(missing, self._store.list), strict=True):
            self._listings[partition] = tuple(infos)

    def listing(self, partition: str) -> tuple[ObjectInfo, ...]:
        """Everything that lies in a partition's folder."""
        self._list_all([partition])
        return self._listings[partition]


def _is_partition(listing: Iterable[ObjectInfo]) -> bool:
    return any(info.path.rpartition("/")[2].startswith(PARTITION_METADATA) for info in listing)


def _is_base_file(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(SUFFIX) and not name.startswith(PARTITION_METADATA)


def _slice(partition: str, info: ObjectInfo, uri: str) -> FileSlice:
    """The slice a file name stands for: ``<file id>_<write token>_<instant>.parquet``."""
    parts = info.path.rpartition("/")[2].split("_")
    if len(parts) < _NAME_PARTS or not parts[0]:
        raise CorruptTableError(
            Message(
                Value.uri(f"{uri}/{info.path}"),
                ": not the name of a Hudi base file, and Hudi's readers fail on it; move it out of the table",
            )
        )
    return FileSlice(
        partition=partition,
        file_id=parts[0],
        instant=parts[2].partition(".")[0],
        path=info.path,
        size_bytes=info.size_bytes,
    )
