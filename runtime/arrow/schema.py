"""The table's schema in Arrow types from which pyarrow writes the parquet types that Hudi's merges expect.

Decimals become fixed-length byte arrays, timestamps UTC microseconds, lists three levels with ``element``.
Hudi reads other encodings correctly, but its next merge refuses or corrupts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import (
    Array,
    ColumnType,
    Decimal,
    Map,
    Primitive,
    Struct,
    StructField,
    parse_type,
)

Batches = Iterator[pa.RecordBatch]

_ARROW_PRIMITIVES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int32(),
    "smallint": pa.int32(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of a table's own columns in a base file."""
    return pa.schema(
        pa.field(column.name, arrow_type(parse_type(column.type)), nullable=column.nullable)
        for column in columns
    )


def fields_named(schema: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """Return the fields of ``schema`` with names that ``wanted`` has, in the order of ``schema``."""
    # Arrow builds this list on each access.
    names = frozenset(wanted.names)
    return pa.schema([field for field in schema if field.name in names])


def arrow_type(column_type: ColumnType) -> pa.DataType:
    """Return the Arrow type of a column type. As in Hudi, byte and short are stored as 32-bit numbers."""
    match column_type:
        case Primitive():
            return _ARROW_PRIMITIVES[column_type.name]
        case Decimal():
            return pa.decimal128(column_type.precision, column_type.scale)
        case Array():
            return pa.list_(
                pa.field("element", arrow_type(column_type.element), nullable=column_type.element_nullable)
            )
        case Map():
            value = pa.field("value", arrow_type(column_type.value), nullable=column_type.value_nullable)
            return pa.map_(pa.string(), value)
        case Struct():
            return pa.struct(
                [
                    pa.field(field.name, arrow_type(field.type), nullable=field.nullable)
                    for field in column_type.fields
                ]
            )


def columns_from_arrow(schema: pa.Schema) -> tuple[Column, ...]:
    """Return the columns of a parquet file without an Avro schema, except Hudi's meta columns.

    Raises:
        UnsupportedTableError: If Spark cannot read a type.
    """
    return tuple(
        Column(name=field.name, type=str(_column_type(field.type, field.name)), nullable=field.nullable)
        for field in schema
        if field.name not in META_COLUMNS
    )


def _column_type(arrow: pa.DataType, place: str) -> ColumnType:
    for test, name in _SPARK_NAMES:
        if test(arrow):
            return Primitive(name=name)
    if pa.types.is_timestamp(arrow):
        return Primitive(name="timestamp" if arrow.tz else "timestamp_ntz")
    if pa.types.is_decimal(arrow):
        return Decimal(precision=arrow.precision, scale=arrow.scale)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        element = arrow.value_field
        return Array(element=_column_type(element.type, place), element_nullable=element.nullable)
    if pa.types.is_map(arrow):
        return Map(value=_column_type(arrow.item_type, place), value_nullable=arrow.item_field.nullable)
    if pa.types.is_struct(arrow):
        fields = (
            StructField(name=field.name, type=_column_type(field.type, place), nullable=field.nullable)
            for field in (arrow.field(index) for index in range(arrow.num_fields))
        )
        return Struct(fields=tuple(fields))
    raise UnsupportedTableError(
        "column {column!r} has the parquet type {parquet_type}, which Spark cannot read; rewrite the table "
        "without it",
        column=place,
        parquet_type=arrow,
    )


_SPARK_NAMES = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "tinyint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_fixed_size_binary, "binary"),
    (pa.types.is_date32, "date"),
)
