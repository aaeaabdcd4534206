"""The tests that a command executes: those of a project, or those in a file for one table."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from parquetry.cli.requests.options import ProjectRequest, refuse_selection
from parquetry.cli.requests.workspaces import is_location, table_named, whole_workspace

if TYPE_CHECKING:
    from parquetry.cli.terminal.output import Output
    from parquetry.compiler.jobs.launch import Launch
    from parquetry.compiler.testing.execution import RowExecution
    from parquetry.compiler.testing.history import TestHistory
    from parquetry.compiler.testing.model import TableTests
    from parquetry.runtime.spec.job import JobPlan
    from parquetry.runtime.spec.row_tests import FailingKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSettings:
    """The settings of an execution of tests. With ``full``, files that passed before are read too."""

    fail_fast: bool = False
    full: bool = False
    reads_rows: bool = True
    stores_failures: bool = False


def run_tests(
    request: ProjectRequest, location: str | None, tests: Path | None, settings: TestSettings, output: Output
) -> TableTests:
    """Execute the chosen tests and return their results; a project's are also saved in its `target/runs`.

    Args:
        request: The project and its selectors.
        location: The path or URI of a table without a project, or None.
        tests: The file with the tests of that table, or None.
        settings: The settings of the execution.
        output: Shows the progress.

    Raises:
        click.UsageError: Only one of ``location`` and ``tests`` is given, or the options exclude each other.

    """
    from parquetry.cli.requests.progress import one_by_one
    from parquetry.compiler.jobs.launch import in_process, launcher_for, new_run_id
    from parquetry.compiler.testing.execution import execute_tests, execute_tests_of
    from parquetry.compiler.testing.passes import save_keys
    from parquetry.compiler.testing.tables import selected_tests, tests_in_file
    from parquetry.runtime.spark_log import NAME

    if (location is None) != (tests is None):
        raise click.UsageError("--table LOCATION and --tests FILE belong together: give both, or neither")
    if location is not None and tests is not None:
        refuse_selection("--table names the table")
        if not is_location(location):
            raise click.UsageError(f"--table takes a path or URI: {location!r} is a name; use --select")
        if settings.stores_failures:
            raise click.UsageError(
                "--store-failures keeps keys in a project's target/runs: leave out --table"
            )
        table = tests_in_file(location, tests, store=lambda table: table_named(request, table).store)

        def prepare(jobs: tuple[JobPlan, ...]) -> Launch:
            folder = Path(tempfile.mkdtemp(prefix="parquetry-"))
            return in_process(jobs, log=folder / NAME, root=folder)

        launch = one_by_one(prepare, output)
        return execute_tests(
            [table],
            run_id=None,
            target=None,
            fail_fast=settings.fail_fast,
            rows=_row_execution(settings, launch),
        )
    workspace, run_id = whole_workspace(request), new_run_id()
    chosen = selected_tests(workspace, select=request.select, exclude=request.exclude)

    def launcher(jobs: tuple[JobPlan, ...]) -> Launch:
        return launcher_for(workspace, run_id)(jobs)

    launch = one_by_one(launcher, output)
    rows = _row_execution(settings, launch, save=partial(save_keys, workspace.project.root, run_id))
    return execute_tests_of(workspace, chosen, run_id=run_id, fail_fast=settings.fail_fast, rows=rows)


def _row_execution(
    settings: TestSettings, launch: Launch, save: Callable[[str, str, FailingKeys], str | None] | None = None
) -> RowExecution | None:
    """Return how tests read rows, or None if they must not."""
    from parquetry.cli.failures import diagnosed
    from parquetry.compiler.testing.execution import RowExecution
    from parquetry.compiler.testing.passes import MOST_KEYS

    if not settings.reads_rows:
        return None
    return RowExecution(
        launch=launch,
        diagnose=diagnosed,
        full=settings.full,
        keeps=MOST_KEYS if settings.stores_failures else 0,
        save=save,
    )


def history_for_page(tests: TableTests | None, output: Output, *, project: Path | None) -> TestHistory | None:
    """Return the results of these tests in earlier runs, if the output is a page.

    None for other formats, for a table without a project, or if a link is in the way of the results.
    """
    if output.format != "html" or project is None or tests is None or tests.target is None:
        return None
    from parquetry.compiler.testing.history import history_in
    from parquetry.confined_folder import LinkInTheWayError

    names = [(outcome.table, outcome.test) for outcome in tests.outcomes]
    try:
        return history_in(project.resolve(), tests.target, names)
    except LinkInTheWayError:
        return None


def past_results(request: ProjectRequest, measuring: Mapping[str, object]) -> TestHistory:
    """Return the results of the chosen tests of a project in earlier runs.

    Args:
        request: The project and its selectors.
        measuring: The values of the options that only apply when tests are executed, by option.

    Raises:
        click.UsageError: One of these options has a value.

    """
    from parquetry.compiler.testing.history import history_of
    from parquetry.compiler.testing.tables import selected_tests

    unused = [option for option, value in measuring.items() if value]
    if unused:
        raise click.UsageError(f"--history measures nothing in any table: leave out {', '.join(unused)}")
    workspace = whole_workspace(request)
    return history_of(workspace, selected_tests(workspace, select=request.select, exclude=request.exclude))
