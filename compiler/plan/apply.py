"""Execution of a plan: one change per table, which is checked again before it is made.

The specs in a saved plan hide literals that may be personal data. They are read from the project or, for a
table that is forgotten, from its applied record. They are only used if they are the planned ones: the plan
contains digests of the jobs, or of the record, that they belong to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from parquetry.compiler.errors import BlockedPlanError
from parquetry.compiler.git.repository import GitWorkTree
from parquetry.compiler.lineage.emission import lineage_of
from parquetry.compiler.lineage.work import TableWork, WorkResult
from parquetry.compiler.plan.actions import job_references
from parquetry.compiler.plan.model import PlanDocument, Step, TableAction
from parquetry.compiler.security.allowed_settings import recorded_settings
from parquetry.compiler.security.masking import is_masked, masked
from parquetry.compiler.workspace.catalogs import sync_entry
from parquetry.compiler.workspace.committed import uncommitted_files
from parquetry.compiler.workspace.known_locations import remember
from parquetry.compiler.workspace.observation import observe
from parquetry.compiler.workspace.opened import Workspace, job
from parquetry.errors import ParquetryError
from parquetry.message import Message, joined, phrase
from parquetry.runtime.allowed import NOTHING_ALLOWED
from parquetry.runtime.apply.table_change import ChangeResult, TableChange, apply_change
from parquetry.runtime.catalog.sync import SyncPreview, SyncResult
from parquetry.runtime.errors import PartialFailureError, StalePlanError
from parquetry.runtime.main import JobResult, execute
from parquetry.runtime.spec.codec import Brief, digest_of
from parquetry.runtime.spec.git_commit import commit_named
from parquetry.runtime.spec.job import JobKind, JobPlan
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.spec.target_settings import setting_differences
from parquetry.runtime.table.acting_user import acting_user
from parquetry.runtime.table.handle import open_table

_APPLY: Final = "apply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The result of the rewrites of an apply: replacecommits, files before and after, and bytes read."""

    instants: tuple[str, ...] = ()
    files_before: int = 0
    files_after: int = 0
    size_bytes: int = 0

    def plus(self, result: JobResult) -> Rewritten:
        """Return the sum of these figures and those of one more job."""
        done = result.clustering
        if done is None:
            return self
        return Rewritten(
            instants=(*self.instants, *done.instants),
            files_before=self.files_before + done.files_before,
            files_after=self.files_after + done.files_after,
            size_bytes=self.size_bytes + done.bytes_before,
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ActionResult(Brief):
    """The result of one action. ``error`` is set if the action failed.

    If both ``applied`` and ``error`` are set, the spec is applied but a rewrite or the sync of the catalog
    failed. The remaining files are debt, and the next sync catches up.
    """

    action: TableAction
    applied: ChangeResult | None = None
    rewritten: Rewritten = Rewritten()
    synced: SyncResult | None = None
    error: ParquetryError | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ApplyResult(Brief):
    """The results of a plan's actions, in their order."""

    plan: PlanDocument
    results: tuple[ActionResult, ...]

    @property
    def failure(self) -> ParquetryError | None:
        """The error of the command, or PartialFailureError if some tables were applied and others failed."""
        errors = [result.error for result in self.results if result.error is not None]
        if not errors:
            return None
        done = sum(result.applied is not None for result in self.results)
        if done == 0:
            return errors[0]
        return PartialFailureError(
            "{applied} of {tables} tables were applied, {failed} failed; plan again",
            applied=done,
            tables=len(self.results),
            failed=len(errors),
        )


def check_project(plan: PlanDocument, workspace: Workspace) -> None:
    """Raise StalePlanError unless the plan was made for this project and this target."""
    intent, project = plan.intent, workspace.project
    if (intent.project, intent.target) != (project.name, project.target.name):
        raise StalePlanError(
            "the plan is for project {planned_project}, target {planned_target}; this is project "
            "{project}, target {target}: {remedy}",
            planned_project=intent.project,
            planned_target=intent.target,
            project=project.name,
            target=project.target.name,
            remedy=phrase(
                "name the right --project and --target", called="load the right project and target"
            ),
        )


def check_fits(plan: PlanDocument, workspace: Workspace) -> None:
    """Check that the plan was made for this project, this target and the target's current settings.

    Raises:
        StalePlanError: If one of them differs.
    """
    check_project(plan, workspace)
    target = workspace.project.target
    differing = setting_differences(recorded_settings(target.declared), plan.intent.settings)
    if differing:
        paths = ", ".join(difference.path for difference in differing)
        raise StalePlanError(
            "settings of target {target} differ from those of the plan ({paths}); plan again",
            target=target.name,
            paths=paths,
        )


def with_checked_out_commit(plan: PlanDocument, workspace: Workspace, *, name: str) -> PlanDocument:
    """Return a saved plan that was approved by its id alone, with the checked-out commit instead of its own.

    `apply` records the commit and which files were uncommitted, but the plan id covers neither. An editor of
    the file could have changed both. Therefore files that are uncommitted in this checkout count too.

    Raises:
        StalePlanError: If the checked-out commit does not contain the commit of the plan.
    """
    planned_commit = plan.intent.git_commit
    if planned_commit is not None and not _contains(workspace.tree, planned_commit):
        raise StalePlanError(
            "{file} was edited, or made from a commit that the checked-out one does not contain "
            "({commit}), and the plan's id, which was approved, does not cover the commit; approve the "
            "whole file by the digest in it, or apply without the file",
            file=name,
            commit=planned_commit[:12],
        )
    uncommitted = plan.evidence.uncommitted or uncommitted_files(workspace)
    return replace(
        plan,
        intent=replace(plan.intent, git_commit=workspace.tree.commit),
        evidence=replace(plan.evidence, uncommitted=uncommitted),
    )


def _contains(tree: GitWorkTree, commit: str) -> bool:
    """Return whether the checked-out commit is known and contains a commit."""
    return tree.commit is not None and commit_named(commit) is not None and tree.contains(commit)


def apply_plan(
    plan: PlanDocument,
    workspace: Workspace,
    *,
    launch: Callable[[JobPlan], JobResult] = execute,
) -> ApplyResult:
    """Execute the plan without planning again and without questions.

    Tables are independent: if one fails, the others are still applied.

    Args:
        plan: The plan with whole specs.
        workspace: The project at the target of the plan.
        launch: Executes the jobs that rewrite data, by default in this process.

    Returns:
        The result of each action, in the order of the plan.

    Raises:
        BlockedPlanError: If the plan contains blocked changes. Nothing is applied then.
    """
    if plan.intent.blocked:
        reasons = joined(
            "; ",
            (
                Message("{table} ({code}): {reason}", table=b.table, code=b.code, reason=b.reason)
                for b in plan.intent.blocked
            ),
        )
        of_target = any(blocked.blocks_target for blocked in plan.intent.blocked)
        alternative = (
            ""
            if of_target
            else Message(", or plan with {option}", option=phrase("--exclude", called="exclude= of load()"))
        )
        raise BlockedPlanError(
            "the plan is blocked for {reasons}; resolve that{alternative}",
            reasons=reasons,
            alternative=alternative,
        )
    results: list[ActionResult] = []
    with lineage_of(workspace, command=_APPLY, run_id=None) as lineage:
        for action in plan.intent.actions:
            spent_bytes = sum(result.rewritten.size_bytes for result in results)
            lineage.started(_work(action, plan, workspace))
            result = _apply(action, plan, workspace, launch, spent_bytes=spent_bytes)
            lineage.ended(action.table, _APPLY, result=_work_result(result), error=result.error)
            results.append(result)
        lineage.failed(ApplyResult(plan=plan, results=tuple(results)).failure)
    done = [result.action for result in results if result.applied is not None]
    if done:
        located = {a.table: None if Step.FORGET in a.steps else a.location for a in done}
        remember(workspace.project.root, workspace.project.target.name, located)
    return ApplyResult(plan=plan, results=tuple(results))


def _work(action: TableAction, plan: PlanDocument, workspace: Workspace) -> TableWork:
    """Return what events say of an action; its plan contains the settings of the target that it records."""
    return TableWork(
        table=action.table,
        job=_APPLY,
        location=action.location,
        directory=str(workspace.project.root),
        spec=action.spec,
        plan_id=plan.plan_id,
        steps=tuple(map(str, action.steps)),
        git_commit=plan.intent.git_commit,
        dirty=None if plan.evidence.uncommitted is None else bool(plan.evidence.uncommitted),
    )


def _work_result(result: ActionResult) -> WorkResult | None:
    """Return what an action did, or None if it did nothing."""
    if result.applied is None:
        return None
    altered = "ALTER" if Step.EVOLVE in result.action.steps else None
    evolved = () if result.applied.instant is None else (result.applied.instant,)
    rewritten = result.rewritten
    return WorkResult(
        change="CREATE" if result.applied.created else altered,
        instants=(*evolved, *rewritten.instants),
        files=rewritten.files_after if rewritten.instants else None,
        counts={"files_before": rewritten.files_before, "files_after": rewritten.files_after}
        if rewritten.instants
        else {},
    )


def _apply(
    action: TableAction,
    plan: PlanDocument,
    workspace: Workspace,
    launch: Callable[[JobPlan], JobResult],
    *,
    spent_bytes: int,
) -> ActionResult:
    change = TableChange(
        spec=action.spec,
        requirements=action.requirements,
        alters_schema=Step.EVOLVE in action.steps,
        forgets=Step.FORGET in action.steps,
        restores=Step.RESTORE in action.steps,
        drops_metadata_table=Step.DROP_METADATA_TABLE in action.steps,
        changes_version=Step.UPGRADE in action.steps or Step.DOWNGRADE in action.steps,
        records=Step.RECORD in action.steps or Step.FORGET in action.steps,
        project=plan.intent.project,
        target=plan.intent.target,
        settings=plan.intent.settings,
        plan_id=plan.plan_id,
        git_commit=plan.intent.git_commit,
        dirty=None if plan.evidence.uncommitted is None else bool(plan.evidence.uncommitted),
        applied_by=acting_user(workspace.tree.user),
        signing_keys=workspace.signing_keys,
    )
    try:
        allowed = NOTHING_ALLOWED if change.forgets else action.spec.allowed
        applied = apply_change(workspace.store_at(action.location, allowed), change)
    except ParquetryError as error:
        return ActionResult(action=action, error=error)
    result = ActionResult(action=action, applied=applied)
    if Step.SYNC in action.steps:
        result = _sync(result, workspace, approved=(plan.evidence.catalogs or {}).get(action.table))
    if Step.REWRITE not in action.steps:
        return result
    return _rewrite(result, plan, workspace, launch, spent_bytes=spent_bytes)


def _sync(result: ActionResult, workspace: Workspace, *, approved: SyncPreview | None) -> ActionResult:
    """Bring the entry of the applied table in its catalog to its state; a failure is the result's error.

    ``approved`` is what the plan shows of the entry, None if it could not read it.
    """
    action = result.action
    try:
        catalog = workspace.catalog(action.spec)
        if catalog is None:
            return result
        handle = open_table(workspace.store_at(action.location, action.spec.allowed))
        synced = sync_entry(handle, catalog, restores=True, approved=approved)
    except ParquetryError as error:
        return replace(result, error=error)
    return replace(result, synced=synced)


def _rewrite(
    result: ActionResult,
    plan: PlanDocument,
    workspace: Workspace,
    launch: Callable[[JobPlan], JobResult],
    *,
    spent_bytes: int,
) -> ActionResult:
    """Cluster the due files until none is left or the whole apply has used its budget.

    Other tables have already used ``spent_bytes`` of the budget.
    """
    action, applied = result.action, result.applied
    assert applied is not None, "only what is applied is executed"
    requirements = replace(
        action.requirements,
        applied_number=applied.applied_number,
        applied_digest=digest_of(action.spec.to_json()),
        table_version=action.spec.table_version,
        no_metadata_table=True,
    )
    table = workspace.table(action.table)
    cluster = job(workspace, table, action.spec, kind=JobKind.CLUSTER, requirements=requirements)
    cluster = replace(cluster, budget_bytes=action.max_rewrite_bytes, is_strict=True, plan_id=plan.plan_id)
    while True:
        spent = spent_bytes + result.rewritten.size_bytes
        if action.max_rewrite_bytes is not None and spent >= action.max_rewrite_bytes:
            break
        try:
            done = launch(replace(cluster, spent_bytes=spent))
        except ParquetryError as error:
            return replace(result, error=error)
        if done.clustering is None or not done.clustering.instants:
            break
        result = replace(result, rewritten=result.rewritten.plus(done))
    return result


def unmasked(plan: PlanDocument, workspace: Workspace) -> PlanDocument:
    """Return a saved plan with unmasked specs.

    Raises:
        StalePlanError: If the project or the applied record contains other values now.
    """
    actions = tuple(
        replace(action, spec=_unmasked_spec(action, workspace)) if is_masked(action.spec) else action
        for action in plan.intent.actions
    )
    return replace(plan, intent=replace(plan.intent, actions=actions))


def _unmasked_spec(action: TableAction, workspace: Workspace) -> TableSpec:
    """Return the unmasked spec of an action; raise StalePlanError if it is not the masked one any more."""
    found = (
        _forgotten_spec(action, workspace)
        if Step.FORGET in action.steps
        else _declared_spec(action, workspace)
    )
    if found is None or masked(found) != action.spec:
        raise StalePlanError(
            "the plan hides values of table {table} that may be personal data (pii: true), and the "
            "project does not declare the same ones any more; plan again, or apply with the files, "
            "{option} that it was made with",
            table=action.table,
            option=phrase("--target and --var", called="target= and variables="),
        )
    return found


def _declared_spec(action: TableAction, workspace: Workspace) -> TableSpec | None:
    """Return the declared spec of a table, or None if its jobs are not those of the plan."""
    table = next((table for table in workspace.project.tables if table.name == action.table), None)
    if table is None or job_references(workspace, table) != action.jobs:
        return None
    return table.spec


def _forgotten_spec(action: TableAction, workspace: Workspace) -> TableSpec | None:
    """Return the spec of a table to forget, or None if the applied record has changed."""
    observation = observe(workspace.store_at(action.location))
    if observation is None or observation.spec is None:
        return None
    same = digest_of(observation.spec.to_json()) == action.requirements.applied_digest
    return observation.spec if same else None
