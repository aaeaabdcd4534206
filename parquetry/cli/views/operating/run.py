"""The result of a run, and past runs."""

from __future__ import annotations

from typing import Any

from parquetry.cli.terminal.format import columns, count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.clustering import clustering_line
from parquetry.cli.views.operating.sync import sync_text
from parquetry.cli.views.run_order import deferral_text, used_text
from parquetry.cli.views.tests.text import TestsView
from parquetry.compiler.evidence.run_order import RunOrder
from parquetry.compiler.jobs.past_runs import PastRun, RunState
from parquetry.compiler.jobs.results import SYNC, JobOutcome, RunResult, to_json
from parquetry.message import in_full
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.main import JobResult

_RUNS = ("run", "target", "jobs", "files", "bytes", "seconds", "state")
_NUMBERS = frozenset(range(2, len(_RUNS) - 1))


class RunView:
    """One line per job of the tables that changed. Errors of jobs are reported on stderr, and in the JSON.

    With ``verbose`` the jobs of all tables are shown.
    """

    def __init__(self, *, verbose: bool = False) -> None:
        self._verbose = verbose

    def text(self, outcome: RunResult, paint: Paint) -> str:
        """Return the rows, files and instants of the jobs, then the tests and a summary."""
        if not (outcome.outcomes or (outcome.order is not None and outcome.order.tables)):
            return "Nothing to run: no table is selected."
        remarkable = {o.table for o in outcome.outcomes if o.is_remarkable}
        shown = [o for o in outcome.outcomes if self._verbose or o.table in remarkable]
        width = max((len(f"{o.table} {o.name}") for o in shown), default=0)
        parts = ["\n".join(_line(o, width, paint) for o in shown)] if shown else []
        if outcome.order is not None and (deferred := _deferred(outcome.order)):
            parts.append(deferred)
        if outcome.tests is not None and outcome.tests.outcomes:
            parts.append(TestsView().text(outcome.tests, paint))
        return "\n\n".join([*parts, paint.bold(_summary(outcome))])

    def json(self, outcome: RunResult) -> Any:
        """Return the run's id, one entry per job, and the tests if they were executed."""
        return to_json(outcome)


class RunsView:
    """Past runs, the newest first."""

    def text(self, outcome: tuple[PastRun, ...], paint: Paint) -> str:
        """Return a line per run, within 80 columns."""
        if not outcome:
            return "No run is recorded yet."
        return columns(_RUNS, (_run_row(run, paint) for run in outcome), paint=paint, right=_NUMBERS)

    def json(self, outcome: tuple[PastRun, ...]) -> Any:
        """Return the runs without their jobs."""
        return {"runs": [_run_json(run) for run in outcome]}


class PastRunView:
    """One run with its jobs."""

    def text(self, outcome: PastRun, paint: Paint) -> str:
        """Return the run's line, then a line per job, with the error below a failed one."""
        lines = [RunsView().text((outcome,), paint), ""]
        width = max((len(f"{job.table} {job.name}") for job in outcome.jobs), default=0)
        for job in outcome.jobs:
            head = f"{job.table} {job.name}".ljust(width)
            took = "" if job.seconds is None else f"; {job.seconds:.1f} s"
            if job.error is not None:
                lines += [f"{head}  {paint.bad('failed')}{took}", f"    {job.error}"]
            else:
                done = "done" if job.result is None else done_text(job.result)
                lines.append(f"{head}  {done}{took}{_warnings(job.result, paint)}")
        if not outcome.jobs:
            lines.append("No job is recorded.")
        return "\n".join(lines)

    def json(self, outcome: PastRun) -> Any:
        """Return the run with its jobs."""
        jobs = [
            {
                "table": job.table,
                "job": job.name,
                "error": job.error,
                "warnings": list(job.result.warnings) if job.result else [],
                "seconds": job.seconds,
                "files": job.files,
                "bytes_written": job.bytes_written,
            }
            for job in outcome.jobs
        ]
        return {"runs": [{**_run_json(outcome), "jobs": jobs}]}


def _run_row(run: PastRun, paint: Paint) -> tuple[str, ...]:
    warnings = sum(len(job.result.warnings) for job in run.jobs if job.result is not None)
    notes = ((run.failures, "failure"), (warnings, "warning"))
    tone = {RunState.FAILED: paint.bad, RunState.UNFINISHED: paint.warn}.get(run.state, str)
    return (
        run.run_id,
        run.target,
        str(len(run.jobs)),
        str(sum(job.files for job in run.jobs)),
        human_size(sum(job.bytes_written for job in run.jobs)),
        "" if run.seconds is None else f"{run.seconds:,.0f}",
        ", ".join([tone(str(run.state)), *(count(number, word) for number, word in notes if number)]),
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


def _summary(run: RunResult) -> str:
    """Return how many tables failed and changed, and how much was written.

    An example is ``1 failed, 2 changed, 297 unchanged; 12 files (3.4 MB) written in 35.2 s.``
    """
    tables = {outcome.table for outcome in run.outcomes}
    failed = {outcome.table for outcome in run.outcomes if outcome.error is not None}
    changed = {o.table for o in run.outcomes if o.result is not None and o.result.committed} - failed
    took = "" if run.seconds is None else f" in {run.seconds:.1f} s"
    if run.order is not None and run.order.tables:
        took += f"; {used_text(run.order, rewritten=run.clustered_bytes)}"
    if not failed and not changed:
        return f"{count(len(tables), 'table')}: nothing new{took}."
    counts = (
        (len(failed), "failed"),
        (len(changed), "changed"),
        (len(tables) - len(failed) - len(changed), "unchanged"),
    )
    parts = ", ".join(f"{number} {word}" for number, word in counts if number)
    results = [outcome.result for outcome in run.outcomes if outcome.result is not None]
    files = sum(result.files_written for result in results)
    size = human_size(sum(result.bytes_written for result in results))
    return f"{parts}; {count(files, 'file')} ({size}) written{took}."


def _deferred(order: RunOrder) -> str:
    """Return a line for each table of which something waits, with the reason."""
    lines = [(one.table, deferral_text(one)) for one in order.tables if one.reason is not None]
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(f"{name.ljust(width)}  {text}" for name, text in lines)


def _line(outcome: JobOutcome, width: int, paint: Paint) -> str:
    head = f"{outcome.table} {outcome.name}".ljust(width)
    if outcome.result is None:
        return f"{head}  {paint.bad('failed')}"
    return f"{head}  {done_text(outcome.result)}{_warnings(outcome.result, paint)}"


def _warnings(result: JobResult | None, paint: Paint) -> str:
    return "".join(
        f"; {paint.warn('warning')}: {in_full(each)}" for each in (result.warnings if result else ())
    )


def _rows(commit: CommitResult) -> str:
    late = f", {commit.late_rows:,} late" if commit.late_rows else ""
    return (
        f"{commit.inserted_rows:,} inserted, {commit.updated_rows:,} updated, "
        f"{commit.deleted_rows:,} deleted{late}"
    )


def done_text(result: JobResult) -> str:
    """Return the result of a job in one line."""
    commit, services = result.commit, result.services
    if commit is not None:
        if commit.instant is None:
            read = f"{count(result.files_read, 'file')} read, no rows to write"
            return "; ".join([read, *map(in_full, commit.warnings)])
        parts = [
            _rows(commit),
            f"{count(commit.files, 'file')} written ({human_size(commit.bytes_written)})",
            f"commit {commit.instant}",
        ]
        if commit.files_clustered:
            parts.append(f"{count(commit.files_clustered, 'file')} clustered")
        if commit.retries:
            parts.append(count(commit.retries, "retry").replace("retrys", "retries"))
        return "; ".join([*parts, *map(in_full, commit.warnings)])
    if result.clustering is not None:
        return clustering_line(result.clustering)
    if services is not None:
        parts = [
            f"{count(services.files_cleaned, 'file')} cleaned",
            f"{count(services.instants_archived, 'instant')} archived",
        ]
        if services.partitions_deleted:
            parts.insert(0, f"{count(services.partitions_deleted, 'partition')} deleted")
        return ", ".join(parts)
    if result.synced is not None:
        return f"{result.synced.place}: {sync_text(result.synced)}"
    return "not synchronised" if result.job == SYNC and result.warnings else "nothing new"
