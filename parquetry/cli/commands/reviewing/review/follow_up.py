"""`parquetry review follow-up`: predictions of a plan beside measurements."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.requests.forge import ForgeRequest, forge_options
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output


@click.command("follow-up")
@click.argument("planfile", type=click.Path(path_type=Path, exists=True, dir_okay=False))
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
