"""`parquetry runs`: the past runs of a project."""

from __future__ import annotations

import click

from parquetry.cli.requests.options import ProjectRequest, directory_options, output_options
from parquetry.cli.terminal.output import Output


@click.command(name="runs")
@click.argument("run_id", metavar="[ID]", required=False)
@click.option(
    "-n",
    "most",
    type=click.IntRange(1, 100),
    default=20,
    show_default=True,
    help="Maximum number of runs.",
)
@directory_options
@output_options("text", "json")
def command(*, request: ProjectRequest, output: Output, run_id: str | None, most: int) -> int:
    """List the newest runs of the project in this folder, or show the jobs and failures of the run ID.

    A run that was killed is unfinished: it recorded no end. The newest 100 runs are kept, in
    target/runs.
    """
    from parquetry.cli.views.operating.run import PastRunView, RunsView
    from parquetry.compiler.jobs.past_runs import past_run, past_runs

    if run_id is None:
        output.show(RunsView(), past_runs(request.directory, most=most))
    else:
        output.show(PastRunView(), past_run(request.directory, run_id))
    return 0
