"""Transactions: one attempt of a write, from its claim to the moment before publication."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from parquetry.message import message
from parquetry.runtime.commit.abandoned_buckets import is_abandoned
from parquetry.runtime.commit.claims import Claim, Session, is_alive, open_session, read_claim
from parquetry.runtime.commit.conflicts import WriteEffects, effects_of_commit, find_conflict
from parquetry.runtime.commit.inserted_keys import inserted_keys_of
from parquetry.runtime.commit.lock import TableLock
from parquetry.runtime.commit.outcome import Footprint
from parquetry.runtime.commit.recovery import foreign_clustering_conflict, recovered_timeline
from parquetry.runtime.commit.rollback import roll_back
from parquetry.runtime.commit.table_lock import table_lock
from parquetry.runtime.commit.workload_profile import (
    KeyRanges,
    Profile,
    announced_file_ids,
    effects_of_profile,
    filled_file_ids,
    profile_metadata,
    will_conflict_with,
)
from parquetry.runtime.errors import ConflictError, InvalidDataError, RetryWrite, StaleTimelineError
from parquetry.runtime.spec.table_spec import KeyScope
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.parallel import for_each
from parquetry.runtime.storage.regular_file import MOST_RECORD_BYTES
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.partition_metadata import put_partition_metadata
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import CLUSTER, RequestedReplace
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.instant import Action, Instant
from parquetry.runtime.timeline.markers import MarkerKind, marker_path, put_markers, remove_markers
from parquetry.runtime.timeline.sidecars import statistics_path
from parquetry.runtime.timing import Timing

NO_RANGES: Final[KeyRanges] = MappingProxyType({})

_KEY_LOOKUP_OPERATIONS = frozenset({"UPSERT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGuard:
    """A serializable check by which a task on a worker sees whether its write is still pending.

    A task checks before it closes its file, and again after the file has its final name. If the write was
    rolled back or its bucket was abandoned, the task deletes the file, so that nothing is left behind.
    ``abandons_buckets``: buckets may be abandoned while others are published, as in clustering.
    """

    instant: str
    inflight_path: str
    abandons_buckets: bool

    def is_abandoned(self, store: ObjectStore, bucket: int) -> bool:
        """Return whether the write is published, or about to be, without that bucket."""
        return self.abandons_buckets and is_abandoned(store, self.instant, bucket)

    def is_pending(self, store: ObjectStore) -> bool:
        """Return whether the write still has its inflight file, so that it has not been rolled back."""
        return store.stat(self.inflight_path) is not None

    def is_published(self, store: ObjectStore) -> bool:
        """Return whether the write was published, so that its inflight file is in the archive.

        A rollback deletes the statistics before the inflight file. Those of a clustering may contain buckets
        that it abandoned, so they do not show that a file was published.
        """
        return not self.abandons_buckets and store.stat(statistics_path(self.instant)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingWrite:
    """A pending write of another writer; ``claim`` is None if another program made it."""

    instant: Instant
    claim: Claim | None

    def is_older_than(self, claim: Claim) -> bool:
        """Return whether this write has precedence over that of the claim."""
        if self.claim is None:
            return self.instant.time < claim.instant
        return (self.claim.run, self.claim.instant) < (claim.run, claim.instant)


class Transaction:
    """One attempt of a write.

    The names of all files that the attempt writes contain ``instant``. ``run`` is the instant of the first
    attempt, which a retry keeps, and ``attempt`` counts from 0. The attempt is based on ``table`` and
    ``timeline``; publishing validates that nothing it relied on has changed since. ``may_be_completed`` is
    False as long as no process can have put the completed file.
    """

    def __init__(
        self, session: Session, table: TableHandle, timeline: Timeline, *, action: Action, operation: str
    ) -> None:
        self.session = session
        self.table = table
        self.timeline = timeline
        self.action = action
        self.operation = operation
        self.may_be_completed = operation == CLUSTER
        self._newest, self._seen_at = timeline, time.monotonic()
        self._is_announced = False
        self._marked: set[str] = set()
        self._markers: set[str] = set()

    @property
    def instant(self) -> str:
        """The instant of this attempt."""
        return self.session.instant

    @property
    def run(self) -> str:
        """The instant of the first attempt."""
        return self.session.claim.run

    @property
    def attempt(self) -> int:
        """The number of attempts that were lost before this one."""
        return self.session.claim.attempt

    @property
    def store(self) -> ObjectStore:
        """The table's store."""
        return self.session.store

    @property
    def guard(self) -> TaskGuard:
        """The guard for tasks that write files of this transaction."""
        return TaskGuard(
            instant=self.instant,
            inflight_path=self.requested.inflight.path,
            abandons_buckets=self.operation == CLUSTER,
        )

    @property
    def requested(self) -> Instant:
        """The instant of this attempt in the state requested."""
        return self._requested_in(self.timeline)

    def seen(self, timeline: Timeline) -> Timeline:
        """Note a timeline that was just listed, and return it."""
        self._newest, self._seen_at = timeline, time.monotonic()
        return timeline

    def recent_timeline(self) -> Timeline:
        """Return the newest timeline that this attempt has listed; if that is old, list it again."""
        age_seconds = time.monotonic() - self._seen_at
        if age_seconds < self.session.timing.listing_valid_seconds:
            return self._newest
        return self.seen(self.timeline.reload())

    def table_lock(self) -> TableLock:
        """Return the table's lock for this transaction, not yet held."""
        return table_lock(self.table, self.session, validates=True)

    def announce(
        self,
        profile: Profile,
        *,
        key_scope: KeyScope = KeyScope.PARTITION,
        inserted_keys: KeyRanges = NO_RANGES,
    ) -> frozenset[str]:
        """Announce the workload profile and return the ids of the small files to leave out.

        Call this only once per transaction. A small file is left out if an older pending write names it, if a
        write has changed it since, or if a pending clustering plan names it. Files in which rows are updated
        are never left out. If an older living write is about to change those too, the call waits for its end.

        Args:
            profile: The planned changes, by partition.
            key_scope: Whether record keys are unique per partition or per table.
            inserted_keys: The key range of the new rows of an upsert, by partition. Other writers may insert
                outside it.

        Raises:
            RetryWrite: If a write that conflicts with the profile was published since the transaction began.
            ConflictError: If pending clustering of another program names files to update.
        """
        self._put_inflight(profile, inserted_keys)
        mine = effects_of_profile(self.instant, self.operation, profile, inserted_keys)
        timing = self.session.timing
        footprint = Footprint(looks_up_keys=self.operation in _KEY_LOOKUP_OPERATIONS, key_scope=key_scope)
        started_ms = self.store.now_ms()
        round_number = 0
        while True:
            current = self.seen(self.timeline.reload())
            if reason := foreign_clustering_conflict(mine.merged, current):
                raise ConflictError(
                    "{table}: {reason}; nothing was written", table=self.store.uri, reason=reason
                )
            changed = self._changed_since(current, mine, footprint)
            older = [n for n in self._living_writes(current) if n.is_older_than(self.session.claim)]
            announced = {n.instant.time: current.profile(n.instant.time) for n in older}
            will_conflict = any(
                will_conflict_with(mine, intent, footprint)
                for intent in announced.values()
                if intent is not None
            )
            is_undecided = any(
                announced[n.instant.time] is None and n.claim is not None and n.claim.attempt > 0
                for n in older
            )
            longest_wait_ms = timing.give_way_seconds * 1000
            if not (will_conflict or is_undecided) or self.store.now_ms() - started_ms > longest_wait_ms:
                reserved = {
                    name for intent in announced.values() if intent for name in announced_file_ids(intent)
                }
                reserved |= {file_id for _, file_id in current.groups_in_pending_clustering}
                return filled_file_ids(profile) & (reserved | changed)
            timing.poll(round_number)
            round_number += 1

    def put_markers(self, files: Mapping[MarkerKind, Iterable[str]]) -> None:
        """Put the markers of files that are about to be written; paths are relative to the table.

        Folders that get their first file also get Hudi's partition metadata. A clustering writes only to
        folders that have files, so that the publication puts it there if it is missing.
        """
        self.ensure_inflight()
        listed = {kind: tuple(paths) for kind, paths in files.items()}
        self._marked.update(path.rpartition("/")[0] for paths in listed.values() for path in paths)
        self._markers.update(
            marker_path(self.instant, path, kind) for kind, paths in listed.items() for path in paths
        )
        put_markers(self.store, self.instant, listed)
        first = () if self.operation == CLUSTER else listed.get(MarkerKind.CREATE, ())
        partitions = {path.rpartition("/")[0] for path in first}
        for_each(
            sorted(partitions),
            lambda partition: put_partition_metadata(self.store, partition, instant=self.instant),
        )

    def ensure_inflight(self) -> None:
        """Announce the write without a profile, unless it has been announced."""
        if not self._is_announced:
            self._put_inflight({}, NO_RANGES)

    def remove_markers(self, written: Iterable[str]) -> None:
        """Remove the markers, including those that tasks have put for ``written`` files beyond the plan."""
        by_tasks = (marker_path(self.instant, path, kind) for path in written for kind in MarkerKind)
        remove_markers(self.store, self.instant, known=sorted(self._markers.union(by_tasks)))

    def roll_back(self, *, further_files: Iterable[str] = (), is_locked: bool = False) -> None:
        """Remove every trace of the transaction under the lock.

        A write that has put no marker has written no file. Unless it was published, only its announcement is
        removed. If the table got another timeline layout, the rollback is written to the timeline that it has
        now, which may have taken over the announcement.

        Args:
            further_files: Further paths of files to delete.
            is_locked: Whether the caller already holds the lock.
        """
        is_completed = (
            self.may_be_completed
            and self.timeline.layout.find_completed(self.store, self.requested) is not None
        )
        if not self._marked and not is_completed:
            self._delete_announcement()
            self.session.withdraw()
            return
        if is_locked:
            self._roll_back(further_files)
        else:
            with table_lock(self.table, self.session, rolls_back=True):
                self._roll_back(further_files)
        self.session.withdraw()

    def _roll_back(self, further_files: Iterable[str]) -> None:
        try:
            self.table.config_under_lock()
            current = self.timeline.reload()
        except StaleTimelineError:
            current = self.table.reopen().timeline()
        victim = current.write_at(self.instant) or self._requested_in(current)
        roll_back(
            self.session,
            current,
            victim,
            further_files=further_files,
            partitions=self._marked,
        )
        if current.layout != self.timeline.layout:
            self._delete_announcement()

    def _requested_in(self, timeline: Timeline) -> Instant:
        is_clustering = self.operation == CLUSTER
        return timeline.layout.requested(self.instant, self.action, is_clustering=is_clustering)

    def _delete_announcement(self) -> None:
        if self._is_announced:
            self.store.delete(self.requested.inflight.path)
        self.store.delete(self.requested.path)

    def _put_inflight(self, profile: Profile, inserted_keys: KeyRanges) -> None:
        """Put the inflight file with the workload profile; raise RetryWrite if it exists."""
        self._is_announced = True
        # A clustering announces its work in its plan, so Hudi leaves this file empty.
        content = b""
        if self.operation != CLUSTER:
            metadata = profile_metadata(self.operation, profile, inserted_keys)
            content = checked_record(self.table, metadata, self.timeline.layout.encode_profile(metadata))
        if self.store.put_if_absent(self.requested.inflight.path, content) is PutOutcome.LOST:
            raise RetryWrite("{instant} has been announced before", instant=self.instant)

    def _changed_since(self, current: Timeline, mine: WriteEffects, footprint: Footprint) -> set[str]:
        """Return the ids of the file groups that other writes changed since the transaction began.

        Raises:
            RetryWrite: If the workload profile conflicts with one of these writes.
        """
        changed: set[str] = set()
        for completed in current.completed_writes:
            if self.timeline.is_completed(completed.time):
                continue
            metadata = current.commit_metadata(completed.time)
            keys = inserted_keys_of(self.store, completed.time, metadata) if mine.inserted_keys else {}
            theirs = effects_of_commit(completed.time, metadata, inserted_keys=keys)
            conflict = find_conflict(mine, theirs, footprint=footprint, schema_before=None)
            if conflict is not None:
                raise RetryWrite(message(conflict.reason))
            changed.update(file_id for _, file_id in theirs.touched)
        return changed

    def _living_writes(self, current: Timeline) -> list[_PendingWrite]:
        """Return the pending writes of others whose writers are alive or unknown, without clusterings."""
        living = []
        for instant in current.pending_writes:
            if instant.time == self.instant or instant.time in current.pending_clusterings:
                continue
            claim = read_claim(self.store, instant.time)
            if claim is None or is_alive(self.store, claim, self.session.timing):
                living.append(_PendingWrite(instant=instant, claim=claim))
        return living


@contextmanager
def begin(
    table: TableHandle,
    *,
    action: Action,
    operation: str,
    timing: Timing,
    run: str | None,
    attempt: int,
    known: Timeline | None = None,
) -> Iterator[Transaction]:
    """Yield a transaction that other writers can see, after recovery from dead writes.

    Its instant is greater than every completed instant that was visible before the announcement, so that no
    incremental reader skips it.

    Args:
        table: The table to write to.
        action: The action on the timeline.
        operation: Hudi's name of the operation, such as "UPSERT".
        timing: The waiting periods.
        run: The instant of the first attempt of this write, or None if this is the first attempt.
        attempt: The number of attempts that were lost before.
        known: A timeline that the caller has listed, or None.
    """
    store = table.store
    zone = table.config.timezone
    timeline = recovered_timeline(table, timing=timing, known=known)
    has_paused = False
    while True:
        with open_session(
            store,
            purpose=operation,
            after=timeline.last_instant,
            zone=zone,
            timing=timing,
            run=run,
            attempt=attempt,
        ) as session:
            transaction = Transaction(session, table, timeline, action=action, operation=operation)
            is_requested = _request(transaction)
            if attempt > 0 and is_requested and not has_paused:
                # The pause comes after the request: younger writers give way only to a request that they can
                # see.
                timing.pause_before_retry(attempt)
                has_paused = True
            timeline = timeline.reload()
            if is_requested and _is_newest(transaction.requested, timeline):
                transaction.timeline = transaction.seen(timeline)
                yield transaction
                return
            if is_requested:
                transaction.roll_back()
            session.acknowledge()


def _request(transaction: Transaction) -> bool:
    """Put the requested file; return False if another program used the same millisecond."""
    content = b""
    if transaction.action is Action.REPLACECOMMIT:
        content = RequestedReplace(operation=transaction.operation).encode()
    return transaction.store.put_if_absent(transaction.requested.path, content) is not PutOutcome.LOST


def _is_newest(requested: Instant, timeline: Timeline) -> bool:
    """Return whether no other action shares the instant, and no completed write or restore is later.

    A later pending write is allowed. Writes before a restore count as rolled back by it.
    """
    for instant in timeline.instants:
        if instant.time == requested.time and instant.action is not requested.action:
            return False
    later = (*timeline.completed_writes, *timeline.of(Action.RESTORE))
    return not any(instant.time > requested.time for instant in later)


def checked_record(table: TableHandle, metadata: CommitMetadata, content: bytes) -> bytes:
    """Return the content of a state file, or raise InvalidDataError if it exceeds what readers accept."""
    if len(content) > MOST_RECORD_BYTES:
        files = sum(map(len, metadata.stats.values()))
        raise InvalidDataError(
            "{table}: the commit of {files:,} files would have {found_bytes:,} bytes, but readers accept at "
            "most {limit_bytes:,}; write the rows in several parts, or into fewer partitions and "
            "files; in a clustering, lower max_groups",
            table=table.store.uri,
            files=files,
            found_bytes=len(content),
            limit_bytes=MOST_RECORD_BYTES,
        )
    return content
