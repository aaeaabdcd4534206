"""`parquetry doctor`: what works here."""

from __future__ import annotations

import click

from parquetry.cli.options import ProjectRequest, output_options, project_options
from parquetry.cli.output import Output


@click.command(name="doctor")
@project_options
@output_options("text", "json")
def command(*, request: ProjectRequest, output: Output) -> int:
    """Check Java, Spark, storage and versions, and say how to mend what does not work.

    In a project the warehouse is probed with a small file that is removed again, and each table
    is asked whether it may be written; an invalid project is one thing to mend. Exits with 1 when
    something has to be mended.
    """
    from parquetry.cli.doctor_view import DoctorView
    from parquetry.cli.workspaces import workspace_of
    from parquetry.compiler.checkup import check_machine, check_project, invalid_project
    from parquetry.compiler.errors import SpecError

    checks = [*check_machine()]
    if (request.directory / "parquetry.yml").exists():
        try:
            checks += check_project(workspace_of(request))
        except SpecError as error:
            checks.append(invalid_project(error))
    output.show(DoctorView(), checks)
    return 0 if all(check.ok for check in checks) else 1
