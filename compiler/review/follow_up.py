"""The follow-up of a plan: what queries were predicted to read after clustering, and what they read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from parquetry.compiler.evidence.costs import requests_of
from parquetry.compiler.evidence.figures import figures_of
from parquetry.compiler.evidence.model import TableFigures
from parquetry.compiler.evidence.money import MeasuredCosts, followed_costs
from parquetry.compiler.git.revisions import RevisionError
from parquetry.compiler.plan.apply import check_project
from parquetry.compiler.plan.guarding import as_merged
from parquetry.compiler.plan.model import PlanDocument, TableAction
from parquetry.compiler.workspace.observation import observe
from parquetry.compiler.workspace.opened import Workspace
from parquetry.runtime.clustering.forecast.queries import MeasuredQuery
from parquetry.runtime.clustering.plan.history import completed_clusterings
from parquetry.runtime.spec.codec import OMIT_EMPTY
from parquetry.runtime.table.applied import applied_history
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.instant import parse_instant_ms


class DebtStatus(StrEnum):
    """The state of the debt of a plan's table."""

    PAID = "paid"
    DUE = "due"
    NOT_APPLIED = "not applied"
    """The plan is not applied, or another one was applied since, so the table's reads are not its effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedFiles:
    """The number of files of a table: before, as predicted with the debt paid, and now."""

    before: int
    expected: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedTable:
    """A table of a plan. ``due_bytes`` are still to be rewritten; figures exist once the debt is paid.

    ``costs`` are set if the plan has prices and all clusterings since recorded their work.
    """

    table: str
    status: DebtStatus
    due_bytes: int = 0
    files: FollowedFiles | None = None
    queries: tuple[MeasuredQuery, ...] = ()
    costs: MeasuredCosts | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """The result of a plan, for those of its tables that have predictions."""

    plan_id: str
    project: str
    target: str
    tables: tuple[FollowedTable, ...]

    @property
    def is_paid(self) -> bool:
        """True if a debt was paid and none is due any more."""
        statuses = {table.status for table in self.tables}
        return DebtStatus.PAID in statuses and DebtStatus.DUE not in statuses


def follow_up(plan: PlanDocument, workspace: Workspace) -> FollowUp:
    """Measure the plan's tables with the functions that predicted their figures.

    Rows that were ingested since then count too.

    Raises:
        StalePlanError: if the plan is for another project or target.

    """
    check_project(plan, workspace)
    intent = plan.intent
    ids = {plan.plan_id}
    with suppress(RevisionError):  # this clone may lack the plan's commit
        ids.add(as_merged(plan, workspace, intent.git_commit).plan_id)
    predicted = [(a, plan.evidence.figures[a.table]) for a in intent.actions if _is_predicted(a, plan)]
    return FollowUp(
        plan_id=plan.plan_id,
        project=intent.project,
        target=intent.target,
        tables=tuple(_followed(action, figures, plan, ids, workspace) for action, figures in predicted),
    )


def _is_predicted(action: TableAction, plan: PlanDocument) -> bool:
    """Return whether the plan predicts that files of the action's table are rewritten."""
    figures = plan.evidence.figures.get(action.table)
    return figures is not None and figures.debt is not None and figures.debt.rewrite_bytes > 0


def _followed(
    action: TableAction, predicted: TableFigures, plan: PlanDocument, ids: set[str], workspace: Workspace
) -> FollowedTable:
    """Return the debt of the action's table now and, if it is paid, what queries read before and after."""
    observation = observe(workspace.store_at(action.location))
    applied = None if observation is None else observation.handle.applied
    if observation is None or observation.spec is None or applied is None or applied.plan_id not in ids:
        return FollowedTable(table=action.table, status=DebtStatus.NOT_APPLIED)
    planned_bytes = _planned_bytes(observation.handle)
    found = figures_of(
        observation.handle,
        observation.spec,
        observation.spec,
        budget_bytes=workspace.project.target.services_bytes,
    ).figures
    due_bytes = planned_bytes + (found.debt.rewrite_bytes if found.debt is not None else 0)
    if due_bytes:
        return FollowedTable(table=action.table, status=DebtStatus.DUE, due_bytes=due_bytes)
    measured = {query.query: query.now for query in found.queries}
    assert predicted.debt is not None, "only such tables are followed"
    return FollowedTable(
        table=action.table,
        status=DebtStatus.PAID,
        files=FollowedFiles(before=predicted.files, expected=predicted.debt.files_after, after=found.files),
        queries=tuple(
            MeasuredQuery.of(
                query.query, before=query.now, expected=query.expected, after=measured[query.query]
            )
            for query in predicted.queries
            if query.query in measured
        ),
        costs=_costs(observation.handle, predicted, found, plan),
    )


def _costs(
    handle: TableHandle, predicted: TableFigures, found: TableFigures, plan: PlanDocument
) -> MeasuredCosts | None:
    """Return the costs at the plan's prices, or None without prices or with unrecorded work.

    The clusterings are those that completed after the plan was applied and are still on the timeline. Other
    programs do not record the work of theirs.
    """
    if predicted.costs is None or plan.evidence.costs is None:
        return None
    newest = next(applied_history(handle.store), None)
    applied_at_ms = 0 if newest is None else newest.applied_at_ms
    zone = handle.config.timezone
    timeline = handle.timeline()
    past = completed_clusterings(handle, timeline, most=len(timeline.completed_writes))
    since = [one for one in past if parse_instant_ms(one.instant, zone) >= applied_at_ms]
    works = [one.work for one in since if one.work is not None]
    if not works or len(works) < len(since):
        return None
    scans = {query.query: (query.now.data_bytes, requests_of(query.now)) for query in found.queries}
    return followed_costs(predicted.costs, works, scans, plan.evidence.costs.prices)


def _planned_bytes(handle: TableHandle) -> int:
    """Return the bytes of files in pending clusterings, which are no longer debt and not yet rewritten."""
    timeline = handle.timeline()
    planned = timeline.groups_in_pending_clustering
    slices = handle.view(timeline).all_slices() if planned else ()
    return sum(part.size_bytes for part in slices if part.key in planned)
