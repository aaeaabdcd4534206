"""The lock of an opened table, for writers and services, and its removal by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from parquetry.runtime.commit.claims import Session, open_session
from parquetry.runtime.commit.lock import LockInfo, LockMethod, TableLock, break_lock
from parquetry.runtime.commit.lock_file import DEFAULT_LOCK_PATH, LockFile
from parquetry.runtime.commit.rollback import has_quarantine, roll_back
from parquetry.runtime.commit.storage_lock import StorageLock
from parquetry.runtime.errors import ConflictError, LockHeldError, NotFoundError, UnsupportedTableError
from parquetry.runtime.spec.table_spec import Locks
from parquetry.runtime.storage.open import probe_put_if_match
from parquetry.runtime.table.config import LOCK_METHOD_KEY, LOCK_PATH_KEY
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.metadata_table import check_no_metadata_table
from parquetry.runtime.table.properties import PROPERTIES_PATH
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.sidecars import probe_path
from parquetry.runtime.timing import DEFAULT_TIMING, Timing


def lock_method(properties: Mapping[str, str], *, uri: str) -> LockMethod:
    """Return how the table with these properties is locked; ``uri`` is for messages.

    Raises:
        UnsupportedTableError: If the properties name a method that this version does not know.
    """
    match properties.get(LOCK_METHOD_KEY) or Locks.FILE:
        case Locks.FILE:
            return LockFile(properties.get(LOCK_PATH_KEY) or DEFAULT_LOCK_PATH)
        case Locks.STORAGE:
            return StorageLock()
        case found:
            raise UnsupportedTableError(
                "{table}/{file}: {property}={found} names no method of locking; install a newer parquetry, "
                "or correct the property",
                table=uri,
                file=PROPERTIES_PATH,
                property=LOCK_METHOD_KEY,
                found=found,
            )


def lock_method_of(table: TableHandle) -> LockMethod:
    """Return how an opened table is locked, or raise UnsupportedTableError (see :func:`lock_method`)."""
    return lock_method(table.config.raw, uri=table.store.uri)


def table_lock(
    table: TableHandle,
    session: Session,
    *,
    rolls_back: bool = False,
    validates: bool = False,
    allows_metadata_table: bool = False,
) -> TableLock:
    """Return the table's lock for a session, not yet held.

    If the holder is dead, its write is rolled back before its lock is removed. Entering the lock raises
    ForeignTableError if the table no longer belongs to its owner, StaleTimelineError if it got another
    timeline layout since it was opened, ConflictError if it is locked in another way since then, and
    UnsupportedTableError if it has a metadata table, unless the session ``allows_metadata_table``. If the
    session only ``rolls_back`` its own work, nothing is checked. If it ``validates`` a write, that compares
    the properties itself.
    """

    def confirm() -> None:
        if rolls_back:
            return
        table.check_owner()
        if validates:
            return
        config = table.config_under_lock()
        if lock_method(config.raw, uri=table.store.uri) != method:
            raise ConflictError(
                "{table}: the table was opened before its method of locking changed; run the command again",
                table=table.store.uri,
            )
        if not allows_metadata_table:
            check_no_metadata_table(config, uri=table.store.uri)

    method = lock_method_of(table)
    return TableLock(
        session,
        method,
        fence=lambda instant: _roll_back_pending(table, session, instant),
        confirm=confirm,
    )


@contextmanager
def locked_session(
    table: TableHandle,
    timeline: Timeline,
    *,
    purpose: str,
    timing: Timing,
    allows_metadata_table: bool = False,
) -> Iterator[tuple[Session, TableLock]]:
    """Yield a session with a new instant, and the lock of the table, held until the block ends.

    The instant is later than all instants of the timeline. If the block ends without an error, the claim on
    the instant is removed. So the block must complete the instant or leave it unused.

    Args:
        table: The table.
        timeline: The current timeline of the table.
        purpose: The purpose of the session, for its claim.
        timing: The waiting periods for locks.
        allows_metadata_table: If False, the block changes what a metadata table lists, and is refused beside
            one.

    Raises:
        UnsupportedTableError: If there is a metadata table that is not allowed.
    """
    with open_session(
        table.store,
        purpose=purpose,
        after=timeline.last_instant,
        zone=table.config.timezone,
        timing=timing,
    ) as session:
        with table_lock(table, session, allows_metadata_table=allows_metadata_table) as lock:
            yield session, lock
        session.acknowledge()


@contextmanager
def lock_with_properties(
    table: TableHandle, session: Session, properties: Mapping[str, str]
) -> Iterator[None]:
    """Hold the lock that the table has with other properties, unless it is the one that it has now.

    The caller holds the lock that it has now, and puts the properties. No writer that has read them begins
    before the caller has finished.

    Raises:
        UnsupportedTableError: If the store cannot have that lock.
        StorageError: If the store does not honour conditional puts.
    """
    method = lock_method(properties, uri=table.store.uri)
    if method == lock_method_of(table):
        yield
        return
    if isinstance(method, StorageLock):
        probe_put_if_match(table.store, probe_path())
    with TableLock(session, method, fence=lambda instant: _roll_back_pending(table, session, instant)):
        yield


def unlock(table: TableHandle, *, timing: Timing = DEFAULT_TIMING) -> LockInfo:
    """Remove the table's lock, whoever holds it, and return the lock that was removed.

    If a write of this project held the lock, it is rolled back first.

    Raises:
        NotFoundError: If the table is not locked.
        LockHeldError: If the lock changed hands at the same moment.
    """
    store = table.store
    method = lock_method_of(table)
    held = method.read(store)
    if held is None:
        raise NotFoundError("{table}/{file}: the table is not locked", table=store.uri, file=method.path)
    after = table.timeline().last_instant
    with open_session(
        store, purpose="unlock", after=after, zone=table.config.timezone, timing=timing
    ) as session:
        removed = break_lock(
            session, method, held, fence=lambda instant: _roll_back_pending(table, session, instant)
        )
        session.acknowledge()
    if not removed:
        raise LockHeldError(
            "{table}/{file}: another process has changed the lock; run the command again",
            table=store.uri,
            file=method.path,
        )
    return held


def _roll_back_pending(table: TableHandle, session: Session, instant: str) -> None:
    """Roll back the write of the instant unless it is completed, so that it can no longer be published."""
    timeline = table.timeline()
    write = timeline.write_at(instant)
    if write is not None and not write.is_completed:
        roll_back(session, timeline, write, keeps_files=has_quarantine(table.store))
