"""`parquetry health`: the tables that need attention, the worst first."""

from __future__ import annotations

import click

from parquetry.cli.requests import completion
from parquetry.cli.requests.options import ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output

UNHEALTHY = 3


@click.command(name="health")
@click.argument("tables", metavar="[TABLE]...", nargs=-1, shell_complete=completion.tables)
@click.option("--check", is_flag=True, help="Exit with 3 if a table needs attention.")
@project_options
@output_options("text", "json", "markdown", "html")
def command(*, request: ProjectRequest, output: Output, tables: tuple[str, ...], check: bool) -> int:
    """Show which tables need attention, the worst first, with a reason and a command for each line.

    The worst table is the one whose clustering debt costs the declared queries most bytes a day.
    TABLE is a name in the project; by default, all selected tables are checked. Starts no JVM,
    reads no rows and writes nothing to any table. The command ends with 1 if a table cannot be
    read, unless it is only not applied yet.
    """
    from parquetry.cli.requests.lake import lake_of, unread_error
    from parquetry.cli.views.pages.printing import show_health
    from parquetry.compiler.reports.health import health_of

    lake = lake_of(request, tables)
    health = health_of(lake)
    show_health(health, output)
    code = output.ended(unread_error(lake))
    return UNHEALTHY if code == 0 and check and health.needing_attention else code
