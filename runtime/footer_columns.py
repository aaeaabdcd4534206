"""Bounds of a column chunk, from what its writer put into the parquet footer."""

from __future__ import annotations

import json
import math
from decimal import Context, Decimal
from typing import Any

from parquetry.runtime.layout.file_statistics import ColumnStatistics, Scalar

_PLAIN = {
    "BOOLEAN": "boolean",
    "INT32": "int",
    "INT64": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BYTE_ARRAY": "binary",
}
_EXACT = Context(prec=100)


def column_statistics(chunk: Any, column: Any) -> ColumnStatistics | None:
    """The chunk's bounds and nulls; None for types whose order the footer does not tell.

    ``chunk`` is pyarrow's ColumnChunkMetaData, ``column`` the ColumnSchema of the same column.
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
    )


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


def _bound(raw: Any, spark_type: str, logical: dict[str, Any], *, upper: bool) -> Scalar | None:
    value: Scalar
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


def _is_nan(bound: Scalar | None) -> bool:
    return isinstance(bound, float) and math.isnan(bound)
