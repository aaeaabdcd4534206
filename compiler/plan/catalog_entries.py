"""The entries of tables in catalogs, compared with the tables as they are and as a plan makes them.

Each entry is read once, with one request. Nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from parquetry.compiler.plan.model import Step, TableAction
from parquetry.compiler.workspace.catalogs import handle_of, is_same_entry
from parquetry.compiler.workspace.observation import Observation
from parquetry.compiler.workspace.opened import Workspace
from parquetry.errors import ParquetryError
from parquetry.project import ResolvedTable
from parquetry.runtime.apply.table_change import columns_after
from parquetry.runtime.catalog.entry import CatalogTable, EntryDifference, shown_differences
from parquetry.runtime.catalog.model import Catalog
from parquetry.runtime.catalog.sync import (
    SyncPreview,
    check_same_table,
    entry_of,
    entry_of_new_table,
    preview,
)
from parquetry.runtime.errors import CatalogError
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.schema import described, live_columns
from parquetry.runtime.timeline.rereading import retry_stale


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEntry:
    """The entry of a table in the catalog that its declared spec names, as it was read.

    Attributes:
        catalog: The catalog.
        store: The store of the table.
        stored: The entry, None if there is none.
        applied: The entry that the table should have by its applied spec, None if that names no entry or
            another one.
    """

    catalog: Catalog
    store: ObjectStore
    stored: CatalogTable | None
    applied: CatalogTable | None

    @property
    def is_missing(self) -> bool:
        """True if the table should be in the catalog by its applied spec and is not."""
        return self.applied is not None and self.stored is None

    @property
    def changed_by_others(self) -> tuple[EntryDifference, ...]:
        """The differences from the applied spec, if another program wrote the definition."""
        if self.applied is None or self.stored is None or not self.stored.has_definition_of_others:
            return ()
        return shown_differences(self.stored, self.applied)


def read_entry(
    workspace: Workspace,
    table: ResolvedTable,
    observation: Observation | None,
    outages: dict[str | None, CatalogError],
) -> ReadEntry | ParquetryError | None:
    """Return the entry of a table, the error that prevented reading it, or None if the table names none.

    A catalog that cannot be reached is added to ``outages``, and is not asked for later tables.
    """
    name = table.spec.extra.catalog
    try:
        if name in outages:
            return outages[name]
        catalog = workspace.catalog(table.spec)
        if catalog is None:
            return None
        store, stored = workspace.store(table), catalog.table()
        if observation is None:
            wanted = entry_of_new_table(table.spec, store, catalog)
        else:
            wanted = _entry_now(catalog, handle_of(observation), observation.spec)
        if stored is not None:
            check_same_table(catalog, stored, wanted)
    except CatalogError as error:
        if error.is_outage:
            outages[name] = error
        return error
    except ParquetryError as error:
        return error
    applied = observation.spec if observation is not None and observation.is_applied else None
    names_it = applied is not None and is_same_entry(applied, table.spec)
    return ReadEntry(catalog=catalog, store=store, stored=stored, applied=wanted if names_it else None)


def preview_of(
    found: ReadEntry, declared: TableSpec, observation: Observation | None, action: TableAction | None
) -> SyncPreview | ParquetryError:
    """Return what a sync after an action changes in the definition of an entry.

    ``action`` is None for a table that the plan leaves as it is. An error tells why that is not known.
    """
    try:
        wanted = _entry_after(found, declared, observation, action)
        handle = None if observation is None else handle_of(observation)
        return _preview(found, wanted, handle)
    except ParquetryError as error:
        return error


def changes_entry(applied: TableSpec | None, declared: TableSpec) -> bool:
    """Return whether a change of the spec alone shows that the entry of the table changes."""
    if declared.extra.catalog is None:
        return False
    return applied is None or not is_same_entry(applied, declared) or _parts(applied) != _parts(declared)


def _parts(spec: TableSpec) -> tuple[object, ...]:
    columns = ((column.name, column.type, column.nullable, column.description) for column in spec.columns)
    return (tuple(columns), spec.partition_by)


@retry_stale
def _entry_now(catalog: Catalog, handle: TableHandle, spec: TableSpec | None) -> CatalogTable:
    """Return the entry that a table should have as it is."""
    columns = live_columns(handle.store, handle.timeline(), handle.config)
    return entry_of(handle, catalog, described(columns, spec))


@retry_stale
def _entry_after(
    found: ReadEntry, declared: TableSpec, observation: Observation | None, action: TableAction | None
) -> CatalogTable:
    """Return the entry that a table should have after an action."""
    if observation is None:
        return entry_of_new_table(declared, found.store, found.catalog)
    handle = handle_of(observation)
    timeline = handle.timeline()
    if action is not None and Step.EVOLVE in action.steps:
        columns = columns_after(handle, timeline, declared)
    else:
        columns = live_columns(handle.store, timeline, handle.config)
    return entry_of(handle, found.catalog, described(columns, declared))


@retry_stale
def _preview(found: ReadEntry, wanted: CatalogTable, handle: TableHandle | None) -> SyncPreview:
    return preview(found.catalog, stored=found.stored, wanted=wanted, table=handle)
