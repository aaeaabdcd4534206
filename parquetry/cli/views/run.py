"""What a run did."""

from __future__ import annotations

from typing import Any

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.clustering import clustering_line
from parquetry.cli.views.tests.text import TestsView
from parquetry.compiler.jobs.run import JobOutcome, RunResult, to_json
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.main import JobResult


class RunView:
    """One line per job; why jobs failed is told on stderr, and in the JSON."""

    def text(self, outcome: RunResult, paint: Paint) -> str:
        """Rows, files and instants."""
        if not outcome.outcomes:
            return "Nothing to run: no table is selected."
        width = max(len(f"{o.table} {o.name}") for o in outcome.outcomes)
        lines = "\n".join(_line(o, width, paint) for o in outcome.outcomes)
        if outcome.tests is None or not outcome.tests.outcomes:
            return lines
        return f"{lines}\n\n{TestsView().text(outcome.tests, paint)}"

    def json(self, outcome: RunResult) -> Any:
        """The run's id, one entry per job, and the tests if they were executed."""
        return to_json(outcome)


def _line(outcome: JobOutcome, width: int, paint: Paint) -> str:
    head = f"{outcome.table} {outcome.name}".ljust(width)
    if outcome.result is None:
        return f"{head}  {paint.bad('failed')}"
    warnings = "".join(f"; {paint.warn('warning')}: {warning}" for warning in outcome.result.warnings)
    return f"{head}  {done_text(outcome.result)}{warnings}"


def _rows(commit: CommitResult) -> str:
    late = f", {commit.late_rows:,} late" if commit.late_rows else ""
    return (
        f"{commit.inserted_rows:,} inserted, {commit.updated_rows:,} updated, "
        f"{commit.deleted_rows:,} deleted{late}"
    )


def done_text(result: JobResult) -> str:
    """What a job did, in a line."""
    commit, services = result.commit, result.services
    if commit is not None:
        if commit.instant is None:
            read = f"{count(result.files_read, 'file')} read, no rows to write"
            return "; ".join([read, *commit.warnings])
        parts = [
            _rows(commit),
            f"{count(commit.files, 'file')} written ({human_size(commit.bytes_written)})",
            f"commit {commit.instant}",
        ]
        if commit.files_clustered:
            parts.append(f"{count(commit.files_clustered, 'file')} clustered")
        if commit.retries:
            parts.append(count(commit.retries, "retry").replace("retrys", "retries"))
        return "; ".join([*parts, *commit.warnings])
    if result.clustering is not None:
        return clustering_line(result.clustering)
    if services is not None:
        return (
            f"{count(services.files_cleaned, 'file')} cleaned, "
            f"{count(services.instants_archived, 'instant')} archived"
        )
    return "nothing new"
