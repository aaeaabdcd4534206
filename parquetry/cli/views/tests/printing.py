"""Choice of the format in which results of tests are printed or saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import click

from parquetry.cli.terminal.output import Output
from parquetry.cli.terminal.values import printable_outcome
from parquetry.cli.views.diagnostics import origin_in_repository, path_in_repository
from parquetry.cli.views.tests.github import render_github
from parquetry.cli.views.tests.text import HistoryView, TestsView
from parquetry.compiler.testing.history import TestHistory
from parquetry.compiler.testing.model import TableTests


def show_tests(tests: TableTests, output: Output, *, project: Path | None) -> None:
    """Write the results to stdout in the chosen format; ``project`` is the project's folder, or None."""
    if output.format == "github":
        click.echo(_document(render_github, tests, output, project=project), nl=False)
    else:
        output.show(TestsView(), tests)


def show_history(history: TestHistory, output: Output) -> None:
    """Write the results of earlier runs to stdout.

    Raises:
        click.UsageError: The format is for the results of this run only.

    """
    if output.format in ("github", "html"):
        raise click.UsageError(f"--history has no --format {output.format}: use text or json")
    output.show(HistoryView(), history)


def documents(
    tests: TableTests, output: Output, *, files: Mapping[str, Path | None], project: Path | None
) -> Iterator[tuple[str, Path, str]]:
    """Yield the option, the file and the document for each option that names a file."""
    for option, file in files.items():
        if file is not None:
            render = import_module(f"parquetry.cli.views.tests.{option.lstrip('-')}").render
            yield option, file, _document(render, tests, output, project=project)


def _document(render: Callable[..., str], tests: TableTests, output: Output, *, project: Path | None) -> str:
    """Return what ``render`` makes of the tests, with the typed options added to commands."""
    shown = printable_outcome(tests, output.typed_options.with_options)
    if project is None:
        outcomes = tuple(
            replace(outcome, origin=origin_in_repository(outcome.origin)) for outcome in shown.outcomes
        )
        shown = replace(shown, outcomes=outcomes)
    return render(shown, prefix="" if project is None else path_in_repository(project)).rstrip("\n") + "\n"
