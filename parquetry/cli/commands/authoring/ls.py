"""`parquetry ls`: the declared tables."""

from __future__ import annotations

import click

from parquetry.cli.requests.options import ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output


@click.command(name="ls")
@project_options
@output_options("text", "json", "name")
def command(*, request: ProjectRequest, output: Output) -> int:
    """List the declared tables.

    Reads no environment variable and opens no table, unless a selector needs it (state:changed).
    `--format name` prints one name per line, for scripts.
    """
    from parquetry.cli.requests.declarations import declared_tables
    from parquetry.cli.views.ls import ListingView, NamesView

    output.show(NamesView() if output.format == "name" else ListingView(), declared_tables(request))
    return 0
