"""The selected tables in other programs' terms: Hudi options and Spark SQL.

A table in Spark SQL is ``CREATE TABLE ... USING hudi``, with the policy as table properties. Source: the SQL
DDL of Hudi 0.15 and 1.2 (HoodieOptionConfig, HoodieCatalogTable).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from parquetry.compiler.spec_files.hudi_options import HudiOptions, hudi_options
from parquetry.compiler.workspace.opened import Workspace
from parquetry.runtime.spec.table_spec import Column, TableSpec

# Options that the statement has as clauses, or under the names of Hudi's SQL.
_CLAUSE_OPTIONS: Final = frozenset(
    {
        "hoodie.table.name",
        "hoodie.datasource.write.table.type",
        "hoodie.datasource.write.recordkey.field",
        "hoodie.datasource.write.partitionpath.field",
        "hoodie.datasource.write.precombine.field",
    }
)
_GENERATOR: Final = "hoodie.datasource.write.keygenerator.class"
_STORED_GENERATOR: Final = "hoodie.table.keygenerator.class"


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


def create_statement(spec: TableSpec, *, location: str) -> str:
    """Return the statement that creates the table, ending in a semicolon and a newline.

    Spark puts partition columns last, in the order of ``PARTITIONED BY``. If the table exists, Hudi only
    registers it, and version 0.15 takes its time zone from ``hoodie.properties``: see docs/how-to/hudi.md
    first.
    """
    columns = ",\n".join(f"  {_column(column)}" for column in spec.columns)
    clauses = [f"CREATE TABLE IF NOT EXISTS {_name(spec.name)} (\n{columns}\n)", "USING hudi"]
    if description := spec.extra.description:
        clauses.append(f"COMMENT {_text(description)}")
    if spec.partition_by:
        clauses.append(f"PARTITIONED BY ({', '.join(map(_name, spec.partition_by))})")
    clauses.append(f"LOCATION {_text(_for_hadoop(location))}")
    properties = ",\n".join(f"  {_text(key)} = {_text(value)}" for key, value in _properties(spec).items())
    clauses.append(f"TBLPROPERTIES (\n{properties}\n)")
    return "\n".join([*_unmatched(spec), *clauses]) + ";\n"


def _properties(spec: TableSpec) -> Mapping[str, str]:
    options = hudi_options(spec).options
    properties = {"type": "cow"}
    if spec.record_key:
        properties["primaryKey"] = ",".join(spec.record_key)
    if spec.ordering:
        properties["preCombineField"] = spec.ordering
    properties |= {key: value for key, value in options.items() if key not in _CLAUSE_OPTIONS}
    return properties | {_STORED_GENERATOR: options[_GENERATOR]}


def _unmatched(spec: TableSpec) -> Iterator[str]:
    """Yield a comment for each part of the spec that Hudi cannot express."""
    yield from (f"-- no counterpart in Hudi: {part}" for part in hudi_options(spec).unmatched)


def _column(column: Column) -> str:
    """Return the declaration of a column."""
    null = "" if column.nullable else " NOT NULL"
    comment = f" COMMENT {_text(column.description)}" if column.description else ""
    return f"{_name(column.name)} {column.type}{null}{comment}"


def _for_hadoop(location: str) -> str:
    """Return a location with the scheme that Hadoop uses for S3."""
    return f"s3a://{location.removeprefix('s3://')}" if location.startswith("s3://") else location


def _name(name: str) -> str:
    """Return a name in backticks."""
    return f"`{name}`"


def _text(text: str) -> str:
    """Return a text as an SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
