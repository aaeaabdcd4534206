"""Bounds of a column chunk and of its pages, from the statistics and the column index of the parquet file."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, StatisticValue
from parquetry.runtime.parquet.fields import ColumnIndex

_PLAIN = {
    "BOOLEAN": "boolean",
    "INT32": "int",
    "INT64": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BYTE_ARRAY": "binary",
}
_LAYOUTS = {"BOOLEAN": "<?", "INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}
_FLOATS = frozenset({"float", "double"})
_EXACT = Context(prec=100)


def column_statistics(chunk: Any, column: Any, *, nan_unbounded: bool = False) -> ColumnStatistics | None:
    """Return the bounds and the null count of a chunk; None if it has no statistics or no defined order.

    Args:
        chunk: pyarrow's ColumnChunkMetaData.
        column: pyarrow's ColumnSchema of the same column.
        nan_unbounded: The file has no bounds for floating-point columns that contain a NaN.
    """
    logical = json.loads(column.logical_type.to_json())
    spark_type = _spark_type(column.physical_type, logical)
    statistics = chunk.statistics
    if spark_type is None or statistics is None:
        return None
    minimum = maximum = None
    if statistics.has_min_max:
        minimum = _bound(statistics.min_raw, spark_type, logical, upper=False)
        maximum = _bound(statistics.max_raw, spark_type, logical, upper=True)
    if _is_nan(minimum) or _is_nan(maximum):
        minimum = maximum = None
    return ColumnStatistics(
        type=spark_type,
        minimum=minimum,
        maximum=maximum,
        nulls=statistics.null_count if statistics.has_null_count else None,
        nan_free=nan_unbounded and spark_type in _FLOATS and minimum is not None,
    )


def page_bounds(
    known: ColumnStatistics, column: Any, index: Mapping[int, tuple[int, Any]], rows: Sequence[int]
) -> list[ColumnStatistics]:
    """Return the bounds of the pages of a column.

    Args:
        known: The statistics of the chunk. If they have no bounds, the bounds of the pages are not used.
        column: pyarrow's ColumnSchema.
        index: The decoded ColumnIndex.
        rows: The number of rows of each page.

    Raises:
        ValueError: If the index does not match these pages.
    """
    logical = json.loads(column.logical_type.to_json())
    has_bounds = known.minimum is not None or known.maximum is not None
    null_pages, lows, highs = (
        index[number][1].items
        for number in (ColumnIndex.NULL_PAGES, ColumnIndex.MIN_VALUES, ColumnIndex.MAX_VALUES)
    )
    nulls = (
        index[ColumnIndex.NULL_COUNTS][1].items if ColumnIndex.NULL_COUNTS in index else [None] * len(rows)
    )

    def bound(raw: bytes, *, upper: bool) -> StatisticValue | None:
        value = _bound(_plain(raw, column.physical_type), known.type, logical, upper=upper)
        return None if _is_nan(value) else value

    found = []
    for count, is_null, low, high, nulls_of_page in zip(rows, null_pages, lows, highs, nulls, strict=True):
        is_bounded = has_bounds and not is_null
        found.append(
            ColumnStatistics(
                type=known.type,
                minimum=bound(low, upper=False) if is_bounded else None,
                maximum=bound(high, upper=True) if is_bounded else None,
                nulls=count if is_null else nulls_of_page,
                nan_free=known.nan_free,
            )
        )
    return found


def _plain(raw: bytes, physical: str) -> Any:
    """Return a value from parquet's plain encoding, without a length in front."""
    layout = _LAYOUTS.get(physical)
    return raw if layout is None else struct.unpack(layout, raw)[0]


def _spark_type(physical: str, logical: dict[str, Any]) -> str | None:
    spark_type = None
    match logical["Type"]:
        case "None":
            spark_type = _PLAIN.get(physical)
        case "String" | "Enum" | "JSON":
            spark_type = "string"
        case "Date":
            spark_type = "date"
        case "Timestamp":
            spark_type = "timestamp" if logical["isAdjustedToUTC"] else "timestamp_ntz"
        case "Decimal":
            spark_type = f"decimal({logical['precision']},{logical['scale']})"
        case "Int" if logical["isSigned"]:
            spark_type = "bigint" if physical == "INT64" else "int"
    return spark_type


def _bound(raw: Any, spark_type: str, logical: dict[str, Any], *, upper: bool) -> StatisticValue | None:
    value: StatisticValue
    match spark_type:
        case "string":
            try:
                value = raw.decode() if isinstance(raw, bytes) else raw
            except UnicodeDecodeError:
                return None
        case "timestamp" | "timestamp_ntz":
            value = _microseconds(raw, logical["timeUnit"], upper=upper)
        case _ if spark_type.startswith("decimal"):
            unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
            value = Decimal(unscaled).scaleb(-logical["scale"], _EXACT)
        case _:
            value = raw
    return value


def _microseconds(ticks: int, unit: str, *, upper: bool) -> int:
    match unit:
        case "milliseconds":
            return ticks * 1000
        case "nanoseconds":
            return -(-ticks // 1000) if upper else ticks // 1000
    return ticks


def _is_nan(bound: StatisticValue | None) -> bool:
    return isinstance(bound, float) and math.isnan(bound)
