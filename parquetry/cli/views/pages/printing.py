"""Choice of the format in which the results of runs and tests, and the health of a lake, are printed."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.terminal.output import Output
from parquetry.cli.terminal.values import printable_outcome
from parquetry.cli.views.operating.health import HealthView
from parquetry.cli.views.operating.run import RunView
from parquetry.cli.views.pages.run import render_run
from parquetry.cli.views.pages.tests import render_tests
from parquetry.cli.views.tests.printing import show_tests
from parquetry.compiler.jobs.results import RunResult
from parquetry.compiler.reports.health import LakeHealth
from parquetry.compiler.testing.history import TestHistory
from parquetry.compiler.testing.model import TableTests


def show_run(run: RunResult, output: Output, *, target: str, history: TestHistory | None) -> None:
    """Write the result of a run to stdout; a page also shows the history of its tests."""
    if output.format == "html":
        with_options = output.typed_options.with_options
        shown = printable_outcome(run, with_options)
        page = render_run(shown, target=target, history=history, with_options=with_options)
        click.echo(page, nl=False)
    else:
        output.show(RunView(verbose=output.verbose), run)


def show_results(
    tests: TableTests, output: Output, *, project: Path | None, history: TestHistory | None
) -> None:
    """Write the results of tests to stdout; a page also shows their history.

    ``project`` is the project's folder, or None for a table without a project.
    """
    if output.format == "html":
        shown = printable_outcome(tests, output.typed_options.with_options)
        click.echo(render_tests(shown, history), nl=False)
    else:
        show_tests(tests, output, project=project)


def show_health(health: LakeHealth, output: Output) -> None:
    """Write the health of a lake to stdout in the chosen format."""
    view = HealthView(typed_options=output.typed_options)
    if output.format in ("markdown", "html"):
        shown = printable_outcome(health, output.typed_options.with_options)
        click.echo(view.html(shown) if output.format == "html" else view.markdown(shown), nl=False)
    else:
        output.show(view, health)
