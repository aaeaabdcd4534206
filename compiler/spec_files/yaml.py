"""A table's spec as the text of ``tables/NAME.yml``: canonical, without settings that its layers supply."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from parquetry.compiler.spec_words import document as words
from parquetry.compiler.spec_words import flatten, flow, format_age, format_size
from parquetry.project.diagnostics.source import SourceText
from parquetry.project.model.table_tests import ITSELF, LIMITS, Unit, recorded_key, with_limits
from parquetry.project.yaml.canonical import canonical
from parquetry.runtime.spec.table_spec import Column, Query, Source, TableSpec, TableTest

_LINE: Final = 100
_HEAD: Final = {"apiVersion": "parquetry/v1", "kind": "table"}
KEY_ORDER: Final = (
    *("apiVersion", "kind", "name", "description", "owner", "tags", "location", "moved", "columns"),
    *("record_key", "key_scope", "ordering", "partition_by", "partitioning", "table_version", "locks"),
    *("publish", "catalog", "database", "policy", "readers"),
    *("sizing", "clustering", "retention", "files", "sources", "queries", "tests"),
)
_SOURCE_KEYS: Final = (
    *("options", "select", "read", "drop_duplicates", "delete_when", "drop", "match", "if_missing"),
    *("bad_files", "ingest_again", "removed_rows", "file_order", "ties", "encryption_keys"),
)
_NULLABLE: Final = "retention.clean.keep_commits"
VERSION: Final = "table_version"
LOCKS: Final = "locks"
META_COLUMNS: Final = "files.meta_columns"
LAYERED: Final = (
    *("sizing", "files", "retention", "clustering", "key_scope", "partitioning"),
    *("publish", "catalog", "database"),
    *(VERSION, LOCKS),
)


def structure(spec: TableSpec, *, location: str | Mapping[str, str] | None) -> dict[str, Any]:
    """Return the parts of a spec that no layer supplies: name, columns, keys, sources, queries and tests."""
    extra = spec.extra
    document = {
        **_HEAD,
        "name": spec.name,
        "description": extra.description,
        "owner": extra.owner,
        "tags": list(extra.tags),
        "location": location,
        "columns": [column_entry(column) for column in spec.columns],
        "record_key": list(spec.record_key),
        "ordering": spec.ordering,
        "partition_by": list(spec.partition_by),
        "sources": [_source(source) for source in spec.sources],
        "queries": [_query(query) for query in extra.queries],
        "tests": [_test(test) for test in extra.tests],
    }
    return {key: value for key, value in document.items() if value not in (None, [])}


def column_entry(column: Column) -> dict[str, Any]:
    """Return a column as an entry of ``columns``."""
    entry: dict[str, Any] = {"name": column.name, "type": column.type}
    if not column.nullable:
        entry["nullable"] = False
    optional = {"description": column.description, "generated": column.generated}
    entry |= {key: value for key, value in optional.items() if value is not None}
    return entry | ({"pii": True} if column.pii else {})


def missing_settings(wanted: TableSpec, resolved: TableSpec, *, sections: Collection[str]) -> dict[str, Any]:
    """Return the settings, by dotted path, that must be declared to turn ``resolved`` into ``wanted``.

    ``sections`` are top-level keys or dotted paths.
    A setting that is None in ``wanted`` cannot be declared (except ``keep_commits``), so the value of a lower
    layer stays in force.
    """
    want, have = _settings(wanted, sections), _settings(resolved, sections)
    return {
        path: value
        for path, value in want.items()
        if value != have.get(path) and (value not in (None, []) or path == _NULLABLE)
    }


def with_settings(document: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the document with values set at dotted paths."""
    result: dict[str, Any] = json.loads(json.dumps(document))
    for path, value in settings.items():
        *parents, last = path.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return result


def table_text(document: Mapping[str, Any]) -> str:
    """Return the YAML of a table's document, with its keys in the usual order.

    Columns and sources take one line each, and long mappings one line per key.
    """
    keys = sorted(document, key=KEY_ORDER.index)
    text = "".join(entry_text(key, document[key]) for key in keys)
    return canonical(SourceText(path=f"{document['name']}.yml", text=text))


def entry_text(key: str, value: Any) -> str:
    """Return a key with its value as YAML; lists of mappings and long mappings take several lines."""
    line = f"{key}: {flow(value)}"
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return f"{key}:\n" + "".join(f"  - {flow(item)}\n" for item in value)
    if isinstance(value, Mapping) and len(line) > _LINE:
        return f"{key}:\n" + "".join(f"  {inner}: {flow(item)}\n" for inner, item in value.items())
    return f"{line}\n"


def _settings(spec: TableSpec, sections: Collection[str]) -> dict[str, Any]:
    """Return the settings of these sections by dotted path.

    Those that only partitions need are left out if the table has none.
    """
    document = words(spec)
    if not spec.partition_by:
        # Without partitions, these settings have no effect, and a declaration would be reported.
        del document["partitioning"], document["key_scope"]
    settings = flatten({key: document[key] for key in LAYERED if key in document})
    return {
        path: value
        for path, value in settings.items()
        if path in sections or path.partition(".")[0] in sections
    }


def _source(source: Source) -> dict[str, Any]:
    """Return a source as YAML values, without those that it has anyway."""
    plain = Source(name=source.name, format=source.format, path=source.path)
    entry: dict[str, Any] = {"name": source.name, "format": source.format, "path": source.path}
    for key in _SOURCE_KEYS:
        value = getattr(source, key)
        if value != getattr(plain, key):
            entry[key] = list(value) if isinstance(value, tuple) else value
    return entry | {"operation": str(source.operation)}


def _query(query: Query) -> dict[str, Any]:
    """Return a query as YAML values."""
    entry: dict[str, Any] = {"name": query.name, "where": query.where}
    entry |= {} if query.weight == 1 else {"weight": query.weight}
    return entry if query.runs_per_day is None else entry | {"runs_per_day": query.runs_per_day}


def _test(test: TableTest) -> dict[str, Any]:
    """Return a test as YAML values."""
    units = LIMITS.get(test.kind, {})
    declared = {recorded_key(key, unit): key for key, unit in units.items()}
    arguments = test.arguments
    if isinstance(arguments, Mapping) and ITSELF not in units:
        arguments = {declared.get(key, key): value for key, value in arguments.items() if value is not None}
    entry = {"name": test.name, test.kind: with_limits(test.kind, arguments, _limit, named=_as_declared)}
    if test.severity != "error":
        entry["severity"] = test.severity
    entry |= {"where": test.where, "max_failures": test.max_failures}
    return {key: value for key, value in entry.items() if value is not None}


def _limit(value: Any, unit: Unit) -> Any:
    """Return a limit of a test as it is written in YAML: bytes and seconds with their unit."""
    match unit:
        case Unit.BYTES:
            return format_size(value)
        case Unit.SECONDS:
            return format_age(value)
    return value


def _as_declared(key: str, _: Unit) -> str:
    """Return the key itself, as specs declare it."""
    return key
