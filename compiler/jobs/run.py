"""`run`: ingest due sources, then execute due services, by applied records that the project declares too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from parquetry.compiler.errors import UnexpectedError
from parquetry.compiler.evidence.due_rewrites import due_rewrite, run_limits
from parquetry.compiler.evidence.figures import due_figures
from parquetry.compiler.evidence.run_order import (
    DueRewrite,
    RankedRewrite,
    RunOrder,
    rank_rewrites,
    usual_throughput,
)
from parquetry.compiler.jobs.declared_rules import check_declared, check_named
from parquetry.compiler.lineage.emission import Lineage, lineage_of
from parquetry.compiler.lineage.work import TableWork, WorkResult
from parquetry.compiler.plan.target_changes import check_allowed, check_in_force
from parquetry.compiler.testing.execution import RowExecution, execute_tests
from parquetry.compiler.testing.model import TableTests
from parquetry.compiler.testing.model import to_json as tests_to_json
from parquetry.compiler.testing.tables import tests_of
from parquetry.compiler.workspace.catalogs import handle_of, sync_table
from parquetry.compiler.workspace.observation import Observation, check_files, observe
from parquetry.compiler.workspace.opened import Workspace, job
from parquetry.compiler.workspace.run_results import recorded_run, save_results
from parquetry.errors import ParquetryError
from parquetry.message import Message, Text, command, in_full, joined
from parquetry.project import ResolvedTable
from parquetry.project.model.operations import Operations
from parquetry.project.model.resolved import Target
from parquetry.runtime.clustering.plan.due import is_clustering_due, trigger_of
from parquetry.runtime.clustering.plan.execution import PartlyClusteredError
from parquetry.runtime.clustering.rewrite.strategies import check_strategies
from parquetry.runtime.errors import CatalogError, InvalidDataError, PartialFailureError
from parquetry.runtime.interruption import Interruption, is_interrupted
from parquetry.runtime.layout.clustering.run_budget import by_last_clustering
from parquetry.runtime.main import JobResult, cancel_spark_jobs
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.codec import Brief, to_json_value
from parquetry.runtime.spec.job import JobKind, JobPlan, Requirements, resolve_environment
from parquetry.runtime.spec.table_spec import Source, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.table.signing import check_signed
from parquetry.runtime.timeline.last_clustering import last_clustering
from parquetry.runtime.timeline.rereading import retry_stale

_Result = TypeVar("_Result")


_OPEN, _FILES = "open", "files"
SYNC: Final = "sync"
"""The name of the outcome that tells of the entry of a table in its catalog."""
_SHOWN = 5
_SECONDS_BETWEEN_CANCELS: Final = 0.5


class Only(StrEnum):
    """A part of a run."""

    INGEST = "ingest"
    SERVICES = "services"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobOutcome(Brief):
    """The result of a job, or the error that prevented it.

    ``name`` is ``open`` if the table could not be read, ``files`` if base files are missing or damaged, and
    ``sync`` for the entry in a catalog.
    ``seconds`` is the duration of the job, None if it did not start.
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
        """The error of the command: None, a bug, the first failure, or PartialFailureError.

        Failed tests count only if no job failed, and unsaved results only if nothing else failed.
        """
        errors = [outcome.error for outcome in self.outcomes if outcome.error is not None]
        if not errors:
            return self._set_aside or (None if self.tests is None else self.tests.failure) or self.unsaved
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
            "{files} source files were set aside: {reasons}{more}",
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


Launch = Callable[[JobPlan], JobResult]
Diagnose = Callable[[Exception], ParquetryError]


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


class _InTurn:
    """An observer that receives from one thread at a time."""

    def __init__(self, observer: Observer) -> None:
        """Pass everything on to ``observer``."""
        self._observer, self._turn = observer, Lock()

    def planned(self, jobs: tuple[JobPlan, ...]) -> None:
        """Pass the jobs on."""
        with self._turn:
            self._observer.planned(jobs)

    def started(self, job: JobPlan) -> None:
        """Pass the job on."""
        with self._turn:
            self._observer.started(job)

    def ended(self, outcome: JobOutcome) -> None:
        """Pass the outcome on."""
        with self._turn:
            self._observer.ended(outcome)


class _WithLineage:
    """An observer that also reports each job as events."""

    def __init__(self, observer: Observer, lineage: Lineage) -> None:
        """Pass everything on to ``observer``."""
        self._observer, self._lineage = observer, lineage

    def planned(self, jobs: tuple[JobPlan, ...]) -> None:
        """Pass the jobs on."""
        self._observer.planned(jobs)

    def started(self, job: JobPlan) -> None:
        """Report the job, whose table records the settings of the target or it would not be planned."""
        self._observer.started(job)
        source = next((source for source in job.spec.sources if source.name == job.source), None)
        self._lineage.started(
            TableWork(
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
        )

    def ended(self, outcome: JobOutcome) -> None:
        """Report the outcome."""
        self._lineage.ended(outcome.table, outcome.name, result=_work_result(outcome), error=outcome.error)
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


def run_tables(
    workspace: Workspace,
    *,
    only: Only | None,
    run_id: str,
    prepare: Callable[[tuple[JobPlan, ...]], Launch],
    observer: Observer,
    diagnose: Diagnose,
    applied: bool = False,
    clock: Callable[[], float] = time.time,
) -> RunResult:
    """Run the due jobs of the selected tables in sequence: first all ingestion, then all services.

    The clusterings of all tables share the budget of the run, and the table whose last clustering is oldest
    comes first. If the target has operations, services run within its window instead: cleans and archives
    first, then clusterings in the order of :func:`rank_rewrites`, as far as bytes and time suffice.

    If a job of a table fails, its later jobs are skipped. Other tables continue, even after a bug. The
    results are saved in ``target/runs/<run id>/results.json``; if that fails, the result contains the error.

    Args:
        workspace: The project with its selected tables.
        only: The part of the run to execute, None for all.
        run_id: The id of the run.
        prepare: Returns the launcher for these jobs.
        observer: Receives the progress.
        diagnose: Turns a bug into an error that can be shown.
        applied: True to trust applied records that differ from the declared specs.
        clock: Returns the time in seconds since 1970 (UTC).

    Raises:
        UnappliedError: If the target has settings that can execute code and that it does not allow.
    """
    check_allowed(workspace)
    root, target = workspace.project.root, workspace.project.target.name
    with (
        recorded_run(root, run_id, target=target, started_ms=time.time_ns() // 1_000_000),
        lineage_of(workspace, command="run", run_id=run_id) as lineage,
    ):
        result = _run_tables(
            workspace,
            only=only,
            run_id=run_id,
            prepare=prepare,
            observer=_WithLineage(observer, lineage),
            diagnose=diagnose,
            applied=applied,
            clock=clock,
        )
        lineage.failed(result.failure)
        return result


def _run_tables(
    workspace: Workspace,
    *,
    only: Only | None,
    run_id: str,
    prepare: Callable[[tuple[JobPlan, ...]], Launch],
    observer: Observer,
    diagnose: Diagnose,
    applied: bool,
    clock: Callable[[], float],
) -> RunResult:
    """Run the due jobs of the selected tables, and then their tests if the project asks for that.

    The results so far are saved while it runs, in case that the run is killed.
    """
    started_at = time.monotonic()
    root = workspace.project.root
    unapplied: set[str] = set()
    planned = [
        _jobs(workspace, table, only, diagnose, applied=applied, unapplied=unapplied)
        for table in workspace.tables
    ]
    all_jobs = tuple(
        plan for jobs in planned for plan in (*jobs.first, *jobs.services) if isinstance(plan, JobPlan)
    )
    launch = _BudgetedLauncher(prepare(all_jobs))
    observer, turn = _InTurn(observer), Lock()
    observer.planned(all_jobs)
    result = RunResult(
        run_id=run_id,
        target=workspace.project.target.name,
        outcomes=(),
        unapplied=tuple(sorted(unapplied)),
    )
    by_name = {jobs.table.name: jobs for jobs in planned}
    ran: dict[str, list[JobOutcome]] = {name: [] for name in by_name}

    def run(name: str, jobs: Sequence[JobPlan | JobOutcome]) -> None:
        nonlocal result
        done = tuple(_run_jobs(by_name[name].table, jobs, launch, observer, diagnose))
        with turn:
            ran[name] += done
            outcomes = tuple(outcome for of_table in ran.values() for outcome in of_table)
            result = replace(result, outcomes=outcomes)
            if any(outcome.is_worth_saving for outcome in done):
                # If the run is killed later, the results up to here are saved.
                _save(root, result)

    for name, jobs in by_name.items():
        run(name, jobs.first)

    def may_serve(name: str) -> bool:
        return all(outcome.error is None or outcome.name == _FILES for outcome in ran[name])

    operations = workspace.project.target.operations
    if operations is None or only is Only.INGEST:
        for name in by_last_clustering({name: jobs.clustered for name, jobs in by_name.items()}):
            if may_serve(name):
                run(name, by_name[name].services)
    else:
        order = _run_by_operations(
            workspace.project.target,
            operations,
            by_name,
            run=run,
            may_serve=may_serve,
            launch=launch,
            diagnose=diagnose,
            clock=clock,
        )
        result = replace(result, order=order)
    outages: dict[str, ParquetryError] = {}
    for name, jobs in by_name.items():
        if all(outcome.name != _OPEN for outcome in ran[name]):
            run(name, _synced(workspace, jobs.table, diagnose, applied=applied, outages=outages))
    if workspace.project.target.tests_after_run:
        tests = _tests(
            workspace, result.outcomes, run_id=run_id, launch=launch, observer=observer, diagnose=diagnose
        )
        result = replace(result, tests=tests)
    result = replace(result, seconds=_since(started_at))
    return replace(result, unsaved=_save(root, result))


def _synced(
    workspace: Workspace,
    table: ResolvedTable,
    diagnose: Diagnose,
    *,
    applied: bool,
    outages: dict[str, ParquetryError],
) -> tuple[JobOutcome, ...]:
    """Bring the entry of a table in its catalog to the newest state, and return the outcome.

    This catches up what former runs could not write. Without a catalog, the result is empty. What keeps the
    entry from being written is a warning, because the commits of the run are complete without it. A catalog
    that cannot be reached is added to ``outages``, and is not asked for later tables.
    """
    catalog = table.spec.extra.catalog
    if catalog is None:
        return ()
    started_at = time.monotonic()

    def body() -> JobResult:
        try:
            if catalog in outages:
                raise outages[catalog]
            handle = handle_of(_applied(workspace, table, trusts_record=applied))
            synced = sync_table(workspace, table, handle, restores=False)
        except ParquetryError as failure:
            if isinstance(failure, CatalogError) and failure.is_outage:
                outages[catalog] = failure
            return JobResult(table=table.name, job=SYNC, warnings=(failure.message,))
        warnings = () if synced is None else synced.warnings
        return JobResult(table=table.name, job=SYNC, synced=synced, warnings=warnings)

    result = _attempt(table.name, SYNC, body, diagnose)
    if not isinstance(result, JobOutcome):
        result = JobOutcome(table=table.name, name=SYNC, result=result)
    return (replace(result, seconds=_since(started_at)),)


def _run_by_operations(
    target: Target,
    operations: Operations,
    tables: Mapping[str, _TableJobs],
    *,
    run: Callable[[str, Sequence[JobPlan | JobOutcome]], None],
    may_serve: Callable[[str], bool],
    launch: _BudgetedLauncher,
    diagnose: Diagnose,
    clock: Callable[[], float],
) -> RunOrder:
    """Run the services of tables by the target's operations, and return the order of the rewrites.

    Cleans and archives rewrite nothing, so they come first and use no budget. If they need more than half of
    what is left of the window, the others follow after the clusterings, as long as the window is open. Before
    each clustering the tables are ranked again, by the bytes and the time that are left.

    Args:
        target: The target.
        operations: Its rules.
        tables: The jobs of the tables by name.
        run: Runs jobs of a table.
        may_serve: Returns whether no earlier job of the table failed.
        launch: The launcher, which counts the rewritten bytes.
        diagnose: Turns a bug into an error that can be shown.
        clock: Returns the time in seconds since 1970 (UTC).
    """
    starts = clock()
    at_start = run_limits(target, operations, at=starts)
    ends = None if operations.window is None else operations.window.next_span(starts)[1]
    left = _serve(
        list(tables) if at_start.is_open else [],
        tables,
        run=run,
        may_serve=may_serve,
        clock=clock,
        until=None if ends is None else (starts + ends) / 2,
    )
    clusterings: dict[str, JobPlan] = {}
    for name, jobs in tables.items():
        clustering = next((job for job in jobs.services if job.kind is JobKind.CLUSTER), None)
        if clustering is not None and may_serve(name):
            clusterings[name] = clustering

    def measure(name: str) -> DueRewrite | JobOutcome | None:
        body = partial(
            _measured_rewrite,
            clusterings[name],
            tables[name].table,
            operations,
            at_ms=round(starts * 1000),
            is_open=at_start.is_open,
        )
        return _attempt(name, JobKind.CLUSTER, body, diagnose)

    due: dict[str, DueRewrite] = {}
    for name, found in zip(clusterings, map_each(clusterings, measure), strict=True):
        if isinstance(found, JobOutcome):
            run(name, (found,))
        elif found is not None:
            due[name] = found
    # The hours of the budget begin here. The window ends when it ends, whatever the time until here.
    stops = _earliest(None if operations.seconds is None else clock() + operations.seconds, ends)
    limits = replace(at_start, usual_bytes_per_second=usual_throughput(due.values()))
    begun: list[RankedRewrite] = []
    with _SideBySide(operations.parallel) as tables_at_once:
        while True:
            seconds = None if stops is None else max(stops - clock(), 0)
            spent_bytes = launch.spent_bytes + sum(one.taken_bytes for one in tables_at_once.running)
            ranked = rank_rewrites(
                tuple(due.values()), replace(limits, seconds=seconds, spent_bytes=spent_bytes)
            )
            chosen = next((one for one in ranked if one.taken_groups), None)
            if chosen is None and not tables_at_once.running:
                break
            if chosen is None or tables_at_once.is_full:
                tables_at_once.wait()
                continue
            del due[chosen.table]
            begun.append(chosen)
            launch.taken_bytes[chosen.table] = chosen.taken_bytes
            job = _limited(clusterings[chosen.table], chosen, stops=stops)
            tables_at_once.start(chosen, partial(run, chosen.table, (job,)))
    _serve(left, tables, run=run, may_serve=may_serve, clock=clock, until=ends)
    return RunOrder(
        starts_ms=round(starts * 1000),
        rewrite_bytes=at_start.rewrite_bytes,
        seconds=at_start.seconds,
        tables=(*begun, *ranked),
    )


def _serve(
    names: Sequence[str],
    tables: Mapping[str, _TableJobs],
    *,
    run: Callable[[str, Sequence[JobPlan | JobOutcome]], None],
    may_serve: Callable[[str], bool],
    clock: Callable[[], float],
    until: float | None,
) -> list[str]:
    """Clean and archive tables, and return those for which the time until then was too short."""
    for number, name in enumerate(names):
        if until is not None and clock() >= until:
            return list(names[number:])
        if may_serve(name):
            run(name, [job for job in tables[name].services if job.kind is not JobKind.CLUSTER])
    return []


def _earliest(first: float | None, second: float | None) -> float | None:
    """Return the earlier of two times, of which None never comes."""
    return min((each for each in (first, second) if each is not None), default=None)


class _SideBySide:
    """The tables that are rewritten at the same time, each in a thread; a single one needs no thread.

    If the block ends by an error or an interruption, the threads begin nothing more. Their Spark jobs are
    cancelled until the threads have ended, because a thread between two jobs may just begin the next.
    """

    def __init__(self, tables: int) -> None:
        """Allow a number of tables at the same time."""
        self._tables = tables
        self._pool = ThreadPoolExecutor(tables, thread_name_prefix="table")
        self._futures: dict[Future[None], RankedRewrite] = {}
        self._interruption = Interruption()

    @property
    def running(self) -> tuple[RankedRewrite, ...]:
        """The tables that have started, and that no wait has seen ending."""
        return tuple(self._futures.values())

    @property
    def is_full(self) -> bool:
        """True if no other table may start."""
        return len(self._futures) >= self._tables

    def start(self, table: RankedRewrite, body: Callable[[], None]) -> None:
        """Start the work on a table; if only one is allowed, do it."""
        if self._tables == 1:
            body()
        else:
            self._futures[self._pool.submit(self._interruption.run, body)] = table

    def wait(self) -> None:
        """Wait until a table ends, and raise what its thread raised."""
        ended, _ = wait(self._futures, return_when=FIRST_COMPLETED)
        for future in ended:
            del self._futures[future]
            future.result()

    def _interrupt(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        while True:
            self._interruption.request()
            cancel_spark_jobs()
            running = [future for future in self._futures if not future.done()]
            if not running:
                return
            wait(running, timeout=_SECONDS_BETWEEN_CANCELS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._interrupt()
        self._pool.shutdown(wait=True)


def _measured_rewrite(
    job: JobPlan, table: ResolvedTable, operations: Operations, *, at_ms: int, is_open: bool
) -> DueRewrite | None:
    """Return what a run may rewrite of a table, or None if no clustering is due.

    While the window is closed, nothing is measured.
    """
    handle = _opened(job)
    if not is_clustering_due(handle, Trigger.ASYNC):
        return None
    if not is_open:
        return DueRewrite(table=table.name, groups=(), max_groups=0)
    spec = handle.spec
    assert spec is not None, "what is applied has a spec"
    assert job.budget_bytes is not None, "a run has a budget"
    check_strategies(spec.clustering, handle.store.allowed)
    with handle.failures_masked():
        debt = retry_stale(due_figures)(handle, spec, budget_bytes=job.budget_bytes, with_gain=True)
    return due_rewrite(table, debt, operations, at_ms=at_ms)


def _limited(job: JobPlan, ranked: RankedRewrite, *, stops: float | None) -> JobPlan:
    """Return a clustering job that rewrites what was taken of its table, and stops in time."""
    assert job.budget_bytes is not None, "a run has a budget"
    stops_at_ms = None if stops is None else round(stops * 1000)
    return replace(job, spent_bytes=ranked.budget(job.budget_bytes).spent_bytes, stops_at_ms=stops_at_ms)


def _since(started_at: float) -> float:
    """Return the seconds since a reading of the monotonic clock."""
    return round(time.monotonic() - started_at, 1)


def _tests(
    workspace: Workspace,
    outcomes: Sequence[JobOutcome],
    *,
    run_id: str,
    launch: Launch,
    observer: Observer,
    diagnose: Diagnose,
) -> TableTests:
    """Run the tests of tables without failed jobs, after all jobs, because tests may compare tables."""
    target = workspace.project.target
    failed = {outcome.table for outcome in outcomes if outcome.error is not None}
    tables = [tests_of(workspace, table) for table in workspace.tables if table.name not in failed]

    def observed(plan: JobPlan) -> JobResult:
        observer.started(plan)
        result = _attempt(plan.table, plan.name, partial(launch, plan), diagnose)
        outcome = result if isinstance(result, JobOutcome) else _outcome(plan, result)
        observer.ended(outcome)
        if isinstance(result, JobOutcome):
            assert result.error is not None, "an attempt without a result has failed"
            raise result.error
        return result

    rows = RowExecution(launch=observed, diagnose=diagnose)
    return execute_tests(
        [table for table in tables if table.tests], run_id=run_id, target=target.name, rows=rows
    )


def cluster_job(workspace: Workspace, table: ResolvedTable, *, applied: bool = False) -> JobPlan:
    """Return the job that clusters the due files of a table by its applied spec, whatever its trigger is.

    If ``applied`` is True, the applied record may differ from the declared spec.

    Raises:
        UnappliedError: If no spec is applied, or if a setting of the target may not be used.
        ForeignTableError: If the table belongs to another project or target.
        StalePlanError: If the applied spec is not the declared one.
    """
    check_allowed(workspace)
    return _job(workspace, table, _applied(workspace, table, trusts_record=applied), JobKind.CLUSTER)


def _applied(workspace: Workspace, table: ResolvedTable, *, trusts_record: bool) -> Observation:
    """Return the table with its applied spec.

    Unless ``trusts_record`` is set, the applied spec must equal the declared one.

    Raises:
        ForeignTableError: If the table belongs to another project or target.
        UnappliedError: If no spec is applied.
        StalePlanError: If the applied spec must not be used because it is not declared.
    """
    observation = observe(workspace.store(table), declared=table.spec)
    if observation is not None:
        observation.check_owner(workspace.owner)
    if observation is None or not observation.is_applied or observation.handle.spec is None:
        raise workspace.unapplied_error(table)
    if observation.handle.fault is not None:
        raise observation.handle.fault.error()
    check_signed(observation.handle.store.uri, observation.handle.record_signature, workspace.signing_keys)
    if not trusts_record:
        check_declared(observation, table.spec)
    else:
        check_named(observation, table.spec)
    check_in_force(workspace, table, observation.handle.applied)
    return observation


def _run_jobs(
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
            if plan.name == _OPEN:
                return
            continue
        is_due = _attempt(plan.table, plan.name, partial(_is_due, plan), diagnose)
        if isinstance(is_due, JobOutcome):
            yield is_due
            return
        if not is_due:
            continue
        if is_interrupted():
            return
        observer.started(plan)
        started_at = time.monotonic()
        result = _attempt(plan.table, plan.name, partial(launch, plan), diagnose)
        outcome = result if isinstance(result, JobOutcome) else _outcome(plan, result)
        outcome = replace(outcome, seconds=_since(started_at))
        if outcome.error is not None:
            _locate(outcome.error, plan.spec, table)
        observer.ended(outcome)
        yield outcome
        if outcome.error is not None:
            return


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
    if plan.kind is not JobKind.CLUSTER:
        return True
    return is_clustering_due(_opened(plan), Trigger.ASYNC)


def _opened(plan: JobPlan) -> TableHandle:
    """Return the table of a job."""
    store = open_store(plan.location, resolve_environment(plan.storage), plan.spec.allowed)
    return open_table(store, owner=plan.owner)


def _outcome(plan: JobPlan, result: JobResult) -> JobOutcome:
    """Return the outcome of a job that ended with a result."""
    return JobOutcome(table=plan.table, name=plan.name, result=result)


def _attempt(table: str, name: str, body: Callable[[], _Result], diagnose: Diagnose) -> _Result | JobOutcome:
    """Return the result of ``body``, or a failed outcome if it raises an error."""
    try:
        return body()
    except ParquetryError as failure:
        return JobOutcome(table=table, name=name, error=failure)
    except Exception as bug:  # noqa: BLE001  # a bug in one table must not end the run of the others
        return JobOutcome(table=table, name=name, error=diagnose(bug))


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableJobs:
    """The jobs of a table. ``first`` are the ingest jobs, and outcomes that report why a job is impossible.

    ``clustered`` is the instant of the last clustering, empty if there is none.
    """

    table: ResolvedTable
    first: tuple[JobPlan | JobOutcome, ...]
    services: tuple[JobPlan, ...] = ()
    clustered: str = ""


class _BudgetedLauncher:
    """A launcher whose clustering jobs share the budget of the run.

    ``taken_bytes`` are those of the groups that the run takes of a table, by its name. If the clustering of
    the table fails without a result, all of them count as rewritten.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._turn = Lock()
        self.spent_bytes = 0
        self.taken_bytes: dict[str, int] = {}

    def __call__(self, job: JobPlan) -> JobResult:
        """Run a job; a clustering gets what earlier clusterings of the run have left of the budget."""
        if job.kind is not JobKind.CLUSTER:
            return self._launch(job)
        try:
            spent_bytes = max(self.spent_bytes, job.spent_bytes or 0)
            result = self._launch(replace(job, spent_bytes=spent_bytes))
        except PartlyClusteredError as partly:
            self._spend(partly.result.attempted_bytes)
            raise
        except Exception:
            self._spend(self.taken_bytes.get(job.table, 0))
            raise
        if result.clustering is not None:
            self._spend(result.clustering.attempted_bytes)
        return result

    def _spend(self, size_bytes: int) -> None:
        with self._turn:
            self.spent_bytes += size_bytes


def _jobs(
    workspace: Workspace,
    table: ResolvedTable,
    only: Only | None,
    diagnose: Diagnose,
    *,
    applied: bool,
    unapplied: set[str],
) -> _TableJobs:
    """Return the jobs of a table.

    Settings of the target that they use but the table does not record are added to ``unapplied``.
    """
    observation = _attempt(
        table.name, _OPEN, lambda: _applied(workspace, table, trusts_record=applied), diagnose
    )
    if isinstance(observation, JobOutcome):
        return _TableJobs(table=table, first=(observation,))
    handle = observation.handle
    unapplied.update(check_in_force(workspace, table, handle.applied))
    assert handle.spec is not None, "what is applied has a spec"
    first: list[JobPlan | JobOutcome] = []
    # Writes to partitions with damaged files are refused later. Jobs in other partitions continue.
    checked = _attempt(table.name, _FILES, lambda: check_files(observation, every_partition=False), diagnose)
    if isinstance(checked, JobOutcome):
        first.append(checked)
    if only is not Only.SERVICES:
        first += [
            _job(workspace, table, observation, JobKind.INGEST, source=source)
            for source in handle.spec.sources
        ]
    if only is Only.INGEST:
        return _TableJobs(table=table, first=tuple(first))
    services = [_job(workspace, table, observation, JobKind.SERVICES)]
    clustered: str | JobOutcome = ""
    if trigger_of(handle) is Trigger.ASYNC:
        services.insert(0, _job(workspace, table, observation, JobKind.CLUSTER))
        # An error here is ignored, because the job fails with the same error and reports it.
        clustered = _attempt(
            table.name, JobKind.CLUSTER, lambda: last_clustering(handle.timeline()), diagnose
        )
    return _TableJobs(
        table=table,
        first=tuple(first),
        services=tuple(services),
        clustered="" if isinstance(clustered, JobOutcome) else clustered,
    )


def _job(
    workspace: Workspace,
    table: ResolvedTable,
    observation: Observation,
    kind: JobKind,
    *,
    source: Source | None = None,
) -> JobPlan:
    """Return a job of a table by its applied spec, which fails if the table has changed since."""
    spec, applied = observation.handle.spec, observation.handle.applied
    assert spec is not None, "what is applied has a spec"
    assert applied is not None, "what is applied has a record"
    requirements = Requirements(
        exists=True,
        table_id=observation.handle.table_id,
        applied_number=applied.number,
        applied_digest=applied.digest,
    )
    plan = job(workspace, table, spec, kind=kind, source=source, requirements=requirements)
    return replace(plan, plan_id=applied.plan_id)


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


def _save(root: Path, result: RunResult) -> ParquetryError | None:
    """Save the results of the run, and return an error if they cannot be written."""
    return save_results(
        root,
        result.run_id,
        to_json(result),
        kept=Message("the commits of the run are kept, {command} shows them", command=command("timeline")),
    )
