"""Choice of the format in which the results of runs and tests are printed."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.terminal.output import Output
from parquetry.cli.terminal.values import shown_values
from parquetry.cli.views.operating.run import RunView
from parquetry.cli.views.pages.run import render_run
from parquetry.cli.views.pages.tests import render_tests
from parquetry.cli.views.tests.shapes import show_tests
from parquetry.compiler.jobs.run import RunResult
from parquetry.compiler.testing.history import TestHistory, history_in
from parquetry.compiler.testing.model import TableTests
from parquetry.confined_folder import LinkInTheWayError


def show_run(run: RunResult, output: Output, *, target: str, project: Path) -> None:
    """Write the result of a run to stdout; ``project`` is the project's folder."""
    if output.format == "html":
        with_options = output.typed_options.with_options
        history = None if run.tests is None else _history(run.tests, project)
        shown = shown_values(run, with_options)
        page = render_run(shown, target=target, history=history, with_options=with_options)
        click.echo(page, nl=False)
    else:
        output.show(RunView(verbose=output.verbose), run)


def show_results(tests: TableTests, output: Output, *, project: Path | None) -> None:
    """Write the results of tests to stdout; a page also shows earlier runs of the project in the folder."""
    if output.format == "html":
        shown = shown_values(tests, output.typed_options.with_options)
        click.echo(render_tests(shown, _history(tests, project)), nl=False)
    else:
        show_tests(tests, output, project=project)


def _history(tests: TableTests, project: Path | None) -> TestHistory | None:
    """Return the results of these tests in earlier runs.

    None for a table without a project, or if a link is in the way of the results.
    """
    if project is None or tests.target is None:
        return None
    names = [(outcome.table, outcome.test) for outcome in tests.outcomes]
    try:
        return history_in(project.resolve(), tests.target, names)
    except LinkInTheWayError:
        return None
