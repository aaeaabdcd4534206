"""Plans of a project folder, made at one time and applied at once."""

from __future__ import annotations

from parquetry.compiler.plan.apply import ApplyResult, apply_plan
from parquetry.compiler.plan.model import PlanDocument
from parquetry.compiler.plan.planner import plan_workspace
from tests.support.project_folder import ProjectFolder

NOW = 1_800_000_000_000
"""The time of every plan, in milliseconds since 1970."""


def plan(folder: ProjectFolder, **options) -> PlanDocument:
    """Return the plan of a workspace that is opened with these options."""
    return plan_workspace(folder.workspace(**options), now_ms=NOW)


def apply(folder: ProjectFolder) -> ApplyResult:
    """Plan and apply; fail if a table fails."""
    result = apply_plan(plan(folder), folder.workspace())
    assert result.failure is None, result.failure
    return result
