"""Choice of the format in which a saved plan is printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from parquetry.cli.terminal.output import Output
from parquetry.cli.views.plan.commands import typed_options_of
from parquetry.cli.views.plan.github import render_github
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.plan.model import PlanDocument


def show_plan(plan: PlanDocument, output: Output, *, saved: Path, prefix: str, max_bytes: int) -> None:
    """Write the plan to stdout in the chosen format.

    Args:
        plan: The plan.
        output: The format, and the typed options for commands.
        saved: The file that contains the plan.
        prefix: The project's path in the repository, for annotations.
        max_bytes: The limit of Markdown.

    """
    match output.format:
        case "markdown":
            click.echo(render_markdown(plan, max_bytes=max_bytes), nl=False)
        case "html":
            click.echo(render_html(plan), nl=False)
        case "github":
            click.echo(render_github(plan, prefix=prefix), nl=False)
        case _:
            output = replace(output, typed_options=typed_options_of(plan))
            output.show(
                PlanView(saved=saved, typed_options=output.typed_options, verbose=output.verbose), plan
            )
