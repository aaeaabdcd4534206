"""`parquetry show`: a saved plan."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.requests.options import output_options
from parquetry.cli.terminal.output import Output

_LEAST_BYTES = 2_000


@click.command(name="show")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--max-bytes",
    type=click.IntRange(min=_LEAST_BYTES),
    default=60_000,
    show_default=True,
    envvar="PARQUETRY_MAX_BYTES",
    help="Maximum size of markdown; details are omitted first.",
)
@output_options("text", "json", "markdown", "html", "github")
def command(*, file: Path, output: Output, max_bytes: int) -> int:
    """Print the plan saved in FILE: for a terminal, a script, a pull request, a browser, a workflow."""
    from parquetry.cli.requests.saving import project_around
    from parquetry.cli.views.diagnostics import path_in_repository
    from parquetry.cli.views.plan.printing import show_plan
    from parquetry.compiler.plan.codec import decode
    from parquetry.compiler.workspace.named_file import read_named

    plan = decode(read_named(file), name=str(file))
    prefix = path_in_repository(project_around(file))
    show_plan(plan, output, saved=file, prefix=prefix, max_bytes=max_bytes)
    return 0
