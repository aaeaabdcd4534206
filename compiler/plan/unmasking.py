"""Masked values of a saved plan, which are restored before the plan is executed.

The specs in a plan hide literals that may be personal data. They are read from the project or, for a table
that is forgotten, from its applied record. They are only used if they are the planned ones: the plan contains
digests of the jobs, or of the record, that they belong to.
"""

from __future__ import annotations

from dataclasses import replace

from parquetry.compiler.plan.actions import job_references
from parquetry.compiler.plan.model import PlanDocument, Step, TableAction
from parquetry.compiler.security.masking import is_masked, masked
from parquetry.compiler.workspace.observation import observe
from parquetry.compiler.workspace.opened import Workspace
from parquetry.message import phrase
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.table_spec import TableSpec


def unmasked(plan: PlanDocument, workspace: Workspace) -> PlanDocument:
    """Return the plan with unmasked specs.

    Raises:
        StalePlanError: If the project or the applied record contains other values now.
    """
    actions = tuple(
        replace(action, spec=_spec(action, workspace)) if is_masked(action.spec) else action
        for action in plan.intent.actions
    )
    return replace(plan, intent=replace(plan.intent, actions=actions))


def _spec(action: TableAction, workspace: Workspace) -> TableSpec:
    """Return the unmasked spec of an action; raise StalePlanError if it is not the masked one any more."""
    found = _forgotten(action, workspace) if Step.FORGET in action.steps else _declared(action, workspace)
    if found is None or masked(found) != action.spec:
        raise StalePlanError(
            f"the plan hides values of table {action.table} that may be personal data (pii: true), and the "
            "project does not declare the same ones any more; plan again, or apply with the files, "
            + phrase("--target and --var", called="target= and variables=")
            + " that it was made with"
        )
    return found


def _declared(action: TableAction, workspace: Workspace) -> TableSpec | None:
    """Return the declared spec of a table, or None if its jobs are not those of the plan."""
    table = next((table for table in workspace.project.tables if table.name == action.table), None)
    if table is None or job_references(workspace, table) != action.jobs:
        return None
    return table.spec


def _forgotten(action: TableAction, workspace: Workspace) -> TableSpec | None:
    """Return the spec of a table to forget, or None if the applied record has changed."""
    observation = observe(workspace.store_at(action.location))
    if observation is None or observation.spec is None:
        return None
    same = digest_of(observation.spec.to_json()) == action.requirements.applied_digest
    return observation.spec if same else None
