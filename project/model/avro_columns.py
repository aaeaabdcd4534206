"""Columns from an Avro schema file, as the list in a spec would declare them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from parquetry.project.schema.unseen import refused

_PRIMITIVES = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "fixed": "binary",
}
_LOGICAL = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "uuid": "string",
}
_REFUSED = ("local-timestamp-millis", "local-timestamp-micros", "time-millis", "time-micros", "duration")
_MAX_DEPTH = 16
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


class AvroProblem(ValueError):  # noqa: N818 - becomes a diagnostic, never leaves the package
    """Why a schema cannot be the columns of a table."""


def columns_of(schema: Any) -> list[dict[str, Any]]:
    """One mapping per field of a record schema, with the keys of a column in a spec.

    Raises:
        AvroProblem: it is no record, or a field has no counterpart in a table.

    """
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        message = "the schema is not a record"
        raise AvroProblem(message)
    columns = []
    for field in _fields(schema, "the record"):
        if not _NAME.fullmatch(field["name"]):
            message = f"field '{field['name']}' needs a name of letters, digits and '_'"
            raise AvroProblem(message)
        nullable, inner = _optional(field.get("type"), field["name"])
        column = {"name": field["name"], "type": _type(inner, field["name"], 0), "nullable": nullable}
        if isinstance(field.get("doc"), str):
            column["description"] = _seen(field["doc"], "description")
        columns.append(column)
    return columns


def _fields(record: Mapping[str, Any], place: str) -> list[Mapping[str, Any]]:
    fields = record.get("fields")
    if not isinstance(fields, list) or not fields:
        message = f"{place} has no fields"
        raise AvroProblem(message)
    for field in fields:
        if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
            message = f"{place} has a field without a name"
            raise AvroProblem(message)
        _seen(field["name"], "name")
    return fields


def _seen(text: str, what: str) -> str:
    """The text; AvroProblem where it holds a character that nobody sees."""
    if wrong := refused(text, (what,)):
        message = f"the {what} of a field holds the character U+{ord(wrong):04X}, which nobody sees"
        raise AvroProblem(message)
    return text


def _optional(schema: Any, place: str) -> tuple[bool, Any]:
    """Whether the schema is a union with null, and what it is a union with."""
    if not isinstance(schema, list):
        return False, schema
    others = [branch for branch in schema if branch != "null"]
    if len(others) != 1 or len(schema) > 2:  # noqa: PLR2004 - null and one type
        message = f"field '{place}' is a union; only a union of null and one type is a column"
        raise AvroProblem(message)
    return len(others) < len(schema), others[0]


def _type(schema: Any, place: str, depth: int) -> str:
    """The Spark SQL type of a schema; ``place`` names the field in messages."""
    if depth > _MAX_DEPTH:
        message = f"field '{place}' has more than {_MAX_DEPTH} levels"
        raise AvroProblem(message)
    if isinstance(schema, str):
        schema = {"type": schema}
    if not isinstance(schema, Mapping):
        message = f"field '{place}' has no type"
        raise AvroProblem(message)
    kind, logical = schema.get("type"), schema.get("logicalType")
    if isinstance(logical, str) and logical in _REFUSED:
        message = f"field '{place}' is a {logical}, which tables cannot hold"
        raise AvroProblem(message)
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return f"decimal({schema.get('precision')},{schema.get('scale', 0)})"
    if isinstance(logical, str) and logical in _LOGICAL:
        return _LOGICAL[logical]
    return (
        _PRIMITIVES[kind]
        if isinstance(kind, str) and kind in _PRIMITIVES
        else _composed(schema, kind, place, depth)
    )


def _composed(schema: Mapping[str, Any], kind: Any, place: str, depth: int) -> str:
    """The type of a schema that is made of others."""
    match kind:
        case "array":
            return f"array<{_nested(schema.get('items'), place, depth)}>"
        case "map":
            return f"map<string,{_nested(schema.get('values'), place, depth)}>"
        case "record":
            parts = (_part(field, place, depth) for field in _fields(schema, f"field '{place}'"))
            return f"struct<{','.join(parts)}>"
        case dict() | list():
            return _nested(kind, place, depth)
    message = f"field '{place}' has the type {kind!r}, which tables cannot hold"
    raise AvroProblem(message)


def _part(field: Mapping[str, Any], place: str, depth: int) -> str:
    """A field of a record as one of a struct; elements and values alone lose that they are never null."""
    nullable, inner = _optional(field.get("type"), f"{place}.{field['name']}")
    type_ = _type(inner, f"{place}.{field['name']}", depth + 1)
    return f"{field['name']}:{type_}{'' if nullable else ' NOT NULL'}"


def _nested(schema: Any, place: str, depth: int) -> str:
    return _type(_optional(schema, place)[1], place, depth + 1)
