"""The rollback of a write: it deletes every trace of the write by a plan in Hudi's format.

The table's lock is held, so that a rollback never runs at the same time as a publication. Every step may be
repeated, so that the next holder of the lock can finish a rollback. Source: BaseRollbackPlanActionExecutor,
CopyOnWriteRollbackActionExecutor and BaseRollbackActionExecutor of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from parquetry.runtime.commit.claims import Session, claim_instant, heartbeat_path
from parquetry.runtime.commit.lock import TableLock
from parquetry.runtime.sources.ledger import ReadAgain
from parquetry.runtime.spec.codec import Brief, omit
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.os_errors import LATE_FAILURES, is_full, logging_failures
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.storage.paths import finished_name
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.file_names import (
    absolute_path,
    files_of_instant,
    instant_of_file,
    relative_path,
)
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Action, Instant, State, action_of
from parquetry.runtime.timeline.markers import marked_files, remove_markers
from parquetry.runtime.timeline.rollback import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    RolledBackPartition,
)
from parquetry.runtime.timeline.sidecars import (
    LEDGER_FOLDER,
    STATISTICS_FOLDER,
    claim_path,
    quarantine_path,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RollbackResult(Brief):
    """The instant that was rolled back, the instant of the rollback itself, and the number of files deleted.

    ``files_moved`` is the number of those that were moved to the quarantine. ``reads_again`` lists what the
    sources ingest again in the next run.
    """

    instant: str
    rollback: str
    files_deleted: int
    reads_again: tuple[ReadAgain, ...] = ()
    files_moved: int = field(default=0, metadata=omit(0))


def roll_back(
    session: Session,
    timeline: Timeline,
    victim: Instant,
    *,
    lock: TableLock | None = None,
    further_files: Iterable[str] = (),
    partitions: Iterable[str] = (),
    keeps_files: bool = False,
) -> RollbackResult | None:
    """Roll back a pending or completed write; the session must hold the lock, or the right to remove it.

    The rollback deletes the files that the markers or the commit name, those in ``further_files``, and all
    files with the write's instant in their partitions and in ``partitions``. If this project has already
    begun a rollback of the write, it is finished. A rollback that another program began is left to that
    program.

    Args:
        session: The session that holds the lock.
        timeline: The current timeline, which contains ``victim``.
        victim: The write to roll back.
        lock: The lock to check before the first deletion, or None if that is not needed.
        further_files: Further paths of files of this write.
        partitions: Further partitions in which to look for files of this write.
        keeps_files: Whether data files are moved to the quarantine; see :func:`has_quarantine`.

    Returns:
        None if nothing was rolled back. Either the pending write was completed at this moment, as its writer
        was only suspended, or the ``lock`` was lost, so that other writes may depend on this one.
    """
    store = session.store
    pending = find_rollback_of(timeline, victim.time)
    if pending is not None and store.stat(claim_path(pending.time)) is not None:
        return finish_rollback(timeline, pending, keeps_files=keeps_files)
    claim = claim_instant(
        store,
        session.claim.owner,
        purpose="rollback",
        after=timeline.last_instant,
        zone=timeline.layout.timezone,
        timing=session.timing,
    )
    plan = plan_rollback(store, timeline, victim, further_files=further_files, partitions=partitions)
    requested = timeline.layout.requested(claim.instant, Action.ROLLBACK)
    store.put_if_absent(requested.path, plan.encode())
    # After a writer has put its completed file, it looks for this request: one of the two sees the other's
    # file.
    was_pending = not victim.is_completed
    is_published = was_pending and timeline.layout.find_completed(store, victim) is not None
    if (is_published or (lock is not None and not lock.is_held())) and withdraw_request(store, requested):
        store.delete(claim_path(claim.instant))
        return None
    result = _execute(timeline, requested, plan, keeps_files=keeps_files)
    with logging_failures(store.uri, f"the claim on {claim.instant} is left behind"):
        store.delete(claim_path(claim.instant))
    return result


def withdraw_request(store: ObjectStore, requested: Instant) -> bool:
    """Delete a rollback request, and return False if another writer has already begun to execute it."""
    is_free = store.stat(requested.inflight.path) is None
    if is_free:
        store.delete(requested.path)
    return is_free


def finish_rollback(timeline: Timeline, rollback: Instant, *, keeps_files: bool) -> RollbackResult:
    """Execute a rollback that was requested and not completed.

    ``keeps_files`` is that of :func:`roll_back`. Files that were already moved stay in the quarantine.
    """
    return _execute(timeline, rollback, timeline.rollback_plan(rollback.time), keeps_files=keeps_files)


def has_quarantine(store: ObjectStore) -> bool:
    """Return whether the newest applied spec of the table declares a quarantine for orphans.

    Then files of a write that was judged dead are moved there: the judgement may be wrong.
    """
    applied = read_applied(store)
    return applied is not None and applied.spec.retention.quarantine_seconds is not None


def find_rollback_of(timeline: Timeline, time: str) -> Instant | None:
    """Return the pending rollback of the instant, or None."""
    for rollback in timeline.of(Action.ROLLBACK):
        if not rollback.is_completed and timeline.rollback_plan(rollback.time).instant.time == time:
            return rollback
    return None


def plan_rollback(
    store: ObjectStore,
    timeline: Timeline,
    victim: Instant,
    *,
    further_files: Iterable[str],
    partitions: Iterable[str],
) -> RollbackPlan:
    """Return the plan of the files to delete, with absolute paths without scheme.

    A file whose name does not contain the write's instant is never deleted, even if a marker names it.
    ``further_files`` are further paths of files of the write, ``partitions`` further partitions in which to
    look for such files.
    """
    paths = {*marked_files(store, victim.time), *further_files}
    if victim.is_completed:
        metadata = timeline.commit_metadata(victim.time)
        paths.update(stat.path for stat in metadata.all_stats() if stat.path)
    folders = {*partitions, *(path.rpartition("/")[0] for path in paths)}
    for found in map_each(sorted(folders), lambda folder: files_of_instant(store, folder, victim.time)):
        paths.update(found)
    by_partition: dict[str, list[str]] = {}
    for path in sorted(path for path in paths if instant_of_file(path) == victim.time):
        by_partition.setdefault(path.rpartition("/")[0], []).append(absolute_path(store, path))
    return RollbackPlan(
        instant=InstantInfo(time=victim.time, action=victim.action_in_name),
        requests=tuple(
            RollbackRequest(partition=partition, files=tuple(files))
            for partition, files in by_partition.items()
        ),
    )


def remove_sidecars(store: ObjectStore, time: str) -> None:
    """Remove the statistics and ledger entries of a write."""
    ledgers = store.list_folders(LEDGER_FOLDER)
    statistics = [info.path for info in store.list(STATISTICS_FOLDER) if f"/{time}." in info.path]
    store.delete_all([*statistics, *(f"{ledger}/{time}.json" for ledger in ledgers)])


def remove_completed(timeline: Timeline, instants: Sequence[Instant]) -> None:
    """Remove completed instants from the timeline.

    The files of earlier states are deleted first. Otherwise the instants would look pending.
    """
    store = timeline.store
    states = [state for instant in instants for state in timeline.states_of(instant)]
    for state in (State.REQUESTED, State.INFLIGHT):
        store.delete_all([instant.path for instant in states if instant.state is state])
    for instant in states:
        if instant.is_completed:
            store.delete(instant.path)


def state_files(timeline: Timeline, victim: InstantInfo) -> Sequence[Instant]:
    """Return the states of a write whose files may exist now, the completed ones first, requested last."""
    action = action_of(victim.action)
    return () if action is None else timeline.layout.files_of(timeline.store, victim.time, action)


def delete_completed(store: ObjectStore, states: Iterable[Instant]) -> None:
    """Delete the completed files among these state files."""
    for state in states:
        if state.is_completed:
            store.delete(state.path)


def delete_pending(store: ObjectStore, states: Iterable[Instant]) -> None:
    """Delete the files of the pending states among these."""
    for state in states:
        if not state.is_completed:
            store.delete(state.path)


def _execute(
    timeline: Timeline, rollback: Instant, plan: RollbackPlan, *, keeps_files: bool
) -> RollbackResult:
    """Remove the files of the plan and the states of its write, and complete the rollback."""
    store = timeline.store
    started_ms = store.now_ms()
    victim = plan.instant
    store.put_if_absent(rollback.inflight.path, b"")
    states = state_files(timeline, victim)
    # The completed file goes first: from then on, no reader sees the rows.
    delete_completed(store, states)
    # Hudi makes one request per file or one per partition.
    files: dict[str, list[str]] = {}
    for request in plan.requests:
        files.setdefault(request.partition, []).extend(request.files)
    paths = [relative_path(store, path) for paths in files.values() for path in paths]
    moved = _move_aside(store, paths) if keeps_files else ()
    store.delete_all(sorted({*paths}.difference(moved)))
    remove_sidecars(store, victim.time)
    delete_pending(store, states)
    metadata = RollbackMetadata(
        start_time=rollback.time,
        time_taken_ms=max(store.now_ms() - started_ms, 0),
        instants=(victim,),
        partitions={path: RolledBackPartition(deleted=tuple(gone)) for path, gone in files.items()},
    )
    timeline.layout.complete(store, rollback, metadata.encode())
    # The path of a marker contains its partition, which may be personal, and the spec is not known here.
    with logging_failures(store.uri, f"markers and heartbeat of {victim.time} are left behind", shown=str):
        remove_markers(store, victim.time)
        store.delete(heartbeat_path(victim.time))
    return RollbackResult(
        instant=victim.time,
        rollback=rollback.time,
        files_deleted=len(paths) - len(moved),
        files_moved=len(moved),
    )


def _move_aside(store: ObjectStore, paths: Iterable[str]) -> Sequence[str]:
    """Move the complete data files among these to the quarantine, and return their paths.

    If the disk has no room for the folders of the quarantine, nothing is returned, so that the files are
    deleted.
    """
    complete = [path for path in paths if instant_of_file(path) is not None and finished_name(path) is None]
    try:
        map_each(complete, lambda path: store.move(path, quarantine_path(path)))
    except LATE_FAILURES as error:
        if not is_full(error):
            raise
        return ()
    return complete
