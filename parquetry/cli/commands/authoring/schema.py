"""`parquetry schema`: the JSON Schemas of the project's files."""

from __future__ import annotations

from pathlib import Path

import click

from parquetry.cli.requests.options import output_options
from parquetry.cli.terminal.output import Output
from parquetry.cli.terminal.schema import ANSWERS

_FILES = ("project", "table", "policy", "guardrail")


@click.command(name="schema")
@click.argument("kind", metavar="[KIND]", required=False, type=click.Choice((*_FILES, *ANSWERS)))
@click.option(
    "--write",
    "directory",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write KIND.json, without KIND those of all files, into this directory, for editors.",
)
@output_options("text", "json")
def command(*, output: Output, kind: str | None, directory: Path | None) -> int:
    """Print the JSON Schema (draft 2020-12) of one KIND of file or answer.

    Each schema is complete in itself. The files are project, table, policy and guardrail: an editor
    checks a file against its schema if it begins with `# yaml-language-server: $schema=PATH`. The
    answers are the output of init, fmt, validate, ls, explain, compile, plan, review-post,
    review-diff, review-approved, review-follow-up, review-unplanned, guardrails-test, diff, apply,
    run, test, test-history, simulate-sizing, simulate-replay, simulate-clustering, inspect,
    inspect-files, inspect-view, head, timeline, service-clean, service-archive, service-purge,
    service-cluster, drift, adopt, unlock and doctor with `--format json`.
    The schema of plan also fits saved plans, and those of run and test fit the results.json of a
    run.
    """
    from parquetry.cli.terminal.schema import answer_schema
    from parquetry.cli.views.files import SchemaView, WrittenSchemasView
    from parquetry.project.validation.definitions import Kind, bundled, write_schemas

    if kind is None and directory is None:
        raise click.UsageError(f"name a KIND ({', '.join((*_FILES, *ANSWERS))}), or give --write DIR")
    kinds = _FILES if kind is None else (kind,)
    schemas = {name: bundled(Kind(name)) if name in _FILES else answer_schema(name) for name in kinds}
    if directory is not None:
        output.show(WrittenSchemasView(), write_schemas(directory, schemas))
    else:
        output.show(SchemaView(), schemas[kinds[0]], verbatim=True)
    return 0
