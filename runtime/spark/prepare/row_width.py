"""SQL for the bytes of a row's variable columns, which fails the query at a row that is too wide.

Spark can limit Arrow batches by bytes, but then adds up the buffers of all columns after each row. That takes
a third of the time in which a frame gets to Python. A batch with a fixed number of rows is bounded as well,
if none of them is wide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from secrets import token_hex
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the customary name)
from pyspark.sql import types as T  # noqa: N812

from parquetry.runtime.spark.session.keys import quoted
from parquetry.runtime.stage.part import PARTITION

ROWS_OF_A_BATCH: Final = 2048
MOST_ROW_BYTES: Final = 32 * 1024
"""The limit of text and binary bytes in a row: a batch has at most 64 MiB of them, as Spark 4 allows.

A row with more columns than one sum can add up has a higher limit, in batches of fewer rows.
"""

_WIDE: Final = f"parquetry: a wide row {token_hex(16)}"
"""The error text of a wide row, which is random per process, so that no row can contain it."""

_NUMBER_BYTES: Final = 16
_MOST_TERMS: Final = 64
"""The limit of terms per sum, as Spark processes a chain of additions by recursion."""

_VARIABLE: Final = (T.StringType, T.BinaryType)
_NESTED: Final = (T.ArrayType, T.MapType, T.StructType)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRows:
    """A frame that fails at a wide row, and the number of rows per batch."""

    frame: DataFrame
    rows_of_a_batch: int


def without_wide_rows(frame: DataFrame) -> BoundedRows | None:
    """Return the frame with a check that fails the query at a wide row.

    The result is None if SQL cannot compute the width of a row: with maps, and with lists of other values
    than numbers.
    """
    parts = [part for field in frame.schema.fields for part in _bytes_sql(quoted(field.name), field.dataType)]
    if None in parts:
        return None
    sums = [
        " + ".join(["0L", *(f"coalesce({part}, 0)" for part in parts[i : i + _MOST_TERMS])])
        for i in range(0, len(parts), _MOST_TERMS)
    ]
    rows = max(1, ROWS_OF_A_BATCH // max(1, len(sums)))
    if not sums:
        return BoundedRows(frame=frame, rows_of_a_batch=rows)
    # A single chain would be as deep as the table is wide. A balanced tree is no better, as Spark turns it
    # into a chain when it searches for equal expressions.
    size = sums[0] if len(sums) == 1 else f"aggregate(array({', '.join(sums)}), 0L, (x, y) -> x + y)"
    most_bytes = MOST_ROW_BYTES * ROWS_OF_A_BATCH // rows
    # In an existing column, as Spark would move a filter below the computation of the values.
    wide = F.when(F.expr(f"{size} > {most_bytes}"), F.raise_error(F.lit(_WIDE)))
    return BoundedRows(
        frame=frame.withColumn(PARTITION, wide.otherwise(F.col(PARTITION))), rows_of_a_batch=rows
    )


def is_wide_row(error: Exception) -> bool:
    """Return whether the query failed at a wide row."""
    return _WIDE in str(error.__cause__ or error)


def _bytes_sql(value: str, kind: T.DataType) -> Iterator[str | None]:
    """Yield SQL for the bytes of each variable part of a value; None for a part that SQL cannot measure."""
    match kind:
        case T.StructType():
            for field in kind.fields:
                yield from _bytes_sql(f"{value}.{quoted(field.name)}", field.dataType)
        case T.ArrayType():
            yield _items_sql(value, kind.elementType)
        case T.MapType():
            yield None
        case _ if isinstance(kind, _VARIABLE):
            yield f"octet_length({value})"


def _items_sql(value: str, kind: T.DataType) -> str | None:
    """Return SQL for the bytes of a list's items, or None if the items are not numbers."""
    return None if isinstance(kind, (*_VARIABLE, *_NESTED)) else f"{_NUMBER_BYTES}L * size({value})"
