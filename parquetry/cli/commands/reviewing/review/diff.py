"""`parquetry review diff`: a difference of specs on its pull request."""

from __future__ import annotations

import click

from parquetry.cli.requests.forge import ForgeRequest, forge_options
from parquetry.cli.requests.options import ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output


@click.command("diff")
@click.option(
    "--base", required=True, metavar="REF", help="Git revision to compare with, such as origin/main."
)
@click.option(
    "--pull",
    type=click.IntRange(min=1),
    required=True,
    envvar="PARQUETRY_PULL",
    help="Number of the pull request.",
)
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
    from parquetry.cli.views.plan.specs import render_diff_markdown
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
