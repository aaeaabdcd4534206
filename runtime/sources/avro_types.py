"""Types of Avro files that tables do not have; Spark would store their values as plain numbers or bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_NO_NANOSECONDS: Final = "write it as timestamp-micros"
_REMEDIES: Final = {
    "time-millis": "write the time of day as text or as a number",
    "time-micros": "write the time of day as text or as a number",
    "timestamp-nanos": _NO_NANOSECONDS,
    "local-timestamp-nanos": _NO_NANOSECONDS,
    "duration": "write the duration as a number",
    "big-decimal": "write it as decimal, with precision and scale",
}


def foreign_columns(schema: str) -> tuple[Mapping[str, str], str]:
    """Return why columns with such types cannot be read, and a schema without these types.

    The types may be at any depth. Some versions of Spark read no file whose schema has such a type, not even
    other columns.

    Args:
        schema: The schema with which a file was written, as JSON.

    Returns:
        The reason by the name of the column, and the schema with the types as which the values are stored.

    """
    document = json.loads(schema)
    found: dict[str, str] = {}
    named: dict[str, str | None] = {}
    for field in document.get("fields", ()) if isinstance(document, dict) else ():
        if kind := _without_foreign_types(field["type"], named):
            name = field["name"]
            found[name] = f"column {name!r} has the type {kind}, which tables do not have; {_REMEDIES[kind]}"
    return found, json.dumps(document)


def _without_foreign_types(schema: Any, named: dict[str, str | None]) -> str | None:
    """Remove such types from a schema, and return the first of them, or None if there is none.

    ``named`` records the result of each named type, because later references use only the name.
    """
    match schema:
        case str():
            return named.get(schema.rpartition(".")[2])
        case list():
            found = [_without_foreign_types(branch, named) for branch in schema]
        case {"logicalType": str() as kind} if kind in _REMEDIES:
            del schema["logicalType"]
            found = [kind]
        case dict():
            inner = [field.get("type") for field in schema.get("fields", ())]
            inner += [schema.get(key) for key in ("type", "items", "values")]
            found = [_without_foreign_types(inner, named)]
        case _:
            return None
    kinds = [kind for kind in found if kind]
    first = kinds[0] if kinds else None
    if isinstance(schema, dict) and "name" in schema:
        named[schema["name"].rpartition(".")[2]] = first
    return first
