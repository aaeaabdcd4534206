"""`parquetry plan`: the changes that apply would make."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.budget import UNTRUSTED
from parquetry.cli.requests.options import SWITCH, ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output


@click.command(name="plan")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Save the plan for apply.")
@click.option(
    "--detailed-exitcode",
    is_flag=True,
    type=SWITCH,
    envvar="PARQUETRY_DETAILED_EXITCODE",
    help="Exit with 3 if there are changes.",
)
@click.option(
    "--due",
    is_flag=True,
    type=SWITCH,
    envvar="PARQUETRY_DUE",
    help="Add what the next run would do: files to ingest, debt to pay, files to delete; -v: files it "
    "leaves, all partitions.",
)
@click.option(
    "--untrusted",
    is_flag=True,
    type=SWITCH,
    envvar=UNTRUSTED,
    help="For an untrusted branch: open only what the base declares, with the base's options and "
    "environment, and within the limits of PARQUETRY_BUDGET.",
)
@click.option(
    "--base",
    metavar="REV",
    help="Revision that an --untrusted branch is to be merged into. Default: the default branch of origin.",
)
@project_options
@output_options("text", "json")
def command(
    *,
    request: ProjectRequest,
    output: Output,
    out: Path | None,
    detailed_exitcode: bool,
    due: bool,
    untrusted: bool,
    base: str | None,
) -> int:
    """Show what apply would change, and with --due what the next runs would do.

    Starts no JVM and writes nothing to any table. If a change is blocked, the command saves the
    plan and exits with 1. Use --untrusted to plan the specs of strangers: the command then sends
    credentials to no location that the base does not name, and puts no other environment variable
    into any text.
    """
    from parquetry.cli.requests.saving import save
    from parquetry.cli.requests.workspaces import plan_for
    from parquetry.cli.views.plan.text import PlanView
    from parquetry.compiler.plan.codec import encode

    if base is not None and not untrusted:
        raise click.UsageError(
            "--base names the branch that an untrusted branch is to be merged into: add --untrusted"
        )
    plan = plan_for(request, due=due, excluded=output.verbose, untrusted=untrusted, base=base)
    if out is not None:
        save(out, encode(plan), option="--out", project=request.directory)
    output.show(PlanView(saved=out, typed_options=request.typed_options, verbose=output.verbose), plan)
    if plan.intent.blocked:
        return 1
    return 3 if detailed_exitcode and not plan.is_empty else 0
