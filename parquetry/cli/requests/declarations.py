"""Declarations for commands that read only files: no environment variable, and mostly no table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from parquetry.cli.requests.options import ProjectRequest
from parquetry.cli.views.ls import Listing

if TYPE_CHECKING:
    from parquetry.project import LoadResult, ResolvedProject, ResolvedTable


def offline_project(request: ProjectRequest) -> ResolvedProject:
    """Return the project, resolved without environment variables.

    Raises:
        SpecError: The project is invalid.

    """
    result = _loaded(request)
    if result.project is None:
        from parquetry.compiler.errors import SpecError

        raise SpecError(result.diagnostics, files=result.files)
    return result.project


def declared_tables(request: ProjectRequest) -> Listing:
    """Return the selected tables; only a `state:` selector reads environment variables and tables."""
    if any("state:" in selector for selector in (*request.select, *request.exclude)):
        from parquetry.cli.requests.workspaces import workspace_of

        workspace = workspace_of(request)
        return Listing(project=workspace.project, tables=workspace.tables)
    project = offline_project(request)
    return Listing(project=project, tables=_selected(request, project.tables))


def validated(request: ProjectRequest) -> LoadResult:
    """Return the result of loading the project file, the policies, and the files of the selected tables.

    A file that could not be parsed counts as selected, as it may declare any table.
    """
    from parquetry.project import SelectionError
    from parquetry.project.yaml.folder import TABLES

    result = _loaded(request)
    if not request.select and not request.exclude:
        return result
    try:
        chosen = _selected(request, result.tables)
    except SelectionError:
        if not result.unresolved:
            raise
        return result
    kept = {table.file for table in chosen} | {*result.unresolved}
    found = tuple(
        one for one in result.diagnostics if one.file in kept or not one.file.startswith(f"{TABLES}/")
    )
    project = replace(result.project, tables=chosen) if result.project else None
    return replace(result, project=project, diagnostics=found, tables=chosen)


def _loaded(request: ProjectRequest) -> LoadResult:
    """Load the project without environment variables."""
    from parquetry import project

    return project.load(request.directory, target=request.target, variables=request.variables)


def _selected(request: ProjectRequest, tables: tuple[ResolvedTable, ...]) -> tuple[ResolvedTable, ...]:
    """Return the tables that the selectors choose; ``state:`` is refused because it reads tables."""
    from parquetry.compiler.workspace.selecting import changed_since, unknown_state
    from parquetry.project import select

    since = changed_since(request.directory, target=request.target, variables=request.variables)
    return select(
        tables,
        select=request.select,
        exclude=request.exclude,
        methods={"state": unknown_state, "git": since},
        root=request.directory,
    )
