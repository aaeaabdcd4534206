"""A resolved table as plain JSON values: what is recorded in the table when it is applied."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from parquetry.project.model.resolved import ResolvedTable


def spec_fields(table: ResolvedTable) -> dict[str, Any]:
    """The fields of a table's spec, sizes in bytes, None for automatic or absent.

    Where the table and its files lie is not part of it, nor is any layer of the project.
    """
    files = _plain(asdict(table.files))
    clustering = _plain(asdict(table.clustering))
    if table.files.encryption_key is None:
        del files["encryption_key"]
    elif "encrypt" in table.clustering.execution.then:
        clustering["execution"]["encryption_key"] = table.files.encryption_key
    return {
        "name": table.name,
        "columns": [asdict(column) for column in table.columns],
        "record_key": list(table.record_key),
        "key_scope": table.key_scope.value,
        "ordering": table.ordering,
        "partition_by": list(table.partition_by),
        "hive_style": table.hive_style,
        "url_encode": table.url_encode,
        "sizing": asdict(table.sizing),
        "files": files,
        "retention": asdict(table.retention),
        "sources": [_plain(asdict(source)) for source in table.sources],
        "extra": {
            "description": table.description,
            "owner": table.owner,
            "tags": sorted(table.tags),
            "clustering": clustering,
            "queries": [asdict(query) for query in table.queries],
            "tests": [_plain(asdict(test)) for test in table.tests],
        },
    }


def _plain(value: Any) -> Any:
    """The value with tuples as lists and words as plain strings."""
    match value:
        case dict():
            return {key: _plain(child) for key, child in value.items()}
        case tuple() | list():
            return [_plain(child) for child in value]
        case str():
            return str(value)
    return value
