"""Generated columns: their values in the columns' types, and the rows whose values do not fit.

An expression's value is assigned to the column as SQL does it: fractions are rounded or cut. A value that the
type cannot contain would silently become another one or null, so it is a fault of its row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the customary name)
from pyspark.sql import types as T  # noqa: N812

from parquetry.errors import failures_at
from parquetry.runtime.base_file.model import DELETE
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session.conversion import check_type, convert, type_of
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.keys import quoted
from parquetry.runtime.spark.session.sql_guard import check_expression, shown_sql
from parquetry.runtime.spec.masking import pii_columns
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Array, Map, Struct, parse_type
from parquetry.runtime.stage.part import GENERATED_FAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """The value of a generated column, and the condition for rows whose value the type cannot contain.

    ``lost`` is None if the type can contain all values of the expression.
    """

    value: SparkColumn
    lost: SparkColumn | None


def with_generated(
    frame: DataFrame, columns: Sequence[Column], *, given: Collection[str], keys: Collection[str]
) -> DataFrame:
    """Compute the generated columns of the frame, and add the column ``__generated_wrong``.

    The added column is null, or describes a fault of its row: a value that the type cannot contain, or a
    given value that differs from the computed one. It is left out if no row can have a fault.

    Args:
        frame: The incoming rows.
        columns: The columns of the table.
        given: The columns that the rows contain.
        keys: The columns of the record key and the partition path. For rows that delete, only lost values of
            these count as faults.

    Raises:
        InvalidDataError: If an expression is not valid, or its type does not fit.

    """
    generated = [column for column in columns if column.generated]
    if not generated:
        return frame
    computed = {}
    for column in generated:
        with failures_at(_place(column)):
            computed[column.name] = _computed(frame, column)
    faults = []
    for column in generated:
        name, value, lost = column.name, computed[column.name].value, computed[column.name].lost
        loses, other = _faults(column, columns)
        written = ~F.col(DELETE)
        if lost is not None:
            faults.append(F.when(lost if name in keys else lost & written, F.lit(loses)))
        if name in given:
            differs = ~F.col(quoted(name)).eqNullSafe(value) & F.col(quoted(name)).isNotNull()
            faults.append(F.when(differs & written, F.lit(other)))
    only = _place(generated[0]) if len(generated) == 1 else None
    with failures_at(only), failures_translated(f"generated columns {', '.join(computed)}"):
        if faults:
            frame = frame.withColumn(GENERATED_FAULT, F.coalesce(*faults))
        return frame.withColumns({name: one.value for name, one in computed.items()})


def declared_faults(columns: Sequence[Column]) -> Mapping[str, str]:
    """Return the faults that generated columns may cause, each with the position of its SQL in the spec."""
    return {
        fault: _place(column) for column in columns if column.generated for fault in _faults(column, columns)
    }


def _place(column: Column) -> str:
    return f"columns.{column.name}.generated"


def _faults(column: Column, columns: Sequence[Column]) -> tuple[str, str]:
    """Return two faults: a value that the type cannot contain, and a given value that differs."""
    shown = _expression(column, columns)
    return (
        f"generated column {column.name!r}: {column.type} cannot hold the result of {shown}",
        f"generated column {column.name!r} differs from the result of {shown}",
    )


def _computed(frame: DataFrame, column: Column) -> _Computed:
    """Check the expression of a generated column, and return its value and the condition for lost values."""
    place = f"generated column {column.name!r}"
    expression = column.generated or ""
    check_expression(frame.sparkSession, expression, place=place)
    wanted = parse_type(column.type)
    with failures_translated(place):
        found = frame.select(F.expr(expression)).schema.fields[0].dataType
        if isinstance(wanted, Struct | Array | Map):
            return _Computed(value=_nested(found, column), lost=None)
        value = F.expr(f"CAST(({expression}) AS {wanted})")
        if isinstance(found, T.NullType) or found.simpleString() == str(wanted):
            return _Computed(value=value, lost=None)
        lost = F.expr(f"({expression}) IS NOT NULL AND try_cast(({expression}) AS {wanted}) IS NULL")
        frame.select(lost)
    return _Computed(value=value, lost=lost)


def _nested(found: T.DataType, column: Column) -> SparkColumn:
    """Convert a list, map or struct to the column's type.

    The column's type has to hold every value of the found type, because a value lost inside would go
    unnoticed.
    """
    wanted = parse_type(column.type)
    kind = type_of(found, column.name)
    try:
        check_type(kind, wanted, column.name)
    except InvalidDataError:
        raise InvalidDataError(
            "generated column {column!r} is {column_type}, which cannot hold every {found_type} that its "
            "expression may return; cast it to {column_type} there",
            column=column.name,
            column_type=str(wanted),
            found_type=str(kind),
        ) from None
    # Inside another expression, Spark refuses functions that make several rows of one.
    return F.expr(f"coalesce({convert(f'({column.generated})', kind, wanted)})")


def _expression(column: Column, columns: Sequence[Column]) -> str:
    """Return the column's expression for an error, or a placeholder if it may contain personal data."""
    words = {word.lower() for word in re.findall(r"\w+", f"{column.name} {column.generated}")}
    return "its expression" if words & pii_columns(columns) else shown_sql(column.generated or "")
