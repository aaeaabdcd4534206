"""Which plan is executed, and that somebody wants it."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.requests.prompt import is_terminal
from parquetry.cli.requests.workspaces import now_ms
from parquetry.cli.terminal.output import Output
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.cli.terminal.values import shown_values
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.plan.apply import by_intent_alone, check_fits
from parquetry.compiler.plan.codec import check_age, decode, digest_in
from parquetry.compiler.plan.model import PlanDocument
from parquetry.compiler.plan.planning import plan_workspace
from parquetry.compiler.plan.unmasking import unmasked
from parquetry.compiler.workspace.named_file import read_named
from parquetry.compiler.workspace.opened import Workspace
from parquetry.runtime.errors import StalePlanError


def saved_plan(file: Path, workspace: Workspace, *, approved: str | None) -> PlanDocument:
    """The plan in ``file``, whole.

    ``approved`` is the digest in the file, over all of it, or the plan's id: then nothing is used that the id
    does not cover. StalePlanError when it is too old, not for what is here, or another one than was approved.
    """
    content = read_named(file)
    plan = decode(content, name=str(file))
    digest = digest_in(content)
    if approved not in (None, plan.plan_id, digest):
        raise StalePlanError(
            f"{file} is {plan.plan_id} (the whole file {digest}), {approved} was approved: it was edited, or "
            "is another plan; give the file of that plan, or plan again"
        )
    check_age(plan, now_ms(), name=str(file))
    check_fits(plan, workspace)
    if approved == plan.plan_id:
        plan = by_intent_alone(plan, workspace, name=str(file))
    return unmasked(plan, workspace)


def approved_plan(
    workspace: Workspace, output: Output, *, approved: str | None, ask: bool, typed_options: TypedOptions
) -> PlanDocument:
    """A plan made now, and approved: by its id, by the caller, or by whoever answers the question.

    ``typed_options`` goes into the commands that are printed.

    Raises StalePlanError when another plan was approved, click.Abort when the answer is no.
    """
    plan = plan_workspace(workspace, now_ms=now_ms())
    if approved is not None:
        if plan.plan_id != approved:
            raise StalePlanError(
                f"the plan is {plan.plan_id} now, {approved} was approved; "
                f"review the new one with {typed_options.named('parquetry', 'plan')}"
            )
        return plan
    output.note(
        PlanView(applying=True, typed_options=typed_options).text(
            shown_values(plan, typed_options.with_options), output.paint
        )
    )
    if ask and plan.intent.actions and not plan.intent.blocked:
        if not is_terminal():
            raise click.UsageError(
                "nobody can be asked here: give --auto-approve, or a PLANFILE saved by "
                f"{typed_options.named('parquetry', 'plan', '--out', 'PLANFILE')}"
            )
        click.confirm("Apply this plan?", abort=True, err=True)
    return plan
