"""Which tests a command is about: those of a project, or of a file for one table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from parquetry.cli.requests.options import ProjectRequest, refuse_selection
from parquetry.cli.requests.workspaces import is_location, table_named, whole_workspace

if TYPE_CHECKING:
    from parquetry.compiler.testing.history import TestHistory
    from parquetry.compiler.testing.model import TableTests


def tests_asked_for(
    request: ProjectRequest, location: str | None, tests: Path | None, *, fail_fast: bool
) -> TableTests:
    """What the chosen tests came to; those of a project are left in its `target/runs`.

    click.UsageError where a table without a project has no file of tests, and where there is a file for none.
    """
    from parquetry.compiler.jobs.launch import new_run_id
    from parquetry.compiler.testing.execution import execute_tests, execute_tests_of, tests_in_file
    from parquetry.compiler.testing.selecting import selected_tests

    if (location is None) != (tests is None):
        raise click.UsageError("--table LOCATION and --tests FILE belong together: give both, or neither")
    if location is not None and tests is not None:
        refuse_selection("--table names the table")
        if not is_location(location):
            raise click.UsageError(f"--table takes a path or URI: {location!r} is a name; use --select")
        table = tests_in_file(location, table_named(request, location).store, tests)
        return execute_tests([table], run_id=None, target=None, fail_fast=fail_fast)
    workspace = whole_workspace(request)
    chosen = selected_tests(workspace, select=request.select, exclude=request.exclude)
    return execute_tests_of(workspace, chosen, run_id=new_run_id(), fail_fast=fail_fast)


def past_tests(request: ProjectRequest, given: Mapping[str, object]) -> TestHistory:
    """How the chosen tests of a project ended in earlier runs.

    click.UsageError where one of the ``given`` options, which are about measuring, has a value.
    """
    from parquetry.compiler.testing.history import history_of
    from parquetry.compiler.testing.selecting import selected_tests

    unused = [option for option, value in given.items() if value]
    if unused:
        raise click.UsageError(f"--history measures nothing in any table: leave out {', '.join(unused)}")
    workspace = whole_workspace(request)
    return history_of(workspace, selected_tests(workspace, select=request.select, exclude=request.exclude))
