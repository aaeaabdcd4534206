"""`parquetry test`: the declared tests of tables."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.requests.emission import emits_metrics
from parquetry.cli.requests.options import ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output

_INPUT = click.Path(path_type=Path)
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(name="test")
@click.option("--table", "location", metavar="LOCATION", help="Test the Hudi table at this path or URI.")
@click.option("--tests", type=_INPUT, help="The tests of that table: a YAML file with tests, and queries.")
@click.option("--fail-fast", is_flag=True, help="Measure nothing after the first test that fails.")
@click.option("--full", is_flag=True, help="Read the rows of all files, also of those that passed before.")
@click.option("--no-spark", is_flag=True, help="Start no JVM: tests that have to read rows are not executed.")
@click.option(
    "--store-failures", is_flag=True, help="Keep up to 100 failing keys of each test in target/runs."
)
@click.option(
    "--history", is_flag=True, help="Show how the tests ended in earlier runs, and measure nothing."
)
@click.option("--junit", type=_FILE, help="Save the results as JUnit XML, for CI servers.")
@click.option("--sarif", type=_FILE, help="Save what did not pass as SARIF 2.1.0, for code scanning.")
@project_options
@output_options("text", "json", "github", "html")
@emits_metrics("location", "history")
def command(
    *,
    request: ProjectRequest,
    output: Output,
    location: str | None,
    tests: Path | None,
    fail_fast: bool,
    full: bool,
    no_spark: bool,
    store_failures: bool,
    history: bool,
    junit: Path | None,
    sarif: Path | None,
) -> int:
    """Measure the tables, and compare them with the limits of the declared tests.

    Writes nothing to any table. Reads the timeline, listings and recorded statistics, and starts
    Spark only if they leave a test of rows open: one scan answers all of these of a table, and
    reads only files that have changed since the test passed. A test ends as passed, warned,
    failed, unmeasured or not executed; the command ends with 1 if one failed or could not be
    measured. Selectors may also be test:NAME. With --table and --tests, the table needs no
    project, and its own record says what its sizes and policies are.
    """
    from parquetry.cli.requests.saving import save
    from parquetry.cli.requests.testing import TestSettings, history_for_page, past_results, run_tests
    from parquetry.cli.views.pages.printing import show_results
    from parquetry.cli.views.tests.printing import documents, show_history

    if history:
        measuring = {
            "--table": location,
            "--tests": tests,
            "--fail-fast": fail_fast,
            "--full": full,
            "--no-spark": no_spark,
            "--store-failures": store_failures,
            "--junit": junit,
            "--sarif": sarif,
        }
        show_history(past_results(request, measuring), output)
        return 0
    settings = TestSettings(
        fail_fast=fail_fast, full=full, reads_rows=not no_spark, stores_failures=store_failures
    )
    result = run_tests(request, location, tests, settings, output)
    base, files = None if location else request.directory, {"--junit": junit, "--sarif": sarif}
    for option, file, text in documents(result, output, files=files, project=base):
        save(file, text, option=option, project=request.directory)
    history_of_tests = history_for_page(result, output, project=base)
    show_results(result, output, project=base, history=history_of_tests)
    return output.ended(result.failure)
