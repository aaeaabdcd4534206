"""The attempts of a run's jobs: whether each is due, its launch, and the result of the run so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock

from parquetry.compiler.jobs.launch import BudgetedLauncher
from parquetry.compiler.jobs.observers import Observer
from parquetry.compiler.jobs.results import FILES, Diagnose, JobOutcome, RunResult, attempt, outcome_of, save
from parquetry.compiler.jobs.table_jobs import TableJobs
from parquetry.errors import ParquetryError
from parquetry.project import ResolvedTable
from parquetry.runtime.clustering.plan.due import is_clustering_due
from parquetry.runtime.interruption import is_interrupted
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.job import JobKind, JobPlan, resolve_environment
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import TableHandle, open_table


@dataclass(slots=True, kw_only=True)
class Attempts:
    """The attempts of a run's jobs. Several threads may run jobs, each those of another table.

    ``tables`` are the jobs by table, ``root`` is the project's folder, and ``result`` that of the run so far.
    """

    tables: Mapping[str, TableJobs]
    launcher: BudgetedLauncher
    observer: Observer
    diagnose: Diagnose
    root: Path
    result: RunResult
    _outcomes: dict[str, list[JobOutcome]] = field(default_factory=lambda: defaultdict(list))
    _turn: Lock = field(default_factory=Lock)

    def run(self, table: str, jobs: Iterable[JobPlan | JobOutcome]) -> None:
        """Run the due jobs of a table in order, and stop after the first failure.

        An entry of ``jobs`` that is already an outcome is kept as it is. The results so far are saved for the
        case that the run is killed later.
        """
        done = tuple(self._attempted(jobs))
        with self._turn:
            self._outcomes[table] += done
            outcomes = tuple(outcome for of_table in self._outcomes.values() for outcome in of_table)
            self.result = replace(self.result, outcomes=outcomes)
            if any(outcome.is_worth_saving for outcome in done):
                save(self.root, self.result)

    def failures(self, table: str) -> set[str]:
        """Return the names of the table's failed outcomes."""
        return {outcome.name for outcome in self._outcomes[table] if outcome.error is not None}

    def may_serve(self, table: str) -> bool:
        """Return whether services of a table may run: no job has failed, and files alone may be damaged."""
        return self.failures(table) <= {FILES}

    def _attempted(self, jobs: Iterable[JobPlan | JobOutcome]) -> Iterator[JobOutcome]:
        for job in jobs:
            if isinstance(job, JobOutcome):
                yield job
                continue
            is_due = attempt(job.table, job.name, partial(_is_due, job), self.diagnose)
            if not is_due:
                continue
            if is_interrupted():
                return
            outcome = is_due if isinstance(is_due, JobOutcome) else self.launch(job)
            yield outcome
            if outcome.error is not None:
                return

    def launch(self, job: JobPlan) -> JobOutcome:
        """Launch a job, whether it is due or not, and return its outcome."""
        self.observer.started(job)
        outcome = outcome_of(job.table, job.name, partial(self.launcher, job), self.diagnose)
        if outcome.error is not None:
            _locate(outcome.error, job.spec, self.tables[job.table].table)
        self.observer.ended(outcome)
        return outcome


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


def _is_due(plan: JobPlan) -> bool:
    """Return whether the job must run; asynchronous clustering may have become due by the jobs before it."""
    return plan.kind is not JobKind.CLUSTER or is_clustering_due(opened(plan), Trigger.ASYNC)


def opened(plan: JobPlan) -> TableHandle:
    """Return the table of a job."""
    store = open_store(plan.location, resolve_environment(plan.storage), plan.spec.allowed)
    return open_table(store, owner=plan.owner)
