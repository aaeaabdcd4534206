"""The state files and the archive of one timeline layout in the form of the other one.

An instant keeps its time, its states and the content of its files. In layout 2 its completion time is its
requested time: then every position of an incremental read means the same commits before and after an upgrade.
(Hudi's own upgrade takes the time at which the completed file was written.) A downgrade loses the completion
times of other writers. Source: UpgradeDowngradeUtils, SevenToEightUpgradeHandler and
EightToSevenDowngradeHandler of Hudi 1.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.timeline import archive_log, lsm_history
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.archive_entry import archive_entry, projected
from parquetry.runtime.timeline.archive_log import ArchivedInstant
from parquetry.runtime.timeline.avro_model import decode_container, encode_container
from parquetry.runtime.timeline.clustering_plan import RequestedReplace
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.commit_avro import encode_commit, encode_profile
from parquetry.runtime.timeline.instant import WRITE_ACTIONS, Action, Instant, State, action_of
from parquetry.runtime.timeline.layout import TimelineLayout
from parquetry.runtime.timeline.lsm_history import HistoryRow

_RECORDS: Final[Mapping[Action, tuple[str, str]]] = {
    Action.CLEAN: ("hoodieCleanMetadata", "HoodieCleanMetadata"),
    Action.ROLLBACK: ("hoodieRollbackMetadata", "HoodieRollbackMetadata"),
    Action.SAVEPOINT: ("hoodieSavePointMetadata", "HoodieSavepointMetadata"),
}
"""The field of an archive log entry for the content of a completed instant, and Hudi's name of its record."""

_PLANS: Final[Mapping[Action, tuple[str, str]]] = {
    Action.REPLACECOMMIT: ("hoodieRequestedReplaceMetadata", "HoodieRequestedReplaceMetadata"),
    Action.CLEAN: ("hoodieCleanerPlan", "HoodieCleanerPlan"),
}


class LayoutChange(ABC):
    """The change of a table's timeline from one layout to the other, of which neither is changed here."""

    def __init__(self, source: TimelineLayout, target: TimelineLayout) -> None:
        """Take the present layout and the future one."""
        self.source = source
        self.target = target

    def put_states(self, timeline: Timeline, instants: Iterable[Instant]) -> None:
        """Put the state files of these instants of the timeline in the target layout.

        Raises:
            CorruptTableError: If a completed file, or a plan, cannot be read. No file was put.

        """
        found = map_each(instants, lambda instant: self._states(timeline, instant))
        states = [state for states in found for state in states]
        map_each(states, lambda state: timeline.store.put(state[0].path, state[1]))

    def _states(self, timeline: Timeline, instant: Instant) -> list[tuple[Instant, bytes]]:
        states = timeline.states_of(instant)
        # A writer of layout 2 that repeats a publication may leave two completed files.
        states = [s for s in states if not s.is_completed or s.file_name == instant.file_name]
        contents = {state.state: timeline.store.read(state.path, most_bytes=MOST_BYTES) for state in states}
        plan = contents.get(State.REQUESTED, b"")
        is_clustering = self._is_clustering(instant, plan, place=f"{timeline.store.uri}/{instant.path}")
        requested = self.target.requested(instant.time, instant.action, is_clustering=is_clustering)
        of_state = {
            State.REQUESTED: requested,
            State.INFLIGHT: requested.inflight,
            State.COMPLETED: self._completed(requested),
        }
        return [
            (
                of_state[state.state],
                self.content(
                    of_state[state.state],
                    contents[state.state],
                    plan=plan,
                    is_clustering=is_clustering,
                    place=f"{timeline.store.uri}/{state.path}",
                ),
            )
            for state in states
        ]

    def content(
        self, state: Instant, content: bytes, *, plan: bytes, is_clustering: bool, place: str
    ) -> bytes:
        """Return the content of a state file in the target layout.

        Args:
            state: The state in the target layout.
            content: The content in the source layout.
            plan: The content of the requested file.
            is_clustering: Whether the instant is a clustering.
            place: The location of the file for error messages.

        """
        if state.state is State.INFLIGHT:
            return self._inflight(state, content, plan=plan, is_clustering=is_clustering, place=place)
        if state.is_completed and state.action in WRITE_ACTIONS and content:
            return self.target.encode_commit(self.source.decode_commit(content, place=place))
        return content

    @abstractmethod
    def change_archive(self, store: ObjectStore) -> None:
        """Write the archived instants of the source layout to the archive of the target layout."""

    @abstractmethod
    def _is_clustering(self, instant: Instant, plan: bytes, *, place: str) -> bool:
        """Return whether an instant of the source layout, with its request as ``plan``, is a clustering."""

    @abstractmethod
    def _completed(self, requested: Instant) -> Instant:
        """Return the completed instant of the target layout."""

    @abstractmethod
    def _inflight(
        self, state: Instant, content: bytes, *, plan: bytes, is_clustering: bool, place: str
    ) -> bytes:
        """Return the content of an inflight file in the target layout."""


class _ToLayout2(LayoutChange):
    """The change to completion times, Avro commits and an archive of Parquet files."""

    def change_archive(self, store: ObjectStore) -> None:
        files: list[list[HistoryRow]] = []
        for number, instants in self.source.archived(store):
            if instants is None:
                raise CorruptTableError(
                    "{table}/{folder}: file {number} of the archive cannot be read; restore it from a copy "
                    "or move it away: only the history of archived instants is lost",
                    table=store.uri,
                    folder=self.source.archive_folder,
                    number=number,
                )
            files.append(sorted(_rows(instants), key=lambda row: row.key))
        # One file for each log: a write that is missing between two others of one file counts as rolled back,
        # but one that is missing between two files may be in a file that was lost.
        for rows in reversed(files):
            lsm_history.append(store, self.target.archive_folder, rows)

    def _is_clustering(self, instant: Instant, plan: bytes, *, place: str) -> bool:
        if instant.action is not Action.REPLACECOMMIT or not plan:
            return False
        return RequestedReplace.decode(plan, place=place).is_clustering

    def _completed(self, requested: Instant) -> Instant:
        return replace(requested, state=State.COMPLETED, completed_at=requested.time)

    def _inflight(
        self, state: Instant, content: bytes, *, plan: bytes, is_clustering: bool, place: str
    ) -> bytes:
        del plan
        if is_clustering or state.action not in WRITE_ACTIONS or not content:
            return b""
        profile = _readable(self.source, content, place)
        return b"" if profile is None else encode_profile(profile)


class _ToLayout1(LayoutChange):
    """The change to JSON commits and an archive log."""

    def change_archive(self, store: ObjectStore) -> None:
        folder = self.source.archive_folder
        for file in sorted(lsm_history.live_files(store, folder), key=lambda file: file.last):
            rows = lsm_history.read_rows(store, folder, file)
            place = f"{store.uri}/{folder}/{file.name}"
            entries = [entry for row in rows for entry in self._entries(row, place)]
            if entries:
                archive_log.write_archive_log(store, self.target.archive_folder, entries)

    def _entries(self, row: HistoryRow, place: str) -> Iterator[dict[str, Any]]:
        """Yield the entries of the archive log for the states of an archived instant."""
        action = action_of(row.action)
        if action is None:
            return
        plan = row.plan or b""
        if plan and "partitionToWriteStats" in decode_container(plan, place=place):
            plan = b""  # Hudi archives the profile of an overwrite in the place of its empty plan.
        requested = self.target.requested(row.time, action)
        completed = self._completed(requested)
        contents = {requested: plan, requested.inflight: b"", completed: row.metadata or b""}
        for state, content in contents.items():
            changed = self.content(state, content, plan=plan, is_clustering=False, place=place)
            yield archive_entry(state, changed, changed_at=row.completed_at or row.time, place=place)

    def _is_clustering(self, instant: Instant, plan: bytes, *, place: str) -> bool:
        del plan, place
        return instant.is_named_clustering

    def _completed(self, requested: Instant) -> Instant:
        return replace(requested, state=State.COMPLETED)

    def _inflight(
        self, state: Instant, content: bytes, *, plan: bytes, is_clustering: bool, place: str
    ) -> bytes:
        if state.action is Action.CLEAN:
            return plan  # Hudi 0.15 reads it there
        if is_clustering or state.action not in WRITE_ACTIONS or not content:
            return b""
        profile = _readable(self.source, content, place)
        return b"" if profile is None else self.target.encode_commit(profile)


_CHANGES: Final[Mapping[int, type[LayoutChange]]] = {1: _ToLayout1, 2: _ToLayout2}


def change_of_layout(source: TimelineLayout, target: TimelineLayout) -> LayoutChange:
    """Return the change from one layout to another one."""
    return _CHANGES[target.NUMBER](source, target)


def _readable(layout: TimelineLayout, content: bytes, place: str) -> CommitMetadata | None:
    """Return a workload profile, or None if it is damaged: nobody needs that of a completed write."""
    try:
        return layout.decode_commit(content, place=place)
    except CorruptTableError:
        return None


def _rows(instants: Sequence[ArchivedInstant]) -> Iterator[HistoryRow]:
    """Yield the completed instants of an archive log file as rows of the archive of layout 2."""
    requested = {(i.time, i.action): i for i in instants if i.state == State.REQUESTED}
    for instant in instants:
        action = action_of(instant.action)
        if action is not None and instant.state == State.COMPLETED:
            yield HistoryRow(
                time=instant.time,
                completed_at=instant.time,
                action=str(action),
                metadata=_metadata(instant, action),
                plan=_record(requested.get((instant.time, instant.action)), _PLANS.get(action)),
            )


def _metadata(instant: ArchivedInstant, action: Action) -> bytes | None:
    if action in WRITE_ACTIONS:
        return encode_commit(instant.commit_metadata())
    return _record(instant, _RECORDS.get(action))


def _record(instant: ArchivedInstant | None, branch: tuple[str, str] | None) -> bytes | None:
    """Return the content of a field of an archived entry as an Avro container, or None without content."""
    if instant is None or branch is None:
        return None
    field, name = branch
    value = instant.entry.get(field)
    return None if value is None else encode_container(name, projected(value, name))
