"""The shapes that tests are shown in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import click

from parquetry.cli.terminal.output import Output
from parquetry.cli.terminal.values import shown_values
from parquetry.cli.views.diagnostics import origin_in_repository, path_in_repository
from parquetry.cli.views.tests.github import render_github
from parquetry.cli.views.tests.history import HistoryView
from parquetry.cli.views.tests.text import TestsView
from parquetry.compiler.testing.history import TestHistory
from parquetry.compiler.testing.model import TableTests


def show_tests(tests: TableTests, output: Output, *, project: Path | None) -> None:
    """Write them to stdout in the format that was asked for; ``project`` is its folder, None without one."""
    if output.format == "github":
        click.echo(_document(render_github, tests, output, project=project), nl=False)
    else:
        output.show(TestsView(), tests)


def show_history(history: TestHistory, output: Output) -> None:
    """Write it to stdout; UsageError in formats that show what was measured now."""
    if output.format in ("github", "html"):
        raise click.UsageError(f"--history has no --format {output.format}: use text or json")
    output.show(HistoryView(), history)


def documents(
    tests: TableTests, output: Output, *, files: Mapping[str, Path | None], project: Path | None
) -> Iterator[tuple[str, Path, str]]:
    """For each option that names a file, the option, the file, and what belongs into it."""
    for option, file in files.items():
        if file is not None:
            render = import_module(f"parquetry.cli.views.tests.{option.lstrip('-')}").render
            yield option, file, _document(render, tests, output, project=project)


def _document(render: Callable[..., str], tests: TableTests, output: Output, *, project: Path | None) -> str:
    """What ``render`` makes of the tests, with commands in reasons as they were typed."""
    shown = shown_values(tests, output.typed_options.with_options)
    if project is None:
        outcomes = tuple(
            replace(outcome, origin=origin_in_repository(outcome.origin)) for outcome in shown.outcomes
        )
        shown = replace(shown, outcomes=outcomes)
    return render(shown, prefix="" if project is None else path_in_repository(project)).rstrip("\n") + "\n"
