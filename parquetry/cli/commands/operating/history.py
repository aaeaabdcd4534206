"""`parquetry history`: the applied specs and the commits of a table."""

from __future__ import annotations

import os
from pathlib import Path

import click

from parquetry.cli.requests import completion
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output


@click.command(name="history")
@click.argument("table", shell_complete=completion.tables)
@click.option(
    "-n",
    "most",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Maximum number of entries.",
)
@click.option("--record", type=click.IntRange(1), help="With --out: the number of an applied record.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the spec of --record as YAML."
)
@table_options
@output_options("text", "json")
def command(
    *,
    request: ProjectRequest,
    output: Output,
    table: str,
    most: int,
    record: int | None,
    out: Path | None,
) -> int:
    """List what was applied to TABLE, by whom and from which plan, and its commits, the newest first.

    Commits include rollbacks, restores, and those that left the timeline for the archive. TABLE is a
    name in the project, or the path or URI of any Hudi table. With --record and --out, writes the
    spec of an applied record of the project's table into a new file, and lists nothing.
    """
    from parquetry.cli.requests.workspaces import table_named
    from parquetry.cli.views.timeline import TableHistoryView
    from parquetry.compiler.reports.history import report_history

    if (record is None) != (out is None):
        raise click.UsageError("--record and --out belong together: give both, or neither")
    if record is not None and out is not None:
        _write_spec(request, table, record, out)
    else:
        output.show(TableHistoryView(), report_history(table_named(request, table).store, most=most))
    return 0


def _write_spec(request: ProjectRequest, table: str, record: int, out: Path) -> None:
    """Write the spec of an applied record to a new file.

    Raises:
        click.UsageError: The file exists.

    """
    from parquetry.cli.requests.saving import save
    from parquetry.cli.requests.workspaces import absolute_location, is_location, workspace_of
    from parquetry.compiler.spec_files.recorded import recorded_text

    if out.exists():
        raise click.UsageError(f"{out} exists; name a new file with --out")
    name, location = (None, absolute_location(table)) if is_location(table) else (table, "")
    save(
        out,
        recorded_text(workspace_of(request), record, environment=os.environ, name=name, location=location),
        option="--out",
        project=request.directory,
    )
