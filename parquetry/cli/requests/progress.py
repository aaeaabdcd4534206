"""Progress of long work: a bar on a terminal, otherwise a line at each start and end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from parquetry.cli.terminal.output import Output
from parquetry.runtime.spark_log import current_log
from parquetry.text.printable import one_line

if TYPE_CHECKING:
    from rich.progress import Progress

    from parquetry.compiler.jobs.launch import Launch
    from parquetry.compiler.jobs.results import JobOutcome
    from parquetry.runtime.main import JobResult
    from parquetry.runtime.spec.job import JobPlan


@contextmanager
def progress_of(output: Output, what: str) -> Iterator[None]:
    """Show a bar, or a line at start and end, while the block does ``what``."""
    started = time.monotonic()
    if _wants_bar(output):
        try:
            with _bar() as bar:
                bar.add_task(one_line(what), total=None)
                yield
        except BaseException:
            _report_log_path(output)
            raise
        return
    output.note(f"{what}: started", work=what)
    try:
        yield
    except BaseException:
        output.note(_ended(what, started, ok=False), work=what, seconds=_since(started), ok=False)
        _report_log_path(output)
        raise
    output.note(_ended(what, started, ok=True), work=what, seconds=_since(started), ok=True)


def _report_log_path(output: Output) -> None:
    """Report the path of Spark's log after a failure, if there is one."""
    if (log := current_log()) is not None:
        output.note(f"Spark's log is {log}", log=str(log))


def _ended(what: str, started: float, *, ok: bool) -> str:
    """Return the line that reports the end of a job and how long it took."""
    return f"{what}: {'done' if ok else 'failed'} after {_since(started)} s"


def _since(started: float) -> float:
    """Return the seconds since a reading of the monotonic clock."""
    return round(time.monotonic() - started, 1)


class JobProgress:
    """An observer that shows on stderr when each job of a run starts and ends."""

    def __init__(self, output: Output) -> None:
        """Create a progress that shows nothing before the first job starts."""
        self._output = output
        self._bar = _bar() if _wants_bar(output) else None
        self._started: dict[tuple[str, str], float] = {}
        self._has_failed = False

    def __enter__(self) -> Self:
        """Start the progress bar, if there is one."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the progress bar; after a failed job, report the path of Spark's log."""
        if self._bar is not None:
            self._bar.stop()
        if self._has_failed:
            _report_log_path(self._output)

    def planned(self, jobs: tuple[JobPlan, ...]) -> None:
        """Set the number of jobs that will run."""
        if self._bar is not None:
            self._bar.add_task("", total=len(jobs))

    def started(self, job: JobPlan) -> None:
        """Show that the job starts."""
        self._started[job.table, job.name] = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=one_line(f"{job.table} {job.name}"))
        else:
            self._output.note(f"{job.table} {job.name}: started", table=job.table, job=job.name)

    def ended(self, outcome: JobOutcome) -> None:
        """Show that the job ended, and whether it failed."""
        seconds = _since(self._started.pop((outcome.table, outcome.name), time.monotonic()))
        self._has_failed |= outcome.error is not None
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0])
            return
        how = "failed" if outcome.error else "done"
        self._output.note(
            f"{outcome.table} {outcome.name}: {how} after {seconds} s",
            table=outcome.table,
            job=outcome.name,
            seconds=seconds,
            ok=outcome.error is None,
        )


def _wants_bar(output: Output) -> bool:
    """Return whether a progress bar is useful: on a terminal, as text, and without --quiet."""
    return sys.stderr.isatty() and not output.quiet and output.log_format == "text"


def _bar() -> Progress:
    """Return a progress bar on stderr that disappears at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


def one_by_one(prepare: Callable[[tuple[JobPlan, ...]], Launch], output: Output) -> Launch:
    """Return a launcher that executes each job by itself and shows its progress."""

    def launch(job: JobPlan) -> JobResult:
        with progress_of(output, f"{job.table} {job.name}"):
            return prepare((job,))(job)

    return launch
