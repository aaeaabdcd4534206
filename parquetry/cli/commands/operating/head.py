"""`parquetry head`: the first rows of a table."""

from __future__ import annotations

import click

from parquetry.cli.requests import completion
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output

_MOST_ROWS = 10_000


@click.command(name="head")
@click.argument("table", shell_complete=completion.tables)
@click.option(
    "--limit",
    type=click.IntRange(1, _MOST_ROWS),
    default=20,
    show_default=True,
    help="The largest number of rows.",
)
@click.option("--columns", metavar="COLUMNS", help="Print these columns alone, separated by commas.")
@click.option("--where", metavar="SQL", help="Print rows that fulfil this condition alone.")
@click.option("--as-of", "as_of", metavar="TIME", help="Print rows of the table at this instant or time.")
@table_options
@output_options("text", "json")
def command(
    *,
    request: ProjectRequest,
    output: Output,
    table: str,
    limit: int,
    columns: str | None,
    where: str | None,
    as_of: str | None,
) -> int:
    """Print the first rows of TABLE, without a JVM. Values of personal columns are masked.

    TABLE is a name in the project, or the path or URI of any Hudi table. The condition compares columns
    with literals, by AND, OR, NOT, IN, BETWEEN, LIKE and IS NULL; others need Spark. Rows come in the
    order of the files. Values of more than 40 characters are cut, with `--format json` they are whole.
    """
    from parquetry.cli.requests.workspaces import table_named
    from parquetry.cli.views.head import HeadView
    from parquetry.compiler.reports.first_rows import first_rows

    named = table_named(request, table)
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    rows = first_rows(
        named.store, limit=limit, columns=names, where=where, as_of=as_of, declared=named.declared
    )
    output.show(HeadView(), rows, verbatim=True)
    return 0
