"""The entries of tables in the catalogs of a target, for commands that write there.

An applied record lies in the storage of its table, where others can write. It confirms which entry the
project declares, and never names one.
"""

from __future__ import annotations

from dataclasses import replace

from parquetry.compiler.errors import UnappliedError
from parquetry.compiler.workspace.observation import Observation
from parquetry.compiler.workspace.opened import Workspace
from parquetry.message import command
from parquetry.project import ResolvedTable
from parquetry.runtime.catalog.model import Catalog
from parquetry.runtime.catalog.sync import SyncPreview, SyncResult, sync
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.table.handle import TableHandle


def is_same_entry(one: TableSpec, other: TableSpec) -> bool:
    """Return whether two specs name one entry: the catalog, the database and the name of the table."""
    return _entry(one) == _entry(other)


def handle_of(observation: Observation) -> TableHandle:
    """Return an observed table with the instant of its creation, which tells what partition paths hold."""
    return replace(observation.handle, first_instant=observation.first_instant)


def sync_table(
    workspace: Workspace, table: ResolvedTable, handle: TableHandle, *, restores: bool, drops: bool = False
) -> SyncResult | None:
    """Bring the entry of a table in its catalog to the newest state, with personal values masked.

    Args:
        workspace: The project.
        table: The table as it is declared.
        handle: The live table.
        restores: As in :func:`~parquetry.runtime.catalog.sync.sync`.
        drops: As there.

    Returns:
        What was written, or None if the applied spec names no catalog.

    Raises:
        CatalogError: If the catalog fails, or if another table has the name.
        UnappliedError: If the project declares another entry than the applied spec, or if an option of the
            catalog that could redirect requests is not allowed.
    """
    if handle.spec is None or handle.spec.extra.catalog is None:
        return None
    if not is_same_entry(handle.spec, table.spec):
        raise UnappliedError(
            "table {table}: the declared catalog, database or name differs from the applied one, and nothing "
            "is written to either; {plan_command}, then {apply_command}",
            table=table.name,
            plan_command=command("plan"),
            apply_command=command("apply"),
        )
    catalog = workspace.catalog(table.spec)
    return None if catalog is None else sync_entry(handle, catalog, restores=restores, drops=drops)


def sync_entry(
    handle: TableHandle,
    catalog: Catalog,
    *,
    restores: bool,
    drops: bool = False,
    approved: SyncPreview | None = None,
) -> SyncResult:
    """Bring an entry to the newest state of its table. Failures and the result have no personal values."""
    with handle.failures_masked():
        return handle.cleared(sync(handle, catalog, restores=restores, drops=drops, approved=approved))


def _entry(spec: TableSpec) -> tuple[str | None, str | None, str]:
    return (spec.extra.catalog, spec.extra.database, spec.name)
