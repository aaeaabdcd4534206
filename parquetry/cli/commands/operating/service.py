"""`parquetry service`: one table service by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from parquetry.cli.command_group import CommandGroup
from parquetry.cli.requests import completion, services
from parquetry.cli.requests.emission import emits_metrics
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.requests.progress import progress_of
from parquetry.cli.requests.prompt import check_answerable, confirm
from parquetry.cli.terminal.output import Output

if TYPE_CHECKING:
    from parquetry.runtime.services.deletions import Deletions
    from parquetry.runtime.table.handle import TableHandle

_APPLIED = click.option(
    "--applied", is_flag=True, help="Use the applied spec, even if the declared one differs."
)


_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Show which files would be deleted and why, and write nothing; -v: all."
)


@click.group(name="service", cls=CommandGroup)
def command() -> None:
    """Do one table service by hand. TABLE is a name in the project, or a path or URI."""


@command.command("clean")
@click.argument("table", shell_complete=completion.tables)
@_DRY_RUN
@_APPLIED
@table_options
@output_options("text", "json")
@emits_metrics("dry_run")
def clean_table(*, request: ProjectRequest, output: Output, table: str, dry_run: bool, applied: bool) -> int:
    """Delete file versions that no retention rule keeps, and files that no commit names."""
    from parquetry.runtime.services.clean import clean
    from parquetry.runtime.services.deletions import clean_deletions

    if dry_run:
        return _report_deletions(
            output, services.open_in_force(request, table, applied=applied), clean_deletions
        )
    with progress_of(output, f"{table} clean"):
        result = clean(services.open_in_force(request, table, applied=applied))
    return _report(output, result)


@command.command("archive")
@click.argument("table", shell_complete=completion.tables)
@_DRY_RUN
@_APPLIED
@table_options
@output_options("text", "json")
@emits_metrics("dry_run")
def archive_table(
    *, request: ProjectRequest, output: Output, table: str, dry_run: bool, applied: bool
) -> int:
    """Move old instants from the active timeline into the archive log."""
    from parquetry.runtime.services.archive import archive
    from parquetry.runtime.services.deletions import archive_deletions

    if dry_run:
        return _report_deletions(
            output, services.open_in_force(request, table, applied=applied), archive_deletions
        )
    with progress_of(output, f"{table} archive"):
        result = archive(services.open_in_force(request, table, applied=applied))
    return _report(output, result)


@command.command("rollback")
@click.argument("table", shell_complete=completion.tables)
@click.argument("instant")
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
@table_options
@output_options("text", "json")
@emits_metrics()
def roll_back(
    *, request: ProjectRequest, output: Output, table: str, instant: str, auto_approve: bool
) -> int:
    """Undo the write INSTANT: a pending one, or the newest completed one."""
    from parquetry.runtime.services.rollback import rollback

    handle = services.open_in_force(request, table, applied=True)
    confirm(f"Undo the write {instant} of {handle.name}?", auto_approve=auto_approve)
    with progress_of(output, f"{table} rollback"):
        result = rollback(handle, instant)
    return _report_rollback(request, output, table, result)


@command.command("savepoint")
@click.argument("table", shell_complete=completion.tables)
@click.argument("instant", required=False)
@click.option("--comment", default="", help="Reason; stored with the savepoint.")
@click.option("--delete", is_flag=True, help="Delete the savepoint of INSTANT.")
@table_options
@output_options("text", "json")
@emits_metrics()
def savepoint(
    *, request: ProjectRequest, output: Output, table: str, instant: str | None, comment: str, delete: bool
) -> int:
    """Protect the files of INSTANT from cleaning; by default of the newest write before unfinished ones."""
    from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint

    handle = services.open_in_force(request, table, applied=True)
    if not delete:
        return _report(output, create_savepoint(handle, instant, comment=comment))
    if instant is None:
        raise click.UsageError("--delete needs the INSTANT of the savepoint")
    delete_savepoint(handle, instant)
    return _report(output, {"deleted": instant})


@command.command("restore")
@click.argument("table", shell_complete=completion.tables)
@click.argument("savepoint")
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
@table_options
@output_options("text", "json")
@emits_metrics()
def restore_table(
    *, request: ProjectRequest, output: Output, table: str, savepoint: str, auto_approve: bool
) -> int:
    """Undo every write after SAVEPOINT; their rows are lost for good.

    SAVEPOINT is the instant of a write that `service savepoint` protects. It stays, and so does the applied
    spec. The next run ingests again what the undone writes had ingested; the answer names the sources and
    the commands that prevent it.
    """
    from parquetry.runtime.services.restore import restore

    handle = services.open_in_force(request, table, applied=True)
    question = f"Roll back every write of {handle.name} after {savepoint}?"
    confirm(question, auto_approve=auto_approve)
    with progress_of(output, f"{table} restore"):
        result = restore(handle, savepoint)
    return _report_rollback(request, output, table, result)


@command.command("purge")
@click.argument("table", shell_complete=completion.tables)
@click.option("--where", help="SQL condition for the rows.")
@click.option(
    "--keys", type=click.Path(path_type=Path), help="CSV or Parquet file with the columns of the record key."
)
@click.option("--plan-only", is_flag=True, help="Show the affected rows and files, and write nothing.")
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
@table_options
@output_options("text", "json")
@emits_metrics("plan_only")
def purge_table(
    *,
    request: ProjectRequest,
    output: Output,
    table: str,
    where: str | None,
    keys: Path | None,
    plan_only: bool,
    auto_approve: bool,
) -> int:
    """Remove rows for good, and prove that no file of TABLE holds their keys and personal values.

    Deletes the rows, cleans old versions of their files whatever the retention, removes key ranges from the
    timeline and the archive and old statistics, and checks every file. Exit code 1 if one holds a value.
    """
    from parquetry.cli.views.operating.purge import PurgeView, SurveyView

    if (where is None) == (keys is None):
        raise click.UsageError("give either --where or --keys")
    check_answerable(auto_approve=auto_approve or plan_only)
    with progress_of(output, f"{table} survey"):
        purge = services.survey_purge(request, table, where=where, keys=keys)
    if plan_only:
        output.show(SurveyView(), purge.survey)
        return 0
    confirm(f"{SurveyView().line(purge.survey)} Purge them for good?", auto_approve=auto_approve)
    with progress_of(output, f"{table} purge"):
        report = purge.execute()
    output.show(PurgeView(), report)
    return 0 if report.is_proven else 1


@command.command("cluster")
@click.argument("table", shell_complete=completion.tables)
@click.option(
    "--plan-only", is_flag=True, help="Show what would be rewritten and write nothing; -v: every file."
)
@click.option("--schedule", is_flag=True, help="Write the plan to the timeline; --instant executes it.")
@click.option("--instant", help="Execute the pending plan of that instant, also one that Hudi has scheduled.")
@_APPLIED
@table_options
@output_options("text", "json")
@emits_metrics("plan_only")
def cluster_table(
    *,
    request: ProjectRequest,
    output: Output,
    table: str,
    plan_only: bool,
    schedule: bool,
    instant: str | None,
    applied: bool,
) -> int:
    """Rewrite small, oversize and unsorted files by the applied clustering policy.

    Rows keep their commit times. Writers continue and always win: if one of them changes a group of
    files, the command leaves the group as it is, and the group is due again.
    """
    from parquetry.cli.views.clustering import ClusteringView, DueClusteringView, ScheduledView
    from parquetry.runtime.clustering.plan.due import forecast_due

    if plan_only + schedule + (instant is not None) > 1:
        raise click.UsageError("--plan-only, --schedule and --instant exclude each other")
    if schedule:
        handle = services.open_in_force(request, table, applied=applied)
        planned = services.schedule_groups(request, table, handle)
        output.show(ScheduledView(verbose=output.verbose), handle.cleared(planned))
    elif plan_only:
        handle = services.open_named(request, table, applied=True)
        forecast = forecast_due(handle, services.due_groups(request, table, handle))
        output.show(DueClusteringView(verbose=output.verbose), handle.cleared(forecast))
    else:
        with progress_of(output, f"{table} cluster"):
            result = services.run_clustering(request, table, instant=instant, applied=applied)
        if result.left_out or result.warnings:
            result = services.open_named(request, table, applied=True).cleared(result)
        output.show(ClusteringView(), result)
    return 0


def _report_rollback(request: ProjectRequest, output: Output, table: str, result: object) -> int:
    from parquetry.cli.views.operating.services import RollbackView

    output.show(RollbackView(table=table, typed_options=request.typed_options), result)
    return 0


def _report_deletions(
    output: Output, handle: TableHandle, predict: Callable[[TableHandle], Deletions]
) -> int:
    """Show the files that a service would delete, and return the exit code 0."""
    from parquetry.cli.views.deletions import DeletionsView

    output.show(DeletionsView(verbose=output.verbose), handle.cleared(predict(handle)))
    return 0


def _report(output: Output, result: object) -> int:
    """Show the result of a service, and return the exit code 0."""
    from parquetry.cli.views.operating.services import ServiceView

    output.show(ServiceView(), result)
    return 0
