"""`parquetry run`: ingest, then the services that are due."""

from __future__ import annotations

import click

from parquetry.cli.requests.emission import emits_metrics
from parquetry.cli.requests.options import ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output
from parquetry.message import Message


@click.command(name="run")
@click.option("--only", type=click.Choice(("ingest", "services")), help="Do only this part.")
@click.option("--services", "only", flag_value="services", help="Short for --only services.")
@click.option("--applied", is_flag=True, help="Use the applied spec, even if the declared one differs.")
@project_options
@output_options("text", "json", "html")
@emits_metrics()
def command(*, request: ProjectRequest, output: Output, only: str | None, applied: bool) -> int:
    """Ingest the declared sources, then cluster, clean and archive what is due.

    Uses the applied records. If the applied spec of a table differs from the declared one, the
    command skips the table (SC506), unless --applied tells it to use the record. Each file of a
    source is ingested exactly once, unless the source has `read: full`. The
    entries of tables in catalogs follow. With `tests: {after_run: true}` the command then executes
    the tests of these tables, and fails if one of them fails.
    With `operations` in the target, services run within its window and budget.
    """
    from parquetry.cli.failures import diagnosed
    from parquetry.cli.requests.progress import JobProgress
    from parquetry.cli.requests.testing import history_for_page
    from parquetry.cli.requests.workspaces import workspace_of
    from parquetry.cli.views.pages.printing import show_run
    from parquetry.compiler.jobs.launch import launcher_for, new_run_id
    from parquetry.compiler.jobs.run import run_tables
    from parquetry.compiler.jobs.table_jobs import Only
    from parquetry.message import command as named

    workspace, run_id = workspace_of(request), new_run_id()
    with JobProgress(output) as progress:
        result = run_tables(
            workspace,
            only=Only(only) if only else None,
            run_id=run_id,
            prepare=launcher_for(workspace, run_id),
            observer=progress,
            diagnose=diagnosed,
            applied=applied,
        )
    if result.unapplied:
        output.note(
            Message(
                "used as declared, not applied yet: {settings}; {command} records it",
                settings="; ".join(result.unapplied),
                command=named("apply"),
            )
        )
    history = history_for_page(result.tests, output, project=workspace.project.root)
    show_run(result, output, target=workspace.project.target.name, history=history)
    for outcome in result.reasons:
        name = f"{outcome.table} {outcome.name}"
        error = "" if outcome.error is None else outcome.error.message
        output.error(
            Message("{job}: {reason}", job=name, reason=error), table=outcome.table, job=outcome.name
        )
    return output.ended_with(result.failures)
