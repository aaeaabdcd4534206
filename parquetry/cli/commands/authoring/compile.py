"""`parquetry compile`: the manifest and the jobs."""

from __future__ import annotations

import click

from parquetry.cli.requests.options import ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output


@click.command(name="compile")
@project_options
@output_options("text", "json", "hudi-options", "ddl")
def command(*, request: ProjectRequest, output: Output) -> int:
    """Write target/manifest.json, and target/jobs/TABLE/ with one job per verb.

    Each job is written as JSON, for `python -m parquetry.runtime`, and as a PySpark script, for
    `spark-submit`. Opens no table.

    With --format hudi-options or ddl, writes nothing. It prints the same policy as options for
    Hudi's own writers, or as CREATE TABLE ... USING hudi for Spark SQL.
    """
    from parquetry.cli.requests.workspaces import workspace_of
    from parquetry.cli.views.files import CompileView
    from parquetry.compiler.jobs.manifest import compile_project

    if output.format in ("text", "json"):
        output.show(CompileView(), compile_project(workspace_of(request)))
        return 0
    from parquetry.cli.views.files import DdlView, OptionsView
    from parquetry.compiler.spec_files.exports import export_tables

    view = DdlView() if output.format == "ddl" else OptionsView()
    output.show(view, export_tables(workspace_of(request)), verbatim=True)
    return 0
