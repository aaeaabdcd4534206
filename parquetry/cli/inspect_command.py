"""`parquetry inspect`: the live layout of a table."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.options import ProjectRequest, output_options, table_options
from parquetry.cli.output import Output


@click.command(name="inspect")
@click.argument("table")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Save the layout as JSON.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Save the layout as a page.")
@table_options
@output_options("text", "json")
def command(
    *, request: ProjectRequest, output: Output, table: str, out: Path | None, html: Path | None
) -> int:
    """Show the files of TABLE by partition, and what its declared queries have to read.

    TABLE is a name in the project, or the path or URI of any Hudi table.
    """
    from parquetry.cli.inspect_view import InspectView
    from parquetry.cli.output import json_document
    from parquetry.cli.saving import save
    from parquetry.cli.workspaces import table_named
    from parquetry.compiler.inspection import inspect_table

    named = table_named(request, table)
    report = inspect_table(named.store, declared=named.declared)
    if out is not None:
        save(out, json_document(InspectView(), report) + "\n", option="--out")
    if html is not None:
        save(html, InspectView().html(report), option="--html")
    output.show(InspectView(), report)
    return 0
