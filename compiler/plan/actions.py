"""The outcome of a plan for one table: an action with its steps and requirements, or a refusal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from parquetry.compiler.plan.changes import (
    declared_changes,
    has_rewrite,
    highest,
    plugin_changes,
    with_returning,
)
from parquetry.compiler.plan.drift import (
    Drift,
    changed_target,
    dropped_metadata_table,
    restored_columns,
    restored_properties,
)
from parquetry.compiler.plan.forgetting import Undeclared
from parquetry.compiler.plan.model import Blocked, Change, ChangeClass, JobReference, Step, TableAction
from parquetry.compiler.plan.refusals import (
    refuse_breaking,
    refuse_faulty,
    refuse_foreign,
    refuse_lacking_meta_columns,
    refuse_lost_key,
    refuse_renamed,
    refuse_reverting,
    refuse_unallowed,
    refuse_version,
    with_allow_reason,
)
from parquetry.compiler.plan.signatures import SIGNATURE_PATH, refuse_wrong_signature, signature_changes
from parquetry.compiler.plan.table_versions import restored_version, version_step
from parquetry.compiler.plan.target_changes import CHANGED
from parquetry.compiler.security.allowed_settings import recorded_settings
from parquetry.compiler.workspace.observation import Observation
from parquetry.compiler.workspace.opened import Workspace, jobs_of
from parquetry.project import ResolvedTable
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.spec.target_settings import EXECUTES, SettingDifference, setting_differences
from parquetry.runtime.table.former_columns import former_columns
from parquetry.version import VERSION

SYNCED: Final = "SC105"
"""The code of an action that changes nothing but the entry of the table in its catalog."""


def outcome_of(
    workspace: Workspace, table: ResolvedTable, observation: Observation, drifts: Iterable[Drift]
) -> TableAction | Blocked | None:
    """Return the action or the refusal for a table that exists, or None if it needs nothing."""
    refusal = refuse_foreign(workspace, table, observation) or refuse_faulty(table, observation)
    refusal = refusal or refuse_wrong_signature(workspace, table, observation)
    refusal = refusal or refuse_renamed(table, observation)
    refusal = refusal or refuse_version(table, observation)
    refusal = refusal or refuse_lacking_meta_columns(table, observation)
    if refusal is not None:
        return refusal
    if observation.spec is None or (observation.spec == table.spec and observation.handle.applied is None):
        return creation(workspace, table, observation)
    restored = (
        *restored_version(observation, table.spec),
        *restored_columns(drifts, applied=observation.spec, declared=table.spec),
        *restored_properties(observation),
        *dropped_metadata_table(observation),
        *changed_target(observation, workspace.project.target.name),
        *signature_changes(workspace, observation),
    )
    if observation.spec == table.spec and observation.is_applied:
        if not restored:
            return _settings_action(workspace, table, observation)
        restored = tuple(sorted(restored, key=lambda change: -change.change_class.rank))
        reach, code = highest(restored), restored[0].code
        return _action(workspace, table, observation, restored, change_class=reach, code=code)
    changes = with_returning(
        declared_changes(table, applied=observation.spec),
        applied=observation.spec,
        declared=table.spec,
        former=partial(former_columns, observation.handle),
    )
    entries = workspace.allowed(table)
    changes = (*(with_allow_reason(change, entries) for change in changes), *restored)
    changes = tuple(sorted(changes, key=lambda change: -change.change_class.rank))
    refusal = refuse_reverting(workspace, table, observation, changes)
    refusal = refusal or refuse_lost_key(table, observation, changes)
    refusal = refusal or refuse_breaking(workspace, table, observation, changes)
    if refusal is not None:
        return refusal
    code = changes[0].code if changes else "SC101"
    if observation.is_forgotten:
        code = "SC003"
    return _action(workspace, table, observation, changes, change_class=highest(changes), code=code)


def with_sync(
    workspace: Workspace, table: ResolvedTable, observation: Observation | None, action: TableAction | None
) -> TableAction:
    """Return the action with the step that brings the entry in the catalog to the state after it.

    ``action`` is None for a table that needs nothing else. The step comes before a rewrite, which may take
    hours and changes nothing in the catalog.
    """
    if action is None:
        action = _action(workspace, table, observation, (), change_class=ChangeClass.METADATA, code=SYNCED)
    first = tuple(step for step in action.steps if step is not Step.REWRITE)
    return replace(action, steps=(*first, Step.SYNC, *action.steps[len(first) :]))


def creation(
    workspace: Workspace, table: ResolvedTable, observation: Observation | None = None
) -> TableAction | Blocked:
    """Return the action that creates a table, or a refusal if it names a plug-in that no allow entry permits.

    ``observation`` is set if an earlier creation of the table was interrupted; the action finishes it.
    """
    refused = refuse_version(table, observation)
    entries = workspace.allowed(table)
    plugins = plugin_changes(table.spec, origin=lambda path: str(table.origin(path)))
    plugins = tuple(with_allow_reason(change, entries) for change in plugins)
    refused = refused or refuse_unallowed(table, plugins)
    changes = plugins if observation is None else (*plugins, *dropped_metadata_table(observation))
    return refused or _action(
        workspace, table, observation, changes, change_class=ChangeClass.CREATE, code="SC001"
    )


def _settings_action(
    workspace: Workspace, table: ResolvedTable, observation: Observation
) -> TableAction | Blocked | None:
    """Return the action that records changed settings of the target, for a table whose spec is applied.

    The result is None if no setting changed, or a refusal if the action would revert a newer commit.
    """
    differences = _unrecorded_settings(workspace, observation)
    if not differences:
        return None
    executing = any(difference.executes for difference in differences)
    reach, code = (ChangeClass.EXECUTES, EXECUTES) if executing else (ChangeClass.POLICY, CHANGED)
    reverting = refuse_reverting(workspace, table, observation, ())
    return reverting or _action(workspace, table, observation, (), change_class=reach, code=code)


def _action(
    workspace: Workspace,
    table: ResolvedTable,
    observation: Observation | None,
    changes: tuple[Change, ...],
    *,
    change_class: ChangeClass,
    code: str,
) -> TableAction:
    """Return the action that applies the declared spec to a table.

    Args:
        workspace: The project.
        table: The declared table.
        observation: The live table, None if it does not exist.
        changes: The changes from the applied to the declared spec.
        change_class: The highest class of the changes.
        code: The code under which the plan shows the action, usually that of its first change.
    """
    steps = _steps(workspace, observation, table.spec, changes, change_class=change_class)
    is_rewriting = Step.REWRITE in steps
    return TableAction(
        table=table.spec.name,
        location=table.location_declared,
        change_class=change_class,
        code=code,
        steps=steps,
        changes=changes,
        requirements=replace(
            _requirements(observation),
            no_pending_clustering=is_rewriting,
            no_metadata_table=observation is not None and Step.DROP_METADATA_TABLE not in steps,
        ),
        spec=table.spec,
        max_rewrite_bytes=workspace.project.target.budget.per_apply_bytes if is_rewriting else 0,
        jobs=job_references(workspace, table),
    )


def job_references(workspace: Workspace, table: ResolvedTable) -> tuple[JobReference, ...]:
    """Return the table's jobs with digests that are equal in every checkout and commit."""
    jobs = (
        replace(job, location=table.location_declared, directory=".", git_commit=None)
        for job in jobs_of(workspace, table)
    )
    return tuple(JobReference(name=job.name, digest=job.digest) for job in jobs)


def _steps(
    workspace: Workspace,
    observation: Observation | None,
    spec: TableSpec,
    changes: tuple[Change, ...],
    *,
    change_class: ChangeClass,
) -> tuple[Step, ...]:
    """Return the steps that `apply` takes for a table, in their order."""
    codes = {change.code for change in changes}
    dropping = (Step.DROP_METADATA_TABLE,) if "SC104" in codes else ()
    if change_class is ChangeClass.CREATE or observation is None:
        return (*dropping, Step.CREATE, Step.RECORD)
    first = (*((Step.RESTORE,) if "SC102" in codes else ()), *dropping)
    classes = {change.change_class for change in changes}
    evolving = (Step.EVOLVE,) if classes & {ChangeClass.EVOLVE, ChangeClass.BREAKING} else ()
    is_recorded_anew = any(change.path in ("target", SIGNATURE_PATH) for change in changes)
    is_recorded_anew = is_recorded_anew or bool(_unrecorded_settings(workspace, observation))
    first = (*first, *version_step(observation, spec), *evolving)
    if observation.spec == spec and observation.is_applied and not is_recorded_anew:
        return first
    rewriting = (Step.REWRITE,) if has_rewrite(changes, spec) else ()
    return (*first, Step.RECORD, *rewriting)


def _unrecorded_settings(workspace: Workspace, observation: Observation) -> tuple[SettingDifference, ...]:
    """Return the differences between the target's settings and those that the table records."""
    applied = observation.handle.applied
    declared = recorded_settings(workspace.project.target.declared)
    return setting_differences(declared, None if applied is None else applied.settings)


def forgetting(table: Undeclared) -> TableAction:
    """Return the action that records that the project no longer declares the table."""
    return TableAction(
        table=table.spec.name,
        location=table.location,
        change_class=ChangeClass.METADATA,
        code="SC002",
        steps=(Step.FORGET,),
        changes=(),
        # A forgotten table is not written to.
        requirements=replace(_requirements(table.observation), no_metadata_table=False),
        spec=table.spec,
    )


def _requirements(observation: Observation | None) -> Requirements:
    """Return the state that a table must still have when the plan is applied."""
    if observation is None:
        return Requirements(exists=False, minimum_parquetry=VERSION)
    applied = observation.handle.applied
    return Requirements(
        exists=True,
        table_id=observation.handle.table_id,
        applied_number=applied.number if applied else 0,
        applied_digest=applied.digest if applied else None,
        minimum_parquetry=VERSION,
        table_version=observation.handle.config.version,
        no_metadata_table=True,
    )
