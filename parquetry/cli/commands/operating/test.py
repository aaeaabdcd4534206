"""`parquetry test`: the declared tests of tables."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.requests.options import ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(name="test")
@click.option("--fail-fast", is_flag=True, help="Measure nothing after the first test that fails.")
@click.option(
    "--history", is_flag=True, help="Show how the tests ended in earlier runs, and measure nothing."
)
@click.option("--junit", type=_FILE, help="Save the results as JUnit XML, for servers of CI.")
@click.option("--sarif", type=_FILE, help="Save what did not pass as SARIF 2.1.0, for code scanning.")
@project_options
@output_options("text", "json", "github")
def command(
    *,
    request: ProjectRequest,
    output: Output,
    fail_fast: bool,
    history: bool,
    junit: Path | None,
    sarif: Path | None,
) -> int:
    """Measure the layout of the tables, and compare it with the limits of the declared tests.

    Starts no JVM and writes nothing to any table. Reads the timeline, listings and recorded
    statistics. A test ends as passed, warned, failed, unmeasured or not executed; the command
    ends with 1 if one failed or could not be measured. Tests of rows (not_null, unique,
    expression) are not executed. Selectors may also be test:NAME.
    """
    from parquetry.cli.requests.saving import save
    from parquetry.cli.requests.workspaces import whole_workspace
    from parquetry.cli.views.tests.shapes import documents, show_history, show_tests
    from parquetry.compiler.jobs.launch import new_run_id
    from parquetry.compiler.testing.execution import execute_tests_of
    from parquetry.compiler.testing.history import history_of
    from parquetry.compiler.testing.selecting import selected_tests

    workspace = whole_workspace(request)
    chosen = selected_tests(workspace, select=request.select, exclude=request.exclude)
    if history:
        show_history(history_of(workspace, chosen), output)
        return 0
    result = execute_tests_of(workspace, chosen, run_id=new_run_id(), fail_fast=fail_fast)
    files = {"--junit": junit, "--sarif": sarif}
    for option, file, text in documents(result, output, files=files, project=request.directory):
        save(file, text, option=option, project=request.directory)
    show_tests(result, output, project=request.directory)
    return output.ended(result.failure)
