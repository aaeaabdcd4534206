"""The table schema as Avro, with exactly the names that Hudi uses, and the columns of such a schema.

Hudi keeps this JSON in every commit and compares it by full names, so the names of nested records and fixed
types must be Hudi's own. Source: Hudi's SchemaConverters, AvroConversionUtils and HoodieAvroUtils, and the
schemas that Hudi 0.15.0 and 1.2.0 wrote for equal columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from parquetry.errors import message_of
from parquetry.message import Field
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.rules import check_columns
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import (
    AVRO_NAME,
    Array,
    ColumnType,
    Decimal,
    Map,
    Primitive,
    Struct,
    StructField,
    parse_type,
)

_Avro = str | dict[str, Any] | list[Any]

_AVRO_PRIMITIVES: Final[Mapping[str, _Avro]] = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
}
_SPARK_PRIMITIVES: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "enum": "string",
    "fixed": "binary",
    "null": "string",
}
_SPARK_LOGICAL: Final = {
    ("int", "date"): "date",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
}
_NOT_DECLARED: Final = frozenset(
    {"local-timestamp-millis", "local-timestamp-micros", "time-millis", "time-micros", "duration"}
)
"""Logical types that files of other writers may have, but that no column can be declared with."""


class AvroSchemaError(ValueError):
    """An Avro schema cannot be read as columns."""


def table_avro_schema(name: str, columns: Iterable[Column]) -> str:
    """Return the Avro JSON of a table called ``name``, which a commit contains under ``schema``.

    Raises:
        InvalidDataError: If a table cannot have these columns.

    """
    columns = tuple(columns)
    check_columns(columns)
    table = sanitized_name(name)
    namespace = f"hoodie.{table}"
    record = f"{table}_record"
    fields = tuple(
        StructField(name=column.name, type=parse_type(column.type), nullable=column.nullable)
        for column in columns
    )
    document = {
        "type": "record",
        "name": record,
        "namespace": namespace,
        "fields": _fields(fields, f"{namespace}.{record}"),
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def with_meta_columns(schema_json: str) -> str:
    """Return a table's Avro JSON with Hudi's five meta columns in front, as base files contain it."""
    document = json.loads(schema_json)
    meta = [
        {"name": column, "type": ["null", "string"], "doc": "", "default": None} for column in META_COLUMNS
    ]
    document["fields"] = meta + document["fields"]
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def with_nullable_elements(schema_json: str) -> str:
    """Return the Avro JSON with nullable elements of arrays and values of maps, and all names unchanged.

    The type of a column cannot declare elements as not null, so rows with null elements may be written.
    Readers that rely on a schema without null fail on such rows or read zeros.
    """
    document = json.loads(schema_json)
    relaxed = _with_nullable_parts(document)
    if relaxed == document:
        return schema_json
    return json.dumps(relaxed, separators=(",", ":"), ensure_ascii=False)


def columns_from_avro(text: str, *, place: Field = "Avro schema") -> tuple[Column, ...]:
    """Return the columns of an Avro record of any Hudi version, without Hudi's meta columns.

    Types without a name in Spark become the types as which Spark reads them: enum becomes string, fixed
    becomes binary, a time of day becomes a number.

    Raises:
        CorruptTableError: If the text is not such a record. The message starts with ``place``.

    """
    try:
        document = parsed_json(text)
    except ValueError as error:
        raise CorruptTableError(
            "{place}: the Avro schema is not JSON ({error})", place=place, error=message_of(error)
        ) from error
    try:
        fields = _AvroReader(declared=False).columns(document)
    except AvroSchemaError as error:
        raise CorruptTableError(
            "{place}: the Avro schema cannot be read as columns: {error}",
            place=place,
            error=message_of(error),
        ) from error
    return tuple(
        Column(name=field.name, type=str(field.type), nullable=field.nullable)
        for field in fields
        if field.name not in META_COLUMNS and field.name != "_hoodie_operation"
    )


def columns_declared_in_avro(document: object) -> tuple[Column, ...]:
    """Return the columns that an Avro record declares, with the docs of its fields as descriptions.

    Raises:
        AvroSchemaError: If the document is not a record, or if the table could not have a column as declared:
            a union of several types, a time of day, a name that Avro does not allow.

    """
    if not isinstance(document, dict) or document.get("type") != "record":
        raise AvroSchemaError("it is not a record")
    fields = _AvroReader(declared=True).columns(document)
    docs = (field["doc"] if isinstance(field.get("doc"), str) else None for field in document["fields"])
    return tuple(
        Column(name=field.name, type=str(field.type), nullable=field.nullable, description=doc)
        for field, doc in zip(fields, docs, strict=True)
    )


def sanitized_name(table: str) -> str:
    """Return the table's name with ``__`` for characters that Avro forbids, as in Hudi's record names."""
    if table and not re.match(r"[A-Za-z_]", table):
        table = "__" + table[1:]
    return re.sub(r"[^A-Za-z0-9_]", "__", table)


def _fields(fields: Iterable[StructField], namespace: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for field in fields:
        avro = _avro(field.type, field.name, namespace)
        if field.nullable:
            entries.append({"name": field.name, "type": ["null", avro], "default": None})
        else:
            entries.append({"name": field.name, "type": avro})
    return entries


def _avro(column_type: ColumnType, name: str, namespace: str) -> _Avro:
    match column_type:
        case Primitive():
            return _AVRO_PRIMITIVES[column_type.name]
        case Decimal():
            return {
                "type": "fixed",
                "name": "fixed",
                "namespace": f"{namespace}.{name}",
                "size": column_type.fixed_size_bytes,
                "logicalType": "decimal",
                "precision": column_type.precision,
                "scale": column_type.scale,
            }
        case Array(element=element, element_nullable=nullable):
            return {"type": "array", "items": _nullable(_avro(element, name, namespace), nullable=nullable)}
        case Map(value=value, value_nullable=nullable):
            return {"type": "map", "values": _nullable(_avro(value, name, namespace), nullable=nullable)}
        case Struct(fields=fields):
            return {
                "type": "record",
                "name": name,
                "namespace": namespace,
                "fields": _fields(fields, f"{namespace}.{name}"),
            }


def _nullable(avro: _Avro, *, nullable: bool) -> _Avro:
    return ["null", avro] if nullable else avro


def _with_nullable_parts(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_nullable_parts(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    relaxed = dict(schema)
    if isinstance(schema.get("type"), dict | list):
        relaxed["type"] = _with_nullable_parts(schema["type"])
    if isinstance(schema.get("fields"), list):
        relaxed["fields"] = [_with_nullable_parts(field) for field in schema["fields"]]
    for kind, part in (("array", "items"), ("map", "values")):
        if schema.get("type") == kind:
            relaxed[part] = _or_null(_with_nullable_parts(schema.get(part)))
    return relaxed


def _or_null(schema: Any) -> list[Any]:
    branches = schema if isinstance(schema, list) else [schema]
    return branches if "null" in branches else ["null", *branches]


_MOST_FIELDS: Final = 100_000


class _AvroReader:
    """A reader of one schema, which remembers its named types. Stricter rules apply if it is ``declared``."""

    def __init__(self, *, declared: bool) -> None:
        self._declared = declared
        self._named: dict[str, ColumnType | None] = {}
        self._field_counts: dict[str, int] = {}
        self._field_count = 0

    def columns(self, document: object) -> tuple[StructField, ...]:
        """Return the fields of a schema that is a record."""
        struct, _ = self.read(document, "")
        if not isinstance(struct, Struct):
            raise AvroSchemaError(f"it is a {struct}, not a record")
        return struct.fields

    def read(self, schema: object, namespace: str) -> tuple[ColumnType, bool]:
        """Return the type, and whether it may be null."""
        match schema:
            case list():
                return self._union(schema, namespace)
            case str():
                return self._reference(schema, namespace), schema == "null"
            case {"type": dict() | list() as inner}:
                return self.read(inner, namespace)
            case {"type": str() as kind}:
                return self._complex(cast("Mapping[str, Any]", schema), kind, namespace), False
        raise AvroSchemaError(f"{schema!r:.200} is not a type")

    def _complex(self, schema: Mapping[str, Any], kind: str, namespace: str) -> ColumnType:
        logical = schema.get("logicalType")
        if self._declared and str(logical) in _NOT_DECLARED:
            raise AvroSchemaError(f"tables cannot hold a {logical}")
        if kind == "record":
            return self._record(schema, namespace)
        if kind == "array":
            element, nullable = self.read(schema.get("items"), namespace)
            return Array(element=element, element_nullable=nullable)
        if kind == "map":
            value, nullable = self.read(schema.get("values"), namespace)
            return Map(value=value, value_nullable=nullable)
        if logical == "decimal" and kind in ("bytes", "fixed"):
            return self._register(schema, namespace, self._decimal(schema))
        if kind in ("fixed", "enum"):
            return self._register(schema, namespace, Primitive(name=_SPARK_PRIMITIVES[kind]))
        name = _SPARK_LOGICAL.get((kind, str(logical)))
        return Primitive(name=name) if name else self._reference(kind, namespace)

    def _union(self, branches: list[object], namespace: str) -> tuple[ColumnType, bool]:
        types = [self.read(branch, namespace)[0] for branch in branches if branch != "null"]
        nullable = len(types) < len(branches)
        is_nested = any(isinstance(branch, list) for branch in branches)
        if self._declared and (len(types) != 1 or branches.count("null") > 1 or is_nested):
            raise AvroSchemaError("a column can be a union of null and one type only")
        if not types:
            return Primitive(name="string"), True
        if len(types) == 1:
            return types[0], nullable
        members = (StructField(name=f"member{index}", type=member) for index, member in enumerate(types))
        return Struct(fields=tuple(members)), nullable

    def _record(self, schema: Mapping[str, Any], namespace: str) -> Struct:
        full_name, inner = self._full_name(schema, namespace)
        self._named[full_name] = None
        before = self._field_count
        fields = []
        listed = schema.get("fields")
        if not isinstance(listed, list):
            raise AvroSchemaError(f"the record {full_name!r} has no list of fields")
        if self._declared and not listed:
            raise AvroSchemaError(f"the record {full_name!r} has no fields")
        for field in listed:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str):
                raise AvroSchemaError(f"the record {full_name!r} has a field without a name")
            if self._declared and not AVRO_NAME.fullmatch(field["name"]):
                raise AvroSchemaError(f"field {field['name']!r} needs a name of letters, digits and '_'")
            try:
                field_type, nullable = self.read(field.get("type"), inner)
            except AvroSchemaError as error:
                raise AvroSchemaError(f"field {field['name']!r:.200}: {error}") from None
            fields.append(StructField(name=field["name"], type=field_type, nullable=nullable))
            self._count_fields(1)
        self._field_counts[full_name] = self._field_count - before
        struct = Struct(fields=tuple(fields))
        self._named[full_name] = struct
        return struct

    def _decimal(self, schema: Mapping[str, Any]) -> Decimal:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int:
            raise AvroSchemaError(f"decimal without precision: {json.dumps(schema)}")
        return Decimal(precision=precision, scale=scale)

    def _register(self, schema: Mapping[str, Any], namespace: str, column_type: ColumnType) -> ColumnType:
        if "name" in schema:
            self._named[self._full_name(schema, namespace)[0]] = column_type
        return column_type

    def _reference(self, name: str, namespace: str) -> ColumnType:
        if name in _SPARK_PRIMITIVES and name not in ("enum", "fixed", "null" if self._declared else ""):
            return Primitive(name=_SPARK_PRIMITIVES[name])
        for full_name in (f"{namespace}.{name}", name):
            if full_name in self._named:
                known = self._named[full_name]
                if known is None:
                    raise AvroSchemaError(f"the record {name!r} contains itself")
                self._count_fields(self._field_counts.get(full_name, 0))
                return known
        raise AvroSchemaError(f"{name!r} is not a type")

    def _count_fields(self, fields: int) -> None:
        """Count fields, again for each reference to a record, as a few references can multiply them."""
        self._field_count += fields
        if self._field_count > _MOST_FIELDS:
            raise AvroSchemaError(f"it has more than {_MOST_FIELDS:,} fields")

    def _full_name(self, schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
        name = schema.get("name")
        if not isinstance(name, str):
            raise AvroSchemaError("a record, fixed or enum without a name")
        if "." in name:
            return name, name.rpartition(".")[0]
        inner = schema.get("namespace", namespace)
        return (f"{inner}.{name}" if inner else name), inner
