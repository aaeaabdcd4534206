"""The action on one table: its steps, and the requirements that must hold when they are executed."""

from __future__ import annotations

from dataclasses import replace

from parquetry.compiler.plan.allowing import with_allowance
from parquetry.compiler.plan.changes import plugin_changes, rewrites
from parquetry.compiler.plan.inputs import CommonPlanInputs, DeclaredTable, Undeclared
from parquetry.compiler.plan.model import Blocked, Change, ChangeClass, Step, TableAction
from parquetry.compiler.plan.refusals import refuse_unallowed
from parquetry.compiler.plan.signatures import SIGNATURE_PATH
from parquetry.compiler.workspace.observation import Observation
from parquetry.compiler.workspace.target_settings import recorded_settings
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.spec.target_settings import SettingDifference, setting_differences
from parquetry.version import VERSION

_TABLE_VERSION = 6


def creation(
    table: DeclaredTable, context: CommonPlanInputs, observation: Observation | None = None
) -> TableAction | Blocked:
    """Return the action that creates a table, or a refusal if it names a plug-in that no allow entry permits.

    ``observation`` is set if an earlier creation of the table was interrupted; the action finishes it.
    """
    plugins = plugin_changes(table.spec, origin=table.origin)
    plugins = tuple(with_allowance(change, table.reasons) for change in plugins)
    refused = refuse_unallowed(table, plugins)
    return refused or action(
        table, observation, plugins, context, change_class=ChangeClass.CREATE, code="SC001"
    )


def action(
    table: DeclaredTable,
    observation: Observation | None,
    changes: tuple[Change, ...],
    context: CommonPlanInputs,
    *,
    change_class: ChangeClass,
    code: str,
) -> TableAction:
    """Return the action that applies the declared spec to a table.

    Args:
        table: The declared table.
        observation: The live table, None if it does not exist.
        changes: The changes from the applied to the declared spec.
        context: The inputs that all tables of the plan share.
        change_class: The highest class of the changes.
        code: The code under which the plan shows the action, usually that of its first change.
    """
    steps = _steps(observation, table.spec, changes, change_class, context)
    rewrites = Step.REWRITE in steps
    return TableAction(
        table=table.spec.name,
        location=table.location,
        change_class=change_class,
        code=code,
        steps=steps,
        changes=changes,
        requirements=replace(_requirements(observation), no_pending_clustering=rewrites),
        spec=table.spec,
        max_rewrite_bytes=context.max_rewrite_bytes if rewrites else 0,
        jobs=table.jobs(),
    )


def _steps(
    observation: Observation | None,
    spec: TableSpec,
    changes: tuple[Change, ...],
    change_class: ChangeClass,
    context: CommonPlanInputs,
) -> tuple[Step, ...]:
    if change_class is ChangeClass.CREATE or observation is None:
        return (Step.CREATE, Step.RECORD)
    first = (Step.RESTORE,) if any(change.code == "SC102" for change in changes) else ()
    classes = {change.change_class for change in changes}
    evolving = (Step.EVOLVE,) if classes & {ChangeClass.EVOLVE, ChangeClass.BREAKING} else ()
    is_recorded_anew = any(change.path in ("target", SIGNATURE_PATH) for change in changes)
    is_recorded_anew = is_recorded_anew or bool(resettings(observation, context))
    if observation.spec == spec and observation.is_applied and not is_recorded_anew:
        return (*first, *evolving)
    rewriting = (Step.REWRITE,) if rewrites(changes, spec) else ()
    return (*first, *evolving, Step.RECORD, *rewriting)


def resettings(observation: Observation, context: CommonPlanInputs) -> tuple[SettingDifference, ...]:
    """Return the differences between the target's settings and those that the table records."""
    applied = observation.handle.applied
    return setting_differences(
        recorded_settings(context.settings), None if applied is None else applied.settings
    )


def forgetting(table: Undeclared) -> TableAction:
    """Return the action that records that the project no longer declares the table."""
    return TableAction(
        table=table.spec.name,
        location=table.location,
        change_class=ChangeClass.METADATA,
        code="SC002",
        steps=(Step.FORGET,),
        changes=(),
        requirements=_requirements(table.observation),
        spec=table.spec,
    )


def _requirements(observation: Observation | None) -> Requirements:
    if observation is None:
        return Requirements(exists=False, minimum_parquetry=VERSION)
    applied = observation.handle.applied
    return Requirements(
        exists=True,
        table_id=observation.handle.table_id,
        applied_number=applied.number if applied else 0,
        applied_digest=applied.digest if applied else None,
        minimum_parquetry=VERSION,
        table_version=_TABLE_VERSION,
        no_metadata_table=True,
    )
