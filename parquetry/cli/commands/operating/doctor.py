"""`parquetry doctor`: checks of the machine and the project."""

from __future__ import annotations

from dataclasses import replace

import click

from parquetry.cli.requests import completion
from parquetry.cli.requests.options import ProjectRequest, output_options, project_options, refuse_selection
from parquetry.cli.requests.prompt import confirm
from parquetry.cli.terminal.output import Output


@click.command(name="doctor")
@click.argument("table", required=False, shell_complete=completion.tables)
@click.option("--accept-loss", is_flag=True, help="Give up the rows of TABLE's lost base files.")
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
@project_options
@output_options("text", "json")
def command(
    *, request: ProjectRequest, output: Output, table: str | None, accept_loss: bool, auto_approve: bool
) -> int:
    """Check Java, Spark, storage and versions, and show how to repair what does not work.

    In a project, the command writes a small file to the warehouse and removes it again, and checks
    for each table whether it may be written. It lists the packages of optional extras, installed or
    not. Exits with 1 if something, such as an invalid project, needs a repair.

    With --accept-loss and TABLE (a name in the project, or a path or URI), it lists the base files
    that are missing, or differ in size from their commits, with their rows, keys and commits. It
    asks, and then gives up these rows with a commit: the table can be read and written again,
    without them.
    """
    if accept_loss or table is not None:
        return _accept_loss(request, output, table if accept_loss else None, auto_approve=auto_approve)
    from parquetry.cli.requests.workspaces import workspace_of
    from parquetry.cli.views.operating.services import DoctorView
    from parquetry.compiler.errors import SpecError
    from parquetry.compiler.reports.doctor import check_machine, check_project, invalid_project

    checks = [*check_machine()]
    if (request.directory / "parquetry.yml").exists():
        try:
            checks += check_project(workspace_of(request))
        except SpecError as error:
            checks.append(invalid_project(error))
    output.show(DoctorView(), checks)
    return 0 if all(check.ok for check in checks) else 1


def _accept_loss(request: ProjectRequest, output: Output, table: str | None, *, auto_approve: bool) -> int:
    """Show the lost rows, ask, and commit their loss."""
    from parquetry.cli.requests.workspaces import table_in_force
    from parquetry.cli.views.operating.loss import Loss, LossView, loss_lines
    from parquetry.runtime.services.accepted_loss import accept_loss, lost_rows

    if table is None:
        raise click.UsageError(
            "--accept-loss and TABLE belong together; --select chooses the tables to check"
        )
    refuse_selection("TABLE names the table")
    named = table_in_force(request, table, applied=True)
    handle = named.open()
    found = lost_rows(handle)
    loss = Loss(table=table, lost=handle.cleared(found))
    if found:
        losses = "\n".join(loss_lines(loss))
        confirm(f"{losses}\nAccept the loss of these rows?", auto_approve=auto_approve)
        commit = accept_loss(handle, [one.file.path for one in found])
        loss = replace(loss, instant=commit.instant)
    output.show(LossView(), loss)
    return 0
