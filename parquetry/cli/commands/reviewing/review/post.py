"""`parquetry review post`: a plan on its pull request."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.requests.forge import ForgeRequest, forge_options
from parquetry.cli.requests.options import ProjectRequest, directory_options, output_options
from parquetry.cli.terminal.output import Output


@click.command("post")
@click.argument("planfile", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--pull",
    type=click.IntRange(min=1),
    required=True,
    envvar="PARQUETRY_PULL",
    help="Number of the pull request.",
)
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
