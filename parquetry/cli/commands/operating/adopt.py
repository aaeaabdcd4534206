"""`parquetry adopt`: a spec and an applied record for an existing Hudi table."""

from __future__ import annotations

import click

from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output


@click.command(name="adopt")
@click.argument("location")
@click.option("--name", help="Name of the table in the project; by default its own.")
@table_options
@output_options("text", "json")
def command(*, request: ProjectRequest, output: Output, location: str, name: str | None) -> int:
    """Write tables/NAME.yml for the Hudi table at LOCATION, a path or URI, and record it as applied.

    The spec takes over columns, keys, partitioning and the settings that the table records. The
    next plan is empty, unless the table has a metadata table: the plan drops that. If the table
    belongs to the project, the command writes the changes of others into its spec. It changes
    nothing that other programs read.
    """
    from parquetry.cli.requests.workspaces import absolute_location, reloader, workspace_of
    from parquetry.cli.views.adopt import AdoptView
    from parquetry.compiler.spec_files.adopt import adopt

    location = absolute_location(location)
    output.show(AdoptView(), adopt(workspace_of(request), location, name=name, reload=reloader(request)))
    return 0
