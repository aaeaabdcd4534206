"""`parquetry validate`: every error of every file in one pass, offline."""

from __future__ import annotations

import click

from parquetry.cli.requests.options import ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output


@click.command(name="validate")
@project_options
@output_options("text", "json", "github")
def command(*, request: ProjectRequest, output: Output) -> int:
    """Check the project's files: schema and cross-checks.

    Works offline: starts no JVM, opens no table, and reads no environment variable. With --select,
    it checks the project file, the policies, and the files of these tables.
    """
    from parquetry.cli.requests.declarations import validated
    from parquetry.cli.views.diagnostics import DiagnosticsView, path_in_repository
    from parquetry.project.diagnostics.model import errors, render_github

    result = validated(request)
    if output.format == "github":
        click.echo(render_github(result.diagnostics, prefix=path_in_repository(request.directory)), nl=False)
    else:
        output.show(DiagnosticsView(), result, verbatim=True)
    return 1 if errors(result.diagnostics) else 0
