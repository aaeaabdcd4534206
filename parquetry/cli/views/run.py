"""What a run did, and past runs."""

from __future__ import annotations

from typing import Any

from parquetry.cli.terminal.format import columns, count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.clustering import clustering_line
from parquetry.cli.views.tests.text import TestsView
from parquetry.compiler.jobs.past_runs import PastRun, RunState
from parquetry.compiler.jobs.run import JobOutcome, RunResult, to_json
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.main import JobResult

_RUNS = ("run", "target", "jobs", "files", "bytes", "seconds", "state")
_NUMBERS = frozenset(range(2, len(_RUNS) - 1))


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


class RunsView:
    """Past runs, the newest first."""

    def text(self, outcome: tuple[PastRun, ...], paint: Paint) -> str:
        """A line per run, within 80 columns."""
        if not outcome:
            return "No run is recorded yet."
        return columns(_RUNS, (_run_row(run, paint) for run in outcome), paint=paint, right=_NUMBERS)

    def json(self, outcome: tuple[PastRun, ...]) -> Any:
        """The runs without their jobs."""
        return {"runs": [_run_json(run) for run in outcome]}


class PastRunView:
    """One run with its jobs."""

    def text(self, outcome: PastRun, paint: Paint) -> str:
        """The run's line, then a line per job; below those that failed, why."""
        lines = [RunsView().text((outcome,), paint), ""]
        width = max((len(f"{job.table} {job.name}") for job in outcome.jobs), default=0)
        for job in outcome.jobs:
            head = f"{job.table} {job.name}".ljust(width)
            took = "" if job.seconds is None else f"; {job.seconds:.1f} s"
            if job.error is not None:
                lines += [f"{head}  {paint.bad('failed')}{took}", f"    {job.error}"]
            else:
                lines.append(f"{head}  {'done' if job.result is None else done_text(job.result)}{took}")
        if not outcome.jobs:
            lines.append("No job is recorded.")
        return "\n".join(lines)

    def json(self, outcome: PastRun) -> Any:
        """The run with its jobs."""
        jobs = [
            {
                "table": job.table,
                "job": job.name,
                "error": job.error,
                "seconds": job.seconds,
                "files": job.files,
                "bytes_written": job.bytes_written,
            }
            for job in outcome.jobs
        ]
        return {"runs": [{**_run_json(outcome), "jobs": jobs}]}


def _run_row(run: PastRun, paint: Paint) -> tuple[str, ...]:
    failures = f", {count(run.failures, 'failure')}" if run.failures else ""
    tone = {RunState.FAILED: paint.bad, RunState.UNFINISHED: paint.warn}.get(run.state, str)
    return (
        run.run_id,
        run.target,
        str(len(run.jobs)),
        str(sum(job.files for job in run.jobs)),
        human_size(sum(job.bytes_written for job in run.jobs)),
        "" if run.seconds is None else f"{run.seconds:,.0f}",
        f"{tone(str(run.state))}{failures}",
    )


def _run_json(run: PastRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "target": run.target,
        "started_ms": run.started_ms,
        "state": str(run.state),
        "exit_code": run.exit_code,
        "seconds": run.seconds,
        "job_count": len(run.jobs),
        "failures": run.failures,
        "files": sum(job.files for job in run.jobs),
        "bytes_written": sum(job.bytes_written for job in run.jobs),
    }


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
