"""The two timeline layouts of Hudi: everything that differs between table version 6 and versions 8 and 9.

A layout is chosen when a table is opened, from its properties. All other code asks the layout, or the
timeline that has it, and never the version. Source: TimelineLayout, CommitMetadataSerDeV1 and V2,
HoodieTimelineArchiver and IncrementalQueryAnalyzer of Hudi 1.2.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from parquetry.runtime.storage.model import ObjectInfo, ObjectStore
from parquetry.runtime.timeline import archive_log, lsm_history
from parquetry.runtime.timeline.archive_entry import archive_entries
from parquetry.runtime.timeline.archive_log import ArchivedInstant, ChangeEntry
from parquetry.runtime.timeline.clean import CleanerPlan
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.commit_avro import decode_commit, encode_commit, encode_profile
from parquetry.runtime.timeline.instant import (
    NAMES_OF_LAYOUT_1,
    NAMES_OF_LAYOUT_2,
    TIMELINE_FOLDER,
    Action,
    Instant,
    State,
    StateFileNames,
    Timezone,
    next_instant,
    parse_instant_ms,
)

DAY_MS: Final = 24 * 3600 * 1000

ArchivedFile = tuple[int, list[ArchivedInstant] | None]
"""The number of a file of the archive and its instants, or None if it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLayout(ABC):
    """The layout of one table's timeline.

    ``archive_folder`` is relative to the table. ``timezone`` is the time zone of the instants.
    """

    NUMBER: ClassVar[int]
    NAMES: ClassVar[StateFileNames]
    HAS_COMPLETION_TIMES: ClassVar[bool]
    ARCHIVE_FILE: ClassVar[re.Pattern[str]]

    archive_folder: str
    timezone: Timezone

    @classmethod
    @abstractmethod
    def of_table(cls, properties: Mapping[str, str], timezone: Timezone) -> TimelineLayout:
        """Return the layout of the table with these properties."""

    def requested(self, time: str, action: Action, *, is_clustering: bool = False) -> Instant:
        """Return a requested instant, whose files have the names of this layout."""
        return self.NAMES.requested(time, action, is_clustering=is_clustering)

    @abstractmethod
    def completion_of(self, pending: Instant, *, after: str | None, now_ms: int) -> Instant:
        """Return the completed instant of a pending one; the lock of the table must be held.

        Args:
            pending: The instant that is about to be completed.
            after: The greatest requested or completion time of the timeline, or None.
            now_ms: The time of the store's clock, in ms since the epoch.

        """

    @abstractmethod
    def complete(self, store: ObjectStore, pending: Instant, content: bytes) -> None:
        """Put the completed file of an action that is not a write, unless it exists.

        Without the lock of the table, two processes may complete the same instant in layout 2. The first
        completion counts, so only a clean, which both execute in the same way, is completed without it.
        """

    @abstractmethod
    def find_completed(self, store: ObjectStore, instant: Instant) -> Instant | None:
        """Return the completed instant if the store has its file now, or None."""

    @abstractmethod
    def files_of(self, store: ObjectStore, time: str, action: Action) -> Sequence[Instant]:
        """Return the states of an instant whose files may exist, the completed ones first."""

    @abstractmethod
    def encode_commit(self, metadata: CommitMetadata) -> bytes:
        """Return the content of the file of a completed write."""

    @abstractmethod
    def encode_profile(self, metadata: CommitMetadata) -> bytes:
        """Return the content of the inflight file of a write with this workload profile."""

    @abstractmethod
    def decode_commit(self, content: bytes, *, place: str = "commit metadata") -> CommitMetadata:
        """Return the commit in a state file of this layout.

        Raises:
            CorruptTableError: If the content is not a commit. The message starts with ``place``.

        """

    @abstractmethod
    def inflight_clean(self, plan: CleanerPlan) -> bytes:
        """Return the content of the inflight file of a clean."""

    @abstractmethod
    def newest_position(
        self, completed: Iterable[Instant], barrier: str | None, *, end: str | None
    ) -> str | None:
        """Return the position up to which an incremental read misses no rows, or None without writes.

        Args:
            completed: The completed writes.
            barrier: The time of the oldest pending write, or None.
            end: The greatest position that counts, or None for all.

        """

    @abstractmethod
    def archived_positions(self, store: ObjectStore, *, after: str) -> Mapping[str, str]:
        """Return the incremental positions of archived instants that differ from their times, by time.

        Those up to the position ``after`` may be missing.
        """

    def newest_archive_ms(self, store: ObjectStore) -> int | None:
        """Return when the newest file of the archive was written, or None if there is none.

        This lists the archive folder and reads no file.
        """
        return max(
            (
                info.modified_ms
                for info in store.list(self.archive_folder)
                if self.ARCHIVE_FILE.fullmatch(info.path.rpartition("/")[2])
            ),
            default=None,
        )

    @abstractmethod
    def archived(self, store: ObjectStore) -> Iterator[ArchivedFile]:
        """Yield the archived instants, one file after the other, the newest file first.

        Each file is read when the iterator reaches it. The instants are None if the file has been deleted
        since the listing or cannot be read.
        """

    @abstractmethod
    def archive(
        self, store: ObjectStore, files: Mapping[str, ObjectInfo], instants: Sequence[Instant]
    ) -> None:
        """Add completed instants to the archive, except those that an interrupted call has added.

        Args:
            store: The store of the table.
            files: The state files of the timeline by name.
            instants: The instants, ascending.

        """

    @abstractmethod
    def change_archived(self, store: ObjectStore, change: ChangeEntry) -> int:
        """Apply ``change`` to the entries of the archive, and return the number of files rewritten.

        Each file is put as a whole.
        """

    @abstractmethod
    def delete(self, store: ObjectStore) -> None:
        """Delete the timeline and the archive of this layout from a table that has the other one."""


class _Layout1(TimelineLayout):
    """The layout of table version 6: JSON commits and an archive log."""

    NUMBER = 1
    NAMES = NAMES_OF_LAYOUT_1
    HAS_COMPLETION_TIMES = False
    ARCHIVE_FILE = archive_log.FILE_NAME
    __slots__ = ()

    @classmethod
    def of_table(cls, properties: Mapping[str, str], timezone: Timezone) -> TimelineLayout:
        folder = properties.get("hoodie.archivelog.folder", "archived").strip("/")
        archive_folder = f"{TIMELINE_FOLDER}/{folder}" if folder else TIMELINE_FOLDER
        return cls(archive_folder=archive_folder, timezone=timezone)

    def completion_of(self, pending: Instant, *, after: str | None, now_ms: int) -> Instant:  # noqa: ARG002 - no clock
        return replace(pending, state=State.COMPLETED)

    def complete(self, store: ObjectStore, pending: Instant, content: bytes) -> None:
        store.put_if_absent(replace(pending, state=State.COMPLETED).path, content)

    def find_completed(self, store: ObjectStore, instant: Instant) -> Instant | None:
        completed = replace(instant, state=State.COMPLETED)
        return None if store.stat(completed.path) is None else completed

    def files_of(self, store: ObjectStore, time: str, action: Action) -> Sequence[Instant]:  # noqa: ARG002 - the names follow from the time
        requested = self.requested(time, action)
        return replace(requested, state=State.COMPLETED), requested.inflight, requested

    def encode_commit(self, metadata: CommitMetadata) -> bytes:
        return metadata.to_json()

    def encode_profile(self, metadata: CommitMetadata) -> bytes:
        return metadata.to_json()

    def decode_commit(self, content: bytes, *, place: str = "commit metadata") -> CommitMetadata:
        return CommitMetadata.from_json(content, place=place)

    def inflight_clean(self, plan: CleanerPlan) -> bytes:
        return plan.encode()

    def newest_position(
        self, completed: Iterable[Instant], barrier: str | None, *, end: str | None
    ) -> str | None:
        # A pending write may complete later with its older instant, so a read ends before it.
        times = (instant.time for instant in completed)
        return max(
            (t for t in times if (end is None or t <= end) and (barrier is None or t < barrier)), default=None
        )

    def archived_positions(self, store: ObjectStore, *, after: str) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    def archived(self, store: ObjectStore) -> Iterator[ArchivedFile]:
        return archive_log.newest_logs_first(store, self.archive_folder)

    def archive(
        self, store: ObjectStore, files: Mapping[str, ObjectInfo], instants: Sequence[Instant]
    ) -> None:
        logged = {(one.time, one.action) for one in archive_log.read_newest_log(store, self.archive_folder)}
        missing = [instant for instant in instants if (instant.time, str(instant.action)) not in logged]
        if missing:
            entries = archive_entries(store, files, missing, self.timezone)
            archive_log.write_archive_log(store, self.archive_folder, entries)

    def change_archived(self, store: ObjectStore, change: ChangeEntry) -> int:
        return archive_log.change_logs(store, self.archive_folder, change)

    def delete(self, store: ObjectStore) -> None:
        files = (info.path for info in store.list(self.NAMES.folder))
        store.delete_all([path for path in files if self.NAMES.parse(path.rpartition("/")[2])])
        # The properties may name any folder as the archive, also one with other files.
        archive_log.delete_logs(store, self.archive_folder)


class _Layout2(TimelineLayout):
    """The layout of table versions 8 and 9: completion times, Avro commits, an archive of Parquet files."""

    NUMBER = 2
    NAMES = NAMES_OF_LAYOUT_2
    HAS_COMPLETION_TIMES = True
    ARCHIVE_FILE = lsm_history.FILE_NAME
    __slots__ = ()

    @classmethod
    def of_table(cls, properties: Mapping[str, str], timezone: Timezone) -> TimelineLayout:
        # An upgraded table keeps `hoodie.archivelog.folder`, which Hudi no longer uses.
        folder = properties.get("hoodie.timeline.history.path", "").strip("/") or "history"
        return cls(archive_folder=f"{cls.NAMES.folder}/{folder}", timezone=timezone)

    def completion_of(self, pending: Instant, *, after: str | None, now_ms: int) -> Instant:
        completed_at = next_instant(max(after or "", pending.time), now_ms, self.timezone)
        return replace(pending, state=State.COMPLETED, completed_at=completed_at)

    def complete(self, store: ObjectStore, pending: Instant, content: bytes) -> None:
        instants = self._instants(store)
        if not any(i.is_completed and (i.time, i.action) == (pending.time, pending.action) for i in instants):
            after = max((max(i.time, i.position) for i in instants), default=None)
            completed = self.completion_of(pending, after=after, now_ms=store.now_ms())
            store.put_if_absent(completed.path, content)

    def find_completed(self, store: ObjectStore, instant: Instant) -> Instant | None:
        states = self.files_of(store, instant.time, instant.action)
        return next((state for state in states if state.is_completed), None)

    def files_of(self, store: ObjectStore, time: str, action: Action) -> Sequence[Instant]:
        states = [i for i in self._instants(store) if (i.time, i.action) == (time, action)]
        return sorted(states, key=lambda instant: instant.state.rank, reverse=True)

    def _instants(self, store: ObjectStore) -> list[Instant]:
        names = (info.path.rpartition("/")[2] for info in store.list(self.NAMES.folder))
        return [instant for name in names if (instant := self.NAMES.parse(name)) is not None]

    def encode_commit(self, metadata: CommitMetadata) -> bytes:
        return encode_commit(metadata)

    def encode_profile(self, metadata: CommitMetadata) -> bytes:
        return encode_profile(metadata)

    def decode_commit(self, content: bytes, *, place: str = "commit metadata") -> CommitMetadata:
        return decode_commit(content, place=place)

    def inflight_clean(self, plan: CleanerPlan) -> bytes:  # noqa: ARG002 - the plan is in the requested file alone
        return b""

    def newest_position(
        self,
        completed: Iterable[Instant],
        barrier: str | None,  # noqa: ARG002 - a pending write completes at a later position
        *,
        end: str | None,
    ) -> str | None:
        positions = (instant.position for instant in completed)
        return max((p for p in positions if end is None or p <= end), default=None)

    def archived_positions(self, store: ObjectStore, *, after: str) -> Mapping[str, str]:
        # An instant is archived after its completion, so older files of the archive need not be read.
        since_ms = 0 if int(after) == 0 else parse_instant_ms(after, self.timezone) - DAY_MS
        return lsm_history.completion_times(store, self.archive_folder, since_ms=since_ms)

    def archived(self, store: ObjectStore) -> Iterator[ArchivedFile]:
        return lsm_history.newest_files_first(store, self.archive_folder)

    def archive(
        self, store: ObjectStore, files: Mapping[str, ObjectInfo], instants: Sequence[Instant]
    ) -> None:
        lsm_history.append(store, self.archive_folder, lsm_history.entries(store, files, instants))

    def change_archived(self, store: ObjectStore, change: ChangeEntry) -> int:
        return lsm_history.change_files(store, self.archive_folder, change)

    def delete(self, store: ObjectStore) -> None:
        store.delete_folder(self.NAMES.folder)


LAYOUT_OF_VERSION: Final[Mapping[int, int]] = {6: 1, 8: 2, 9: 2}
"""The number of the timeline layout of each table version that is supported."""

LAYOUTS: Final[Mapping[int, type[TimelineLayout]]] = {
    layout.NUMBER: layout for layout in (_Layout1, _Layout2)
}
"""The timeline layouts by their number in ``hoodie.timeline.layout.version``."""
