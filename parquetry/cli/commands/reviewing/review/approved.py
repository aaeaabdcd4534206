"""`parquetry review approved`: the plan that is approved at a merge."""

from __future__ import annotations

import click

from parquetry.cli.requests.forge import ForgeRequest, forge_options
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output


@click.command("approved")
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
