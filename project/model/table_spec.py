"""A resolved table as the runtime's spec: what is recorded in the table when it is applied."""

from __future__ import annotations

from parquetry.project.model.resolved import ResolvedTable
from parquetry.runtime.spec.table_spec import Extra, TableSpec


def table_spec(table: ResolvedTable) -> TableSpec:
    """The table's spec, without the layers of the project, and without where the table and its files lie."""
    return TableSpec(
        name=table.name,
        columns=table.columns,
        record_key=table.record_key,
        key_scope=table.key_scope,
        ordering=table.ordering,
        partition_by=table.partition_by,
        hive_style=table.hive_style,
        url_encode=table.url_encode,
        sizing=table.sizing,
        files=table.files,
        retention=table.retention,
        sources=table.sources,
        extra=Extra(
            description=table.description,
            owner=table.owner,
            tags=tuple(sorted(table.tags)),
            clustering=table.clustering,
            queries=table.queries,
            tests=table.tests,
        ),
    )
