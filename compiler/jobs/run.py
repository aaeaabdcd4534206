"""`run`: ingest due sources, then execute due services, by applied records that the project declares too."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from parquetry.compiler.evidence.run_order import RunOrder
from parquetry.compiler.jobs.attempts import Attempts
from parquetry.compiler.jobs.by_operations import run_by_operations
from parquetry.compiler.jobs.launch import BudgetedLauncher, Launch
from parquetry.compiler.jobs.observers import Observer, ReportingObserver
from parquetry.compiler.jobs.results import OPEN, SYNC, Diagnose, RunResult, outcome_of, save, seconds_since
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
from parquetry.project.model.resolved import Target
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
    project, started_at = workspace.project, time.monotonic()
    root, target = project.root, project.target
    with (
        recorded_run(
            root,
            run_id,
            target=target.name,
            tables=[table.name for table in workspace.tables],
            started_ms=time.time_ns() // 1_000_000,
        ),
        lineage_of(workspace, command="run", run_id=run_id) as lineage,
    ):
        tables = {
            table.name: table_jobs(workspace, table, only, diagnose, applied=applied)
            for table in workspace.tables
        }
        plans = tuple(plan for jobs in tables.values() for plan in jobs.plans)
        reporting = ReportingObserver(observer, lineage)
        unapplied = sorted({setting for jobs in tables.values() for setting in jobs.unapplied})
        attempts = Attempts(
            tables=tables,
            launcher=BudgetedLauncher(prepare(plans)),
            observer=reporting,
            diagnose=diagnose,
            root=root,
            result=RunResult(run_id=run_id, target=target.name, outcomes=(), unapplied=tuple(unapplied)),
        )
        reporting.planned(plans)
        for name, jobs in tables.items():
            attempts.run(name, jobs.first)
        order = _serve(attempts, target, clock) if only is not Only.INGEST else None
        _sync(attempts, workspace, applied=applied)
        tests = _test(attempts, workspace) if target.tests_after_run else None
        result = replace(attempts.result, order=order, tests=tests, seconds=seconds_since(started_at))
        result = replace(result, unsaved=save(root, result))
        lineage.failed(result.failure)
        return result


def _serve(attempts: Attempts, target: Target, clock: Callable[[], float]) -> RunOrder | None:
    """Run the services of all tables, and return the order of the rewrites if the target has operations."""
    if target.operations is not None:
        return run_by_operations(attempts, target, target.operations, clock=clock)
    for name in by_last_clustering({name: jobs.clustered for name, jobs in attempts.tables.items()}):
        if attempts.may_serve(name):
            attempts.run(name, (*attempts.tables[name].clustering, *attempts.tables[name].services))
    return None


def _sync(attempts: Attempts, workspace: Workspace, *, applied: bool) -> None:
    """Bring the entries of tables in their catalogs to the newest state.

    This catches up what former runs could not write. What keeps an entry from being written is a warning,
    because the commits of the run are complete without it. A catalog that cannot be reached is not asked for
    later tables.
    """
    outages: dict[str, ParquetryError] = {}

    def synced(table: ResolvedTable, catalog: str) -> JobResult:
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

    for name, jobs in attempts.tables.items():
        catalog = jobs.table.spec.extra.catalog
        if catalog is not None and OPEN not in attempts.failures(name):
            body = partial(synced, jobs.table, catalog)
            attempts.run(name, (outcome_of(name, SYNC, body, attempts.diagnose),))


def _test(attempts: Attempts, workspace: Workspace) -> TableTests:
    """Run the tests of tables without failed jobs, after all jobs, because tests may compare tables."""
    tables = [tests_of(workspace, table) for table in workspace.tables if not attempts.failures(table.name)]

    def launch(job: JobPlan) -> JobResult:
        outcome = attempts.launch(job)
        if outcome.result is None:
            assert outcome.error is not None, "an attempt without a result has failed"
            raise outcome.error
        return outcome.result

    return execute_tests(
        [table for table in tables if table.tests],
        run_id=attempts.result.run_id,
        target=attempts.result.target,
        rows=RowExecution(launch=launch, diagnose=attempts.diagnose),
    )
