"""`parquetry learn`: the queries of tables, from the logs of the engines that ran them."""

from __future__ import annotations

import click

from parquetry.cli.requests.options import ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output


def place(value: str) -> tuple[str, str]:
    """Return the location and the table of ``TABLE=LOCATION``.

    Raises:
        click.BadParameter: The text has another form.

    """
    table, sign, location = value.partition("=")
    if not (table and sign and location):
        raise click.BadParameter(f"{value!r} is not TABLE=LOCATION, such as orders=s3://lake/orders")
    return location, table


@click.command(name="learn")
@click.argument("logs", metavar="LOGS...", nargs=-1, required=True)
@click.option(
    "--from",
    "program",
    type=click.Choice(("spark", "trino", "athena", "dbt")),
    default="spark",
    show_default=True,
    help="Program that wrote the logs.",
)
@click.option(
    "--at",
    "places",
    type=place,
    multiple=True,
    metavar="TABLE=LOCATION",
    help="A further location of TABLE in the logs, or its name there, such as shop.orders.",
)
@click.option(
    "--most",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Queries of a table to propose: those that read most.",
)
@click.option("--write", is_flag=True, help="Write the change into the tables' files.")
@project_options
@output_options("text", "json")
def command(
    *,
    request: ProjectRequest,
    output: Output,
    logs: tuple[str, ...],
    program: str,
    places: tuple[tuple[str, str], ...],
    most: int,
    write: bool,
) -> int:
    """Propose `queries` of the tables, with weights, from what LOGS say was asked.

    LOGS are files or folders of this machine or of a bucket: Spark's event logs, also compressed or
    rolled, the JSON of Trino's query events or of Athena's query executions, or compiled manifests of
    dbt. Each shape of conditions becomes one query, whose values are those of median selectivity. Values
    of personal columns stay in the logs. The command shows the change of the files and writes nothing
    without --write. It starts no JVM and opens no table.
    """
    from parquetry.cli.requests.workspaces import reloader, workspace_of
    from parquetry.cli.views.learn import LearnView
    from parquetry.compiler.learning.proposal import learn
    from parquetry.compiler.learning.sql_history import LogKind

    learned = learn(
        workspace_of(request),
        logs,
        places=dict(places),
        most=most,
        kind=LogKind(program),
        write=reloader(request) if write else None,
    )
    output.show(LearnView(typed_options=request.typed_options), learned)
    return 0
