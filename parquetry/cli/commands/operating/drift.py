"""`parquetry drift`: differences between applied specs and live tables."""

from __future__ import annotations

import click

from parquetry.cli.requests.options import ProjectRequest, output_options, project_options
from parquetry.cli.terminal.output import Output

DRIFTED = 3


@click.command(name="drift")
@click.option("--check", is_flag=True, help="Exit with 3 if there is drift.")
@project_options
@output_options("text", "json")
def command(*, request: ProjectRequest, output: Output, check: bool) -> int:
    """Show what other programs changed in the tables since their specs were applied: who, and when.

    Covers properties, columns, clusterings, and entries in catalogs. `parquetry apply` restores
    properties, entries, and columns that were dropped or narrowed. `parquetry adopt LOCATION`
    accepts changes that a spec can express. The command does not open a table of another project or
    target, and then ends with 1.
    """
    from parquetry.cli.requests.workspaces import workspace_of
    from parquetry.cli.views.drift import DriftView
    from parquetry.compiler.plan.drift import drift_of_workspace
    from parquetry.message import message
    from parquetry.runtime.errors import ForeignTableError

    found = drift_of_workspace(workspace_of(request))
    output.show(DriftView(typed_options=output.typed_options), found)
    refusal = next((table.refusal for table in found if table.refusal is not None), None)
    if refusal is not None:
        return output.ended(ForeignTableError(message(refusal)))
    return DRIFTED if check and any(table.drifts for table in found) else 0
