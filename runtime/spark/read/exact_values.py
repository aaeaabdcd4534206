"""SQL that converts values to another type, or raises for a value that the conversion would change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session.conversion import check_type, transformed
from parquetry.runtime.spark.session.keys import literal, quoted_name
from parquetry.runtime.spec.evolution import may_hold
from parquetry.runtime.spec.types import Array, ColumnType, Decimal, Map, Primitive, Struct
from parquetry.runtime.task_failures import refusal_sql

_WHOLE: Final = {"float": 2**24, "double": 2**53}
"""The bound up to which the type contains every whole number."""

_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPlace:
    """The position of a value: SQL for the name of its file and the number of its row, and its column."""

    file: str
    row: str | None
    column: str = ""

    def within(self, name: str) -> CellPlace:
        """Return the position of a field, an element or a map value inside this value."""
        return replace(self, column=f"{self.column}.{name}" if self.column else name)

    def refusal(self, wanted: str, text: str, *, kind: str) -> str:
        """Return SQL of the type ``kind`` that raises an error about the value.

        The error states that the value, shown as ``text``, is not ``wanted``.
        """
        row = [] if self.row is None else [f"CAST({self.row} + 1 AS STRING)"]
        refusal = refusal_sql("RefusedCell", [self.file, literal(self.column), literal(wanted), text, *row])
        return f"CAST(raise_error({refusal}) AS {kind})"


def exact_value(
    column: str, found: ColumnType, wanted: ColumnType, place: CellPlace, *, depth: int = 0
) -> str:
    """Return SQL that converts a value to the ``wanted`` type, and raises if this would change the value.

    If the wanted type can contain no value of the found type, the value stays, and the write refuses it.
    Analyse the SQL under :func:`parquetry.runtime.spark.session.settings.expression_settings`.

    Args:
        column: SQL for the value.
        found: The type of the value.
        wanted: The type of the table's column.
        place: The position that the error names.
        depth: The number of lambdas around the SQL.

    """
    item = f"e{depth}"
    match found, wanted:
        case Struct(), Struct():
            known = {field.name.lower(): field for field in wanted.fields}
            parts, is_alike = list[str](), True
            for field in found.fields:
                at = value = f"{column}.{quoted_name(field.name)}"
                if (other := known.get(field.name.lower())) is not None:
                    value = exact_value(at, field.type, other.type, place.within(field.name), depth=depth)
                is_alike &= value == at
                parts.append(f"{literal(field.name)}, {value}")
            made = f"CASE WHEN {column} IS NOT NULL THEN named_struct({', '.join(parts)}) END"
            return column if is_alike else made
        case Array(element=one), Array(element=other):
            value = exact_value(item, one, other, place.within("element"), depth=depth + 1)
            return column if value == item else transformed(column, item, value)
        case Map(value=one), Map(value=other):
            value = exact_value(item, one, other, place.within("value"), depth=depth + 1)
            return column if value == item else f"transform_values({column}, (k{depth}, {item}) -> {value})"
        case ((Primitive() | Decimal()), (Primitive() | Decimal())) if found != wanted:
            return _leaf(column, found, wanted, place)
    return column


def _leaf(column: str, found: ColumnType, wanted: Primitive | Decimal, place: CellPlace) -> str:
    value = f"CAST({column} AS {wanted})"
    if fits(found, wanted) or (found, wanted) in _ALWAYS:
        return value
    if not may_hold(wanted, found):
        return column
    is_same = f"CAST({value} AS {found}) = {column}"
    if (most := _whole_numbers(found, wanted)) is not None:
        is_same += f" AND {column} BETWEEN -{most} AND {most}"
    refused = place.refusal(str(wanted), f"CAST({column} AS STRING)", kind=str(wanted))
    return f"CASE WHEN {is_same} THEN {value} WHEN {column} IS NOT NULL THEN {refused} END"


_ALWAYS: Final = frozenset(
    (Primitive(name=found), Primitive(name="timestamp")) for found in ("timestamp_ntz", "date")
)


def in_utc(kind: ColumnType) -> ColumnType:
    """Return the type with UTC timestamps in place of local ones, as a table has no local timestamps."""
    match kind:
        case Primitive(name="timestamp_ntz"):
            return Primitive(name="timestamp")
        case Array(element=inner):
            return replace(kind, element=in_utc(inner))
        case Map(value=inner):
            return replace(kind, value=in_utc(inner))
        case Struct(fields=fields):
            return replace(kind, fields=tuple(replace(f, type=in_utc(f.type)) for f in fields))
    return kind


def _whole_numbers(found: ColumnType, wanted: ColumnType) -> int | None:
    """Return the largest whole number up to which an integer type and a float type have the same values.

    The result is None for other pairs of types.
    """
    match found, wanted:
        case Primitive(name=whole), Primitive(name=name) if whole in _INTEGERS and name in _WHOLE:
            return _WHOLE[name]
        case Primitive(name=name), Primitive(name=whole) if whole in _INTEGERS and name in _WHOLE:
            # The bound itself may be the rounded form of the next number.
            return _WHOLE[name] - 1
    return None


def fits(found: ColumnType, wanted: ColumnType) -> bool:
    """Return whether a write accepts values of the found type for a column of the wanted type."""
    try:
        check_type(found, wanted, "value")
    except InvalidDataError:
        return False
    return True
