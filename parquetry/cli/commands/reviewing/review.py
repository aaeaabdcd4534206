"""`parquetry review`: plans in pull requests, and the one that is approved."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.command_group import CommandGroup
from parquetry.cli.requests.forge import ForgeRequest, forge_options
from parquetry.cli.requests.options import (
    ProjectRequest,
    directory_options,
    output_options,
    project_options,
    table_options,
)
from parquetry.cli.terminal.output import Output

_PLANFILE = click.argument("planfile", type=click.Path(path_type=Path, exists=True, dir_okay=False))
_PULL = click.option(
    "--pull",
    type=click.IntRange(min=1),
    required=True,
    envvar="PARQUETRY_PULL",
    help="Number of the pull request.",
)


@click.group(name="review", cls=CommandGroup)
def command() -> None:
    """Show plans in pull requests on GitHub or GitLab, and find out which one is approved.

    The token is read from GH_TOKEN or GITHUB_TOKEN, or from GITLAB_TOKEN.
    """


@command.command("post")
@_PLANFILE
@_PULL
@forge_options
@directory_options
@output_options("text", "json")
def post(*, request: ProjectRequest, output: Output, forge: ForgeRequest, planfile: Path, pull: int) -> int:
    """Show the plan saved in PLANFILE on a pull request.

    Makes or replaces the one comment of the plan's project and target, and sets the check
    `parquetry/plan (PROJECT/TARGET)` of the head commit, with the plan's id and the commit that it
    was made against. The plan has to be made of the head commit, and of the project in --project,
    if there is one. If the plan is blocked, the check is a failure without an id, and the command
    exits with 1.
    """
    from parquetry.cli.requests.workspaces import now_ms
    from parquetry.cli.views.plan.markdown import render_markdown
    from parquetry.cli.views.review import PostedView
    from parquetry.compiler.plan.codec import decode
    from parquetry.compiler.review.post import LONGEST_COMMENT_BYTES, post_plan
    from parquetry.compiler.workspace.named_file import read_named
    from parquetry.project.loading.outline import outline

    plan = decode(read_named(planfile), name=str(planfile))
    text = render_markdown(plan, max_bytes=LONGEST_COMMENT_BYTES)
    posted = post_plan(
        plan,
        text,
        forge.open(),
        number=pull,
        creator=forge.creator_or_default(),
        name=str(planfile),
        project=outline(request.directory).project,
        now_ms=now_ms(),
    )
    output.show(PostedView(), posted)
    return 1 if plan.intent.blocked else 0


@command.command("diff")
@click.option(
    "--base", required=True, metavar="REF", help="Git revision to compare with, such as origin/main."
)
@_PULL
@forge_options
@project_options
@output_options("text", "json")
def post_diff(*, request: ProjectRequest, output: Output, forge: ForgeRequest, base: str, pull: int) -> int:
    """Show on a pull request what its specs change, without opening any table.

    For pull requests that are not planned, such as those of forks without credentials. Makes or
    replaces the one comment of the project and target that holds a difference. Sets no check, so
    nothing is approved by it. Reads the files as data: no SQL, template or package of the branch
    is executed with anything of the environment.
    """
    from parquetry.cli.views.diff import render_diff_markdown
    from parquetry.cli.views.review import DiffPostedView
    from parquetry.compiler.reports.diff import diff_specs
    from parquetry.compiler.review.post import LONGEST_COMMENT_BYTES

    diff = diff_specs(
        request.directory,
        base=base,
        target=request.target,
        variables=request.variables,
        select=request.select,
        exclude=request.exclude,
    )
    posted = forge.post_on(pull, render_diff_markdown(diff, max_bytes=LONGEST_COMMENT_BYTES))
    output.show(DiffPostedView(), posted)
    return 0


@command.command("approved")
@click.option(
    "--commit",
    metavar="SHA",
    envvar="PARQUETRY_COMMIT",
    help="Commit that a pull request was merged as. Default: the commit that is checked out.",
)
@forge_options
@table_options
@output_options("text", "json")
def show_approved(*, request: ProjectRequest, output: Output, forge: ForgeRequest, commit: str | None) -> int:
    """Show which plan is approved at a merge; exit with 1 and show what is missing if none is.

    Approved is the plan in the check of the merged pull request's head commit, as the creator set
    it, if it was made against the branch, and a reviewer approved that commit after it was planned.
    The reviewer must be able to write to the repository, and must not be the author of the pull
    request or of its commits. Comments count for nothing.
    """
    from parquetry.cli.requests.workspaces import workspace_of
    from parquetry.cli.views.review import ApprovalView

    output.show(ApprovalView(), forge.approval(workspace_of(request), commit=commit))
    return 0


@command.command("follow-up")
@_PLANFILE
@forge_options
@table_options
@output_options("text", "json")
def show_follow_up(*, request: ProjectRequest, output: Output, forge: ForgeRequest, planfile: Path) -> int:
    """Show what the plan saved in PLANFILE predicted beside what its tables read now.

    PLANFILE was made of the merged commit, and applied. As soon as no file of its tables is due for
    clustering any more, the command comments on the merged pull request, once: later figures would
    be those of other writes. Before that, it shows what is due and posts nothing.
    """
    from parquetry.cli.requests.workspaces import workspace_of
    from parquetry.cli.views.review import FollowUpView, follow_up_comment
    from parquetry.compiler.plan.codec import decode
    from parquetry.compiler.review.follow_up import follow_up
    from parquetry.compiler.review.post import LONGEST_COMMENT_BYTES
    from parquetry.compiler.workspace.named_file import read_named

    plan = decode(read_named(planfile), name=str(planfile))
    found = follow_up(plan, workspace_of(request))
    view = FollowUpView(pull_request=None)
    if found.is_paid:
        posted = forge.post_once_at(plan, follow_up_comment(found, max_bytes=LONGEST_COMMENT_BYTES))
        view = FollowUpView(pull_request=posted.pull_request, is_new=not posted.replaced)
    output.show(view, found)
    return 0


@command.command("unplanned")
@forge_options
@table_options
@output_options("text", "json")
def show_unplanned(*, request: ProjectRequest, output: Output, forge: ForgeRequest) -> int:
    """Show the open pull requests whose head commit has no plan of the project and target.

    For jobs that plan pull requests from time to time, as on GitLab. Each line has the number, the
    head commit, and `fork` or `branch`: whether the commits lie in another repository.
    """
    from parquetry.cli.requests.workspaces import workspace_of
    from parquetry.cli.views.review import UnplannedView
    from parquetry.compiler.review.approval import unplanned

    project = workspace_of(request).project
    reviewed = forge.reviewed(project=project.name, target=project.target.name)
    output.show(UnplannedView(), unplanned(forge.open(), reviewed))
    return 0
