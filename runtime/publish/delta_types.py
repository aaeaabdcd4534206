"""The columns, partition values and statistics of files in the words of Delta Lake's log.

Source: the sections Schema Serialization Format, Partition Value Serialization and Per-file Statistics of
Delta's PROTOCOL.md.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, assert_never

from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, StatisticValue
from parquetry.runtime.publish.model import PublishedFile
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Array, ColumnType, Decimal, Map, Primitive, Struct, parse_type

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_PRIMITIVES: Final = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    **{name: name for name in ("boolean", "float", "double", "string", "binary", "date", "timestamp")},
}
_WIDENINGS: Final = frozenset({("int", "bigint"), ("float", "double")})
_WIDENED: Final = frozenset((_PRIMITIVES[one], _PRIMITIVES[other]) for one, other in _WIDENINGS)
_BOUNDED: Final = frozenset({"int", "bigint", "float", "double", "string", "date", "timestamp"})
_DAY_MS: Final = 86_400_000
_EARLIEST_MS: Final = -62_135_596_800_000
_LATEST_MS: Final = 253_402_300_799_000


def delta_schema(columns: Iterable[Column]) -> str:
    """Return the ``schemaString`` of the columns. All are nullable: files older than a column lack it.

    Raises:
        ValueError: If Delta has no such type. The message is the column.
    """
    fields = []
    for column in columns:
        kind = _type(parse_type(column.type))
        if kind is None:
            raise ValueError(column.name)
        comment = {} if column.description is None else {"comment": column.description}
        fields.append({"name": column.name, "type": kind, "nullable": True, "metadata": comment})
    return json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False, separators=(",", ":"))


def unreadable_change(before: str, after: str) -> str | None:
    """Return a column whose old files Delta's readers cannot read by the new schema, or None."""
    old = {field["name"]: field["type"] for field in json.loads(before)["fields"]}
    new = {field["name"]: field["type"] for field in json.loads(after)["fields"]}
    return next(
        (str(name) for name, kind in new.items() if not _is_readable(old.get(name, kind), kind)), None
    )


def unreadable_column(file: PublishedFile, kinds: Mapping[str, str]) -> str | None:
    """Return a column whose values in the file have a type that Delta's readers do not convert, or None."""
    for name, stored in file.statistics.columns.items():
        declared = kinds.get(name, stored.type)
        if stored.type != declared and (stored.type, declared) not in _WIDENINGS:
            return name
    return None


def partition_text(value: StatisticValue | None) -> str | None:
    """Return a partition value as text; None is null. A date has been made a text by its caller."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def date_text(days: int) -> str:
    """Return the day since 1970 as yyyy-MM-dd."""
    return (_EPOCH.date() + dt.timedelta(days=days)).isoformat()


def delta_statistics(file: PublishedFile, kinds: Mapping[str, str]) -> str:
    """Return the ``stats`` of a file: its rows, and the bounds and nulls of top-level columns.

    Bounds that Delta would round or compare otherwise are left out.

    Args:
        file: The file.
        kinds: The types of the columns that are no partition columns.
    """
    minimums: dict[str, Any] = {}
    maximums: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in file.statistics.columns.items():
        kind = kinds.get(name)
        if kind is None:
            continue
        if column.nulls is not None:
            nulls[name] = column.nulls
        if column.type in _BOUNDED and (column.type == kind or (column.type, kind) in _WIDENINGS):
            bounds = _bounds(column)
            if bounds is not None:
                minimums[name], maximums[name] = bounds
    stats = {"numRecords": file.statistics.rows, "minValues": minimums, "maxValues": maximums}
    return json.dumps({**stats, "nullCount": nulls}, ensure_ascii=False, separators=(",", ":"))


def _bounds(column: ColumnStatistics) -> tuple[Any, Any] | None:
    low, high = column.minimum, column.maximum
    if low is None or high is None:
        return None
    match column.type:
        case "date":
            texts = _time_text(int(low) * _DAY_MS), _time_text(int(high) * _DAY_MS)
            return None if None in texts else (str(texts[0])[:10], str(texts[1])[:10])
        case "timestamp":
            # Delta compares milliseconds.
            texts = _time_text(int(low) // 1000), _time_text(-(-int(high) // 1000))
            return None if None in texts else texts
        case "float" | "double":
            finite = column.nan_free and math.isfinite(float(low)) and math.isfinite(float(high))
            return (low, high) if finite else None
    return low, high


def _time_text(ms: int) -> str | None:
    """Return a time as text in UTC, or None outside of the years 1 to 9999."""
    if not _EARLIEST_MS <= ms <= _LATEST_MS:
        return None
    moment = _EPOCH + dt.timedelta(milliseconds=ms)
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _is_readable(old: Any, new: Any) -> bool:
    """Return whether Delta's readers read values of an old type by the new one.

    The types are equal but for new fields of structs and for widened numbers, at any depth.
    """
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return bool(old == new) or (isinstance(old, str) and isinstance(new, str) and (old, new) in _WIDENED)
    if old["type"] != new["type"]:
        return False
    if old["type"] == "struct":
        fields = {field["name"]: field["type"] for field in new["fields"]}
        return all(
            _is_readable(field["type"], fields.get(field["name"], field["type"])) for field in old["fields"]
        )
    inner = "elementType" if old["type"] == "array" else "valueType"
    return _is_readable(old[inner], new[inner])


def _type(kind: ColumnType) -> Any:
    """Return the type as JSON, or None if Delta has none."""
    match kind:
        case Primitive(name=name):
            return _PRIMITIVES.get(name)
        case Decimal():
            return str(kind)
        case Array(element=element):
            inner = _type(element)
            return inner and {"type": "array", "elementType": inner, "containsNull": True}
        case Map(value=value):
            inner = _type(value)
            return inner and {
                "type": "map",
                "keyType": "string",
                "valueType": inner,
                "valueContainsNull": True,
            }
        case Struct(fields=fields):
            kinds = [(field.name, _type(field.type)) for field in fields]
            if any(inner is None for _, inner in kinds):
                return None
            listed = [{"name": n, "type": k, "nullable": True, "metadata": {}} for n, k in kinds]
            return {"type": "struct", "fields": listed}
    assert_never(kind)
