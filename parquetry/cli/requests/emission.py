"""The metrics that a command emits at its end, as the target declares."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from parquetry.cli.requests.options import ProjectRequest
from parquetry.cli.requests.workspaces import is_location, whole_workspace
from parquetry.cli.terminal.output import Output
from parquetry.errors import ParquetryError
from parquetry.message import Message, Text

if TYPE_CHECKING:
    from parquetry.project.model.resolved import MetricsSettings


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
    """Write the metrics of all tables to the places that the target declares, if it declares any.

    A failure is a warning: what the command did is done.
    """
    try:
        settings = whole_workspace(request).project.target.metrics
    except ParquetryError:
        return  # the command has failed for this reason
    if settings is None:
        return
    try:
        _emit(request, settings)
    except (ParquetryError, click.ClickException, OSError, ValueError) as error:
        reason: Text = error.message if isinstance(error, ParquetryError) else _reason(error)
        output.warn(Message("the metrics were not emitted: {reason}", reason=reason))


def _emit(request: ProjectRequest, settings: MetricsSettings) -> None:
    from parquetry.cli.requests.lake import lake_of
    from parquetry.cli.requests.saving import save
    from parquetry.cli.views.operating.metrics import MetricsView, open_metrics_library
    from parquetry.compiler.reports.metrics import measured

    lake = lake_of(replace(request, select=(), exclude=()), ())
    metrics = measured(lake)
    if settings.file is not None:
        text = MetricsView().document(metrics, "text")
        save(Path(settings.file), text, option="metrics.file", project=request.directory, at_once=True)
    if settings.push_gateway is not None:
        push = open_metrics_library().push
        push(metrics, settings.push_gateway, project=lake.project, target=lake.target)


def _reason(error: Exception) -> str:
    return error.format_message() if isinstance(error, click.ClickException) else str(error)
