"""Observers of a run: of its progress, and of the lineage of its jobs."""

from __future__ import annotations

from threading import Lock
from typing import Final, Protocol

from parquetry.compiler.jobs.results import JobOutcome
from parquetry.compiler.lineage.emission import Lineage
from parquetry.compiler.lineage.work import TableWork, WorkResult
from parquetry.runtime.spec.job import JobKind, JobPlan

_COMMIT_COUNTS: Final = (
    "inserted_rows",
    "updated_rows",
    "deleted_rows",
    "late_rows",
    "files_added",
    "files_rewritten",
    "groups_replaced",
)
_CLUSTERING_COUNTS: Final = ("groups", "files_before", "files_after", "bytes_before", "bytes_after")


class Observer(Protocol):
    """An observer of the progress of a run."""

    def planned(self, jobs: tuple[JobPlan, ...]) -> None:
        """Receive the jobs that will run. If a job fails, later jobs of its table are skipped."""
        ...

    def started(self, job: JobPlan) -> None:
        """Receive a job that starts."""
        ...

    def ended(self, outcome: JobOutcome) -> None:
        """Receive the outcome of a job that ended."""
        ...


class ReportingObserver:
    """An observer that receives from one thread at a time, and whose jobs are also reported as events."""

    def __init__(self, observer: Observer, lineage: Lineage) -> None:
        """Pass everything on to ``observer``."""
        self._observer, self._lineage, self._turn = observer, lineage, Lock()

    def planned(self, jobs: tuple[JobPlan, ...]) -> None:
        """Pass the jobs on."""
        self._observer.planned(jobs)

    def started(self, job: JobPlan) -> None:
        """Report the job, whose table records the settings of the target or it would not be planned."""
        source = next((source for source in job.spec.sources if source.name == job.source), None)
        work = TableWork(
            table=job.table,
            job=job.name,
            location=job.location,
            directory=job.directory,
            spec=job.spec,
            source=source,
            reads=job.kind in (JobKind.CLUSTER, JobKind.TEST),
            writes=job.kind is not JobKind.TEST,
            plan_id=job.plan_id,
            git_commit=job.git_commit,
            dirty=job.dirty,
        )
        with self._turn:
            self._observer.started(job)
            self._lineage.started(work)

    def ended(self, outcome: JobOutcome) -> None:
        """Report the outcome."""
        with self._turn:
            self._lineage.ended(
                outcome.table, outcome.name, result=_work_result(outcome), error=outcome.error
            )
            self._observer.ended(outcome)


def _work_result(outcome: JobOutcome) -> WorkResult | None:
    """Return what a job did; rows are those that a commit wrote, without its deletes."""
    result = outcome.result
    if result is None:
        return None
    commit, clustering = result.commit, result.clustering
    if commit is not None and commit.instant is not None:
        return WorkResult(
            instants=(commit.instant,),
            rows=commit.inserted_rows + commit.updated_rows,
            files=commit.files,
            size_bytes=commit.bytes_written,
            files_read=result.files_read,
            counts={name: getattr(commit, name) for name in _COMMIT_COUNTS},
        )
    if clustering is not None and clustering.instants:
        return WorkResult(
            instants=clustering.instants,
            rows=clustering.rows,
            files=clustering.files_after,
            size_bytes=clustering.bytes_after,
            counts={name: getattr(clustering, name) for name in _CLUSTERING_COUNTS},
        )
    return WorkResult(files_read=result.files_read if commit is not None else None)
