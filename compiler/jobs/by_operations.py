"""The services of a run by the operations of its target: the window, the budget, and the order of tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from parquetry.compiler.evidence.due_rewrites import due_rewrite, run_limits
from parquetry.compiler.evidence.figures import due_figures
from parquetry.compiler.evidence.run_order import (
    DueRewrite,
    RankedRewrite,
    RunOrder,
    rank_rewrites,
    usual_throughput,
)
from parquetry.compiler.jobs.attempts import Attempts, opened
from parquetry.compiler.jobs.results import Diagnose, JobOutcome, attempt
from parquetry.compiler.jobs.side_by_side import SideBySide
from parquetry.project import ResolvedTable
from parquetry.project.model.operations import Operations
from parquetry.project.model.resolved import Target
from parquetry.runtime.clustering.plan.due import is_clustering_due
from parquetry.runtime.clustering.rewrite.strategies import check_strategies
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.job import JobPlan
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.timeline.instant import Action, State
from parquetry.runtime.timeline.rereading import retry_stale


def run_by_operations(
    attempts: Attempts, target: Target, operations: Operations, *, clock: Callable[[], float]
) -> RunOrder:
    """Run the services of tables by the target's operations, and return the order of the rewrites.

    Cleans and archives rewrite nothing, so they come first and use no budget. If they need more than half of
    what is left of the window, the others follow after the clusterings, as far as they end in the window by
    the time that the last clean of the table took. Before each clustering the tables are ranked again, by the
    bytes and the time that are left.

    ``clock`` returns the time in seconds since 1970 (UTC).
    """
    starts = clock()
    at_start = run_limits(target, operations, at=starts)
    ends = None if operations.window is None else operations.window.next_span(starts)[1]
    left = []
    for name in attempts.tables if at_start.is_open else ():
        if ends is not None and clock() >= (starts + ends) / 2:
            left.append(name)
        elif attempts.may_serve(name):
            attempts.run(name, attempts.tables[name].services)
    clusterings = {
        name: job
        for name, jobs in attempts.tables.items()
        if attempts.may_serve(name)
        for job in jobs.clustering
    }

    def measure(job: JobPlan) -> DueRewrite | JobOutcome | None:
        table, at_ms = attempts.tables[job.table].table, round(starts * 1000)
        body = partial(_measured_rewrite, job, table, operations, at_ms=at_ms, is_open=at_start.is_open)
        return attempt(job.table, job.name, body, attempts.diagnose)

    due: dict[str, DueRewrite] = {}
    for name, found in zip(clusterings, map_each(clusterings.values(), measure), strict=True):
        if isinstance(found, JobOutcome):
            attempts.run(name, (found,))
        elif found is not None:
            due[name] = found
    # The hours of the budget begin here. The window ends when it ends, whatever the time until here.
    hours_end = None if operations.seconds is None else clock() + operations.seconds
    stops = min((each for each in (hours_end, ends) if each is not None), default=None)
    limits = replace(at_start, usual_bytes_per_second=usual_throughput(due.values()))
    begun: list[RankedRewrite] = []
    with SideBySide(operations.parallel) as tables_at_once:
        while True:
            seconds = None if stops is None else max(stops - clock(), 0)
            running_bytes = sum(one.taken_bytes for one in tables_at_once.running)
            spent_bytes = attempts.launcher.spent_bytes + running_bytes
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
            job = replace(
                clusterings[chosen.table],
                spent_bytes=chosen.budget(target.services_bytes).spent_bytes,
                stops_at_ms=None if stops is None else round(stops * 1000),
            )
            tables_at_once.start(chosen, partial(attempts.run, chosen.table, (job,)))
    for name in left:
        jobs = attempts.tables[name].services if attempts.may_serve(name) else ()
        if jobs and ends is not None and clock() + _clean_seconds(jobs[0], attempts.diagnose) < ends:
            attempts.run(name, jobs)
    return RunOrder(
        starts_ms=round(starts * 1000),
        rewrite_bytes=at_start.rewrite_bytes,
        seconds=at_start.seconds,
        currency=at_start.currency,
        tables=(*begun, *ranked),
        spent_bytes=attempts.launcher.spent_bytes,
    )


def _clean_seconds(job: JobPlan, diagnose: Diagnose) -> float:
    """Return how long the last clean of a job's table took, 0 if that is not known."""

    def measured() -> float:
        timeline = opened(job).timeline()
        cleans = timeline.of(Action.CLEAN, state=State.COMPLETED)
        return timeline.clean_metadata(cleans[-1].time).time_taken_ms / 1000 if cleans else 0

    # An error here is ignored, because the job fails with the same error and reports it.
    seconds = attempt(job.table, job.name, measured, diagnose)
    return 0 if isinstance(seconds, JobOutcome) else seconds


def _measured_rewrite(
    job: JobPlan, table: ResolvedTable, operations: Operations, *, at_ms: int, is_open: bool
) -> DueRewrite | None:
    """Return what a run may rewrite of a table, or None if no clustering is due.

    While the window is closed, nothing is measured.
    """
    handle = opened(job)
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
