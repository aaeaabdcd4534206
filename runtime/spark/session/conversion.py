"""Conversion of the rows' types to the table's: the check that a type fits, and the SQL of the conversion."""

from __future__ import annotations

from pyspark.sql import types as T  # noqa: N812  (the customary name)

from parquetry.errors import message_of
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session.keys import quoted
from parquetry.runtime.spec.evolution import is_widening
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

_VOID = Primitive(name="void")
"""The type of elements, values or fields that are all NULL."""

_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def type_of(data_type: T.DataType, place: str) -> ColumnType | None:
    """Return the type tree of a Spark type. It is None for a bare NULL, which fits every column.

    Raises:
        InvalidDataError: If no table can have the type. It names the column ``place``.

    """
    match data_type:
        case T.NullType():
            return None
        case T.CharType() | T.VarcharType():
            return Primitive(name="string")
        case T.ArrayType():
            return Array(element=type_of(data_type.elementType, place) or _VOID)
        case T.MapType(keyType=T.NullType() | T.StringType()):
            return Map(value=type_of(data_type.valueType, place) or _VOID)
        case T.StructType():
            types = [(field.name, type_of(field.dataType, place)) for field in data_type]
            return Struct(fields=tuple(StructField(name=name, type=kind or _VOID) for name, kind in types))
        case _:
            try:
                return parse_type(data_type.simpleString())
            except InvalidDataError as error:
                raise InvalidDataError(
                    "column {column!r}: {reason}", column=place, reason=message_of(error)
                ) from None


def check_type(found: ColumnType | None, wanted: ColumnType, place: str) -> None:
    """Raise InvalidDataError unless a column of the found type fits a column of the wanted type.

    The error names the column ``place``.
    """
    if found is None or found == _VOID:
        return
    match found, wanted:
        case Struct(), Struct():
            _check_struct(found, wanted, place)
        case Array(element=one), Array(element=other):
            check_type(one, other, f"{place}.element")
        case Map(value=one), Map(value=other):
            check_type(one, other, f"{place}.value")
        case _:
            if not _fits(found, wanted):
                raise InvalidDataError(
                    "column {column!r} is {found_type} in the rows and {column_type} in the table, which "
                    "cannot hold every {found_type}; declare another type, or convert the values before the "
                    "write, such as in the select of a source",
                    column=place,
                    found_type=str(found),
                    column_type=str(wanted),
                )


def _check_struct(found: Struct, wanted: Struct, place: str) -> None:
    names = [f.name.lower() for f in found.fields]
    for number, field in enumerate(found.fields):
        if names[number] in names[:number]:
            column = f"{place}.{field.name}"
            raise InvalidDataError(
                "the rows have two columns {column!r}, perhaps in different case; rename or drop one of them",
                column=column,
            )
    given = {f.name.lower(): f for f in found.fields}
    expected = {f.name.lower(): f for f in wanted.fields}
    if extra := sorted(given.keys() - expected.keys()):
        column = f"{place}.{given[extra[0]].name}"
        raise InvalidDataError(
            "column {column!r} is not in the table, which has {struct}: {column_type}; add it to the "
            "table's columns and apply, or leave it out of the rows",
            column=column,
            struct=place,
            column_type=str(wanted),
        )
    for name, field in expected.items():
        column = f"{place}.{field.name}"
        if name in given:
            check_type(given[name].type, field.type, column)
        elif not field.nullable:
            raise InvalidDataError(
                "column {column!r} is missing from the rows and may not be null; select it", column=column
            )


def are_spelled_alike(found: ColumnType | None, wanted: ColumnType) -> bool:
    """Return whether the wanted type has every found field of a struct under the same name, also in case."""
    match found, wanted:
        case Struct(), Struct():
            fields = {f.name: f.type for f in wanted.fields}
            return all(f.name in fields and are_spelled_alike(f.type, fields[f.name]) for f in found.fields)
        case (Array(element=one), Array(element=other)) | (Map(value=one), Map(value=other)):
            return are_spelled_alike(one, other)
    return True


def _fits(found: ColumnType, wanted: ColumnType) -> bool:
    match found, wanted:
        case Decimal(), Decimal():
            return (
                wanted.scale >= found.scale
                and wanted.precision - wanted.scale >= found.precision - found.scale
            )
        case Primitive(), Decimal():
            digits = _INTEGER_DIGITS.get(found.name)
            return digits is not None and wanted.precision - wanted.scale >= digits
        case _:
            return is_widening(found, wanted)


def convert(column: str, found: ColumnType | None, wanted: ColumnType, depth: int = 0) -> str:
    """Return SQL that converts ``column`` to a type that can contain its values; match struct fields by name.

    Args:
        column: SQL for the value.
        found: The type of the value; None for a bare NULL.
        wanted: The type of the result.
        depth: The number of lambdas around the SQL.

    """
    if found in (None, _VOID, Map(value=_VOID)):
        return f"CAST({column} AS {wanted})"
    if found == wanted:
        return column
    item = f"x{depth}"
    match found, wanted:
        case Struct(), Struct():
            given = {f.name.lower(): f for f in found.fields}
            parts: list[str] = []
            for field in wanted.fields:
                source = given.get(field.name.lower())
                value = (
                    f"CAST(NULL AS {field.type})"
                    if source is None
                    else convert(f"{column}.{quoted(source.name)}", source.type, field.type, depth)
                )
                parts.append(f"'{field.name}', {value}")
            return f"CASE WHEN {column} IS NULL THEN NULL ELSE named_struct({', '.join(parts)}) END"
        case Array(element=one), Array(element=other):
            return transformed(column, item, convert(item, one, other, depth + 1))
        case Map(value=one), Map(value=other):
            return f"transform_values({column}, (k{depth}, {item}) -> {convert(item, one, other, depth + 1)})"
        case _:
            return f"CAST({column} AS {wanted})"


def transformed(array: str, item: str, value: str) -> str:
    """Return SQL for an array in which ``value`` replaces each ``item``.

    Spark 4.3 cannot access an item of a Parquet column that contains only nulls, but it can access one of a
    copy.
    """
    return f"transform(flatten(array({array})), {item} -> {value})"
