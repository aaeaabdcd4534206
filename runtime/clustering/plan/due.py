"""The due clustering of a table, and whether it should start now.

A write that checks and finds nothing to do records this. Otherwise each write after the first due one would
check again, list all partitions and read statistics.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from parquetry.runtime.clustering.forecast.by_sample import PredictedGroups
from parquetry.runtime.clustering.forecast.queries import QueryForecast, sum_by_query
from parquetry.runtime.clustering.forecast.sample import SampleLimits
from parquetry.runtime.clustering.forecast.scope import ScopeBySample
from parquetry.runtime.clustering.plan.history import (
    ForecastErrorSummary,
    completed_clusterings,
    forecast_error,
)
from parquetry.runtime.clustering.plan.schedule import applied_policy, predict_groups, schedule
from parquetry.runtime.clustering.plan.survey import commits_since_clustering, survey
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.model import Debt
from parquetry.runtime.layout.clustering.run_budget import NO_LIMIT, RunBudget, limited_to_budget
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.rereading import retry_stale
from parquetry.runtime.timeline.sidecars import CLUSTERING_CHECK_PATH
from parquetry.runtime.timing import DEFAULT_TIMING, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class DueClustering:
    """The groups that one run would rewrite (``debt.groups``); ``debt.excluded`` has all other files and why.

    ``predicted`` has the predictions that chose the scope of groups. ``timeline`` is the one by which the
    groups are due.
    """

    debt: Debt
    predicted: PredictedGroups
    timeline: Timeline


@retry_stale
def due_clustering(
    table: TableHandle,
    *,
    budget: RunBudget = NO_LIMIT,
    limits: SampleLimits | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> DueClustering:
    """Return what a run would rewrite now, within the ``budget`` and the policy's ``max_groups``.

    If ``scope: auto`` has a choice, it reads a sample of the rows, within the ``limits``.
    """
    timeline = table.timeline()
    spec, files, situation = survey(table, timeline, timing=timing)
    choose = ScopeBySample(table.store, table.effective_spec(timeline), spec, limits=limits)
    due_debt = compute_debt(spec, files, situation, budget_bytes=budget.limit_bytes, choose=choose)
    return DueClustering(
        debt=limited_to_budget(due_debt, budget, max_groups=spec.plan.max_groups),
        predicted=choose.predicted,
        timeline=timeline,
    )


@retry_stale
def due_by_statistics(
    table: TableHandle, budget: RunBudget = NO_LIMIT, *, timing: Timing = DEFAULT_TIMING
) -> Debt:
    """Return what a run would rewrite now, with scopes chosen by statistics; it reads no rows."""
    spec, files, situation = survey(table, table.timeline(), timing=timing)
    due_debt = compute_debt(spec, files, situation, budget_bytes=budget.limit_bytes)
    return limited_to_budget(due_debt, budget, max_groups=spec.plan.max_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringForecast:
    """The files that a run or a plan rewrites (``debt``), and the expected reads of its ``queries`` then.

    ``forecast_error`` summarizes the errors of past predictions; None if there are none.
    """

    debt: Debt = field(default_factory=Debt)
    queries: tuple[QueryForecast, ...] = ()
    forecast_error: ForecastErrorSummary | None = None


@retry_stale
def forecast_due(
    table: TableHandle, due: DueClustering, *, limits: SampleLimits | None = None
) -> ClusteringForecast:
    """Return the forecast of a run, for as many groups as a sample within the ``limits`` covers."""
    if not table.effective_spec(due.timeline).extra.queries:
        return ClusteringForecast(debt=due.debt)
    predicted = predict_groups(
        table, due.debt.groups, predicted=due.predicted, known=due.timeline, limits=limits
    )
    return _forecast(
        table, due.debt, sum_by_query(query for one in predicted.values() for query in one.queries)
    )


@retry_stale
def _forecast(table: TableHandle, debt: Debt, queries: tuple[QueryForecast, ...]) -> ClusteringForecast:
    """Return the forecast of these queries, with the errors of past predictions."""
    past = forecast_error(completed_clusterings(table, table.timeline())) if queries else None
    return ClusteringForecast(debt=debt, queries=queries, forecast_error=past)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledClustering:
    """A scheduled plan; ``instant`` is None if nothing was due, or if writers have changed all of it."""

    instant: str | None = None
    forecast: ClusteringForecast = field(default_factory=ClusteringForecast)


def schedule_clustering(
    table: TableHandle, *, budget: RunBudget = NO_LIMIT, timing: Timing = DEFAULT_TIMING
) -> ScheduledClustering:
    """Schedule one plan, for another process to execute, of what a run would do now.

    The errors are those of :func:`~parquetry.runtime.clustering.plan.schedule.schedule`.
    """
    due = due_clustering(table, budget=budget, timing=timing)
    groups = due.debt.groups
    if not groups:
        return ScheduledClustering()
    plan = schedule(table, groups, predicted=due.predicted, known=due.timeline, timing=timing)
    if plan is None:
        return ScheduledClustering()
    partitions = {group.partition for group in plan.groups}
    choices = tuple(choice for choice in due.debt.choices if choice.partition in partitions)
    return ScheduledClustering(
        instant=plan.instant,
        forecast=_forecast(table, Debt(groups=plan.groups, choices=choices), plan.queries),
    )


def is_clustering_due(table: TableHandle, trigger: Trigger) -> bool:
    """Return whether the table's policy requires a clustering now from that trigger.

    This is so if ``every_commits`` writes were completed since the last clustering. It is also so directly
    after a clustering, to continue with the groups that it left. If an inline clustering finds nothing to do,
    the next check follows only after as many writes. Archived writes cannot be counted, so as many writes as
    the timeline keeps are always enough.
    """
    policy = applied_policy(table)
    if table.spec is None or policy.trigger is not trigger:
        return False
    timeline = table.timeline()
    commits = commits_since_clustering(timeline)
    if commits_until_due(commits, table.spec):
        return False
    checked = commits_since_check(table, timeline) if trigger is Trigger.INLINE and commits else None
    return checked is None or checked >= _commits_required(table.spec)


def commits_until_due(commits: int, spec: TableSpec) -> int:
    """Return how many more writes have to complete until the policy starts a clustering.

    Args:
        commits: The writes since the last clustering. If there are none, the result is 0: the next clustering
            continues at once with what the last one left.
        spec: The applied spec.

    """
    return max(0, _commits_required(spec) - commits) if commits else 0


def _commits_required(spec: TableSpec) -> int:
    """Return the number of writes that make a clustering due."""
    return min(spec.clustering.every_commits, spec.retention.archive_keep_commits)


def trigger_of(table: TableHandle) -> Trigger:
    """Return the trigger of the table's clustering in the applied spec, or OFF without an applied spec."""
    return applied_policy(table).trigger


def record_check(table: TableHandle) -> None:
    """Record that a check found nothing to do for the current writes and the applied spec."""
    writes = table.timeline().completed_writes
    known = {"instant": writes[-1].time if writes else "", "applied": _applied_number(table)}
    table.store.put(CLUSTERING_CHECK_PATH, json.dumps(known).encode())


def commits_since_check(table: TableHandle, timeline: Timeline) -> int | None:
    """Return how many writes completed since the last check, or None without one under the applied spec."""
    try:
        known = parsed_json(table.store.read(CLUSTERING_CHECK_PATH))
        if known["applied"] != _applied_number(table):
            return None
        instant = str(known["instant"])
        return sum(write.time > instant for write in timeline.completed_writes)
    except (NotFoundError, ValueError, KeyError, TypeError):
        # The record only delays the next check. Without it, the check is made now.
        return None


def _applied_number(table: TableHandle) -> int | None:
    return None if table.applied is None else table.applied.number
