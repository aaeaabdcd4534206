"""`parquetry publish`: the metadata of other table formats, brought to the newest state."""

from __future__ import annotations

import click

from parquetry.cli.requests import completion, services
from parquetry.cli.requests.options import ProjectRequest, output_options, project_options, refuse_selection
from parquetry.cli.terminal.output import Output


@click.command(name="publish")
@click.argument("table", required=False, shell_complete=completion.tables)
@project_options
@output_options("text", "json")
def command(*, request: ProjectRequest, output: Output, table: str | None) -> int:
    """Bring the metadata of other table formats to the newest state of TABLE, or of all tables.

    Each write, clean, rollback, restore, apply and run does so for a table that declares `publish`. This
    command catches up after writes of other programs, and after a storage that could not be reached. TABLE
    is a name in the project, or a path or URI. A table that fails does not keep others from being published.
    """
    from parquetry.cli.views.operating.publishing import PublishingView

    if table is not None:
        refuse_selection("TABLE names the table")
    published, failures = services.publish_tables(request, table)
    output.show(PublishingView(failed=bool(failures)), published)
    return output.ended_with(failures)
