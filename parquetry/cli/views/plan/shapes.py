"""Choice of the format in which a saved plan is printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from parquetry.cli.terminal.output import Output
from parquetry.cli.views.diagnostics import path_in_repository
from parquetry.cli.views.plan.commands import typed_options_of
from parquetry.cli.views.plan.github import render_github
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.plan.model import PlanDocument
from parquetry.project.yaml.folder import PROJECT_FILE


def show_plan(plan: PlanDocument, output: Output, *, saved: Path, max_bytes: int) -> None:
    """Write the plan to stdout in the chosen format; ``max_bytes`` limits Markdown."""
    match output.format:
        case "markdown":
            click.echo(render_markdown(plan, max_bytes=max_bytes), nl=False)
        case "html":
            click.echo(render_html(plan), nl=False)
        case "github":
            click.echo(render_github(plan, prefix=path_in_repository(_project_of(saved))), nl=False)
        case _:
            output = replace(output, typed_options=typed_options_of(plan))
            output.show(
                PlanView(saved=saved, typed_options=output.typed_options, verbose=output.verbose), plan
            )


def _project_of(saved: Path) -> Path:
    """Return the folder of the project that contains the saved plan, else the current folder."""
    return next((folder for folder in saved.resolve().parents if (folder / PROJECT_FILE).is_file()), Path())
