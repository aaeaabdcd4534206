"""The rollback service: one write by hand, whoever began it."""

from __future__ import annotations

from parquetry.runtime.claims import is_alive, open_session, read_claim
from parquetry.runtime.errors import ConflictError, InvalidDataError
from parquetry.runtime.services.locking import table_lock
from parquetry.runtime.services.undo import (
    RollbackResult,
    find_rollback_of,
    finish_rollback,
    roll_back,
)
from parquetry.runtime.storage import ObjectStore
from parquetry.runtime.table import TableHandle
from parquetry.runtime.timeline.instant import Instant
from parquetry.runtime.timeline.timeline import Timeline
from parquetry.runtime.timing import DEFAULT_TIMING, Timing


def rollback(table: TableHandle, instant: str, *, timing: Timing = DEFAULT_TIMING) -> RollbackResult:
    """Undo a pending write, also another program's, or the newest completed one.

    A rollback of it that was begun, and that nobody carries on with, is finished.

    Whether another program's write is dead is for the caller to know. InvalidDataError when there is
    no such write, when later ones were made on it, or when it is savepointed; ConflictError when a
    writer of this project is at work on it.
    """
    store, zone = table.store, table.config.timezone
    timeline = Timeline.load(store)
    with open_session(
        store, purpose="rollback", after=timeline.last_instant, zone=zone, timing=timing
    ) as session:
        with table_lock(table, session):
            timeline = timeline.reload()
            begun = find_rollback_of(timeline, instant)
            if begun is not None:
                session.acknowledge()
                return finish_rollback(store, timeline, begun)
            victim = _checked(store, timeline, instant, timing)
            # Another program may not have left markers.
            partitions = table.view(timeline).partitions()
            result = roll_back(session, timeline, victim, zone=zone, partitions=partitions)
        session.acknowledge()
    return result


def _checked(store: ObjectStore, timeline: Timeline, time: str, timing: Timing) -> Instant:
    victim = timeline.write_at(time)
    if victim is None:
        raise InvalidDataError(
            f"{store.uri}: there is no write {time} on the active timeline; see `parquetry timeline`"
        )
    if time in timeline.savepoints:
        raise InvalidDataError(
            f"{store.uri}: {time} is savepointed; delete that savepoint before rolling the write back"
        )
    if victim.is_completed:
        later = [i.time for i in (*timeline.completed_writes, *timeline.pending_writes) if i.time > time]
        if later:
            raise InvalidDataError(
                f"{store.uri}: {later[0]} was written after {time}; roll the later writes back first, "
                "or restore a savepoint"
            )
        return victim
    claim = read_claim(store, time)
    if claim is not None and is_alive(store, claim, timing):
        raise ConflictError(f"{store.uri}: {claim.owner} is working on {time}; end it first")
    return victim
