"""The tables of a project that a command measures, each with its last run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parquetry.cli.requests.options import ProjectRequest, refuse_selection
from parquetry.cli.requests.workspaces import workspace_of
from parquetry.message import joined

if TYPE_CHECKING:
    from parquetry.compiler.reports.lake import Lake
    from parquetry.compiler.workspace.opened import Workspace
    from parquetry.errors import ParquetryError


def lake_of(request: ProjectRequest, tables: tuple[str, ...]) -> Lake:
    """Return the condition of the named tables or, without names, of the selected ones.

    Raises:
        UnknownTableError: The project has no table of such a name.
        click.UsageError: Tables are both named and selected.

    """
    if tables:
        refuse_selection("TABLE names the tables")
        request = replace(request, select=(), exclude=())
    workspace = workspace_of(request)
    if tables:
        chosen = tuple(workspace.table(name) for name in dict.fromkeys(tables))
        workspace = replace(workspace, tables=chosen)
    return lake_of_workspace(workspace)


def lake_of_workspace(workspace: Workspace) -> Lake:
    """Return the condition of the tables of a workspace."""
    from parquetry.compiler.jobs.past_runs import last_runs
    from parquetry.compiler.reports.lake import read_lake

    project, names = workspace.project, [table.name for table in workspace.tables]
    return read_lake(workspace, last_runs=last_runs(project.root, target=project.target.name, tables=names))


def unread_error(lake: Lake) -> ParquetryError | None:
    """Return the error of a command that could not read some tables; None if they are only not applied."""
    from parquetry.compiler.reports.lake import Unreadable, UnreadableTablesError, UnreadTable

    messages = [
        table.message
        for table in lake.tables
        if isinstance(table, UnreadTable) and table.reason is not Unreadable.NOT_APPLIED
    ]
    if not messages:
        return None
    return UnreadableTablesError(
        "{unread} of {tables} tables cannot be read: {reasons}",
        unread=len(messages),
        tables=len(lake.tables),
        reasons=joined("; ", messages),
    )
