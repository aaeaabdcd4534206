"""Conditions in SQL as Arrow expressions, with the answers that Spark gives.

The conditions are those that data skipping understands (:mod:`parquetry.runtime.layout.skipping.parser`).
Here nothing is passed over: what is not understood, or what Arrow would answer in another way, is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import and_, or_
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from parquetry.message import Message, Phrase, Value
from parquetry.runtime.arrow.schema import arrow_type
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.skipping.condition import (
    Comparator,
    Compared,
    Condition,
    Conjunction,
    Disjunction,
    IsNull,
    Like,
)
from parquetry.runtime.layout.skipping.literals import interval_of
from parquetry.runtime.layout.skipping.parser import parse_condition
from parquetry.runtime.layout.skipping.statistics import StatisticValue
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import ColumnType, Primitive, Struct, parse_type
from parquetry.runtime.spec.types import Decimal as DecimalType

_MOST_INTEGER: Final = {"tinyint": 2**31, "smallint": 2**31, "int": 2**31, "bigint": 2**63}
_FLOATS: Final = ("float", "double")


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The condition of a read as an Arrow expression over the table's columns; None lets all rows pass.

    ``columns`` are the names of the table's columns that the expression needs, in the order of the table.
    """

    expression: pc.Expression | None
    columns: tuple[str, ...]


def row_filter(where: str, columns: Sequence[Column], time_zone: tzinfo) -> RowFilter:
    """Return the rows' filter for a condition in SQL.

    A row passes if the condition is true for it; if it is false or null, the row does not pass.

    Args:
        where: The condition. It compares columns with literals, by AND, OR, NOT, comparisons, IN, BETWEEN,
            IS NULL and LIKE.
        columns: The columns of the table.
        time_zone: The time zone of times without a zone.

    Raises:
        InvalidDataError: If the condition contains anything else, or compares values for which Spark's
            conversion is not certain.
    """
    fields = [
        (path, name.lower(), kind)
        for column in columns
        for path, name, kind in _fields((column.name,), parse_type(column.type))
    ]
    used: set[str] = set()

    def answer(condition: Condition) -> pc.Expression:
        match condition:
            case Conjunction(parts):
                return reduce(and_, map(answer, parts))
            case Disjunction(parts):
                return reduce(or_, map(answer, parts), pc.scalar(False))  # noqa: FBT003 - the value
            case Compared() | Like() | IsNull():
                path, kind = column_of(condition.column)
                used.add(path[0])
                return _on_column(pc.field(*path), condition, kind, time_zone, where)
        raise _refused(where, Message("it has a part that Arrow does not evaluate as Spark does"))

    def column_of(name: str) -> tuple[tuple[str, ...], ColumnType]:
        found = [(path, kind) for path, known, kind in fields if known == name.lower()]
        if len(found) != 1:
            raise InvalidDataError(
                "where={where}: the table has {count} columns {column!r}; its columns are {columns}",
                where=Value.quote(repr(where)),
                count=len(found) or "no",
                column=name,
                columns=[column.name for column in columns],
            )
        return found[0]

    expression = answer(parse_condition(where))
    return RowFilter(expression, tuple(c.name for c in columns if c.name in used))


def _fields(path: tuple[str, ...], kind: ColumnType) -> Sequence[tuple[tuple[str, ...], str, ColumnType]]:
    """Return a column and the fields within its structs: path, dotted name and type."""
    inner = kind.fields if isinstance(kind, Struct) else ()
    return [
        (path, ".".join(path), kind),
        *(one for field in inner for one in _fields((*path, field.name), field.type)),
    ]


def _on_column(
    column: pc.Expression,
    condition: Compared | Like | IsNull,
    kind: ColumnType,
    time_zone: tzinfo,
    where: str,
) -> pc.Expression:
    match condition:
        case IsNull(negated=negated):
            return column.is_valid() if negated else column.is_null()
        case Like(pattern=pattern):
            if kind != Primitive(name="string"):
                raise _refused(
                    where, Message("LIKE needs a text, and the column has type {type}", type=str(kind))
                )
            return pc.match_like(column, pattern)
    interval = interval_of(condition.literal, str(kind), listed=condition.listed, time_zone=time_zone)
    if interval is None or not interval.is_one_value:
        raise _refused(
            where,
            Message(
                "Spark converts {literal} or the column, of type {type}, before it compares them",
                literal=Value.quote(repr(condition.literal)),
                type=str(kind),
            ),
        )
    return _compared(column, condition.operator, interval.low, kind)


def _compared(
    column: pc.Expression, operator: Comparator, value: StatisticValue, kind: ColumnType
) -> pc.Expression:
    match kind:
        case Primitive(name=name) if name in _MOST_INTEGER:
            most = _MOST_INTEGER[name]
            return _among_steps(column, operator, value, scale=0, low=-most, high=most - 1, kind=kind)
        case DecimalType():
            most = 10**kind.precision - 1
            return _among_steps(column, operator, value, scale=kind.scale, low=-most, high=most, kind=kind)
        case Primitive(name=name) if name in _FLOATS:
            return _among_floats(column.cast(pa.float64()), operator, float(value))
    return _simply(column, operator, pa.scalar(value, _storage(kind)).cast(arrow_type(kind)))


def _storage(kind: ColumnType) -> pa.DataType | None:
    """Return the type of the number that counts days or microseconds, or None for other values."""
    if kind == Primitive(name="date"):
        return pa.int32()
    return pa.int64() if kind in (Primitive(name="timestamp"), Primitive(name="timestamp_ntz")) else None


def _among_steps(
    column: pc.Expression,
    operator: Comparator,
    value: StatisticValue,
    *,
    scale: int,
    low: int,
    high: int,
    kind: ColumnType,
) -> pc.Expression:
    """Return the comparison of a column whose values are multiples of ``10**-scale`` between two bounds.

    The bounds count steps. A value between two steps, or out of the bounds, is no value of the column's type.
    """
    assert isinstance(value, int | float | Decimal)
    exact = Fraction(value) * 10**scale
    below, above = math.floor(exact), math.ceil(exact)
    match operator:
        case Comparator.EQUAL | Comparator.NULL_SAFE_EQUAL | Comparator.NOT_EQUAL if (
            below != above or not low <= below <= high
        ):
            never = pc.scalar(False)  # noqa: FBT003 - the value
            return column.is_valid() if operator is Comparator.NOT_EQUAL else never
        case Comparator.LESS | Comparator.GREATER_OR_EQUAL:
            step = above
        case _:
            step = below
    if step > high or step < low:
        is_less = operator in (Comparator.LESS, Comparator.LESS_OR_EQUAL)
        return column.is_valid() if is_less == (step > high) else pc.scalar(False)  # noqa: FBT003 - the value
    # Other ways to build a decimal round it to the 28 digits of Python's context.
    number = step if scale == 0 and kind == Primitive(name="bigint") else Decimal(f"{step}e-{scale}")
    return _simply(column, operator, pa.scalar(number).cast(arrow_type(kind)))


def _among_floats(column: pc.Expression, operator: Comparator, value: float) -> pc.Expression:
    """Return the comparison with NaN as the largest value, which equals itself."""
    is_nan = pc.is_nan(column)
    if not math.isnan(value):
        compared = _simply(column, operator, pa.scalar(value))
        is_above = operator in (Comparator.GREATER, Comparator.GREATER_OR_EQUAL)
        return compared | is_nan if is_above else compared
    match operator:
        case Comparator.GREATER:
            return pc.scalar(False)  # noqa: FBT003 - the value
        case Comparator.LESS_OR_EQUAL:
            return column.is_valid()
        case Comparator.LESS | Comparator.NOT_EQUAL:
            return ~is_nan
    return is_nan


def _simply(column: pc.Expression, operator: Comparator, value: pa.Scalar) -> pc.Expression:
    other = pc.scalar(value)
    match operator:
        case Comparator.EQUAL | Comparator.NULL_SAFE_EQUAL:
            return column == other
        case Comparator.NOT_EQUAL:
            return column != other
        case Comparator.LESS:
            return column < other
        case Comparator.LESS_OR_EQUAL:
            return column <= other
        case Comparator.GREATER:
            return column > other
    return column >= other


def _refused(where: str, reason: Message) -> InvalidDataError:
    return InvalidDataError(
        "where={where} cannot be evaluated without Spark: {reason}; {read}, or read without the condition "
        "and filter the rows",
        where=Value.quote(repr(where)),
        reason=reason,
        read=Phrase("read with Spark (Table.read in Python)", "use Table.read"),
    )
