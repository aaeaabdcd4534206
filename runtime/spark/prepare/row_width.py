"""How many bytes a row brings besides its numbers, as Spark SQL, and where a row with more ends the query.

Spark can cut Arrow batches by bytes. But it then adds up the buffers of all columns after each row, which
takes a third of the time in which a frame comes to Python. A batch of so many rows, none of which is wide,
is bounded as well.
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
MOST_BYTES: Final = 32 * 1024
"""Of text and bytes in a row that is not wide: a batch has 64 MiB of them, which is what Spark 4 allows.

A row of more columns than one sum adds up has as much more, in batches of fewer rows.
"""

_WIDE: Final = f"parquetry: a wide row {token_hex(16)}"
"""What the query says when it meets one; no row can say the same, as each process has its own."""

_NUMBER_BYTES: Final = 16
_MOST_TERMS: Final = 64
"""Of one sum, as Spark walks a chain of additions by recursion."""

_VARIABLE: Final = (T.StringType, T.BinaryType)
_NESTED: Final = (T.ArrayType, T.MapType, T.StructType)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRows:
    """A frame that fails at a wide row, and how many others make a batch."""

    frame: DataFrame
    rows_of_a_batch: int


def without_wide_rows(frame: DataFrame) -> BoundedRows | None:
    """The frame, which fails at a wide row; None where only the values tell what a row takes.

    These are lists and maps of anything but numbers.
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
    # One chain of all would be as deep as the table is wide, and a balanced tree no better: Spark makes a
    # chain of it where it looks for equal expressions.
    size = sums[0] if len(sums) == 1 else f"aggregate(array({', '.join(sums)}), 0L, (x, y) -> x + y)"
    most_bytes = MOST_BYTES * ROWS_OF_A_BATCH // rows
    # Within a column that is there anyway: Spark moves a condition on rows below what computes their values.
    wide = F.when(F.expr(f"{size} > {most_bytes}"), F.raise_error(F.lit(_WIDE)))
    return BoundedRows(
        frame=frame.withColumn(PARTITION, wide.otherwise(F.col(PARTITION))), rows_of_a_batch=rows
    )


def is_wide_row(error: Exception) -> bool:
    """Whether the query failed at a wide row."""
    return _WIDE in str(error.__cause__ or error)


def _bytes_sql(value: str, kind: T.DataType) -> Iterator[str | None]:
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
    return None if isinstance(kind, (*_VARIABLE, *_NESTED)) else f"{_NUMBER_BYTES}L * size({value})"
