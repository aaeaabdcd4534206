"""`parquetry schema`: the JSON Schemas of the project's files."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.options import output_options
from parquetry.cli.output import Output


@click.command(name="schema")
@click.argument("kind", required=False, type=click.Choice(("project", "table", "policy")))
@click.option(
    "--write",
    "directory",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write KIND.json, of all kinds without KIND, into this directory, for editors.",
)
@output_options("text", "json")
def command(*, output: Output, kind: str | None, directory: Path | None) -> int:
    """Print the JSON Schema (draft 2020-12) of one KIND of file; each stands alone.

    An editor checks a file against it when the file begins with
    `# yaml-language-server: $schema=PATH`.
    """
    from parquetry.cli.schema_view import SchemaView, WrittenSchemasView
    from parquetry.project.schema import Kind, bundled, write_schemas

    if directory is not None:
        written = write_schemas(directory, kinds=[Kind(kind)] if kind else list(Kind))
        output.show(WrittenSchemasView(), written)
        return 0
    if kind is None:
        raise click.UsageError("name a KIND (project, table or policy), or give --write DIR")
    output.show(SchemaView(), bundled(Kind(kind)))
    return 0
