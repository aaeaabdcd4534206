"""The lock of an opened table, for writers and services, and its removal by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parquetry.runtime.commit.claims import Session, open_session
from parquetry.runtime.commit.lock import LockInfo, TableLock, break_lock, lock_path, read_lock
from parquetry.runtime.commit.rollback import roll_back
from parquetry.runtime.errors import LockHeldError, NotFoundError
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timing import DEFAULT_TIMING, Timing


def table_lock(table: TableHandle, session: Session, *, rolls_back: bool = False) -> TableLock:
    """Return the table's lock for a session, not yet held.

    If the holder is dead, its write is rolled back before its lock is removed. Entering the lock raises
    ForeignTableError if the table no longer belongs to its owner. If the session only ``rolls_back`` its own
    work, the owner is not checked.
    """
    return TableLock(
        session,
        lock_path(table.config.raw),
        fence=lambda instant: _roll_back_pending(table, session, instant),
        confirm=None if rolls_back else table.check_owner,
    )


@contextmanager
def locked_session(
    table: TableHandle, timeline: Timeline, *, purpose: str, timing: Timing
) -> Iterator[tuple[Session, TableLock]]:
    """Yield a session with a new instant, and the lock of the table, held until the block ends.

    The instant is later than all instants of the timeline. If the block ends without an error, the claim on
    the instant is removed. So the block must complete the instant or leave it unused.
    """
    with open_session(
        table.store,
        purpose=purpose,
        after=timeline.last_instant,
        zone=table.config.timezone,
        timing=timing,
    ) as session:
        with table_lock(table, session) as lock:
            yield session, lock
        session.acknowledge()


def unlock(table: TableHandle, *, timing: Timing = DEFAULT_TIMING) -> LockInfo:
    """Remove the table's lock, whoever holds it, and return the lock that was removed.

    If a write of this project held the lock, it is rolled back first.

    Raises:
        NotFoundError: If the table is not locked.
        LockHeldError: If the lock changed hands at the same moment.
    """
    store = table.store
    path = lock_path(table.config.raw)
    held = read_lock(store, path)
    if held is None:
        raise NotFoundError("{table}/{file}: the table is not locked", table=store.uri, file=path)
    after = table.timeline().last_instant
    with open_session(
        store, purpose="unlock", after=after, zone=table.config.timezone, timing=timing
    ) as session:
        removed = break_lock(session, held, fence=lambda instant: _roll_back_pending(table, session, instant))
        session.acknowledge()
    if not removed:
        raise LockHeldError(
            "{table}/{file}: another process has changed the lock; run the command again",
            table=store.uri,
            file=path,
        )
    return held


def _roll_back_pending(table: TableHandle, session: Session, instant: str) -> None:
    """Roll back the write of the instant unless it is completed, so that it can no longer be published."""
    timeline = table.timeline()
    write = timeline.write_at(instant)
    if write is not None and not write.is_completed:
        roll_back(session, timeline, write)
