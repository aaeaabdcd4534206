"""`parquetry timeline`: the instants of a table."""

from __future__ import annotations

import click

from parquetry.cli.requests import completion
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output


@click.command(name="timeline")
@click.argument("table", shell_complete=completion.tables)
@click.argument("instant", required=False)
@table_options
@output_options("text", "json")
def command(*, request: ProjectRequest, output: Output, table: str, instant: str | None) -> int:
    """List the instants of TABLE: what each wrote and replaced. With INSTANT, show all about that one.

    With -v, also shows what declared queries read before and after each clustering, and, if the target
    has prices, what it was predicted to cost and what it did cost.

    TABLE is a name in the project, or the path or URI of any Hudi table.
    """
    from parquetry.cli.requests.workspaces import table_named
    from parquetry.cli.views.timeline import TimelineView
    from parquetry.compiler.evidence.money import PlanPrices
    from parquetry.compiler.reports.timeline import report_timeline

    named = table_named(request, table)
    prices = None if named.prices is None else PlanPrices.of(named.prices)
    report = report_timeline(named.store, instant=instant, declared=named.declared, prices=prices)
    output.show(TimelineView(verbose=output.verbose), report)
    return 0
