"""Carrying out a plan: one change per table, each checked again before it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parquetry.compiler.errors import BlockedPlanError
from parquetry.compiler.known_locations import remember
from parquetry.compiler.plan import Action, Plan, Step
from parquetry.compiler.workspace import Workspace
from parquetry.errors import ParquetryError
from parquetry.runtime.apply import Applied, TableChange, apply_change
from parquetry.runtime.errors import PartialFailureError, StalePlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """What became of one action; ``error`` is there when it failed."""

    action: Action
    applied: Applied | None = None
    error: ParquetryError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """What became of a plan, in the order of its actions."""

    plan: Plan
    results: tuple[ActionResult, ...]

    @property
    def failure(self) -> ParquetryError | None:
        """What the command ends with: the error, or that some succeeded and some did not."""
        errors = [result.error for result in self.results if result.error is not None]
        if not errors:
            return None
        done = len(self.results) - len(errors)
        if done == 0:
            return errors[0]
        return PartialFailureError(
            f"{done} of {len(self.results)} tables were applied, {len(errors)} failed; plan again"
        )


def check_fits(plan: Plan, workspace: Workspace) -> None:
    """Raise StalePlanError unless the plan is for this project at this target."""
    intent, project = plan.intent, workspace.project
    if (intent.project, intent.target) != (project.name, project.target.name):
        raise StalePlanError(
            f"the plan is for project {intent.project}, target {intent.target}; this is project "
            f"{project.name}, target {project.target.name}: give the right --project and --target"
        )


def apply_plan(
    plan: Plan,
    workspace: Workspace,
    *,
    report: Callable[[ActionResult], None] = lambda _: None,
) -> ApplyResult:
    """Carry the plan out; nothing is planned again and nothing asked.

    Tables are independent: one that fails does not stop the others. Raises BlockedPlanError,
    without doing anything, for a plan that holds blocked changes.
    """
    if plan.intent.blocked:
        names = ", ".join(blocked.table for blocked in plan.intent.blocked)
        raise BlockedPlanError(f"the plan is blocked for {names}; resolve that, or plan with --exclude")
    results = []
    for action in plan.intent.actions:
        result = _apply(action, plan, workspace)
        report(result)
        results.append(result)
    done = [result.action for result in results if result.applied is not None]
    if done:
        located = {a.table: None if Step.FORGET in a.steps else a.location for a in done}
        remember(workspace.project.root, workspace.project.target.name, located)
    return ApplyResult(plan=plan, results=tuple(results))


def _apply(action: Action, plan: Plan, workspace: Workspace) -> ActionResult:
    change = TableChange(
        spec=action.spec,
        requirements=action.requirements,
        alters_schema=Step.EVOLVE in action.steps,
        forgets=Step.FORGET in action.steps,
        project=plan.intent.project,
        plan_id=plan.plan_id,
        git_commit=plan.intent.git_commit,
    )
    try:
        return ActionResult(action=action, applied=apply_change(workspace.store_at(action.location), change))
    except ParquetryError as error:
        return ActionResult(action=action, error=error)
