"""The columns of a Parquet file according to its footer, with the meaning that the writing program gave them.

pandas and Arrow have types that a table lacks: columns of nulls only, nanoseconds, unsigned integers, 16-bit
floats. Values of these types can be stored in a table's types. Values of other types cannot, such as
durations.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.arrow.schema import columns_from_arrow
from parquetry.runtime.errors import InvalidDataError, UnsupportedTableError
from parquetry.runtime.parquet.tail import footer_bytes
from parquetry.runtime.spec.types import Array, ColumnType, Map, Primitive, Struct, StructField, parse_type

_PANDAS: Final = b"pandas"
_OF_SPARK: Final = b"org.apache.spark.version"
_EXTENSION: Final = b"ARROW:extension:name"
_JSON: Final = "arrow.json"
_MOST_DIGITS: Final = 38
_ROWS: Final = 65_536
VOID: Final = Primitive(name="void")
"""The type of a column that contains only nulls."""

STORED_TYPES: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
"""The table types that can store all values of other types."""

_REMEDIES: Final = (
    (pa.types.is_time, "write the time of day as text or as a number"),
    (pa.types.is_duration, "write the duration as a number"),
    (pa.types.is_decimal, f"write it with at most {_MOST_DIGITS} digits"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetColumns:
    """The columns of one file.

    ``index`` are the columns that pandas wrote for the index of a frame. ``int96`` are the columns with
    96-bit timestamps, which may have nanoseconds; those that Spark wrote are left out, as they have none.
    """

    schema: pa.Schema
    index: frozenset[str] = frozenset()
    int96: tuple[str, ...] = ()

    @classmethod
    def of(cls, file: Any) -> ParquetColumns:
        """Return the columns of an open file, or raise OSError or ValueError if its footer cannot be read."""
        footer_bytes(file)
        opened = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
        notes, leaves = opened.metadata.metadata or {}, opened.schema
        columns = [leaves.column(index) for index in range(len(leaves.names))]
        paths = [f"{column.path}." for column in columns if column.physical_type == "INT96"]
        old = [f.name for f in opened.schema_arrow if any(path.startswith(f"{f.name}.") for path in paths)]
        schema = pa.schema([_in_utc(f) if f.name in old else f for f in opened.schema_arrow])
        int96 = () if _OF_SPARK in notes else tuple(old)
        return cls(schema=schema, index=_index(notes.get(_PANDAS)), int96=int96)


def _in_utc(field: pa.Field) -> pa.Field:
    """Return the field with its times in UTC, because 96-bit timestamps are points in time."""
    kind = field.type
    if pa.types.is_timestamp(kind):
        return field.with_type(pa.timestamp(kind.unit, "UTC"))
    if is_list(kind):
        return field.with_type(pa.list_(_in_utc(kind.value_field)))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(kind.key_field, _in_utc(kind.item_field)))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_in_utc(inner) for inner in fields(kind)]))
    return field


def _index(note: bytes | None) -> frozenset[str]:
    """Return the columns of the index in pandas' note. An index of consecutive numbers has no column."""
    try:
        return frozenset(name for name in json.loads(note or b"{}")["index_columns"] if isinstance(name, str))
    except (ValueError, KeyError, TypeError):
        return frozenset()


def column_type(field: pa.Field, path: str) -> ColumnType:  # noqa: PLR0911 - a case, an answer
    """Return the table type that stores the field's values; ``void`` for a field that contains only nulls.

    A time without a zone is ``timestamp_ntz``.

    Raises:
        InvalidDataError: If no table type stores the values. The message contains ``path`` and a remedy.
    """
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == _JSON:
        return column_type(field.with_type(kind.storage_type), path)
    if isinstance(kind, pa.BaseExtensionType) or _EXTENSION in (field.metadata or {}):
        name = kind.extension_name if isinstance(kind, pa.BaseExtensionType) else field.metadata[_EXTENSION]
        type_name = name if isinstance(name, str) else name.decode(errors="replace")
        raise InvalidDataError(
            "column {column!r} has the type {found_type}, which tables do not have; write it as text or "
            "numbers",
            column=path,
            found_type=type_name,
        )
    if pa.types.is_dictionary(kind):
        return column_type(field.with_type(kind.value_type), path)
    if pa.types.is_null(kind):
        return VOID
    if is_list(kind):
        return Array(element=column_type(kind.value_field, f"{path}.element"))
    if pa.types.is_map(kind):
        if column_type(kind.key_field, f"{path}.key") != Primitive(name="string"):
            raise InvalidDataError(
                "column {column!r} has maps with keys of type {key_type}, but tables need text; write "
                "the keys as text",
                column=path,
                key_type=kind.key_type,
            )
        return Map(value=column_type(kind.item_field, f"{path}.value"))
    if pa.types.is_struct(kind):
        return Struct(
            fields=tuple(
                StructField(name=inner.name, type=column_type(inner, f"{path}.{inner.name}"))
                for inner in fields(kind)
            )
        )
    return _leaf(kind, path)


def _leaf(kind: pa.DataType, path: str) -> ColumnType:
    found = STORED_TYPES.get(kind, kind)
    if not pa.types.is_decimal(found) or found.precision <= _MOST_DIGITS:
        try:
            (column,) = columns_from_arrow(pa.schema([pa.field("value", found)]))
            return parse_type(column.type)
        except UnsupportedTableError:
            pass
    remedy = next((text for test, text in _REMEDIES if test(kind)), "write it as another type")
    raise InvalidDataError(
        "column {column!r} has the type {found_type}, which tables do not have; {remedy}",
        column=path,
        found_type=kind,
        remedy=remedy,
    )


def is_list(kind: pa.DataType) -> bool:
    """Return whether the type is a list of any kind that Parquet files have."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def fields(kind: pa.StructType) -> Iterator[pa.Field]:
    """Yield the fields of a struct."""
    yield from (kind.field(index) for index in range(kind.num_fields))


def nanoseconds(one: Any, other: Any, names: Sequence[str]) -> Mapping[str, int]:
    """Return the number of 96-bit timestamps with nanoseconds, for each column of ``names`` that has any.

    ``one`` and ``other`` are two open handles of the same file: it is read once with nanoseconds and once
    with microseconds.
    """
    counts: Counter[str] = Counter()
    exact, cut = pq.ParquetFile(one), pq.ParquetFile(other, coerce_int96_timestamp_unit="us")
    chosen = {"columns": list(names), "batch_size": _ROWS}
    for batches in zip(exact.iter_batches(**chosen), cut.iter_batches(**chosen), strict=True):
        whole, rounded = batches
        for name in whole.schema.names:
            counts[name] += _differences(whole.column(name), rounded.column(name))
    return +counts


def _differences(exact: pa.Array, cut: pa.Array) -> int:
    """Return the number of timestamps that lost nanoseconds when they were truncated to microseconds."""
    kind = exact.type
    if is_list(kind):
        return _differences(exact.flatten(), cut.flatten())
    if pa.types.is_map(kind):
        return _differences(exact.items, cut.items)
    if pa.types.is_struct(kind):
        return sum(map(_differences, exact.flatten(), cut.flatten()))
    if not pa.types.is_timestamp(kind) or kind.unit == cut.type.unit:
        return 0
    # Nanoseconds of distant years overflow. The difference overflows in the same way, so it is still correct.
    nanos, micros = (np.asarray(array.drop_null().cast(pa.int64())) for array in (exact, cut))
    return int(np.count_nonzero(nanos - micros * 1000))
