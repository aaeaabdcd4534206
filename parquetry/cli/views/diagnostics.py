"""Diagnostics of a project, for a terminal, for scripts and for GitHub."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.project import LoadResult
from parquetry.project.diagnostics.model import errors, render_json, render_text, workflow_command

_PARTS = 3


class DiagnosticsView:
    """The diagnostics in the order of files and lines, then a count."""

    def text(self, outcome: LoadResult, paint: Paint) -> str:
        """Return the diagnostics with their source lines, or one line if there are none."""
        found = render_text(outcome.diagnostics, files=outcome.files).rstrip("\n")
        if errors(outcome.diagnostics):
            return found
        tables = count(len(outcome.tables), "table")
        valid = paint.good("valid") + f": {tables} in {count(outcome.files, 'file')}"
        return f"{found}\n{valid}" if found else valid

    def json(self, outcome: LoadResult) -> Any:
        """Return the diagnostics as plain values."""
        return render_json(outcome.diagnostics, files=outcome.files)


def path_in_repository(directory: Path) -> str:
    """Return the path of a project from the checkout of a GitHub workflow, else from the current directory.

    It is empty for that directory itself, and for a project outside of it.
    """
    checkout = _checkout()
    project = directory.resolve()
    inside = project.is_relative_to(checkout) and project != checkout
    return project.relative_to(checkout).as_posix() if inside else ""


def origin_in_repository(origin: str | None) -> str | None:
    """Return ``file:line:column`` with the path from the checkout; None for a file outside of it."""
    parts = [] if origin is None else origin.rsplit(":", 2)
    if len(parts) != _PARTS:
        return None
    checkout, file = _checkout(), Path(parts[0]).resolve()
    if not file.is_relative_to(checkout):
        return None
    return ":".join((file.relative_to(checkout).as_posix(), *parts[1:]))


def _checkout() -> Path:
    return Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()


def annotation(kind: str, origin: str | None, title: str, message: str, *, prefix: str = "") -> str:
    """Return a workflow command of GitHub that shows a message at a line of a file.

    Args:
        kind: ``error``, ``warning`` or ``notice``.
        origin: ``file:line:column`` with a path in the project, or None.
        title: The title of the annotation.
        message: The text of the annotation.
        prefix: The project's path in the repository.

    """
    return workflow_command(kind, {**annotation_position(origin, prefix=prefix), "title": title}, message)


def annotation_position(origin: str | None, *, prefix: str) -> dict[str, str]:
    """Return ``file:line:column`` as separate values, with the path in the repository; empty for None."""
    parts = [] if origin is None else origin.rsplit(":", 2)
    if len(parts) != _PARTS:
        return {}
    file, line, column = parts
    return {"file": f"{prefix}/{file}" if prefix else file, "line": line, "col": column}
