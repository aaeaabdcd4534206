"""The outcomes of a run's jobs, their documented JSON, and the file that keeps it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from parquetry.compiler.errors import UnexpectedError
from parquetry.compiler.evidence.run_order import RunOrder
from parquetry.compiler.testing.model import TableTests
from parquetry.compiler.testing.model import to_json as tests_to_json
from parquetry.compiler.workspace.run_results import save_results
from parquetry.errors import ParquetryError
from parquetry.message import Message, Text, command, in_full, joined
from parquetry.runtime.errors import InvalidDataError, PartialFailureError
from parquetry.runtime.main import JobResult
from parquetry.runtime.spec.codec import Brief, to_json_value

Diagnose = Callable[[Exception], ParquetryError]
"""A function that turns a bug into an error that can be shown."""

OPEN, FILES, SYNC = "open", "files", "sync"
"""The names of outcomes without a job: of the table, of its base files, and of its entry in a catalog."""

_SHOWN = 5
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobOutcome(Brief):
    """The result of a job, or the error that prevented it.

    ``name`` is that of the job, ``open`` if the table could not be read, ``files`` if base files are missing
    or damaged, and ``sync`` for the entry in a catalog. ``seconds`` is None if nothing started.
    """

    table: str
    name: str
    seconds: float | None = None
    result: JobResult | None = None
    error: ParquetryError | None = None

    @property
    def warnings(self) -> tuple[Text, ...]:
        """Findings that need attention although the job did not fail."""
        result = self.result
        if result is None:
            return ()
        commit = () if result.commit is None else result.commit.warnings
        clustering = () if result.clustering is None else result.clustering.warnings
        return (*result.warnings, *commit, *clustering, *result.set_aside)

    @property
    def is_remarkable(self) -> bool:
        """True if the job changed a table or a catalog, failed, or has warnings."""
        synced = None if self.result is None else self.result.synced
        return self.is_worth_saving or bool(self.warnings) or (synced is not None and synced.wrote)

    @property
    def is_worth_saving(self) -> bool:
        """True if the job committed something or failed."""
        return self.result is None or self.result.committed


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunResult(Brief):
    """The outcomes of a run in order. ``unsaved`` is the error that prevented saving its results.

    ``order`` has the tables whose clustering was due, in the order of the run, and then those that wait, if
    the target has operations and the run includes services. ``seconds`` is the duration, None while the run
    continues. ``unapplied`` are settings of the target that the run used although tables record other values.
    ``tests`` are the results for tables without failed jobs, if the project runs tests after jobs.
    """

    run_id: str
    target: str = ""
    outcomes: tuple[JobOutcome, ...]
    seconds: float | None = None
    unapplied: tuple[str, ...] = ()
    tests: TableTests | None = None
    unsaved: ParquetryError | None = None
    order: RunOrder | None = None

    @property
    def failure(self) -> ParquetryError | None:
        """The error of the command, None if nothing failed."""
        return next(iter(self.failures), None)

    @property
    def failures(self) -> tuple[ParquetryError, ...]:
        """The errors of the jobs together, of files that were set aside, of tests, and of unsaved results."""
        tests = None if self.tests is None else self.tests.failure
        found = (self._failed_jobs, self._set_aside, tests, self.unsaved)
        return tuple(error for error in found if error is not None)

    @property
    def _failed_jobs(self) -> ParquetryError | None:
        """A bug, the first failure, or PartialFailureError; None if no job failed."""
        errors = [outcome.error for outcome in self.outcomes if outcome.error is not None]
        if not errors:
            return None
        if bugs := [error for error in errors if error.exit_code == UnexpectedError.exit_code]:
            return bugs[0]
        if any(outcome.result is not None and outcome.result.committed for outcome in self.outcomes):
            return PartialFailureError(
                "{failed} of {jobs} jobs failed; correct the causes, then run again",
                failed=len(errors),
                jobs=len(self.outcomes),
            )
        return errors[0]

    @property
    def clustered_bytes(self) -> int:
        """The bytes of the files that clusterings have replaced."""
        clusterings = (o.result.clustering for o in self.outcomes if o.result is not None)
        return sum(clustering.bytes_before for clustering in clusterings if clustering is not None)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the command; None while the run continues."""
        if self.seconds is None:
            return None
        return 0 if self.failure is None else self.failure.exit_code

    @property
    def _set_aside(self) -> ParquetryError | None:
        """An error about source files that were set aside; None if there are none."""
        reasons = [why for o in self.outcomes if o.result is not None for why in o.result.set_aside]
        if not reasons:
            return None
        more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
        return InvalidDataError(
            "source files were set aside ({files}): {reasons}{more}",
            files=len(reasons),
            reasons=joined("; ", reasons[:_SHOWN]),
            more=more,
        )

    @property
    def reasons(self) -> tuple[JobOutcome, ...]:
        """The failed jobs whose reason must be shown in addition to :attr:`failure`, in order.

        A job that failed for the reason of an earlier one, such as a missing file, is left out.
        """
        shown: set[tuple[str, str]] = set()
        reasons = []
        for outcome in self.outcomes:
            error = outcome.error
            texts = {(outcome.table, in_full(part)) for part in error.message.statements} if error else set()
            if error is not None and error is not self.failure and not texts <= shown:
                reasons.append(outcome)
            shown |= texts
        return tuple(reasons)


def attempt(table: str, name: str, body: Callable[[], _Result], diagnose: Diagnose) -> _Result | JobOutcome:
    """Return the result of ``body``, or a failed outcome if it raises an error."""
    try:
        return body()
    except ParquetryError as failure:
        return JobOutcome(table=table, name=name, error=failure)
    except Exception as bug:  # noqa: BLE001  # a bug in one table must not end the run of the others
        return JobOutcome(table=table, name=name, error=diagnose(bug))


def outcome_of(table: str, name: str, body: Callable[[], JobResult], diagnose: Diagnose) -> JobOutcome:
    """Return the outcome of ``body`` with its duration."""
    started_at = time.monotonic()
    result = attempt(table, name, body, diagnose)
    outcome = result if isinstance(result, JobOutcome) else JobOutcome(table=table, name=name, result=result)
    return replace(outcome, seconds=seconds_since(started_at))


def seconds_since(started_at: float) -> float:
    """Return the seconds since a reading of the monotonic clock."""
    return round(time.monotonic() - started_at, 1)


def to_json(result: RunResult) -> dict[str, Any]:
    """Return the documented JSON, which the command prints and the results file contains."""
    tests = {} if result.tests is None else tests_to_json(result.tests)
    order = {} if result.order is None else {"order": to_json_value(result.order)}
    return {
        **tests,
        **order,
        "run_id": result.run_id,
        "target": result.target,
        "seconds": result.seconds,
        "exit_code": result.exit_code,
        "unapplied": list(result.unapplied),
        "jobs": [
            {
                "table": outcome.table,
                "job": outcome.name,
                "seconds": outcome.seconds,
                "error": outcome.error.in_full() if outcome.error else None,
                "result": to_json_value(outcome.result),
            }
            for outcome in result.outcomes
        ],
    }


def save(root: Path, result: RunResult) -> ParquetryError | None:
    """Save the results of the run, and return an error if they cannot be written."""
    return save_results(
        root,
        result.run_id,
        to_json(result),
        kept=Message("the commits of the run are kept, {command} shows them", command=command("timeline")),
    )
