"""Times of ORC files, whose nanoseconds Spark drops without an error."""

from __future__ import annotations

from typing import Any

from pyarrow import orc
from pyspark.sql import types as T  # noqa: N812  (the customary name)

from parquetry.runtime.spark.session.keys import quoted_name

_SPARK_VERSION = b"org.apache.spark.version"
_TIMES = (T.TimestampType, T.TimestampNTZType)
_NANOSECONDS = r"[.]\\d{6}0*[1-9]"


def is_written_by_spark(handle: Any) -> bool:
    """Return whether Spark wrote the ORC file. Times that Spark wrote have no nanoseconds.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If the file cannot be parsed.

    """
    return _SPARK_VERSION in (orc.ORCFile(handle).schema.metadata or {})


def times_as_texts(kind: T.DataType) -> T.DataType:
    """Return the type with strings in place of timestamps.

    With this type, the ORC reader keeps all digits of the times.
    """
    match kind:
        case T.StructType():
            return T.StructType([T.StructField(f.name, times_as_texts(f.dataType)) for f in kind.fields])
        case T.ArrayType():
            return T.ArrayType(times_as_texts(kind.elementType))
        case T.MapType():
            return T.MapType(kind.keyType, times_as_texts(kind.valueType))
    return T.StringType() if isinstance(kind, _TIMES) else kind


def has_nanoseconds(kind: T.DataType, sql: str, *, depth: int = 0) -> str | None:
    """Return SQL that is true for a value with nanoseconds in a time, or None for types without times.

    Args:
        kind: The type of the value.
        sql: SQL for the value, as read with the type of :func:`times_as_texts`.
        depth: The number of lambdas around the SQL.

    """
    item = f"t{depth}"
    match kind:
        case T.StructType():
            parts = (
                has_nanoseconds(f.dataType, f"{sql}.{quoted_name(f.name)}", depth=depth) for f in kind.fields
            )
            return " OR ".join(f"coalesce({part}, false)" for part in parts if part) or None
        case T.ArrayType(elementType=inner):
            found, values = has_nanoseconds(inner, item, depth=depth + 1), sql
        case T.MapType(valueType=inner):
            found, values = has_nanoseconds(inner, item, depth=depth + 1), f"map_values({sql})"
        case _:
            return f"{sql} RLIKE '{_NANOSECONDS}'" if isinstance(kind, _TIMES) else None
    return found and f"exists({values}, {item} -> coalesce({found}, false))"
