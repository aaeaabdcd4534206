"""`parquetry rename`: a new name for a table or a source."""

from __future__ import annotations

import click

from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output


@click.command(name="rename")
@click.argument("former", metavar="TABLE[.SOURCE]")
@click.argument("name", metavar="NAME")
@click.option(
    "--replace", is_flag=True, help="Take the name from the table that has it: its spec is removed."
)
@table_options
@output_options("text", "json")
def command(*, request: ProjectRequest, output: Output, former: str, name: str, replace: bool) -> int:
    """Give a table or a source another NAME in the files of the project.

    A table stays where it is: its spec gets its location, and its former name under `moved`. Tests,
    `allow` and `protect` that name the table get the new name. The command writes to no table; the
    next plan shows the change for review, and apply records it.
    """
    from parquetry.cli.requests.workspaces import reloader, workspace_of
    from parquetry.cli.views.files import RenameView
    from parquetry.compiler.spec_files.rename import rename

    renamed = rename(workspace_of(request), former, name, replace=replace, reload=reloader(request))
    output.show(RenameView(), renamed)
    return 0
