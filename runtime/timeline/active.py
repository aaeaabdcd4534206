"""The active timeline of a table at one moment: its instants, each in its highest state.

Source: HoodieActiveTimeline, TimelineLayout V1 and ClusteringUtils of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from parquetry.runtime.errors import UNUSABLE, CorruptTableError, NotFoundError, StaleTimelineError
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore
from parquetry.runtime.storage.parallel import OnceProperty, growing_batches, map_each
from parquetry.runtime.timeline.avro_model import AvroRecord
from parquetry.runtime.timeline.clean import CleanerPlan, CleanMetadata
from parquetry.runtime.timeline.clustering_plan import RequestedReplace
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.instant import WRITE_ACTIONS, Action, Instant, State, parse_instant_ms
from parquetry.runtime.timeline.layout import TimelineLayout
from parquetry.runtime.timeline.restore import RestoreMetadata, RestorePlan, SavepointMetadata
from parquetry.runtime.timeline.rollback import RollbackMetadata, RollbackPlan

_Record = TypeVar("_Record", bound=AvroRecord)

_CONSEQUENCES = {
    Action.REPLACECOMMIT: "a plan that was not executed is then lost, and is created again when it is due",
    Action.CLEAN: "the clean is then planned again",
    Action.ROLLBACK: "the rollback is then planned again",
    Action.SAVEPOINT: "the savepoint is then gone; create it again",
    Action.RESTORE: "the restore is then planned again",
}
_COMPLETES_AS = {Action.COMPACTION: Action.COMMIT, Action.LOGCOMPACTION: Action.DELTACOMMIT}


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """An immutable snapshot of the active timeline.

    ``instants`` has one entry for each time and action, with its highest state, in the order of time.
    ``files`` maps the name of each state file to its metadata. The contents of requested and completed files
    never change, so a snapshot remembers those that it has read and passes them on to the snapshot that
    ``reload`` returns.
    """

    store: ObjectStore
    layout: TimelineLayout
    instants: tuple[Instant, ...]
    files: Mapping[str, ObjectInfo] = field(repr=False)
    _contents: dict[str, CommitMetadata | AvroRecord] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, store: ObjectStore, layout: TimelineLayout) -> Timeline:
        """Return the current timeline. This takes one listing and reads no file."""
        return cls._from_listing(store, layout, {})

    def reload(self) -> Timeline:
        """Return the timeline as of now. Contents that this snapshot has read are not read again."""
        return self._from_listing(self.store, self.layout, self._contents)

    @classmethod
    def _from_listing(
        cls,
        store: ObjectStore,
        layout: TimelineLayout,
        contents: Mapping[str, CommitMetadata | AvroRecord],
    ) -> Timeline:
        files = {info.path.rpartition("/")[2]: info for info in store.list(layout.NAMES.folder)}
        parsed = {name: instant for name in files if (instant := layout.NAMES.parse(name))}
        return cls(
            store=store,
            layout=layout,
            instants=_highest_states(parsed.values()),
            files={name: files[name] for name in parsed},
            _contents={name: content for name, content in contents.items() if name in parsed},
        )

    @OnceProperty
    def completed_writes(self) -> tuple[Instant, ...]:
        """Return the completed commits and replacecommits, which readers see."""
        return tuple(instant for instant in self._writes if instant.is_completed)

    @OnceProperty
    def pending_writes(self) -> tuple[Instant, ...]:
        """Return the commits and replacecommits (clustering included) that are not completed."""
        return tuple(instant for instant in self._writes if not instant.is_completed)

    @OnceProperty
    def first_contiguous_write(self) -> str | None:
        """Return the first completed write from which on no completed write has been archived.

        The result is None if there is no completed write. Savepoints can keep older commits on the timeline
        while Hudi archives writes after them (``hoodie.archive.beyond.savepoint``).
        """
        times = [instant.time for instant in self.completed_writes]
        savepoints = set(self.savepoints)
        return next((time for time in times if time not in savepoints), times[0] if times else None)

    def counts_as_archived(self, time: str) -> bool:
        """Return whether an instant that is not on the timeline counts as an archived write.

        It counts if it is older than all writes of the timeline, as for Hudi's readers. It also counts if it
        lies between savepointed commits and :attr:`first_contiguous_write`, because Hudi may have archived
        writes there (its own readers then miss those rows), unless a rollback or restore on the timeline
        names it.
        """
        first = self.first_contiguous_write
        if first is None or time >= first or time in self._pending_times:
            return False
        return time < self.completed_writes[0].time or not self.was_rolled_back(time)

    def was_rolled_back(self, time: str) -> bool:
        """Return whether a rollback or restore that is still on the timeline undid that write."""
        return time in self._rolled_back_times or any(
            begin < time < end for begin, end in self._restored_ranges
        )

    @property
    def last_instant(self) -> str | None:
        """The greatest time of all instants in any state, or None. A new instant must be greater.

        Completion times count too.
        """
        return max((max(instant.time, instant.position) for instant in self.instants), default=None)

    @property
    def savepoints(self) -> tuple[str, ...]:
        """The times of the commits with a savepoint."""
        return tuple(instant.time for instant in self.of(Action.SAVEPOINT, state=State.COMPLETED))

    def of(self, action: Action, *, state: State | None = None) -> tuple[Instant, ...]:
        """Return the instants of one action, all of them or those in one state."""
        return tuple(
            instant
            for instant in self.instants
            if instant.action is action and state in (None, instant.state)
        )

    def contains(self, time: str, action: Action | None = None, *, state: State | None = None) -> bool:
        """Return whether the timeline has an instant with that time.

        Args:
            time: The time of the instant.
            action: Its action, or None for any action.
            state: Its highest state, or None for any state.

        """
        return any(
            instant.time == time and action in (None, instant.action) and state in (None, instant.state)
            for instant in self.instants
        )

    def states_of(self, instant: Instant) -> list[Instant]:
        """Return the states of the instant that have a file on the timeline, from requested to completed.

        A writer of layout 2 that repeats a publication may leave two completed files.
        """
        return self._states.get(_key(instant), [])

    def write_at(self, time: str) -> Instant | None:
        """Return the commit or replacecommit of that time in its highest state, or None."""
        return next((instant for instant in self._writes if instant.time == time), None)

    def is_completed(self, time: str) -> bool:
        """Return whether a write of that time is completed and still on the active timeline."""
        return time in self._completed_times

    def completed_ms(self, instant: Instant) -> int:
        """Return the time of the store's clock at which a completed instant was completed, in milliseconds.

        Without a completion time, it is that of the completed file, which is later in a copy of the table.
        """
        if instant.completed_at is not None:
            return parse_instant_ms(instant.completed_at, self.layout.timezone)
        return self.files[instant.file_name].modified_ms

    def commit_metadata(self, time: str) -> CommitMetadata:
        """Return the content of the completed write of that time. It is read once.

        Raises:
            CorruptTableError: If there is no completed write at that time, or its file is truncated or not a
                commit.
            StaleTimelineError: If the write has left the timeline since the listing.

        """
        instant = self.write_at(time)
        if instant is None or not instant.is_completed:
            raise CorruptTableError(
                "{table}/{folder}/{instant}.commit: there is no completed write at that time",
                table=self.store.uri,
                folder=self.layout.NAMES.folder,
                instant=time,
            )
        cached = self._contents.get(instant.file_name)
        if isinstance(cached, CommitMetadata):
            return cached
        metadata = self._parse_commit(instant)
        self._contents[instant.file_name] = metadata
        return metadata

    def commits(self, times: Sequence[str]) -> list[CommitMetadata]:
        """Return the contents of completed writes; those that are not in memory are read in parallel.

        Errors are those of :meth:`commit_metadata`.
        """
        map_each([time for time in times if not self.is_cached(time)], self.commit_metadata)
        return [self.commit_metadata(time) for time in times]

    def is_cached(self, time: str) -> bool:
        """Return whether the content of the completed write of that time is in memory."""
        instant = self.write_at(time)
        return instant is not None and instant.is_completed and instant.file_name in self._contents

    def profile(self, time: str) -> CommitMetadata | None:
        """Return the workload profile in the inflight file of a pending write, or None if it is unreadable.

        The profile only helps to avoid conflicts, so a file that is incomplete is ignored.
        """
        instant = self.write_at(time)
        if instant is None or instant.inflight.file_name not in self.files:
            return None
        try:
            return self.layout.decode_commit(self.store.read(instant.inflight.path))
        except UNUSABLE:
            return None

    def requested_replace(self, time: str) -> RequestedReplace:
        """Return the request of the replacecommit of that time.

        If the requested file is absent or empty, the operation of the result is None.
        """
        instant = self._instant(time, Action.REPLACECOMMIT)
        requested = None if instant is None else instant.requested
        info = None if requested is None else self.files.get(requested.file_name)
        if requested is None or info is None or info.size_bytes == 0:
            return RequestedReplace(operation=None)
        try:
            return self._record(requested, RequestedReplace)
        except StaleTimelineError:
            return RequestedReplace(operation=None)

    @OnceProperty
    def pending_clusterings(self) -> Mapping[str, RequestedReplace]:
        """Return the requests of the clusterings that are scheduled but not completed, by time."""
        pending = (instant.time for instant in self.pending_writes if instant.action is Action.REPLACECOMMIT)
        requests = {time: self.requested_replace(time) for time in pending}
        return {time: request for time, request in requests.items() if request.is_clustering}

    @OnceProperty
    def groups_in_pending_clustering(self) -> Mapping[tuple[str, str], str]:
        """Return the time of the pending clustering plan of each reserved file group.

        The keys are pairs of partition and file id.
        """
        return {
            part.key: time
            for time, request in self.pending_clusterings.items()
            if request.plan
            for group in request.plan.groups
            for part in group.slices
        }

    def last_before_pending(self) -> str | None:
        """Return the newest completed write that is older than all pending writes, or None if there is none.

        Pending clusterings are ignored, because they change no row.
        """
        barrier = self._oldest_pending
        times = (instant.time for instant in self.completed_writes)
        return max((t for t in times if barrier is None or t < barrier), default=None)

    def newest_position(self, end: str | None = None) -> str | None:
        """Return the position at which an incremental read of now ends, or None without completed writes.

        A later incremental read that continues from the result misses no row. If ``end`` is given, only
        positions up to ``end`` count. See :attr:`Instant.position`.
        """
        return self.layout.newest_position(self.completed_writes, self._oldest_pending, end=end)

    def position_of(self, time: str) -> str:
        """Return the incremental position of the completed write of that time.

        A text that is not the time of a completed write is a position, and returned as it is.
        """
        write = self.write_at(time)
        if write is not None and write.is_completed:
            return write.position
        return self.positions_after(time).get(time, time) if self.counts_as_archived(time) else time

    def positions_after(self, position: str) -> Mapping[str, str]:
        """Return the incremental positions of writes by their times.

        These are all writes of the timeline, and the archived ones that may be after ``position`` although
        their times do not show it.
        """
        archived = self.layout.archived_positions(self.store, after=position)
        return {**archived, **{write.time: write.position for write in self.completed_writes}}

    def keeps_position(self, time: str, position: str) -> bool:
        """Return whether a position that was noted for the write of that time is still its position.

        It is not if the version of the table was changed since, and may then skip writes that completed after
        it. The position of a write that was rolled back stays valid.
        """
        if position == time:
            return True
        write = self.write_at(time)
        if write is not None and write.is_completed:
            return write.position == position
        if not self.layout.HAS_COMPLETION_TIMES:
            return False
        return self.positions_after(position).get(time, position) == position

    @OnceProperty
    def _oldest_pending(self) -> str | None:
        """Return the time of the oldest pending write that is not a clustering, or None."""
        pending = (instant.time for instant in self.pending_writes)
        return min((time for time in pending if time not in self.pending_clusterings), default=None)

    def cleaner_plan(self, time: str) -> CleanerPlan:
        """Return the plan of the clean of that time from its requested file."""
        return self._record(self._state(time, Action.CLEAN, State.REQUESTED), CleanerPlan)

    def clean_metadata(self, time: str) -> CleanMetadata:
        """Return the metadata of the completed clean of that time."""
        return self._record(self._state(time, Action.CLEAN, State.COMPLETED), CleanMetadata)

    @OnceProperty
    def earliest_retained(self) -> str | None:
        """Return the earliest commit whose file slices the last completed clean kept in full.

        The result is None if it is unknown.
        """
        cleans = self.of(Action.CLEAN, state=State.COMPLETED)
        return self.clean_metadata(cleans[-1].time).earliest_commit_to_retain if cleans else None

    def may_be_cleaned(self, time: str) -> bool:
        """Return whether a completed or pending clean may have deleted file slices of that time.

        The newest cleans are read first. If a clean found no write after that time, then it deleted only
        slices that were already old at that time. The same holds for all earlier cleans, unless later writes
        were rolled back.
        """
        for cleans in growing_batches(self.of(Action.CLEAN)[::-1]):
            for record in map_each(cleans, self._clean_record):
                last = None if record is None else record.last_completed_commit
                if last and last <= time and not self.has_rollbacks:
                    return False
                limit = None if record is None else record.earliest_commit_to_retain
                if limit is None or time < limit:
                    return True
        return False

    def cleans_since(self, before: Timeline) -> list[CleanMetadata | CleanerPlan | None]:
        """Return the metadata, or the plan, of each clean that started after the snapshot ``before``.

        The entry of a clean whose file is gone is None.
        """
        fresh = [clean for clean in self.of(Action.CLEAN) if not before.contains(clean.time, Action.CLEAN)]
        return map_each(fresh, self._clean_record)

    @OnceProperty
    def has_rollbacks(self) -> bool:
        """Return whether a rollback or restore is on the timeline.

        It may have made slices current again that a clean had deleted.
        """
        return any(instant.action in {Action.ROLLBACK, Action.RESTORE} for instant in self.instants)

    def rollback_plan(self, time: str) -> RollbackPlan:
        """Return the plan of the rollback of that time from its requested file."""
        return self._record(self._state(time, Action.ROLLBACK, State.REQUESTED), RollbackPlan)

    def rollback_metadata(self, time: str) -> RollbackMetadata:
        """Return the metadata of the completed rollback of that time."""
        return self._record(self._state(time, Action.ROLLBACK, State.COMPLETED), RollbackMetadata)

    def savepoint_metadata(self, time: str) -> SavepointMetadata:
        """Return the metadata of the savepoint of the commit of that time, with the protected files."""
        return self._record(self._state(time, Action.SAVEPOINT, State.COMPLETED), SavepointMetadata)

    def restore_plan(self, time: str) -> RestorePlan:
        """Return the plan of the restore of that time from its requested file."""
        return self._record(self._state(time, Action.RESTORE, State.REQUESTED), RestorePlan)

    def restore_metadata(self, time: str) -> RestoreMetadata:
        """Return the metadata of the completed restore of that time."""
        return self._record(self._state(time, Action.RESTORE, State.COMPLETED), RestoreMetadata)

    def _instant(self, time: str, action: Action) -> Instant | None:
        """Return the instant with that time and action in its highest state, or None."""
        return next((i for i in self.instants if i.time == time and i.action is action), None)

    def _state(self, time: str, action: Action, state: State) -> Instant:
        """Return an instant in the state requested or completed.

        Raises:
            StaleTimelineError: If there is no completed instant, whose file name depends on its completion.

        """
        instant = self._instant(time, action) or self.layout.requested(time, action)
        if state is State.REQUESTED:
            return instant.requested
        if not instant.is_completed:
            raise StaleTimelineError(
                "{table}: {action} {instant} left the timeline while it was read; run again",
                table=self.store.uri,
                action=action,
                instant=time,
            )
        return instant

    @OnceProperty
    def _states(self) -> Mapping[tuple[str, Action], list[Instant]]:
        """Return the states of all instants, by time and action, each from requested to completed."""
        parsed = [instant for name in self.files if (instant := self.layout.NAMES.parse(name)) is not None]
        states: dict[tuple[str, Action], list[Instant]] = {}
        for instant in sorted(parsed, key=lambda one: (one.state.rank, one.position)):
            states.setdefault(_key(instant), []).append(instant)
        return states

    @OnceProperty
    def _writes(self) -> tuple[Instant, ...]:
        return tuple(instant for instant in self.instants if instant.action in WRITE_ACTIONS)

    @OnceProperty
    def _completed_times(self) -> frozenset[str]:
        return frozenset(instant.time for instant in self.completed_writes)

    def _clean_record(self, clean: Instant) -> CleanMetadata | CleanerPlan | None:
        """Return the metadata of a completed clean or the plan of a pending one; None if its file is gone."""
        try:
            return self.clean_metadata(clean.time) if clean.is_completed else self.cleaner_plan(clean.time)
        except StaleTimelineError:
            return None

    @OnceProperty
    def _pending_times(self) -> frozenset[str]:
        return frozenset(instant.time for instant in self.pending_writes)

    @OnceProperty
    def _rolled_back_times(self) -> frozenset[str]:
        """Return the times of the writes that rollbacks and restores of the timeline name."""
        rollbacks = [r.time for r in self.of(Action.ROLLBACK, state=State.COMPLETED)]
        victims = [
            v.time
            for rolled_back in map_each(rollbacks, self.rollback_metadata)
            for v in rolled_back.instants
        ]
        victims += [v.time for r in self.of(Action.RESTORE) for v in self.restore_plan(r.time).instants]
        return frozenset(victims)

    @OnceProperty
    def _restored_ranges(self) -> tuple[tuple[str, str], ...]:
        """Return the instant of the savepoint and the instant of the restore, for each restore.

        A restore undoes all writes between the two. It also removes older rollbacks from the timeline.
        """
        restores = {restore.time: self.restore_plan(restore.time) for restore in self.of(Action.RESTORE)}
        return tuple((plan.savepoint, time) for time, plan in restores.items() if plan.savepoint is not None)

    def _parse_commit(self, instant: Instant) -> CommitMetadata:
        location = self._location_of(instant.file_name)
        try:
            return self.layout.decode_commit(self._read(instant), place=location)
        except CorruptTableError as error:
            raise CorruptTableError(
                "{reason}. Restore the file from a copy; or delete it if that write never succeeded: "
                "it then counts as unfinished and is rolled back",
                reason=error.message,
            ) from error

    def _record(self, instant: Instant, record: type[_Record]) -> _Record:
        cached = self._contents.get(instant.file_name)
        if isinstance(cached, record):
            return cached
        location = self._location_of(instant.file_name)
        try:
            decoded = record.decode(self._read(instant), place=location)
        except CorruptTableError as error:
            raise CorruptTableError(
                "{reason}. Restore the file from a copy; or delete it: {consequence}",
                reason=error.message,
                consequence=_CONSEQUENCES[instant.action],
            ) from error
        self._contents[instant.file_name] = decoded
        return decoded

    def _read(self, instant: Instant) -> bytes:
        try:
            return self.store.read(instant.path, listed=self.files.get(instant.file_name))
        except NotFoundError as error:
            raise StaleTimelineError(
                "{file} left the timeline while it was read; run again",
                file=self._location_of(instant.file_name),
            ) from error

    def _location_of(self, file_name: str) -> str:
        return f"{self.store.uri}/{self.layout.NAMES.folder}/{file_name}"


def _highest_states(instants: Iterable[Instant]) -> tuple[Instant, ...]:
    """Return one instant for each time and action, in its highest state.

    If a writer of layout 2 has completed one twice, the earlier completion counts.
    """
    highest: dict[tuple[str, Action], Instant] = {}
    clusterings = set()
    for instant in instants:
        key = _key(instant)
        if instant.is_named_clustering:
            clusterings.add(key)
        other = highest.get(key)
        if other is None or _precedence(instant) > _precedence(other):
            highest[key] = instant
    for key in clusterings:
        highest[key] = replace(highest[key], is_named_clustering=True)
    return tuple(sorted(highest.values(), key=lambda instant: (instant.time, instant.action)))


def _key(instant: Instant) -> tuple[str, Action]:
    """Return the time of an instant and the action as which it completes."""
    return instant.time, _COMPLETES_AS.get(instant.action, instant.action)


def _precedence(instant: Instant) -> tuple[int, int]:
    """Return the rank of the state, and a number that is smaller for a later completion."""
    return instant.state.rank, -int(instant.completed_at or 0)
