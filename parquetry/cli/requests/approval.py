"""Choice of the plan to execute, and the check that it is approved."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from parquetry.cli.requests.prompt import is_terminal
from parquetry.cli.requests.workspaces import now_ms
from parquetry.cli.terminal.output import Output
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.cli.terminal.values import printable_outcome
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.git.revisions import RevisionError
from parquetry.compiler.plan.apply import check_fits, unmasked, with_checked_out_commit
from parquetry.compiler.plan.codec import check_age, decode, digest_in
from parquetry.compiler.plan.guarding import as_merged, check_guardrails
from parquetry.compiler.plan.model import PlanDocument
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.named_file import read_named
from parquetry.compiler.workspace.opened import Workspace
from parquetry.runtime.errors import StalePlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedId:
    """The id of the approved plan: ``given`` on the command line, or read from a review by ``reviewed``."""

    given: str | None = None
    reviewed: Callable[[], str] | None = None

    def for_plan(self, plan: PlanDocument) -> str | None:
        """Return the approved id, or None if there is none.

        If the id comes from a review and the plan is empty, it is the plan's own id, as an empty plan needs
        no review.
        """
        if self.reviewed is None:
            return self.given
        return plan.plan_id if plan.is_empty else self.reviewed()

    def as_approved(self, plan: PlanDocument, workspace: Workspace) -> PlanDocument:
        """Return the plan as its approver saw it before the merge, with the merge's changes of authority."""
        if self.reviewed is not None:
            return as_merged(plan, workspace)
        if self.given not in (None, plan.plan_id):
            with suppress(RevisionError):
                merged = as_merged(plan, workspace)
                return merged if merged.plan_id == self.given else plan
        return plan


def load_approved(file: Path, workspace: Workspace, *, approved: ApprovedId) -> PlanDocument:
    """Return the plan in ``file``, whole, after checks that it is approved and may be applied.

    The approved id is the digest in the file, which covers all of it, or the plan's id, which a review gives.
    If it is the plan's id, nothing is used that the id does not cover.

    Raises:
        StalePlanError: The plan is too old, does not fit this project, or is not the approved one.

    """
    content = read_named(file)
    plan = approved.as_approved(decode(content, name=str(file)), workspace)
    digest = digest_in(content)
    wanted = approved.for_plan(plan)
    by_id = wanted is not None and _is_same(wanted, plan.plan_id)
    by_digest = approved.reviewed is None and wanted is not None and _is_same(wanted, digest)
    if wanted is not None and not by_id and not by_digest:
        raise StalePlanError(
            "{file} has the plan {plan_id} and the digest {digest}, but {approved} was approved: the file "
            "was edited, or contains another plan; give the approved file, or plan again",
            file=file,
            plan_id=plan.plan_id,
            digest=digest,
            approved=wanted,
        )
    check_age(plan, now_ms(), name=str(file))
    check_fits(plan, workspace)
    check_guardrails(plan, workspace, now_ms=now_ms())
    if by_id:
        plan = with_checked_out_commit(plan, workspace, name=str(file))
    return unmasked(plan, workspace)


def _is_same(approved: str, plan_id: str) -> bool:
    """Return whether both ids are equal; the comparison takes constant time."""
    return hmac.compare_digest(approved.encode(), plan_id.encode())


def approved_plan(
    workspace: Workspace, output: Output, *, approved: ApprovedId, ask: bool, typed_options: TypedOptions
) -> PlanDocument:
    """Plan now, and return the plan after its approval by its id, the caller or the user's answer.

    Args:
        workspace: The project.
        output: Shows the plan, unless its id is approved.
        approved: The approved id.
        ask: Ask the user if no id is given. With False, the caller approves.
        typed_options: The options for the commands in messages.

    Raises:
        StalePlanError: Another plan was approved. click.Abort: The user declined. click.UsageError: The user
            must be asked, but there is no terminal.

    """
    plan = approved.as_approved(plan_workspace(workspace, now_ms=now_ms()), workspace)
    wanted = approved.for_plan(plan)
    if wanted is not None:
        if not _is_same(wanted, plan.plan_id):
            raise StalePlanError(
                "the plan is {plan_id} now, {approved} was approved; review the new one with {command}",
                plan_id=plan.plan_id,
                approved=wanted,
                command=typed_options.named("parquetry", "plan"),
            )
        return plan
    output.note(
        PlanView(applying=True, typed_options=typed_options).text(
            printable_outcome(plan, typed_options.with_options), output.paint
        )
    )
    if ask and plan.intent.actions and not plan.intent.blocked:
        if not is_terminal():
            raise click.UsageError(
                "stdin is not a terminal: give --auto-approve, or a PLANFILE saved by "
                f"{typed_options.named('parquetry', 'plan', '--out', 'PLANFILE')}"
            )
        click.confirm("Apply this plan?", abort=True, err=True)
    return plan
