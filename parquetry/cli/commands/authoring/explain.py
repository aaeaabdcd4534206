"""`parquetry explain`: the origin of a value, or the meaning of a code."""

from __future__ import annotations

import click

from parquetry.cli.requests import completion
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output


@click.command(name="explain")
@click.argument("subject", metavar="TABLE[.FIELD]|CODE", shell_complete=completion.tables)
@table_options
@output_options("text", "json")
def command(*, request: ProjectRequest, output: Output, subject: str) -> int:
    """Show the resolved value of a table's FIELD, and the file and line it comes from.

    Without FIELD, shows every setting of the table. FIELD is a path such as sizing.max_file_size or
    columns.distance.type. With a CODE such as PQ102 or SC310, explains the code and what to do.
    Reads no environment variable.
    """
    from parquetry.cli.requests.declarations import offline_project
    from parquetry.cli.views.explain import CodeView, ExplanationView
    from parquetry.compiler.reports.explain import explain_code, is_code
    from parquetry.compiler.security.masking import masked_explanation
    from parquetry.compiler.workspace.opened import table_named
    from parquetry.project.model.explanation import explain_table

    if is_code(subject):
        output.show(CodeView(), explain_code(subject))
        return 0
    name, _, path = subject.partition(".")
    table = table_named(offline_project(request), name)
    output.show(ExplanationView(), masked_explanation(explain_table(table, path)))
    return 0
