"""The lock of a table for those who change it, and its removal by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parquetry.runtime.commit.claims import Session, open_session
from parquetry.runtime.commit.lock import LockInfo, TableLock, break_lock, lock_path, read_lock
from parquetry.runtime.commit.rollback import roll_back
from parquetry.runtime.errors import LockHeldError, NotFoundError
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timing import DEFAULT_TIMING, Timing


def table_lock(table: TableHandle, session: Session, *, rolls_back: bool = False) -> TableLock:
    """The table's lock on behalf of a session, not held yet.

    Entering it rolls a dead holder's write back before its lock is taken away, and raises ForeignTableError
    where the table is not its owner's any more, unless the session only ``rolls_back`` what it did itself.
    """
    return TableLock(
        session,
        lock_path(table.config.raw),
        fence=lambda instant: _roll_back_pending(table, session, instant),
        confirm=None if rolls_back else table.confirm_owner,
    )


@contextmanager
def locked_session(
    table: TableHandle, timeline: Timeline, *, purpose: str, timing: Timing
) -> Iterator[tuple[Session, TableLock]]:
    """A session on an instant behind the timeline, and the table's lock, held until the block ends.

    Who ends the block without an error has completed the instant, or has not used it.
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
    """Remove whatever lock stands there, whoever holds it, and say what it was.

    A write of ours that held it is rolled back. NotFoundError when the table is not locked,
    LockHeldError when the lock changed hands at that moment.
    """
    store = table.store
    place = lock_path(table.config.raw)
    found = read_lock(store, place)
    if found is None:
        raise NotFoundError(f"{store.uri}/{place}: the table is not locked")
    after = Timeline.load(store).last_instant
    with open_session(
        store, purpose="unlock", after=after, zone=table.config.timezone, timing=timing
    ) as session:
        removed = break_lock(
            session, found, fence=lambda instant: _roll_back_pending(table, session, instant)
        )
        session.acknowledge()
    if not removed:
        raise LockHeldError(f"{store.uri}/{place} has changed hands meanwhile; run the command again")
    return found


def _roll_back_pending(table: TableHandle, session: Session, instant: str) -> None:
    """Undo the write of that instant unless it is completed: its writer can then not publish it."""
    timeline = Timeline.load(table.store)
    write = timeline.write_at(instant)
    if write is not None and not write.is_completed:
        roll_back(session, timeline, write, zone=table.config.timezone)
