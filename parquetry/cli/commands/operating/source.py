"""`parquetry source`: the files that a table has ingested, and decisions about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from parquetry.cli.command_group import CommandGroup
from parquetry.cli.requests import completion
from parquetry.cli.requests.options import ProjectRequest, output_options, table_options
from parquetry.cli.requests.prompt import confirm
from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Output
from parquetry.errors import UsageError

if TYPE_CHECKING:
    from parquetry.compiler.reports.sources import TableSources

_APPROVE = click.option("--auto-approve", is_flag=True, help="Do not ask.")
_FILES = click.argument("files", nargs=-1, required=True)


@click.group(name="source", cls=CommandGroup)
def command() -> None:
    """Show which files a table has ingested, and decide about files. A file is known by its content."""


@command.command("list")
@click.argument("table", metavar="TABLE[.SOURCE]", shell_complete=completion.tables)
@table_options
@output_options("text", "json")
def list_files(*, request: ProjectRequest, output: Output, table: str) -> int:
    """Count the ingested, pending and refused files of each source; -v lists them."""
    from parquetry.cli.views.operating.services import SourcesView

    output.show(SourcesView(verbose=output.verbose), _sources(request, table).listed())
    return 0


@command.command("accept")
@click.argument("source", metavar="TABLE.SOURCE")
@_FILES
@_APPROVE
@table_options
@output_options("text", "json")
def accept(
    *, request: ProjectRequest, output: Output, source: str, files: tuple[str, ...], auto_approve: bool
) -> int:
    """Ingest FILES in the next run, whatever was ingested before: changed files, and copies of others."""
    return _decide(request, output, source, "accepted", files, auto_approve=auto_approve)


@command.command("skip")
@click.argument("source", metavar="TABLE.SOURCE")
@_FILES
@_APPROVE
@table_options
@output_options("text", "json")
def skip(
    *, request: ProjectRequest, output: Output, source: str, files: tuple[str, ...], auto_approve: bool
) -> int:
    """Never ingest FILES: record them as ingested."""
    return _decide(request, output, source, "skipped", files, auto_approve=auto_approve)


@command.command("forget")
@click.argument("source", metavar="TABLE.SOURCE")
@click.argument("files", nargs=-1)
@_APPROVE
@table_options
@output_options("text", "json")
def forget(
    *, request: ProjectRequest, output: Output, source: str, files: tuple[str, ...], auto_approve: bool
) -> int:
    """Ingest files again that SOURCE has ingested and that still exist: FILES, or all of them."""
    from parquetry.cli.views.operating.services import DecisionView

    sources = _sources(request, source)
    what = count(len(files), "file") if files else "all files"
    confirm(f"Let {source} ingest {what} again?", auto_approve=auto_approve)
    output.show(DecisionView(), sources.forget(files))
    return 0


@command.command("move")
@click.argument("former", metavar="TABLE[.SOURCE]")
@click.argument("source", metavar="TABLE.SOURCE")
@_APPROVE
@table_options
@output_options("text", "json")
def move(*, request: ProjectRequest, output: Output, former: str, source: str, auto_approve: bool) -> int:
    """Record files that the first table has ingested as ingested by the second, which has their rows."""
    from parquetry.cli.views.operating.services import DecisionView

    sources, other = _sources(request, source), _sources(request, former)
    confirm(f"Count the files of {former} as ingested by {source}?", auto_approve=auto_approve)
    output.show(DecisionView(), sources.copy_known_files(other))
    return 0


def _decide(
    request: ProjectRequest,
    output: Output,
    source: str,
    kind: str,
    files: tuple[str, ...],
    *,
    auto_approve: bool,
) -> int:
    from parquetry.cli.views.operating.services import DecisionView
    from parquetry.runtime.sources.ledger import EntryKind

    sources = _sources(request, source)
    verb = "Ingest" if kind == EntryKind.ACCEPTED else "Never ingest"
    confirm(f"{verb} {count(len(files), 'file')} of {source}?", auto_approve=auto_approve)
    output.show(DecisionView(), sources.decide(EntryKind(kind), files))
    return 0


def _sources(request: ProjectRequest, name: str) -> TableSources:
    """Return the sources of a table of the project, or the one that ``TABLE.SOURCE`` names."""
    from parquetry.cli.requests.workspaces import table_in_force, workspace_of
    from parquetry.compiler.reports.sources import TableSources

    table, _, source = name.partition(".")
    if "/" in table:
        raise UsageError("{source}: name a table of the project, with its source behind a dot", source=name)
    return TableSources(
        handle=table_in_force(request, table, applied=True).open(),
        workspace=workspace_of(request),
        source=source or None,
    )
