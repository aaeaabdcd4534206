"""`parquetry simulate`: try limits without writing."""

from __future__ import annotations

from typing import Any

import click

from parquetry.cli.options import ProjectRequest, output_options, table_options
from parquetry.cli.output import Output
from parquetry.cli.sizes import rows, size, sizes


@click.group(name="simulate")
def command() -> None:
    """Try limits on given file sizes or on a table's own files, without writing."""


@command.command("sizing")
@click.argument("table", required=False)
@click.option("--files", type=sizes, metavar="SIZE,...", help="Sizes of existing files, such as 40MB,80MB.")
@click.option("--inserts", type=click.IntRange(min=0), required=True, help="New rows.")
@click.option("--partition", help="Partition of TABLE, such as origin=EWR.")
@click.option(
    "--record-size",
    "record_size_bytes",
    type=size,
    metavar="SIZE",
    help="Bytes per row; learned from TABLE, else 1024B.",
)
@click.option(
    "--max-file-size",
    "max_file_size_bytes",
    type=size,
    metavar="SIZE",
    help="Files are filled up to this; 120MiB.",
)
@click.option(
    "--small-file-limit",
    "small_file_limit_bytes",
    type=size,
    metavar="SIZE",
    help="Files below this are filled, 0 is off; 100MiB.",
)
@click.option("--insert-split-size", type=rows, metavar="ROWS|auto", help="Rows per new file; auto.")
@click.option("--min-fill", type=click.FloatRange(0, 1), help="Least gain for which a file is rewritten; 0.")
@table_options
@output_options("text", "json")
def sizing(
    *,
    request: ProjectRequest,
    output: Output,
    table: str | None,
    files: tuple[int, ...] | None,
    inserts: int,
    partition: str | None,
    **limits: Any,
) -> int:
    """Show which file a write would give how many rows.

    With --files for files of these sizes, called File_1, File_2, ...; with TABLE (a name, or a
    path or URI) for the live files of one of its partitions.
    """
    from parquetry.cli.simulation_view import SimulationView
    from parquetry.cli.workspaces import store_named
    from parquetry.compiler.simulate import Limits, simulate_given, simulate_table

    if (table is None) == (files is None):
        raise click.UsageError("give either --files SIZE,... or the name of a TABLE")
    if table is None:
        outcome = simulate_given(files or (), inserts=inserts, limits=Limits(**limits))
    else:
        store = store_named(request, table)
        outcome = simulate_table(store, inserts=inserts, limits=Limits(**limits), partition=partition)
    output.show(SimulationView(), outcome)
    return 0
