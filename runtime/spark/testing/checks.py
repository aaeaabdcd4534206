"""Declared tests as Spark expressions over a table's rows, checked before any row is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the customary name)
from pyspark.sql import types as T  # noqa: N812  (the customary name)

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spark.read.table import read_table
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.keys import literal, quoted
from parquetry.runtime.spark.session.sql_guard import check_expression
from parquetry.runtime.spec.row_tests import OtherTable, RowTest, RowTestKind
from parquetry.runtime.table.handle import TableHandle

_INTEGERS: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_COMPARED: Final = (
    *_INTEGERS,
    T.StringType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.BooleanType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCheck:
    """A test as expressions over a frame of the table's rows.

    ``violations`` are conditions that are true for failing rows; each is counted by itself. ``keys``, with
    the types ``key_types``, are checked in rows in which all of them have a value. ``others`` are the keys of
    the other table; None if ``keys`` must be unique.
    """

    test: RowTest
    violations: tuple[Column, ...] = ()
    keys: tuple[Column, ...] = ()
    key_types: tuple[str, ...] = ()
    others: DataFrame | None = None


def make_check(
    spark: SparkSession, test: RowTest, rows: DataFrame, other: Callable[[OtherTable], TableHandle]
) -> RowCheck:
    """Return the check of a test.

    Args:
        spark: The session.
        test: The test.
        rows: A frame with the columns of the table; no row is read.
        other: Opens the other table of a relationship.

    Raises:
        InvalidDataError: If the test does not fit the columns, or its SQL is refused.

    """
    match test.kind:
        case RowTestKind.NOT_NULL:
            for name in test.columns:
                _type_of(rows, name)
            return RowCheck(
                test=test, violations=tuple(F.col(quoted(name)).isNull() for name in test.columns)
            )
        case RowTestKind.EXPRESSION:
            return RowCheck(test=test, violations=(~_condition(spark, test, rows),))
        case RowTestKind.ACCEPTED_VALUES:
            return RowCheck(test=test, violations=(_unaccepted(spark, test, rows),))
        case RowTestKind.UNIQUE:
            types = tuple(_key_type(rows, name) for name in test.columns)
            keys = tuple(F.col(quoted(name)) for name in test.columns)
            return RowCheck(test=test, keys=keys, key_types=tuple(t.simpleString() for t in types))
        case RowTestKind.RELATIONSHIPS:
            return _relationship(spark, test, rows, other)


def _condition(spark: SparkSession, test: RowTest, rows: DataFrame) -> Column:
    """Return the condition of an expression test. Raise InvalidDataError if it cannot be used."""
    place = f"test {test.name}"
    assert test.expression is not None, "expression tests have one"
    check_expression(spark, test.expression, place=place)
    with failures_translated(place):
        condition = F.expr(test.expression)
        # Aggregates, windows and generators depend on other rows. Spark refuses them in WHERE only.
        rows.where(condition.cast("boolean"))
        (field,) = rows.select(condition).schema.fields
    if not isinstance(field.dataType, T.BooleanType):
        raise InvalidDataError(
            "{place}: the expression is of type {found_type}; write a condition",
            place=place,
            found_type=field.dataType.simpleString(),
        )
    return condition


def _unaccepted(spark: SparkSession, test: RowTest, rows: DataFrame) -> Column:
    """Return the condition that is true for rows whose value is not among the accepted values."""
    (name,) = test.columns
    kind = _type_of(rows, name)
    if not isinstance(kind, _COMPARED):
        raise InvalidDataError(
            "column {column} of type {found_type} cannot have accepted_values; write an expression",
            column=name,
            found_type=kind.simpleString(),
        )
    texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in test.values]
    ddl = kind.simpleString()
    cast = [F.expr(f"try_cast({literal(text)} AS {ddl})").alias(f"v{n}") for n, text in enumerate(texts)]
    found = spark.sql("SELECT 1").select(*(value.isNull() for value in cast)).first()
    assert found is not None, "one row gives one"
    if any(found):
        raise InvalidDataError(
            "value {number} of accepted_values is not {column_type}, the type of column {column}",
            number=list(found).index(True) + 1,
            column_type=ddl,
            column=name,
        )
    return ~F.col(quoted(name)).isin(*cast)


def _relationship(
    spark: SparkSession, test: RowTest, rows: DataFrame, other: Callable[[OtherTable], TableHandle]
) -> RowCheck:
    """Return the check that each key exists in the other table."""
    assert test.other is not None, "relationships have another table"
    there = read_table(spark, other(test.other))
    types = tuple(
        _common_type(name, _key_type(rows, name), theirs, _key_type(there, theirs))
        for name, theirs in zip(test.columns, test.other.columns, strict=True)
    )
    theirs = [F.col(quoted(name)).cast(ddl) for name, ddl in zip(test.other.columns, types, strict=True)]
    return RowCheck(
        test=test,
        keys=tuple(F.col(quoted(name)).cast(ddl) for name, ddl in zip(test.columns, types, strict=True)),
        key_types=types,
        others=there.select(*(key.alias(f"k{number}") for number, key in enumerate(theirs))).dropna(),
    )


def _common_type(name: str, one: T.DataType, other_name: str, other: T.DataType) -> str:
    """Return the type to which the values of both columns can be converted unchanged.

    Raises:
        InvalidDataError: If there is no such type.

    """
    if one == other:
        return str(one.simpleString())
    if isinstance(one, _INTEGERS) and isinstance(other, _INTEGERS):
        return "bigint"
    if isinstance(one, T.DecimalType) and isinstance(other, T.DecimalType) and one.scale == other.scale:
        return f"decimal({max(one.precision, other.precision)},{one.scale})"
    raise InvalidDataError(
        "column {column} is of type {column_type}, and {other_column} of the other table of type "
        "{other_type}, so their values cannot be compared; compare columns of one type",
        column=name,
        column_type=one.simpleString(),
        other_column=other_name,
        other_type=other.simpleString(),
    )


def _key_type(rows: DataFrame, name: str) -> T.DataType:
    kind = _type_of(rows, name)
    if not isinstance(kind, (*_COMPARED, T.BinaryType)):
        raise InvalidDataError(
            "column {column} of type {found_type} cannot be a key; name its fields, or another column",
            column=name,
            found_type=kind.simpleString(),
        )
    return kind


def _type_of(rows: DataFrame, name: str) -> T.DataType:
    try:
        (field,) = rows.select(F.col(quoted(name))).schema.fields
    except AnalysisException as error:
        raise InvalidDataError(
            "the table has no column {column} ({reason})",
            column=name,
            reason=quoted_library_text(_first(str(error))),
        ) from error
    return field.dataType


def _first(text: str) -> str:
    """Return the first line of the text."""
    return text.strip().partition("\n")[0]


def shown_keys(names: Sequence[str]) -> list[Column]:
    """Return the columns converted to texts, for display."""
    return [F.col(quoted(name)).cast("string").alias(f"c{number}") for number, name in enumerate(names)]
