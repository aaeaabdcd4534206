"""Attempts of jobs: whether a job is due, its launch, and the outcome that a failure becomes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from parquetry.compiler.jobs.launch import Launch
from parquetry.compiler.jobs.observers import Observer
from parquetry.compiler.jobs.results import OPEN, JobOutcome
from parquetry.errors import ParquetryError
from parquetry.project import ResolvedTable
from parquetry.runtime.clustering.plan.due import is_clustering_due
from parquetry.runtime.interruption import is_interrupted
from parquetry.runtime.main import JobResult
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.job import JobKind, JobPlan, resolve_environment
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import TableHandle, open_table

_Result = TypeVar("_Result")
Diagnose = Callable[[Exception], ParquetryError]


def run_jobs(
    table: ResolvedTable,
    jobs: Sequence[JobPlan | JobOutcome],
    launch: Launch,
    observer: Observer,
    diagnose: Diagnose,
) -> Iterator[JobOutcome]:
    """Run the due jobs of a table in order, and yield their outcomes; stop after the first failure.

    An entry of ``jobs`` that is already an outcome is yielded as it is.
    """
    for plan in jobs:
        if isinstance(plan, JobOutcome):
            yield plan
            if plan.name == OPEN:
                return
            continue
        is_due = attempt(plan.table, plan.name, partial(_is_due, plan), diagnose)
        if isinstance(is_due, JobOutcome):
            yield is_due
            return
        if not is_due:
            continue
        if is_interrupted():
            return
        observer.started(plan)
        started_at = time.monotonic()
        result = attempt(plan.table, plan.name, partial(launch, plan), diagnose)
        outcome = result if isinstance(result, JobOutcome) else outcome_of(plan, result)
        outcome = replace(outcome, seconds=seconds_since(started_at))
        if outcome.error is not None:
            _locate(outcome.error, plan.spec, table)
        observer.ended(outcome)
        yield outcome
        if outcome.error is not None:
            return


def attempt(table: str, name: str, body: Callable[[], _Result], diagnose: Diagnose) -> _Result | JobOutcome:
    """Return the result of ``body``, or a failed outcome if it raises an error."""
    try:
        return body()
    except ParquetryError as failure:
        return JobOutcome(table=table, name=name, error=failure)
    except Exception as bug:  # noqa: BLE001  # a bug in one table must not end the run of the others
        return JobOutcome(table=table, name=name, error=diagnose(bug))


def outcome_of(plan: JobPlan, result: JobResult) -> JobOutcome:
    """Return the outcome of a job that ended with a result."""
    return JobOutcome(table=plan.table, name=plan.name, result=result)


def seconds_since(started_at: float) -> float:
    """Return the seconds since a reading of the monotonic clock."""
    return round(time.monotonic() - started_at, 1)


def opened(plan: JobPlan) -> TableHandle:
    """Return the table of a job."""
    store = open_store(plan.location, resolve_environment(plan.storage), plan.spec.allowed)
    return open_table(store, owner=plan.owner)


def _is_due(plan: JobPlan) -> bool:
    """Return whether the job must run; asynchronous clustering may have become due by the jobs before it."""
    if plan.kind is not JobKind.CLUSTER:
        return True
    return is_clustering_due(opened(plan), Trigger.ASYNC)


def _locate(failure: ParquetryError, applied: TableSpec, table: ResolvedTable) -> None:
    """Add the position of the failed SQL to the error if the project still declares the same SQL."""
    if failure.declared is None:
        return
    origin, text = table.origin(failure.declared), _sql(applied).get(failure.declared)
    if origin.file is not None and text is not None and _sql(table.spec).get(failure.declared) == text:
        failure.origin = str(origin)


def _sql(spec: TableSpec) -> Mapping[str, str | None]:
    """Return the SQL of a spec by path."""
    found = {f"sources.{source.name}.select": source.select for source in spec.sources}
    found |= {f"sources.{source.name}.delete_when": source.delete_when for source in spec.sources}
    return found | {f"columns.{column.name}.generated": column.generated for column in spec.columns}
