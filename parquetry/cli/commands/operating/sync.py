"""`parquetry sync`: the entries of tables in catalogs, brought to the newest state."""

from __future__ import annotations

import click

from parquetry.cli.requests import completion, services
from parquetry.cli.requests.options import ProjectRequest, output_options, project_options, refuse_selection
from parquetry.cli.terminal.output import Output


@click.command(name="sync")
@click.argument("table", required=False, shell_complete=completion.tables)
@click.option(
    "--drop-partitions",
    is_flag=True,
    help="Remove partitions without files from the catalog; this lists the table.",
)
@project_options
@output_options("text", "json")
def command(*, request: ProjectRequest, output: Output, table: str | None, drop_partitions: bool) -> int:
    """Bring the entry of TABLE, or of all tables, in its catalog to the newest state of the table.

    The first sync registers the table. It concerns tables whose applied spec names a `catalog`. A sync also
    replaces what others changed in the definition of the entry. Nothing else is removed from a catalog. A
    table that fails does not keep others from being synchronised.
    """
    from parquetry.cli.views.operating.sync import SyncView

    if table is not None:
        refuse_selection("TABLE names the table")
    synced, failures = services.sync_tables(request, table, drops=drop_partitions)
    output.show(SyncView(failed=bool(failures)), synced)
    return output.ended_with(failures)
