"""`parquetry apply`: execution of a plan."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from parquetry.cli.requests.forge import ForgeRequest, forge_options
from parquetry.cli.requests.options import ProjectRequest, output_options, project_options, refuse_selection
from parquetry.cli.terminal.output import Output


@click.command(name="apply")
@click.argument("planfile", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--auto-approve", is_flag=True, help="Do not ask.")
@click.option(
    "--approved",
    metavar="PLAN_ID",
    help="Apply only this plan, from PLANFILE or planned again. The digest in PLANFILE "
    "approves all of the file.",
)
@click.option(
    "--approved-by-review",
    "by_review",
    is_flag=True,
    help="Apply only if this plan is approved in the pull request that became the checked-out commit. "
    "An empty plan needs no approval.",
)
@forge_options
@project_options
@output_options("text", "json")
def command(
    *,
    request: ProjectRequest,
    output: Output,
    planfile: Path | None,
    auto_approve: bool,
    approved: str | None,
    by_review: bool,
    forge: ForgeRequest,
) -> int:
    """Create tables, record specs and evolve schemas, as planned.

    With PLANFILE, applies exactly the saved plan, without planning or asking again. The digest in
    the file detects damage, but not an edit by somebody who computes a new digest. If others could
    change the file, pass --approved with the reviewed id, or --approved-by-review. Without
    PLANFILE, the command plans the changes, shows them and asks.
    """
    from parquetry.cli.requests.approval import ApprovedId, approved_plan, load_approved
    from parquetry.cli.requests.progress import one_by_one
    from parquetry.cli.requests.workspaces import workspace_of
    from parquetry.cli.views.apply import ApplyView
    from parquetry.compiler.jobs.launch import launcher_for, new_run_id
    from parquetry.compiler.plan.apply import apply_plan

    if by_review and (approved is not None or auto_approve):
        raise click.UsageError("--approved-by-review takes the place of --approved and --auto-approve")
    if planfile is not None:
        refuse_selection("a saved plan is applied as a whole")
    workspace = workspace_of(request)
    ids = ApprovedId(given=approved, reviewed=partial(forge.plan_id, workspace) if by_review else None)
    if planfile is not None:
        plan = load_approved(planfile, workspace, approved=ids)
    else:
        plan = approved_plan(
            workspace, output, approved=ids, ask=not auto_approve, typed_options=request.typed_options
        )
    prepare = launcher_for(workspace, new_run_id())
    result = apply_plan(plan, workspace, launch=one_by_one(prepare, output))
    output.show(ApplyView(typed_options=request.typed_options), result)
    return output.ended(result.failure)
