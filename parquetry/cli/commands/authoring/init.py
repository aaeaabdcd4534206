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
@click.option(
    "--from-dbt",
    "manifest",
    metavar="PATH",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Declare the tables of a dbt project: the manifest.json that `dbt parse` writes. Repeated, it "
    "updates their specs.",
)
@click.option(
    "--check",
    is_flag=True,
    help="With --from-dbt: write nothing; exit with 3 if a spec does not say what dbt says.",
)
@output_options("text", "json")
def command(
    *,
    output: Output,
    directory: Path,
    install: str | None,
    ci: str | None,
    rows: Path | None,
    named: str | None,
    manifest: Path | None,
    check: bool,
) -> int:
    """Create a project in DIR or the current directory; it plans, applies and runs at once.

    The project has sample data, or with --from a table for your own files, or with --from-dbt the
    tables of a dbt project. It has JSON Schemas that
    editors find by themselves, and a GitHub workflow, or a pipeline of GitLab with --ci gitlab. These
    go to the root of the git repository, and install the packages of requirements.txt by their hashes and
    then what requirements.in names. Existing files are never replaced.
    """
    from parquetry.cli.views.files import InitView, SpecsFromDbtView
    from parquetry.compiler.spec_files.from_dbt import init_from_dbt
    from parquetry.compiler.spec_files.scaffold import CI, scaffold

    if named is not None and rows is None:
        raise click.UsageError("--name needs --from")
    if manifest is not None and rows is not None:
        raise click.UsageError("--from-dbt declares tables of its own: leave out --from")
    if check and (manifest is None or ci is not None):
        raise click.UsageError("--check needs --from-dbt, and writes nothing: leave out --ci")
    provider = None if ci is None else CI(ci)
    if manifest is not None:
        found = init_from_dbt(manifest, directory, write=not check, installs=install, ci=provider)
        output.show(SpecsFromDbtView(check=check), found)
        return 1 if found.is_incomplete else 3 if check and found.differs else 0
    output.show(InitView(), scaffold(directory, installs=install, ci=provider, rows=rows, table=named))
    return 0
