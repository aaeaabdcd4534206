"""Rolling back: every trace of a write goes, its timeline files last but one, by Hudi's own plan.

Done under the table's lock, so that it never runs beside a publication; every step may be repeated,
so that whoever takes over a lock can finish a rollback that its executor left. Source:
BaseRollbackPlanActionExecutor, CopyOnWriteRollbackActionExecutor and BaseRollbackActionExecutor of
Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from parquetry.runtime.commit.claims import Session, claim_instant, heartbeat_path
from parquetry.runtime.commit.lock import TableLock
from parquetry.runtime.sources.ledger import ReadAgain
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.storage.os_errors import tidying
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.file_names import (
    absolute_path,
    files_of_instant,
    instant_of_file,
    relative_path,
)
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Action, Instant, State, Timezone
from parquetry.runtime.timeline.markers import marked_files, remove_markers
from parquetry.runtime.timeline.rollback import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    RolledBackPartition,
)
from parquetry.runtime.timeline.sidecars import LEDGER_FOLDER, STATISTICS_FOLDER, claim_path


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResult:
    """What was undone: the instant, the rollback's own instant, and the files deleted.

    ``reads_again`` is what its sources ingest again in the next run.
    """

    instant: str
    rollback: str
    files_deleted: int
    reads_again: tuple[ReadAgain, ...] = ()


def roll_back(
    session: Session,
    timeline: Timeline,
    victim: Instant,
    *,
    zone: Timezone,
    lock: TableLock | None = None,
    also: Iterable[str] = (),
    partitions: Iterable[str] = (),
) -> RollbackResult | None:
    """Undo a write, pending or completed; the session holds the lock, or the right to remove it.

    Its files are those that its markers or its commit name, those in ``also``, and whatever bears
    its instant in their partitions and in ``partitions``. A rollback of it that this project began
    is taken up; another program's is left to it.

    None, and nothing is undone, when the pending write was completed at this moment, as its writer only
    slept, or the ``lock`` was lost, so that others may have built on the write.
    """
    store = session.store
    begun = find_rollback_of(timeline, victim.time)
    if begun is not None and store.stat(claim_path(begun.time)) is not None:
        return finish_rollback(store, timeline, begun)
    claim = claim_instant(
        store,
        session.claim.owner,
        purpose="rollback",
        after=timeline.last_instant,
        zone=zone,
        timing=session.timing,
    )
    plan = plan_rollback(store, timeline, victim, also=also, partitions=partitions)
    requested = Instant(time=claim.instant, action=Action.ROLLBACK, state=State.REQUESTED)
    store.put_if_absent(requested.path, plan.encode())
    # A writer looks for this request when it has put its completed file: one of the two sees the other's.
    was_pending = not victim.is_completed
    is_published = was_pending and store.stat(victim.with_state(State.COMPLETED).path) is not None
    if (is_published or (lock is not None and not lock.is_held())) and withdraw(store, requested):
        store.delete(claim_path(claim.instant))
        return None
    result = _execute(store, requested, plan)
    with tidying(store.uri, f"the claim on {claim.instant} is left behind"):
        store.delete(claim_path(claim.instant))
    return result


def withdraw(store: ObjectStore, requested: Instant) -> bool:
    """Take back a request whose lock was lost; False when another has taken it up, who needs it."""
    is_free = store.stat(requested.with_state(State.INFLIGHT).path) is None
    if is_free:
        store.delete(requested.path)
    return is_free


def finish_rollback(store: ObjectStore, timeline: Timeline, rollback: Instant) -> RollbackResult:
    """Execute a rollback that was requested and not completed."""
    return _execute(store, rollback, timeline.rollback_plan(rollback.time))


def find_rollback_of(timeline: Timeline, time: str) -> Instant | None:
    """The pending rollback of the instant, if there is one."""
    for rollback in timeline.of(Action.ROLLBACK):
        if not rollback.is_completed and timeline.rollback_plan(rollback.time).instant.time == time:
            return rollback
    return None


def plan_rollback(
    store: ObjectStore,
    timeline: Timeline,
    victim: Instant,
    *,
    also: Iterable[str],
    partitions: Iterable[str],
) -> RollbackPlan:
    """Which files have to go for the write to be undone; absolute paths without scheme.

    A file that does not bear the write's instant is never among them, whatever names it.
    """
    named = {*marked_files(store, victim.time), *also}
    if victim.is_completed:
        metadata = timeline.commit_metadata(victim.time)
        named.update(stat.path for stat in metadata.all_stats() if stat.path)
    folders = {*partitions, *(path.rpartition("/")[0] for path in named)}
    for found in map_each(sorted(folders), lambda folder: files_of_instant(store, folder, victim.time)):
        named.update(found)
    by_partition: dict[str, list[str]] = {}
    for path in sorted(path for path in named if instant_of_file(path) == victim.time):
        by_partition.setdefault(path.rpartition("/")[0], []).append(absolute_path(store, path))
    return RollbackPlan(
        instant=InstantInfo(time=victim.time, action=str(victim.action)),
        requests=tuple(
            RollbackRequest(partition=partition, files=tuple(files))
            for partition, files in by_partition.items()
        ),
    )


def remove_sidecars(store: ObjectStore, time: str) -> None:
    """Remove what this project keeps about a write beside the timeline."""
    ledgers = store.list_folders(LEDGER_FOLDER)
    statistics = [info.path for info in store.list(STATISTICS_FOLDER) if f"/{time}." in info.path]
    store.delete_all([*statistics, *(f"{ledger}/{time}.json" for ledger in ledgers)])


def remove_completed(timeline: Timeline, instants: Sequence[Instant]) -> None:
    """Remove completed instants: their files of earlier states first, else they would look pending."""
    store = timeline.store
    for state in (State.REQUESTED, State.INFLIGHT):
        early = (instant.with_state(state) for instant in instants)
        store.delete_all([instant.path for instant in early if instant.file_name in timeline.files])
    for instant in instants:
        store.delete(instant.path)


def _execute(store: ObjectStore, rollback: Instant, plan: RollbackPlan) -> RollbackResult:
    started_ms = store.now_ms()
    victim = plan.instant
    action = Action(victim.action)
    states = {state: Instant(time=victim.time, action=action, state=state) for state in State}
    store.put_if_absent(rollback.with_state(State.INFLIGHT).path, b"")
    # Readers first: from here on nobody sees the rows.
    store.delete(states[State.COMPLETED].path)
    # Hudi makes one request for each file, or for each partition.
    files: dict[str, list[str]] = {}
    for request in plan.requests:
        files.setdefault(request.partition, []).extend(request.files)
    store.delete_all([relative_path(store, path) for paths in files.values() for path in paths])
    remove_sidecars(store, victim.time)
    store.delete(states[State.INFLIGHT].path)
    store.delete(states[State.REQUESTED].path)
    metadata = RollbackMetadata(
        start_time=rollback.time,
        time_taken_ms=max(store.now_ms() - started_ms, 0),
        instants=(victim,),
        partitions={path: RolledBackPartition(deleted=tuple(gone)) for path, gone in files.items()},
    )
    store.put_if_absent(rollback.with_state(State.COMPLETED).path, metadata.encode())
    with tidying(store.uri, f"markers and heartbeat of {victim.time} are left behind"):
        remove_markers(store, victim.time)
        store.delete(heartbeat_path(victim.time))
    return RollbackResult(
        instant=victim.time,
        rollback=rollback.time,
        files_deleted=sum(len(deleted) for deleted in files.values()),
    )
