"""The metrics that a command emits at its end, as the target declares."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from parquetry.cli.requests.options import ProjectRequest
from parquetry.cli.requests.workspaces import is_location, whole_workspace
from parquetry.cli.terminal.output import Output
from parquetry.errors import ParquetryError
from parquetry.message import Message, Text

if TYPE_CHECKING:
    from parquetry.compiler.workspace.opened import Workspace
    from parquetry.project import ResolvedTable
    from parquetry.project.model.resolved import MetricsSettings

_METRICS: Final = "metrics."
"""The beginning of the paths of the settings that say where metrics go."""


def emits_metrics(*unless: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a command emit the metrics of its target when it ends, also if it fails.

    ``unless`` are options with which the command changes or measures nothing of the project. A TABLE that is
    a location belongs to no project.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def wrapper(*, request: ProjectRequest, output: Output, **options: Any) -> Any:
            is_silent = any(map(options.get, unless)) or is_location(options.get("table") or "")
            try:
                code = command(request=request, output=output, **options)
            except ParquetryError:
                if not is_silent:
                    emit_metrics(request, output)
                raise
            if not is_silent:
                emit_metrics(request, output)
            return code

        return wrapper

    return decorate


def emit_metrics(request: ProjectRequest, output: Output) -> None:
    """Write the metrics of the request's project, as :func:`emit_metrics_of` does."""
    try:
        workspace = whole_workspace(request)
    except ParquetryError:
        return  # the command has failed for this reason
    emit_metrics_of(workspace, warn=output.warn)


def emit_metrics_of(workspace: Workspace, *, warn: Callable[[Message], None]) -> None:
    """Write the metrics of all tables to the places that the target declares, if it declares any.

    Places that the target does not allow, or that are not applied, get nothing. A failure is a warning: what
    the command did is done.
    """
    settings = workspace.project.target.metrics
    if settings is None:
        return
    workspace = replace(workspace, tables=workspace.project.tables, select=(), exclude=())
    try:
        _check_in_force(workspace)
        _emit(workspace, settings)
    except (ParquetryError, click.ClickException, OSError, ValueError) as error:
        reason: Text = error.message if isinstance(error, ParquetryError) else _reason(error)
        warn(Message("the metrics were not emitted: {reason}", reason=reason))


def _check_in_force(workspace: Workspace) -> None:
    """Raise UnappliedError if a place is not allowed, or not applied to a table that can be read."""
    from parquetry.compiler.plan.target_changes import check_allowed, check_in_force
    from parquetry.runtime.storage.parallel import map_each
    from parquetry.runtime.table.handle import open_table

    check_allowed(workspace, below=_METRICS)

    def check(table: ResolvedTable) -> None:
        try:
            handle = open_table(workspace.store(table), owner=workspace.owner, declared=table.spec)
        except ParquetryError:
            return  # the metrics say only that it cannot be read
        check_in_force(workspace, table, handle.applied, below=_METRICS)

    for _ in map_each(workspace.tables, check):
        pass


def _emit(workspace: Workspace, settings: MetricsSettings) -> None:
    from parquetry.cli.requests.lake import lake_of_workspace
    from parquetry.cli.requests.saving import save
    from parquetry.cli.views.operating.metrics import MetricsView, open_metrics_library
    from parquetry.compiler.reports.metrics import measured

    lake = lake_of_workspace(workspace)
    metrics = measured(lake)
    if settings.file is not None:
        text = MetricsView().document(metrics, "text")
        save(Path(settings.file), text, option="metrics.file", project=workspace.project.root, at_once=True)
    if settings.push_gateway is not None:
        push = open_metrics_library().push
        push(metrics, settings.push_gateway, project=lake.project, target=lake.target)


def _reason(error: Exception) -> str:
    return error.format_message() if isinstance(error, click.ClickException) else str(error)
