"""`parquetry fmt`: the project's files in canonical YAML."""

from __future__ import annotations

import click

from parquetry.cli.requests.options import ProjectRequest, directory_options, output_options
from parquetry.cli.terminal.output import Output


@click.command(name="fmt")
@click.option("--check", is_flag=True, help="Write nothing; exit with 3 if a file would change.")
@directory_options
@output_options("text", "json")
def command(*, request: ProjectRequest, output: Output, check: bool) -> int:
    """Rewrite the project's files in canonical YAML.

    The order of keys and the text of comments stay. Indentation, quotes, spacing and blank lines
    follow one style. A file that is not YAML is reported and stays as it is.
    """
    from parquetry.cli.views.files import FormatView
    from parquetry.project.yaml.fmt import format_project

    result = format_project(request.directory, write=not check)
    output.show(FormatView(check=check), result, verbatim=True)
    if result.failed:
        return 1
    return 3 if check and result.changed else 0
