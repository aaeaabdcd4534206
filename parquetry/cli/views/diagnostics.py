"""What validation found, for a terminal, for scripts and for GitHub."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.project import LoadResult
from parquetry.project.diagnostics.github import workflow_command
from parquetry.project.diagnostics.model import errors, render_json, render_text

_PARTS = 3


class DiagnosticsView:
    """The findings in order of file and line, then a count."""

    def text(self, outcome: LoadResult, paint: Paint) -> str:
        """Findings with their snippets, or one line when there is none."""
        found = render_text(outcome.diagnostics, files=outcome.files).rstrip("\n")
        if errors(outcome.diagnostics):
            return found
        tables = count(len(outcome.tables), "table")
        valid = paint.good("valid") + f": {tables} in {count(outcome.files, 'file')}"
        return f"{found}\n{valid}" if found else valid

    def json(self, outcome: LoadResult) -> Any:
        """The same as plain values."""
        return render_json(outcome.diagnostics, files=outcome.files)


def path_in_repository(directory: Path) -> str:
    """The way from the checkout of a GitHub workflow, else from the current directory, to a project.

    Empty for the directory itself, and for a project elsewhere.
    """
    checkout = _checkout()
    project = directory.resolve()
    inside = project.is_relative_to(checkout) and project != checkout
    return project.relative_to(checkout).as_posix() if inside else ""


def origin_in_repository(origin: str | None) -> str | None:
    """A place in a file as it was typed, by its way from the checkout; None for a file elsewhere."""
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
    """A workflow command at a place in the project, to which ``prefix`` leads from the repository."""
    return workflow_command(kind, {**place_of(origin, prefix=prefix), "title": title}, message)


def place_of(origin: str | None, *, prefix: str) -> dict[str, str]:
    """``file:line:column`` by its parts, the file as the repository has it; empty for no place."""
    parts = [] if origin is None else origin.rsplit(":", 2)
    if len(parts) != _PARTS:
        return {}
    file, line, column = parts
    return {"file": f"{prefix}/{file}" if prefix else file, "line": line, "col": column}
