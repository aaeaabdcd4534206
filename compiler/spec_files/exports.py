"""The selected tables in other programs' terms: Hudi options and Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace

from parquetry.compiler.spec_files.ddl import create_statement
from parquetry.compiler.spec_files.hudi_options import HudiOptions, hudi_options
from parquetry.compiler.workspace.opened import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """One table: ``options`` for a Hudi writer, ``ddl`` for Spark."""

    table: str
    location: str
    options: HudiOptions
    ddl: str


def export_tables(workspace: Workspace) -> tuple[Export, ...]:
    """Return the selected tables in order, without opening a table.

    The options of a renamed table have its former name, as Hudi compares the option with hoodie.properties.
    """
    return tuple(
        Export(
            table=table.name,
            location=table.location,
            options=hudi_options(replace(table.spec, name=table.moved_from or table.name)),
            ddl=create_statement(table.spec, location=table.location),
        )
        for table in workspace.tables
    )
