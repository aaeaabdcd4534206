"""`parquetry validate`: every error of every file in one pass, offline."""

from __future__ import annotations

import click

from parquetry.cli.options import ProjectRequest, output_options, project_options
from parquetry.cli.output import Output


@click.command(name="validate")
@project_options
@output_options("text", "json", "github")
def command(*, request: ProjectRequest, output: Output) -> int:
    """Check the project's files: schema and cross-checks.

    Offline: no JVM, no table is looked at, no environment variable is read.
    """
    from parquetry import project
    from parquetry.cli.diagnostics_view import DiagnosticsView, GithubView

    result = project.load(
        request.directory, target=request.target, variables=request.variables, environment=None
    )
    output.show(GithubView() if output.format == "github" else DiagnosticsView(), result)
    return 0 if result.project is not None else 1
