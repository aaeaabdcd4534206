"""`parquetry review unplanned`: the pull requests that have no plan yet."""

from __future__ import annotations

import click

from parquetry.cli.requests.forge import ForgeRequest, forge_options
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.terminal.output import Output


@click.command("unplanned")
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
    from parquetry.compiler.review.unplanned import unplanned

    project = workspace_of(request).project
    reviewed = forge.reviewed(project=project.name, target=project.target.name)
    output.show(UnplannedView(), unplanned(forge.open(), reviewed))
    return 0
