"""`run`: ingest due sources, then execute due services, by applied records that the project declares too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock

from parquetry.compiler.jobs.attempts import Diagnose, attempt, outcome_of, run_jobs, seconds_since
from parquetry.compiler.jobs.by_operations import run_by_operations
from parquetry.compiler.jobs.launch import BudgetedLauncher, Launch
from parquetry.compiler.jobs.observers import InTurn, Observer, WithLineage
from parquetry.compiler.jobs.results import FILES, OPEN, SYNC, JobOutcome, RunResult, save
from parquetry.compiler.jobs.table_jobs import Only, observe_applied, table_jobs
from parquetry.compiler.lineage.emission import lineage_of
from parquetry.compiler.plan.target_changes import check_allowed
from parquetry.compiler.testing.execution import RowExecution, execute_tests
from parquetry.compiler.testing.model import TableTests
from parquetry.compiler.testing.tables import tests_of
from parquetry.compiler.workspace.catalogs import handle_of, sync_table
from parquetry.compiler.workspace.opened import Workspace
from parquetry.compiler.workspace.run_results import recorded_run
from parquetry.errors import ParquetryError
from parquetry.project import ResolvedTable
from parquetry.runtime.errors import CatalogError
from parquetry.runtime.layout.clustering.run_budget import by_last_clustering
from parquetry.runtime.main import JobResult
from parquetry.runtime.spec.job import JobPlan


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
            observer=WithLineage(observer, lineage),
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
        table_jobs(workspace, table, only, diagnose, applied=applied, unapplied=unapplied)
        for table in workspace.tables
    ]
    all_jobs = tuple(
        plan for jobs in planned for plan in (*jobs.first, *jobs.services) if isinstance(plan, JobPlan)
    )
    launch = BudgetedLauncher(prepare(all_jobs))
    observer, turn = InTurn(observer), Lock()
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
        done = tuple(run_jobs(by_name[name].table, jobs, launch, observer, diagnose))
        with turn:
            ran[name] += done
            outcomes = tuple(outcome for of_table in ran.values() for outcome in of_table)
            result = replace(result, outcomes=outcomes)
            if any(outcome.is_worth_saving for outcome in done):
                # If the run is killed later, the results up to here are saved.
                save(root, result)

    for name, jobs in by_name.items():
        run(name, jobs.first)

    def may_serve(name: str) -> bool:
        return all(outcome.error is None or outcome.name == FILES for outcome in ran[name])

    operations = workspace.project.target.operations
    if operations is None or only is Only.INGEST:
        for name in by_last_clustering({name: jobs.clustered for name, jobs in by_name.items()}):
            if may_serve(name):
                run(name, by_name[name].services)
    else:
        order = run_by_operations(
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
        if all(outcome.name != OPEN for outcome in ran[name]):
            run(name, _synced(workspace, jobs.table, diagnose, applied=applied, outages=outages))
    if workspace.project.target.tests_after_run:
        tests = _tests(
            workspace, result.outcomes, run_id=run_id, launch=launch, observer=observer, diagnose=diagnose
        )
        result = replace(result, tests=tests)
    result = replace(result, seconds=seconds_since(started_at))
    return replace(result, unsaved=save(root, result))


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
            handle = handle_of(observe_applied(workspace, table, trusts_record=applied))
            synced = sync_table(workspace, table, handle, restores=False)
        except ParquetryError as failure:
            if isinstance(failure, CatalogError) and failure.is_outage:
                outages[catalog] = failure
            return JobResult(table=table.name, job=SYNC, warnings=(failure.message,))
        warnings = () if synced is None else synced.warnings
        return JobResult(table=table.name, job=SYNC, synced=synced, warnings=warnings)

    result = attempt(table.name, SYNC, body, diagnose)
    if not isinstance(result, JobOutcome):
        result = JobOutcome(table=table.name, name=SYNC, result=result)
    return (replace(result, seconds=seconds_since(started_at)),)


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
        result = attempt(plan.table, plan.name, partial(launch, plan), diagnose)
        outcome = result if isinstance(result, JobOutcome) else outcome_of(plan, result)
        observer.ended(outcome)
        if isinstance(result, JobOutcome):
            assert result.error is not None, "an attempt without a result has failed"
            raise result.error
        return result

    rows = RowExecution(launch=observed, diagnose=diagnose)
    return execute_tests(
        [table for table in tables if table.tests], run_id=run_id, target=target.name, rows=rows
    )
