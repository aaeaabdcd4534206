"""`parquetry diff`: the specs of two git revisions."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.requests.options import SWITCH, ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output

DIFFERENT = 3


@click.command(name="diff")
@click.option(
    "--base", required=True, metavar="REF", help="Git revision to compare with, such as origin/main."
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Layout saved by `inspect --out`, for estimates; one per table.",
)
@click.option(
    "--detailed-exitcode",
    is_flag=True,
    type=SWITCH,
    envvar="PARQUETRY_DETAILED_EXITCODE",
    help="Exit with 3 if the specs differ.",
)
@project_options
@output_options("text", "json", "markdown", "github")
def command(
    *, request: ProjectRequest, output: Output, base: str, states: tuple[Path, ...], detailed_exitcode: bool
) -> int:
    """Show what the project's files change compared with a git revision.

    Opens no table and reads no environment variable, so it works in a fork without credentials. The
    applied specs may differ from the base: only `plan` shows what apply would do.
    """
    from parquetry.cli.views.diff import show_diff
    from parquetry.compiler.reports.diff import diff_specs
    from parquetry.compiler.reports.inspection import read_layouts

    diff = diff_specs(
        request.directory,
        base=base,
        target=request.target,
        variables=request.variables,
        select=request.select,
        exclude=request.exclude,
        layouts=read_layouts(states),
    )
    show_diff(diff, output, project=request.directory)
    return DIFFERENT if detailed_exitcode and not diff.is_empty else 0
