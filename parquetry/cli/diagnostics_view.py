"""What validation found, for a terminal, for scripts and for GitHub."""

from __future__ import annotations

from typing import Any

from parquetry.cli.output import Paint
from parquetry.cli.views import count
from parquetry.project import LoadResult
from parquetry.project.diagnostics import errors, render_github, render_json, render_text


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


class GithubView(DiagnosticsView):
    """Annotations for a pull request."""

    def text(self, outcome: LoadResult, paint: Paint) -> str:  # noqa: ARG002  # annotations have no colour
        """One workflow command per finding."""
        return render_github(outcome.diagnostics).rstrip("\n")
