"""`parquetry unlock`: holders of locks, and the release of one."""

from __future__ import annotations

import click

from parquetry.cli.requests import completion
from parquetry.cli.requests.options import ProjectRequest, output_options, project_options, refuse_selection
from parquetry.cli.requests.prompt import confirm
from parquetry.cli.terminal.output import Output


@click.command(name="unlock")
@click.argument("table", required=False, shell_complete=completion.tables)
@click.option("--list", "only_list", is_flag=True, help="Only show who holds the locks; TABLE is optional.")
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
@project_options
@output_options("text", "json")
def command(
    *, request: ProjectRequest, output: Output, table: str | None, only_list: bool, auto_approve: bool
) -> int:
    """Show who holds the lock of TABLE and since when, ask, and release it.

    TABLE is a name in the project, or a path or URI. If a write of parquetry holds the lock, it is
    rolled back first. Release another program's lock only if that program is really dead: otherwise
    it would continue to write without a lock.
    """
    from parquetry.cli.requests.workspaces import table_named, workspace_of
    from parquetry.cli.views.operating.services import LocksView, ReleaseView
    from parquetry.compiler.reports.locks import held_lock, held_locks
    from parquetry.runtime.commit.table_lock import unlock

    if table is None:
        output.show(LocksView(typed_options=output.typed_options), held_locks(workspace_of(request)))
        return 0
    refuse_selection("TABLE names the table")
    named = table_named(request, table, must_exist=False)
    found = held_lock(named.store)
    if found is None or only_list:
        output.show(LocksView(typed_options=output.typed_options), () if found is None else (found,))
        return 0
    confirm(f"Release the lock of {found.table}, held by {found.holder}?", auto_approve=auto_approve)
    unlock(named.open())
    output.show(ReleaseView(), found)
    return 0
