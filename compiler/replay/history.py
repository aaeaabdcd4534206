"""The writes that a table's timeline records for a period, and the files at its beginning.

The files at the beginning are the current files with the writes of the period taken back, newest first. If no
record describes a file that a write replaced, its figures are derived from the write's own files, and
``gaps`` reports that.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from parquetry.runtime.errors import NotFoundError, StaleTimelineError
from parquetry.runtime.spec.codec import Brief, parsed_json
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.file_names import BaseFileName
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.archive_log import ArchivedInstant
from parquetry.runtime.timeline.clean import CleanMetadata
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.instant import Action, Instant, State
from parquetry.runtime.timeline.rollback import RollbackMetadata
from parquetry.runtime.timeline.versions import FileGroupId
from parquetry.runtime.write.plan import DECISIONS_KEY

_NUMBERS: Final = 5
_MOST: Final = 2**50
_OUR_KEYS: Final = "parquetry."
_MORE_LOGS: Final = 8
"""The number of archive log files before the period that are read for the files at its beginning."""

_BESIDE_ROWS_BYTES: Final = 4096
"""The approximate size of a small file's footer with schemas and of its page index."""

_BATCH: Final = 64
"""The number of commits that are in memory as read; a replay needs about a tenth of their bytes."""


class RecordedFile(NamedTuple):
    """One file of a write as its commit counts it. ``previous`` is the instant of the version it merged."""

    file_id: str
    previous: str | None
    rows: int
    inserts: int
    updates: int
    deletes: int
    size_bytes: int


class RecordedFilesOfPartition:
    """The files that a write made in one partition, stored compactly.

    ``record_size_bytes`` is the record size that the writer used, None if not recorded.
    """

    __slots__ = ("_ids", "_numbers", "_previous", "partition", "record_size_bytes")

    def __init__(
        self, partition: str, files: Iterable[RecordedFile], record_size_bytes: float | None = None
    ) -> None:
        """Store these files in their order."""
        found = tuple(files)
        self.partition = partition
        self.record_size_bytes = record_size_bytes
        self._ids = tuple(file.file_id for file in found)
        self._previous = tuple(file.previous for file in found)
        self._numbers = array("q", (number for file in found for number in file[2:]))

    def __iter__(self) -> Iterator[RecordedFile]:
        for index, (file_id, previous) in enumerate(zip(self._ids, self._previous, strict=True)):
            numbers = self._numbers[_NUMBERS * index : _NUMBERS * (index + 1)]
            yield RecordedFile(file_id, previous, *numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWrite:
    """A completed write. ``replaced`` are the file groups that it replaced, by partition."""

    time: str
    operation: str
    is_ours: bool
    partitions: tuple[RecordedFilesOfPartition, ...]
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_clustering(self) -> bool:
        """True if the write moved rows without changing them."""
        return self.operation == CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedClean:
    """A completed clean. ``deleted`` are file versions by partition, file id and instant.

    ``earliest`` is the earliest commit whose snapshot the clean kept complete, None if not recorded.
    """

    time: str
    earliest: str | None
    deleted: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingFile:
    """A file at the beginning of the period. ``rows`` is None if no record counts them."""

    partition: str
    file_id: str
    instant: str
    size_bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WriteHistory(Brief):
    """The writes and cleans of a period, oldest first, and the ``files`` before the first of them.

    ``gaps`` are texts about missing records. ``has_cleans`` is True if cleans were read.
    """

    files: tuple[StartingFile, ...]
    events: tuple[RecordedWrite | RecordedClean, ...]
    gaps: tuple[str, ...]
    has_cleans: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The limits of a history: the instant ``since`` at which it begins, or the number of ``newest`` writes.

    If ``archive`` is True, the archive log is read too, and older commits for the files at the beginning. If
    ``cleans`` is True, cleans are read.
    """

    since: str | None = None
    newest: int | None = None
    archive: bool = True
    cleans: bool = True


def read_history(handle: TableHandle, view: FileSystemView, reach: Reach) -> WriteHistory:
    """Return the history of a table under the view's timeline.

    This takes one request for each commit and each log file.

    Raises:
        StaleTimelineError: If a commit leaves the timeline during the read.
    """
    reading = _Reading(handle, view, reach)
    return reading.history()


class _Reading:
    """A read of the history from the newest write backwards, which keeps only what a replay needs."""

    def __init__(self, handle: TableHandle, view: FileSystemView, reach: Reach) -> None:
        self._handle = handle
        self._view = view
        self._timeline = view.timeline
        self._reach = reach
        self._texts: dict[str, str] = {}
        self._gaps: list[str] = []
        timeline = view.timeline
        self._logs = timeline.layout.archived(timeline.store) if reach.archive else iter(())
        self._earlier_writes: dict[str, RecordedWrite] = {}
        """Writes before the period that were read beside it, by time."""

    def history(self) -> WriteHistory:
        """Read the writes, the cleans and the files at the beginning, and note what is missing."""
        timeline = self._timeline
        active = timeline.completed_writes
        since = self._since(active)
        writes = self._active_writes([write for write in active if write.time >= since])
        cleans = self._active_cleans(since) if self._reach.cleans else []
        if self._reach.archive and since < (timeline.first_contiguous_write or ""):
            logged, logged_cleans = self._archived(since, known={write.time for write in active})
            writes, cleans = logged + writes, logged_cleans + cleans
        self._note_missing_writes(writes, since)
        files = self._starting_files(writes, writes[0].time if writes else "")
        self._note_other_writers(writes)
        events: list[RecordedWrite | RecordedClean] = sorted(
            (*writes, *cleans), key=lambda event: (event.time, isinstance(event, RecordedClean))
        )
        return WriteHistory(
            files=files, events=tuple(events), gaps=tuple(self._gaps), has_cleans=self._reach.cleans
        )

    def _since(self, active: tuple[Instant, ...]) -> str:
        """Return the instant at which the history begins: at the wanted one, or after the last restore."""
        newest = self._reach.newest
        since = self._reach.since or ""
        if newest is not None and active:
            since = max(since, active[-newest:][0].time)
        restores = self._timeline.of(Action.RESTORE, state=State.COMPLETED)
        if restores and restores[-1].time > since:
            since = restores[-1].time
            self._gaps.append(f"the restore {since} removed earlier writes: the replay begins after it")
        return since

    def _active_writes(self, instants: list[Instant]) -> list[RecordedWrite]:
        """Return the writes of these instants, whose commits are read in parallel."""
        found: list[RecordedWrite] = []
        for start in range(0, len(instants), _BATCH):
            batch = instants[start : start + _BATCH]
            read = map_each(batch, self._read)
            found += [
                self._recorded(instant.time, metadata) for instant, metadata in zip(batch, read, strict=True)
            ]
        return found

    def _read(self, instant: Instant) -> CommitMetadata:
        """Return a commit without adding it to the commits that the timeline keeps in memory."""
        timeline = self._timeline
        if timeline.is_cached(instant.time):
            return timeline.commit_metadata(instant.time)
        place = f"{timeline.store.uri}/{instant.path}"
        try:
            return timeline.layout.decode_commit(timeline.store.read(instant.path), place=place)
        except NotFoundError as gone:
            raise StaleTimelineError(
                "{file} left the timeline while it was read; run again", file=place
            ) from gone

    def _active_cleans(self, since: str) -> list[RecordedClean]:
        """Return the completed cleans of the active timeline since an instant."""
        instants = [i for i in self._timeline.of(Action.CLEAN, state=State.COMPLETED) if i.time >= since]
        read = map_each([i.time for i in instants], self._timeline.clean_metadata)
        return [self._clean(i.time, metadata) for i, metadata in zip(instants, read, strict=True)]

    def _clean(self, time: str, metadata: CleanMetadata) -> RecordedClean:
        named = (
            (partition, BaseFileName.parse(name))
            for partition, names in metadata.files.items()
            for name in names
        )
        deleted = tuple((path, name.file_id, name.instant) for path, name in named if name is not None)
        return RecordedClean(time=time, earliest=metadata.earliest_commit_to_retain, deleted=deleted)

    def _archived(self, since: str, known: set[str]) -> tuple[list[RecordedWrite], list[RecordedClean]]:
        """Return the writes and cleans of the archive log since an instant, oldest first."""
        writes: dict[str, RecordedWrite] = {}
        cleans: dict[str, RecordedClean] = {}
        rolled_back: set[str] = set()
        for number, log in self._logs:
            if log is None:
                self._gaps.append(f"log file {number} of the archive cannot be read: its writes are missing")
                continue
            rolled_back |= _rolled_back(log) - writes.keys()
            newest = ""
            for entry in log:
                if entry.is_completed_write and entry.time not in known and entry.time not in rolled_back:
                    newest = max(newest, entry.time)
                    into = writes if entry.time >= since else self._earlier_writes
                    if entry.time not in into:
                        into[entry.time] = self._recorded(entry.time, entry.commit_metadata())
                elif entry.action == Action.CLEAN and entry.time >= since:
                    content = entry.entry.get("hoodieCleanMetadata")
                    if content is not None and entry.state == State.COMPLETED:
                        cleans[entry.time] = self._clean(entry.time, CleanMetadata.from_avro(content))
            if newest and newest < since:
                break
        return (
            [writes[time] for time in sorted(writes)],
            [cleans[time] for time in sorted(cleans)],
        )

    def _recorded(self, time: str, metadata: CommitMetadata) -> RecordedWrite:
        """Return what the metadata of a commit records about the files that the write made and replaced."""
        intern = self._texts.setdefault
        sizes = _record_sizes(metadata.extra.get(DECISIONS_KEY))
        partitions = []
        for partition, stats in metadata.stats.items():
            files = (
                RecordedFile(
                    intern(stat.file_id, stat.file_id),
                    None if stat.prev_commit is None else intern(stat.prev_commit, stat.prev_commit),
                    *map(
                        _plausible,
                        (
                            stat.num_writes,
                            stat.num_inserts,
                            stat.num_update_writes,
                            stat.num_deletes,
                            stat.file_size_bytes,
                        ),
                    ),
                )
                for stat in stats
                if stat.path
            )
            partitions.append(
                RecordedFilesOfPartition(intern(partition, partition), files, sizes.get(partition))
            )
        return RecordedWrite(
            time=time,
            operation=metadata.operation,
            is_ours=any(key.startswith(_OUR_KEYS) for key in metadata.extra),
            partitions=tuple(partitions),
            replaced={
                intern(partition, partition): tuple(intern(file_id, file_id) for file_id in file_ids)
                for partition, file_ids in metadata.replaced.items()
            },
        )

    def _note_missing_writes(self, writes: list[RecordedWrite], since: str) -> None:
        """Note a gap if the records begin after ``since``, unless the table itself begins there."""
        if not writes or self._reach.newest is not None or writes[0].time == self._handle.first_instant:
            return
        if self._earlier_writes or (self._timeline.first_contiguous_write or "") < since:
            return
        first = writes[0]
        begins_table = not first.replaced and all(
            file.previous is None for files in first.partitions for file in files
        )
        if not begins_table and self._reach.archive:
            self._gaps.append(f"no write before {first.time} is recorded, although the period begins earlier")

    def _note_other_writers(self, writes: list[RecordedWrite]) -> None:
        """Note how many commits other programs made, and how many files lack rows or bytes."""
        others = [write for write in writes if not write.is_ours and (write.partitions or write.replaced)]
        if others:
            self._gaps.append(
                f"other programs made {len(others):,} of {len(writes):,} commits: "
                "they are replayed by the rules of parquetry's writer"
            )
        bare = sum(
            (file.rows == 0) != (file.size_bytes == 0) and not file.deletes
            for write in writes
            for files in write.partitions
            for file in files
        )
        if bare:
            self._gaps.append(
                f"commits record no rows or no bytes for {bare:,} files: "
                "they are estimated by the record size of the others"
            )

    def _starting_files(self, writes: list[RecordedWrite], begin: str) -> tuple[StartingFile, ...]:
        """Return the files at the beginning of the period.

        Their sizes come from listings and commits, and are derived from later writes if neither records them.
        """
        live = {part.key: _Version(part.instant, part.size_bytes, None) for part in self._view.all_slices()}
        for write in reversed(writes):
            _revert(write, live)
        uncommitted = [key for key, version in live.items() if version.instant >= begin and begin]
        for key in uncommitted:
            del live[key]
        if uncommitted:
            self._gaps.append(
                f"no commit that was read contains {len(uncommitted):,} files of the period: "
                "they are left out"
            )
        derived = self._replace_derived(live, begin)
        if derived:
            self._gaps.append(
                f"the sizes of {derived:,} of {len(live):,} files at the beginning are no longer recorded: "
                "they are derived from the next write of each file"
            )
        return tuple(
            StartingFile(
                partition=partition,
                file_id=file_id,
                instant=version.instant,
                size_bytes=version.size_bytes,
                rows=version.rows,
            )
            for (partition, file_id), version in live.items()
        )

    def _replace_derived(self, live: dict[FileGroupId, _Version], begin: str) -> int:
        """Replace sizes and rows derived from later writes by recorded ones.

        The result is the number of files that keep derived ones.
        """
        self._set_recorded(live, self._earlier(live, begin))
        self._set_recorded(live, self._earlier_writes.values())
        logs = self._reach.archive and any(version.is_derived for version in live.values())
        for _, log in islice(self._logs, _MORE_LOGS) if logs else ():
            older = [
                self._recorded(e.time, e.commit_metadata())
                for e in log or ()
                if e.is_completed_write and e.time < begin
            ]
            self._set_recorded(live, older)
            if not any(version.is_derived for version in live.values()):
                break
        incomplete = {partition for (partition, _), version in live.items() if version.is_derived}
        for partition in sorted(incomplete):
            for group in self._view.file_groups(partition):
                version = live.get((partition, group.file_id))
                known = next((part for part in group.slices if part.instant < begin), None)
                if version is not None and version.is_derived and known is not None:
                    rows = version.rows if version.instant else None
                    live[partition, group.file_id] = _Version(known.instant, known.size_bytes, rows)
        return sum(version.is_derived for version in live.values())

    def _earlier(self, live: Mapping[FileGroupId, _Version], begin: str) -> list[RecordedWrite]:
        """Return the writes before the period on the timeline that describe these file versions."""
        before = [write for write in self._timeline.completed_writes if write.time < begin]
        if not self._reach.archive:
            before = [write for write in before if self._timeline.is_cached(write.time)]
        if all(version.instant for version in live.values()):
            times = {version.instant for version in live.values()}
            before = [write for write in before if write.time in times]
        return self._active_writes(before)

    def _set_recorded(self, live: dict[FileGroupId, _Version], writes: Iterable[RecordedWrite]) -> None:
        """Set the figures of file versions from these writes, newest first."""
        for write in sorted(writes, key=lambda write: write.time, reverse=True):
            for files in write.partitions:
                for file in files:
                    key = (files.partition, file.file_id)
                    version = live.get(key)
                    if version is not None and version.is_counted:
                        continue
                    if version is not None and version.instant in ("", write.time):
                        size = file.size_bytes or version.size_bytes
                        live[key] = _Version(write.time, size, file.rows or version.rows, is_counted=True)


@dataclass(frozen=True, slots=True)
class _Version:
    """The version of a file group at the beginning of the period.

    ``instant`` is empty if only the end of the group is known. ``is_derived`` is True until a record of the
    size is found. ``is_counted`` is True if a commit records the version.
    """

    instant: str
    size_bytes: int
    rows: int | None
    is_derived: bool = False
    is_counted: bool = False


def _revert(write: RecordedWrite, live: dict[FileGroupId, _Version]) -> None:
    """Restore the files in ``live`` that existed before the write.

    The sizes and rows of files that the write merged or replaced are derived from its own files.
    """
    made_rows = sum(file.rows for files in write.partitions for file in files)
    made_bytes = sum(file.size_bytes for files in write.partitions for file in files)
    gone = sum(map(len, write.replaced.values())) or 1
    for files in write.partitions:
        for file in files:
            key = (files.partition, file.file_id)
            live.pop(key, None)
            if file.previous is not None:
                rows = max(file.rows - file.inserts + file.deletes, 0)
                beside = min(_BESIDE_ROWS_BYTES, file.size_bytes)
                size = beside + (file.size_bytes - beside) * rows // max(file.rows, 1)
                live[key] = _Version(file.previous, size, rows, is_derived=True)
    for partition, file_ids in write.replaced.items():
        for file_id in file_ids:
            live[partition, file_id] = _Version("", made_bytes // gone, made_rows // gone, is_derived=True)


def _plausible(number: int) -> int:
    """Return the number limited to 0 up to 2**50, because other programs may write any number."""
    return min(max(number, 0), _MOST)


def _record_sizes(decisions: str | None) -> dict[str, float]:
    """Return the record sizes by partition if the commit contains the writer's decisions, else nothing."""
    if decisions is None:
        return {}
    try:
        document = parsed_json(decisions)
        sizes = {partition: float(found["record_size_bytes"]) for partition, found in document.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        # The decisions are in a separate file, or another program wrote this key.
        return {}
    return {partition: size for partition, size in sizes.items() if size > 0}


def _rolled_back(log: Iterable[ArchivedInstant]) -> set[str]:
    """Return the writes that archived rollbacks rolled back."""
    rollbacks = (e for e in log if e.action == Action.ROLLBACK and e.state == State.COMPLETED)
    contents = (rollback.entry.get("hoodieRollbackMetadata") for rollback in rollbacks)
    return {
        instant.time
        for content in contents
        if content is not None
        for instant in RollbackMetadata.from_avro(content).instants
    }
