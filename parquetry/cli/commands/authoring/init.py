"""`parquetry init`: a new project."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.requests.options import output_options
from parquetry.cli.terminal.output import Output


@click.command(name="init")
@click.argument(
    "directory", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=Path()
)
@click.option(
    "--install",
    metavar="REQUIREMENT",
    help="What pip installs in the workflow. Default: what this parquetry was installed from.",
)
@click.option(
    "--ci",
    type=click.Choice(("github", "gitlab")),
    help="Add workflows, or a pipeline of GitLab, that plan pull requests, apply what is approved, and "
    "test tables every night. An existing project gets these alone.",
)
@click.option(
    "--from",
    "rows",
    metavar="PATH",
    type=click.Path(path_type=Path, exists=True),
    help="Declare a table for these rows: a Parquet or CSV file, or a folder of them. An existing project "
    "gets the table alone.",
)
@click.option("--name", "named", metavar="TABLE", help="With --from: the table's name. Default: the file's.")
@output_options("text", "json")
def command(
    *,
    output: Output,
    directory: Path,
    install: str | None,
    ci: str | None,
    rows: Path | None,
    named: str | None,
) -> int:
    """Create a project in DIR or the current directory; it plans, applies and runs at once.

    The project has sample data, or with --from a table for your own files. It has JSON Schemas that
    editors find by themselves, and a GitHub workflow, or a pipeline of GitLab with --ci gitlab. These
    go to the root of the git repository, and install the packages of requirements.txt by their hashes and
    then what requirements.in names. Existing files are never replaced.
    """
    from parquetry.cli.views.files import InitView
    from parquetry.compiler.spec_files.scaffold import CI, scaffold

    if named is not None and rows is None:
        raise click.UsageError("--name needs --from")
    provider = None if ci is None else CI(ci)
    output.show(InitView(), scaffold(directory, installs=install, ci=provider, rows=rows, table=named))
    return 0
