"""`parquetry show`: a saved plan again."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.options import output_options
from parquetry.cli.output import Output


@click.command(name="show")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@output_options("text", "json")
def command(*, file: Path, output: Output) -> int:
    """Print the plan saved in FILE."""
    from parquetry.cli.plan_view import PlanView
    from parquetry.compiler.plan_codec import decode

    plan = decode(file.read_text(encoding="utf-8"), name=str(file))
    output.show(PlanView(saved=file), plan)
    return 0
