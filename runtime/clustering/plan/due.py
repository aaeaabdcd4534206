"""Which clustering of a table is due, and whether it is time for it.

A write that looks and finds that nothing can be done notes it. Without that note every write behind
the first due one would look again: lists all partitions, reads statistics.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from parquetry.runtime.clustering.forecast.by_sample import PredictedGroups
from parquetry.runtime.clustering.forecast.queries import QueryForecast, added_up
from parquetry.runtime.clustering.forecast.sample import SampleLimits
from parquetry.runtime.clustering.forecast.scope import ScopeBySample
from parquetry.runtime.clustering.plan.forecast import predict_groups
from parquetry.runtime.clustering.plan.history import (
    ForecastErrorSummary,
    completed_clusterings,
    forecast_error,
)
from parquetry.runtime.clustering.plan.schedule import schedule
from parquetry.runtime.clustering.plan.survey import commits_since_clustering, survey
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.layout.clustering.debt import debt
from parquetry.runtime.layout.clustering.model import Debt
from parquetry.runtime.layout.clustering.run_budget import NO_LIMIT, RunBudget, within
from parquetry.runtime.spec.clustering import ClusteringSpec, Trigger
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.rereading import read_again
from parquetry.runtime.timeline.sidecars import CLUSTERING_CHECK_PATH
from parquetry.runtime.timing import DEFAULT_TIMING, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class DueClustering:
    """What one run would do: ``debt.groups``; every other file is among ``debt.excluded``, with a reason.

    ``predicted`` is what was predicted to choose the scope of groups.
    """

    debt: Debt
    predicted: PredictedGroups


@read_again
def due_clustering(
    table: TableHandle,
    *,
    budget: RunBudget = NO_LIMIT,
    limits: SampleLimits | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> DueClustering:
    """What a run would rewrite now, within the ``budget`` and the policy's ``max_groups``.

    Where ``scope: auto`` has something to choose, a sample of the rows is read, within the ``limits``.
    """
    timeline = table.timeline()
    spec, files, situation = survey(table, timeline, timing=timing)
    choose = ScopeBySample(table.store, table.effective_spec(timeline), spec, limits=limits)
    due_debt = debt(spec, files, situation, budget_bytes=budget.limit_bytes, choose=choose)
    return DueClustering(
        debt=within(due_debt, budget, max_groups=spec.plan.max_groups),
        predicted=choose.predicted,
    )


@read_again
def due_by_statistics(
    table: TableHandle, budget: RunBudget = NO_LIMIT, *, timing: Timing = DEFAULT_TIMING
) -> Debt:
    """What a run would rewrite now; no rows are read, statistics choose the scope."""
    spec, files, situation = survey(table, table.timeline(), timing=timing)
    due_debt = debt(spec, files, situation, budget_bytes=budget.limit_bytes)
    return within(due_debt, budget, max_groups=spec.plan.max_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringForecast:
    """What a run or a plan rewrites (``debt``), and what its ``queries`` read of these files then.

    ``forecast_error`` is how good such predictions were before, None when none was made.
    """

    debt: Debt = field(default_factory=Debt)
    queries: tuple[QueryForecast, ...] = ()
    forecast_error: ForecastErrorSummary | None = None


@read_again
def forecast_due(
    table: TableHandle, due: DueClustering, *, limits: SampleLimits | None = None
) -> ClusteringForecast:
    """What is predicted of a run, of as many groups as a sample within the ``limits`` suffices for."""
    if not table.effective_spec(table.timeline()).extra.queries:
        return ClusteringForecast(debt=due.debt)
    predicted = predict_groups(table, due.debt.groups, known=due.predicted, limits=limits)
    return _forecast(table, due.debt, added_up(query for one in predicted.values() for query in one.queries))


@read_again
def _forecast(table: TableHandle, debt: Debt, queries: tuple[QueryForecast, ...]) -> ClusteringForecast:
    past = forecast_error(completed_clusterings(table, table.timeline())) if queries else None
    return ClusteringForecast(debt=debt, queries=queries, forecast_error=past)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledClustering:
    """A plan left on the timeline; ``instant`` is None when nothing was due, or writers had all of it."""

    instant: str | None = None
    forecast: ClusteringForecast = field(default_factory=ClusteringForecast)


def schedule_clustering(
    table: TableHandle, *, budget: RunBudget = NO_LIMIT, timing: Timing = DEFAULT_TIMING
) -> ScheduledClustering:
    """What was planned for another process to execute, as one plan: what a run would do now.

    The errors are those of :func:`~parquetry.runtime.clustering.plan.schedule.schedule`.
    """
    due = due_clustering(table, budget=budget, timing=timing)
    groups = due.debt.groups
    plan = schedule(table, groups, predicted=due.predicted, timing=timing) if groups else None
    if plan is None:
        return ScheduledClustering()
    partitions = {group.partition for group in plan.groups}
    choices = tuple(choice for choice in due.debt.choices if choice.partition in partitions)
    return ScheduledClustering(
        instant=plan.instant,
        forecast=_forecast(table, Debt(groups=plan.groups, choices=choices), plan.queries),
    )


def is_time(table: TableHandle, trigger: Trigger) -> bool:
    """Whether the table's policy wants clustering now, of that trigger.

    It does when ``every_commits`` writes have been completed since the last one, and also right after
    one: what that had to leave is then paid on. Writes that cluster inline look again only after as
    many writes when there was nothing that could be done. Writes that were archived cannot be counted:
    as many as the timeline keeps are always enough.
    """
    policy = _applied(table)
    if table.spec is None or policy.trigger is not trigger:
        return False
    timeline = table.timeline()
    commits = commits_since_clustering(timeline)
    if commits_until_due(commits, table.spec):
        return False
    checked = commits_since_check(table, timeline) if trigger is Trigger.INLINE and commits else None
    return checked is None or checked >= _enough(table.spec)


def commits_until_due(commits: int, spec: TableSpec) -> int:
    """Return how many more writes have to complete before a clustering starts by the policy.

    ``commits`` are the writes since the last one; right after it, what it had to leave is paid on.
    """
    return max(0, _enough(spec) - commits) if commits else 0


def _enough(spec: TableSpec) -> int:
    return min(spec.clustering.every_commits, spec.retention.archive_keep_commits)


def trigger_of(table: TableHandle) -> Trigger:
    """Who starts the table's clustering, by the applied spec; nobody without one."""
    return _applied(table).trigger


def _applied(table: TableHandle) -> ClusteringSpec:
    if table.spec is None:
        return ClusteringSpec()
    return table.spec.clustering


def record_check(table: TableHandle) -> None:
    """Record that by the writes there are, and by what is applied, there was nothing to be done."""
    writes = table.timeline().completed_writes
    known = {"instant": writes[-1].time if writes else "", "applied": _applied_number(table)}
    table.store.put(CLUSTERING_CHECK_PATH, json.dumps(known).encode())


def commits_since_check(table: TableHandle, timeline: Timeline) -> int | None:
    """How many writes were completed since; None when nobody looked by what is applied now."""
    try:
        known = parsed_json(table.store.read(CLUSTERING_CHECK_PATH))
        if known["applied"] != _applied_number(table):
            return None
        instant = str(known["instant"])
        return sum(write.time > instant for write in timeline.completed_writes)
    except (NotFoundError, ValueError, KeyError, TypeError):
        # It says only when to look again: without it that is now.
        return None


def _applied_number(table: TableHandle) -> int | None:
    return None if table.applied is None else table.applied.number
