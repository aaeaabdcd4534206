"""The restore of a table to a savepoint: it rolls back every later write, newest first.

If a restore was begun, the next writer finishes it. Readers see the later writes disappear one by one, newest
first, in the shortest possible time: all completed files are deleted before the first data file. Source:
RestorePlanActionExecutor and BaseRestoreActionExecutor of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from parquetry.runtime.commit.claims import Session, claim_instant, heartbeat_path
from parquetry.runtime.commit.rollback import (
    delete_completed,
    delete_pending,
    remove_completed,
    remove_sidecars,
    state_files,
)
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore
from parquetry.runtime.storage.os_errors import logging_failures
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.file_names import absolute_path, instant_of_file, relative_path
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Action, Instant
from parquetry.runtime.timeline.markers import remove_markers
from parquetry.runtime.timeline.restore import RestoreMetadata
from parquetry.runtime.timeline.rollback import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    RolledBackPartition,
)
from parquetry.runtime.timeline.sidecars import claim_path


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRollback:
    """The rollback of one write within a restore: its instant, and the plan of files to delete."""

    rollback: Instant
    plan: RollbackPlan


def finish_restore(
    session: Session, timeline: Timeline, restore: Instant, *, partitions: Iterable[str]
) -> int:
    """Execute a requested restore and return the number of files deleted; the session must hold the lock.

    Every step may be repeated. ``partitions`` are all partitions of the table.
    """
    store = session.store
    started_ms = store.now_ms()
    plan = timeline.restore_plan(restore.time)
    store.put_if_absent(restore.inflight.path, b"")
    steps = _begin_rollbacks(session, timeline, plan.instants, partitions=partitions)
    for step in steps:
        # One by one: between two deletions, readers see the table as of an earlier write.
        delete_completed(store, state_files(timeline, step.plan.instant))
    for step in steps:
        _delete_traces(timeline, step.plan)
    rollbacks = {
        step.plan.instant.time: (_rollback_metadata(step, store.now_ms() - started_ms),) for step in steps
    }
    metadata = RestoreMetadata(
        start_time=restore.time,
        time_taken_ms=max(store.now_ms() - started_ms, 0),
        instants=plan.instants,
        rollbacks=rollbacks,
    )
    timeline.layout.complete(store, restore, metadata.encode())
    own = {step.rollback.time for step in steps}
    with logging_failures(
        store.uri, f"rollbacks that the restore {restore.time} has done with are left behind"
    ):
        _remove_rollbacks_after(timeline.reload(), plan.savepoint, before=restore.time, own=own)
    return sum(len(request.files) for step in steps for request in step.plan.requests)


def _begin_rollbacks(
    session: Session,
    timeline: Timeline,
    victims: Sequence[InstantInfo],
    *,
    partitions: Iterable[str],
) -> list[RestoreRollback]:
    """Return a requested rollback for each victim, in their order.

    Those of an earlier attempt are continued.
    """
    store = session.store
    begun = {}
    for rollback in timeline.of(Action.ROLLBACK):
        if not rollback.is_completed:
            plan = timeline.rollback_plan(rollback.time)
            begun[plan.instant.time] = RestoreRollback(rollback=rollback, plan=plan)
    missing = [victim for victim in victims if victim.time not in begun]
    files = _files_by_instant(store, {victim.time for victim in missing}, partitions) if missing else {}
    after = timeline.last_instant
    for victim in missing:
        claim = claim_instant(
            store,
            session.claim.owner,
            purpose="rollback",
            after=after,
            zone=timeline.layout.timezone,
            timing=session.timing,
        )
        after = claim.instant
        rollback = timeline.layout.requested(claim.instant, Action.ROLLBACK)
        plan = _plan(store, victim, files.get(victim.time, ()))
        store.put_if_absent(rollback.path, plan.encode())
        store.put_if_absent(rollback.inflight.path, b"")
        begun[victim.time] = RestoreRollback(rollback=rollback, plan=plan)
    return [begun[victim.time] for victim in victims]


def _files_by_instant(store: ObjectStore, times: set[str], partitions: Iterable[str]) -> dict[str, list[str]]:
    """Return the paths of the files in the partitions whose names contain one of the instants, by instant."""
    listings: list[list[ObjectInfo]] = map_each(list(partitions), store.list)
    files: dict[str, list[str]] = {}
    for listing in listings:
        for info in listing:
            time = instant_of_file(info.path)
            if time is not None and time in times:
                files.setdefault(time, []).append(info.path)
    return files


def _plan(store: ObjectStore, victim: InstantInfo, paths: Iterable[str]) -> RollbackPlan:
    """Return the plan to delete the files at ``paths``, which the write ``victim`` created."""
    by_partition: dict[str, list[str]] = {}
    for path in sorted(paths):
        by_partition.setdefault(path.rpartition("/")[0], []).append(absolute_path(store, path))
    requests = (
        RollbackRequest(partition=partition, files=tuple(files)) for partition, files in by_partition.items()
    )
    return RollbackPlan(instant=victim, requests=tuple(requests))


def _delete_traces(timeline: Timeline, plan: RollbackPlan) -> None:
    """Delete all files of the plan's write: data, sidecars, pending states, markers and heartbeat."""
    store = timeline.store
    store.delete_all([relative_path(store, path) for request in plan.requests for path in request.files])
    victim = plan.instant
    remove_sidecars(store, victim.time)
    delete_pending(store, state_files(timeline, victim))
    remove_markers(store, victim.time)
    store.delete(heartbeat_path(victim.time))


def _rollback_metadata(step: RestoreRollback, taken_ms: int) -> RollbackMetadata:
    return RollbackMetadata(
        start_time=step.rollback.time,
        time_taken_ms=max(taken_ms, 0),
        instants=(step.plan.instant,),
        partitions={
            request.partition: RolledBackPartition(deleted=request.files) for request in step.plan.requests
        },
    )


def _remove_rollbacks_after(
    timeline: Timeline, savepoint: str | None, *, before: str, own: Collection[str]
) -> None:
    """Remove the restore's own rollbacks, and those between the savepoint and the restore.

    If a crash interrupts this, a rollback that is left is either completed, or pending and claimed, so no
    writer takes it for one of another program.
    """
    store = timeline.store
    rollbacks = timeline.of(Action.ROLLBACK)
    pending = [rollback for rollback in rollbacks if rollback.time in own and not rollback.is_completed]
    completed = [
        rollback
        for rollback in rollbacks
        if rollback.is_completed
        and (rollback.time in own or (savepoint is not None and savepoint < rollback.time < before))
    ]
    remove_completed(timeline, completed)
    for rollback in pending:
        delete_pending(store, timeline.states_of(rollback)[::-1])
    for rollback in (*completed, *pending):
        store.delete(claim_path(rollback.time))
