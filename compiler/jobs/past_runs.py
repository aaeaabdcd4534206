"""Past runs that are recorded in the project's folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from parquetry.compiler.workspace.run_results import RESULTS, RUNS, STARTED, LastRun, recorded_runs
from parquetry.confined_folder import ConfinedFolder
from parquetry.errors import UsageError
from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.main import JobResult
from parquetry.runtime.spec.codec import Brief, from_json_value, parsed_json


class RunState(StrEnum):
    """The state of a recorded run."""

    DONE = "done"
    FAILED = "failed"
    RUNNING = "running"
    UNFINISHED = "unfinished"
    """The run recorded no end, and its process has disappeared or is on another machine."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PastJob(Brief):
    """A job of a run. ``result`` is None if the job failed or another version of parquetry recorded it."""

    table: str
    name: str
    error: str | None
    seconds: float | None
    result: JobResult | None

    @property
    def files(self) -> int:
        """The number of base files that the job wrote."""
        return 0 if self.result is None else self.result.files_written

    @property
    def bytes_written(self) -> int:
        """The bytes of these files."""
        return 0 if self.result is None else self.result.bytes_written


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PastRun(Brief):
    """A run with its tables and its recorded jobs.

    ``exit_code`` and ``seconds`` are None if it recorded no end.
    """

    run_id: str
    target: str
    tables: tuple[str, ...]
    started_ms: int
    state: RunState
    exit_code: int | None
    seconds: float | None
    jobs: tuple[PastJob, ...]
    failed_tests: int

    @property
    def failures(self) -> int:
        """The number of failed jobs and tests."""
        return sum(job.error is not None for job in self.jobs) + self.failed_tests


def past_runs(root: Path, *, most: int) -> tuple[PastRun, ...]:
    """Return the newest runs of the project in ``root``, newest first.

    Raises:
        LinkInTheWayError: If a link lies in the way of the records.
    """
    project_folder = ConfinedFolder(root)
    return tuple(_read_run(project_folder, run_id) for run_id in recorded_runs(project_folder)[:most])


def last_runs(root: Path, *, target: str, tables: Iterable[str]) -> dict[str, LastRun]:
    """Return the newest run of each table at a target; tables without a recorded run are left out.

    Runs that still go on are left out, too. A run that recorded no end has failed for all its tables.

    Raises:
        LinkInTheWayError: If a link lies in the way of the records.
    """
    project_folder, found = ConfinedFolder(root), {}
    missing = set(tables)
    for run_id in recorded_runs(project_folder):
        if not missing:
            break
        run = _read_run(project_folder, run_id)
        if run.target != target or run.state is RunState.RUNNING:
            continue
        is_killed = run.state is RunState.UNFINISHED
        for table in missing & {*(run.tables if is_killed else ()), *(job.table for job in run.jobs)}:
            failed = is_killed or any(job.error is not None for job in run.jobs if job.table == table)
            found[table] = LastRun(started_ms=run.started_ms, succeeded=not failed)
        missing -= found.keys()
    return found


def past_run(root: Path, run_id: str) -> PastRun:
    """Return the run with that id, or raise UsageError if it is not recorded."""
    project_folder = ConfinedFolder(root)
    if run_id not in recorded_runs(project_folder):
        raise UsageError(
            "no run {run_id!r} is recorded in {folder}; omit the id to list the runs",
            run_id=run_id,
            folder=root / RUNS,
        )
    return _read_run(project_folder, run_id)


def _read_run(project_folder: ConfinedFolder, run_id: str) -> PastRun:
    """Return a run from its two files; parts that are missing or invalid are empty."""
    start, results = (_document(project_folder, RUNS / run_id / name) for name in (STARTED, RESULTS))
    exit_code, seconds = results.get("exit_code"), results.get("seconds")
    jobs = results.get("jobs")
    started_ms, tables = start.get("started_ms"), start.get("tables")
    counts = results.get("counts")
    return PastRun(
        run_id=run_id,
        target=str(start.get("target", "")),
        tables=tuple(map(str, tables)) if isinstance(tables, list) else (),
        started_ms=started_ms if isinstance(started_ms, int) else 0,
        state=_state(start.get("process"), exit_code),
        exit_code=exit_code if isinstance(exit_code, int) else None,
        seconds=_number(seconds),
        jobs=tuple(_job(job) for job in (jobs if isinstance(jobs, list) else ()) if isinstance(job, dict)),
        failed_tests=int(_number(counts.get("failed")) or 0) if isinstance(counts, dict) else 0,
    )


def _document(project_folder: ConfinedFolder, path: Path) -> Mapping[str, Any]:
    """Return the JSON object in a file, or an empty one if there is none."""
    with suppress(OSError, ValueError):
        document = parsed_json(project_folder.read(path))
        if isinstance(document, dict):
            return document
    return {}


def _state(process: Any, exit_code: Any) -> RunState:
    """Return whether a run is done, failed or still running here, or stopped without an exit code."""
    if isinstance(exit_code, int):
        return RunState.FAILED if exit_code else RunState.DONE
    with suppress(ValueError):
        if isinstance(process, dict) and Owner.from_json(process).is_alive_here:
            return RunState.RUNNING
    return RunState.UNFINISHED


def _job(document: Mapping[str, Any]) -> PastJob:
    """Return a job from the results file of its run."""
    error = document.get("error")
    result = None
    with suppress(InvalidDataError):
        if isinstance(document.get("result"), dict):
            result = from_json_value(JobResult, document["result"], place="result")
    return PastJob(
        table=str(document.get("table", "")),
        name=str(document.get("job", "")),
        error=None if error is None else str(error),
        seconds=_number(document.get("seconds")),
        result=result,
    )


def _number(value: Any) -> float | None:
    """Return a JSON value that is a number, or else None."""
    return float(value) if isinstance(value, int | float) else None
