"""`parquetry metrics`: the condition of the tables, for monitoring."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.requests import completion
from parquetry.cli.requests.options import ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output


@click.command(name="metrics")
@click.argument("tables", metavar="[TABLE]...", nargs=-1, shell_complete=completion.tables)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Save the metrics in a file, all at once, for node_exporter's textfile collector.",
)
@project_options
@output_options("text", "json")
def command(*, request: ProjectRequest, output: Output, tables: tuple[str, ...], out: Path | None) -> int:
    """Write the metrics of the tables as OpenMetrics text: files, debt, cadence, last runs.

    TABLE is a name in the project; by default, all selected tables are measured. Starts no JVM,
    reads no rows and writes nothing to any table. Needs the extra `metrics`. Every metric has the
    labels project, target and table. A table that cannot be read has the metrics
    parquetry_table_readable and parquetry_table_unreadable only, and does not stop the others; the
    command then ends with 1, unless the table is only not applied yet.
    """
    from parquetry.cli.requests.lake import lake_of, unread_error
    from parquetry.cli.requests.saving import save
    from parquetry.cli.views.operating.metrics import MetricsView
    from parquetry.compiler.reports.metrics import measured

    lake = lake_of(request, tables)
    view, metrics = MetricsView(), measured(lake)
    if out is None:
        output.show(view, metrics, verbatim=True)
    else:
        text = view.document(metrics, output.format)
        save(out, text, option="--out", project=request.directory, at_once=True)
    return output.ended(unread_error(lake))
