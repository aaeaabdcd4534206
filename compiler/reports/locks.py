"""The holders of tables' locks, with the age of each lock."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from parquetry.compiler.workspace.observation import observe
from parquetry.compiler.workspace.opened import Workspace
from parquetry.message import command
from parquetry.project import ResolvedTable
from parquetry.runtime.commit.table_lock import lock_method_of
from parquetry.runtime.errors import CorruptTableError, ForeignTableError, UnsupportedTableError
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.timing import DEFAULT_TIMING

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """A held lock. ``instant`` is None for a lock of another program, whose end cannot be detected.

    ``abandoned`` is True if its holder is a dead writer of parquetry; the next writer removes it. A
    storage-based lock expires in ``expires_in_seconds`` unless its holder renews it, and ``age_seconds`` is
    the time since it was last renewed. ``expires_in_seconds`` is None for a lock file, which never expires.
    """

    table: str
    path: str
    holder: str
    age_seconds: int
    instant: str | None
    abandoned: bool
    expires_in_seconds: int | None


def held_locks(workspace: Workspace) -> tuple[HeldLock, ...]:
    """Return the locks of the selected tables.

    Tables that cannot be read, or that belong to another project, are logged and left out.
    """

    def held(table: ResolvedTable) -> HeldLock | None:
        try:
            return held_lock(workspace.store(table), name=table.name, owner=workspace.owner)
        except ForeignTableError as refusal:
            _LOG.warning("skipping %s: %s", table.name, refusal)
            return None
        except (CorruptTableError, UnsupportedTableError):
            _LOG.warning(
                "%s cannot be read, so its lock is not known; %s says why", table.name, command("doctor")
            )
            return None

    return tuple(lock for lock in map_each(workspace.tables, held) if lock is not None)


def held_lock(
    store: ObjectStore, *, name: str | None = None, owner: TableOwner | None = None
) -> HeldLock | None:
    """Return the lock of the table in a store, or None if there is no table or no lock.

    Raises:
        ForeignTableError: if ``owner`` is given and the table is not the owner's.

    """
    observation = observe(store)
    if observation is None:
        return None
    if owner is not None:
        observation.check_owner(owner)
    config = observation.handle.config
    found = lock_method_of(observation.handle).read(store)
    if found is None:
        return None
    now_ms = store.now_ms()
    return HeldLock(
        table=name or config.name,
        path=f"{store.uri}/{found.path}",
        holder=found.holder,
        age_seconds=max(0, (now_ms - found.modified_ms) // 1000),
        instant=found.instant,
        abandoned=found.is_dead(store, DEFAULT_TIMING),
        expires_in_seconds=(
            None if found.expires_ms is None else max(0, (found.expires_ms - now_ms) // 1000)
        ),
    )
