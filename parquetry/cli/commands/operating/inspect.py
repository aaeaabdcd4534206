"""`parquetry inspect`: the live layout of a table."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.requests import completion
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output


@click.command(name="inspect")
@click.argument("table", shell_complete=completion.tables)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Save the layout as JSON.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Save the layout as a page.")
@click.option(
    "--files", "as_files", is_flag=True, help="Print the path or URI of each live file, one per line."
)
@click.option(
    "--view",
    "engine",
    type=click.Choice(["duckdb"]),
    help="Print the statement of a view over the live files for this engine.",
)
@table_options
@output_options("text", "json")
def command(
    *,
    request: ProjectRequest,
    output: Output,
    table: str,
    out: Path | None,
    html: Path | None,
    as_files: bool,
    engine: str | None,
) -> int:
    """Show the files of TABLE by partition, and what its declared queries have to read.

    TABLE is a name in the project, or the path or URI of any Hudi table. With --files, prints only
    the live files, for engines that read Parquet files. With --view, prints only a statement that
    makes a view of the current rows. The paths in both are not masked. Exits with 1 if files are
    missing, or differ in size from their commits.
    """
    from parquetry.cli.requests.saving import save
    from parquetry.cli.requests.workspaces import table_named
    from parquetry.cli.terminal.output import json_document
    from parquetry.cli.views.inspect import FilesView, InspectView, StatementView
    from parquetry.compiler.reports.duckdb_view import duckdb_view
    from parquetry.compiler.reports.inspection import inspect_table, live_files

    named = table_named(request, table)
    if as_files or engine is not None:
        if (as_files and engine is not None) or out is not None or html is not None:
            raise click.UsageError("--files and --view go to stdout, each alone and without --out and --html")
        if as_files:
            output.show(FilesView(), live_files(named.store), verbatim=True)
        else:
            output.show(StatementView(), duckdb_view(named.store), verbatim=True)
        return 0
    report = inspect_table(named.store, declared=named.declared)
    if out is not None:
        save(out, json_document(InspectView(), report) + "\n", option="--out", project=request.directory)
    if html is not None:
        save(html, InspectView().html(report), option="--html", project=request.directory)
    output.show(InspectView(), report)
    return 1 if report.damaged_files else 0
