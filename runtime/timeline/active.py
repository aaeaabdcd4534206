"""The active timeline of a table at one moment: the instants of ``.hoodie``, each in its highest state.

Source: HoodieActiveTimeline, TimelineLayout V1 and ClusteringUtils of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from parquetry.runtime.errors import UNUSABLE, CorruptTableError, NotFoundError, StaleTimelineError
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore
from parquetry.runtime.storage.parallel import OnceProperty, growing_batches, map_each
from parquetry.runtime.timeline.avro_model import AvroRecord
from parquetry.runtime.timeline.clean import CleanerPlan, CleanMetadata
from parquetry.runtime.timeline.clustering_plan import RequestedReplace
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.instant import TIMELINE_FOLDER, WRITE_ACTIONS, Action, Instant, State
from parquetry.runtime.timeline.restore import RestorePlan, SavepointMetadata
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
    instants: tuple[Instant, ...]
    files: Mapping[str, ObjectInfo] = field(repr=False)
    _contents: dict[str, CommitMetadata | AvroRecord] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, store: ObjectStore) -> Timeline:
        """Return the current timeline. This takes one listing and reads no file."""
        return cls._from_listing(store, store.list(TIMELINE_FOLDER), {})

    def reload(self) -> Timeline:
        """Return the timeline as of now. Contents that this snapshot has read are not read again."""
        return self._from_listing(self.store, self.store.list(TIMELINE_FOLDER), self._contents)

    @classmethod
    def _from_listing(
        cls,
        store: ObjectStore,
        listing: Iterable[ObjectInfo],
        contents: Mapping[str, CommitMetadata | AvroRecord],
    ) -> Timeline:
        files = {info.path.rpartition("/")[2]: info for info in listing}
        parsed = {name: instant for name in files if (instant := Instant.parse(name))}
        return cls(
            store=store,
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
        """The greatest time of all instants in any state, or None. A new instant must be greater."""
        return max((instant.time for instant in self.instants), default=None)

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

    def write_at(self, time: str) -> Instant | None:
        """Return the commit or replacecommit of that time in its highest state, or None."""
        return next((instant for instant in self._writes if instant.time == time), None)

    def is_completed(self, time: str) -> bool:
        """Return whether a write of that time is completed and still on the active timeline."""
        return time in self._completed_times

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
                folder=TIMELINE_FOLDER,
                instant=time,
            )
        cached = self._contents.get(instant.file_name)
        if isinstance(cached, CommitMetadata):
            return cached
        metadata = self._parse_commit(instant)
        self._contents[instant.file_name] = metadata
        return metadata

    def is_cached(self, time: str) -> bool:
        """Return whether the content of the completed write of that time is in memory."""
        instant = self.write_at(time)
        return instant is not None and instant.is_completed and instant.file_name in self._contents

    def profile(self, time: str) -> CommitMetadata | None:
        """Return the workload profile in the inflight file of a pending write, or None if it is unreadable.

        The profile only helps to avoid conflicts, so a file that is incomplete is ignored.
        """
        instant = self.write_at(time)
        if instant is None or instant.with_state(State.INFLIGHT).file_name not in self.files:
            return None
        try:
            return CommitMetadata.from_json(self.store.read(instant.with_state(State.INFLIGHT).path))
        except UNUSABLE:
            return None

    def requested_replace(self, time: str) -> RequestedReplace:
        """Return the request of the replacecommit of that time.

        If the requested file is absent or empty, the operation of the result is None.
        """
        requested = Instant(time=time, action=Action.REPLACECOMMIT, state=State.REQUESTED)
        info = self.files.get(requested.file_name)
        if info is None or info.size_bytes == 0:
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

    def last_before_pending(self, end: str | None = None) -> str | None:
        """Return the newest completed write that is older than all pending writes, or None if there is none.

        If ``end`` is given, only writes up to ``end`` count. An incremental read that continues from the
        result misses no rows, whereas a pending write may complete later with its older instant. Pending
        clusterings are ignored, because they change no row.
        """
        pending = (instant.time for instant in self.pending_writes)
        barrier = min((time for time in pending if time not in self.pending_clusterings), default=None)
        times = (instant.time for instant in self.completed_writes)
        return max(
            (t for t in times if (end is None or t <= end) and (barrier is None or t < barrier)), default=None
        )

    def cleaner_plan(self, time: str) -> CleanerPlan:
        """Return the plan of the clean of that time from its requested file."""
        return self._record(Instant(time=time, action=Action.CLEAN, state=State.REQUESTED), CleanerPlan)

    def clean_metadata(self, time: str) -> CleanMetadata:
        """Return the metadata of the completed clean of that time."""
        return self._record(Instant(time=time, action=Action.CLEAN, state=State.COMPLETED), CleanMetadata)

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
        return self._record(Instant(time=time, action=Action.ROLLBACK, state=State.REQUESTED), RollbackPlan)

    def rollback_metadata(self, time: str) -> RollbackMetadata:
        """Return the metadata of the completed rollback of that time."""
        return self._record(
            Instant(time=time, action=Action.ROLLBACK, state=State.COMPLETED), RollbackMetadata
        )

    def savepoint_metadata(self, time: str) -> SavepointMetadata:
        """Return the metadata of the savepoint of the commit of that time, with the protected files."""
        return self._record(
            Instant(time=time, action=Action.SAVEPOINT, state=State.COMPLETED), SavepointMetadata
        )

    def restore_plan(self, time: str) -> RestorePlan:
        """Return the plan of the restore of that time from its requested file."""
        return self._record(Instant(time=time, action=Action.RESTORE, state=State.REQUESTED), RestorePlan)

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
            return CommitMetadata.from_json(self._read(instant), place=location)
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
            return self.store.read(instant.path)
        except NotFoundError as error:
            raise StaleTimelineError(
                "{file} left the timeline while it was read; run again",
                file=self._location_of(instant.file_name),
            ) from error

    def _location_of(self, file_name: str) -> str:
        return f"{self.store.uri}/{TIMELINE_FOLDER}/{file_name}"


def _highest_states(instants: Iterable[Instant]) -> tuple[Instant, ...]:
    highest: dict[tuple[str, Action], Instant] = {}
    for instant in instants:
        key = (instant.time, _COMPLETES_AS.get(instant.action, instant.action))
        other = highest.get(key)
        if other is None or instant.state.rank > other.state.rank:
            highest[key] = instant
    return tuple(sorted(highest.values(), key=lambda instant: (instant.time, instant.action)))
