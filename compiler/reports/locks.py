"""Who holds the locks of tables, and since when."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from parquetry.compiler.workspace.observation import observe
from parquetry.compiler.workspace.opened import Workspace
from parquetry.message import command
from parquetry.project import ResolvedTable
from parquetry.runtime.commit.lock import lock_path, read_lock
from parquetry.runtime.errors import CorruptTableError, ForeignTableError, UnsupportedTableError
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.timing import DEFAULT_TIMING

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLock:
    """A lock that stands. ``instant`` is None for another program's, whose end nobody can see.

    ``abandoned``: its holder is a writer of parquetry that is dead; the next writer removes it.
    """

    table: str
    path: str
    holder: str
    age_seconds: int
    instant: str | None
    abandoned: bool


def held_locks(workspace: Workspace) -> tuple[HeldLock, ...]:
    """The locks of the selected tables that are held now; of tables that cannot be read none is known."""

    def held(table: ResolvedTable) -> HeldLock | None:
        try:
            return held_lock(workspace.store(table), name=table.name, owner=workspace.owner)
        except ForeignTableError as refusal:
            _LOG.warning("%s is not looked at: %s", table.name, refusal)
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
    """The lock of the table in a store; None when there is no table, or nobody holds it.

    ForeignTableError for a table that is not the ``owner``'s.
    """
    observation = observe(store)
    if observation is None:
        return None
    if owner is not None:
        observation.check_owner(owner)
    config = observation.handle.config
    found = read_lock(store, lock_path(config.raw))
    if found is None:
        return None
    return HeldLock(
        table=name or config.name,
        path=f"{store.uri}/{found.path}",
        holder=found.holder,
        age_seconds=max(0, (store.now_ms() - found.modified_ms) // 1000),
        instant=found.instant,
        abandoned=found.is_dead(store, DEFAULT_TIMING),
    )
