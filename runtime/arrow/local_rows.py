"""Rows in this process's memory, as Arrow batches in the types that a table declares.

pandas has fewer types than a table: whole numbers with missing values are floats, text is objects, a date is
a timestamp. So the values decide, not the types. A value is accepted if the declared type holds it exactly;
otherwise an error names the column.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.message import Value
from parquetry.runtime.arrow.schema import arrow_type, columns_from_arrow
from parquetry.runtime.errors import InvalidDataError, UnsupportedTableError
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import (
    Array,
    ColumnType,
    Decimal,
    Map,
    Primitive,
    Struct,
    StructField,
    parse_type,
)

BATCH_BYTES: Final = 4 * 1024 * 1024
_FIRST_ROWS, _MOST_ROWS, _GROWTH = 64, 65_536, 8
_WHOLE_FLOATS: Final = {pa.float32(): 24, pa.float64(): 53}
"""Below two to this power, every whole number is a distinct float."""

_MAX_DECIMAL_DIGITS: Final = 76
"""The number of digits of the widest decimal."""

_SHORT_INTEGERS: Final = {"tinyint": pa.int8(), "smallint": pa.int16()}
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_CONVERSION_ERRORS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)
_ACCEPTED_ROWS = (
    "a Spark DataFrame, a pandas DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, "
    "or another object with the Arrow stream interface"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRows:
    """The type of each column of the batches, by name, and the batches, which can be read once."""

    types: Mapping[str, ColumnType]
    batches: Iterator[pa.RecordBatch]


def local_rows(rows: object, columns: Sequence[Column]) -> LocalRows:
    """Return rows of pandas or Arrow in the types of a table's ``columns``, in batches of about 4 MiB.

    A column that the table lacks keeps its own type. In pandas rows NaN, NaT and NA are nulls, and named
    levels of the index are columns. A timestamp without a time zone is in UTC.

    Raises:
        TypeError: If the object does not contain rows.
        InvalidDataError: If a column has no unique name; from the batches also if the declared type does not
            hold a value.
    """
    declared = {column.name.lower(): parse_type(column.type) for column in columns}
    if isinstance(rows, pd.DataFrame):
        named: list[Any] = [level for level in rows.index.names if level is not None]
        _check_names([*named, *rows.columns])
        types = {
            name: declared.get(name.lower()) or _pandas_type(rows, name, position - len(named))
            for position, name in enumerate([*named, *rows.columns])
        }
        return LocalRows(types=types, batches=_of_pandas(rows, named, types))
    reader = _reader(rows)
    _check_names(reader.schema.names)
    types = {f.name: declared.get(f.name.lower()) or _own_type(f.type, f.name) for f in reader.schema}
    return LocalRows(types=types, batches=_of_arrow(reader, types))


class ArrowStream(Protocol):
    """An object that exports its rows as a stream of Arrow batches, such as a polars DataFrame."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream that the Arrow PyCapsule interface defines."""
        ...


def is_spark_frame(rows: object) -> bool:
    """Return whether the object is a Spark DataFrame."""
    return hasattr(type(rows), "sparkSession")


def check_rows(rows: object) -> None:
    """Check that an object contains rows.

    Raises:
        TypeError: If it does not. The message lists the accepted types.
    """
    kind = type(rows)
    is_accepted = is_spark_frame(rows) or isinstance(
        rows, (pd.DataFrame, pa.RecordBatch, pa.RecordBatchReader)
    )
    if not (is_accepted or hasattr(kind, "__arrow_c_stream__")):
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} does not contain rows; pass {_ACCEPTED_ROWS}")


def _reader(rows: Any) -> pa.RecordBatchReader:
    check_rows(rows)
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows]).to_reader()
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    return pa.RecordBatchReader.from_stream(rows)


def _check_names(names: Sequence[Any]) -> None:
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidDataError(
                "the rows have a column called {column}; give it a text as its name", column=repr(name)
            )
        if name.lower() in seen:
            raise InvalidDataError(
                "the rows have two columns {column!r}; rename or drop one of them", column=name
            )
        seen.add(name.lower())
    if not names:
        raise InvalidDataError("the rows have no columns; give them those of the table")


def _of_pandas(
    frame: pd.DataFrame, named: Sequence[str], types: Mapping[str, ColumnType]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches. The size of each batch determines the number of rows of the next one."""
    start, count = 0, _FIRST_ROWS
    while start < len(frame):
        part = frame.iloc[start : start + count]
        part = part.reset_index(level=list(named)) if named else part
        arrays = [
            convert(_pandas_array(part.iloc[:, position], kind, name), kind, name)
            for position, (name, kind) in enumerate(types.items())
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(types))
        yield batch
        start += len(part)
        count = max(1, min(_MOST_ROWS, _GROWTH * count, BATCH_BYTES * len(part) // max(batch.nbytes, 1)))


def _of_arrow(reader: pa.RecordBatchReader, types: Mapping[str, ColumnType]) -> Iterator[pa.RecordBatch]:
    for whole in reader:
        rows = max(1, min(_MOST_ROWS, BATCH_BYTES * whole.num_rows // max(whole.nbytes, 1)))
        for start in range(0, whole.num_rows, rows):
            part = whole.slice(start, rows)
            arrays = [
                convert(part.column(position), kind, name)
                for position, (name, kind) in enumerate(types.items())
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(types))


def _pandas_array(values: pd.Series[Any], kind: ColumnType, name: str) -> pa.Array:
    """Return the values in the type that Arrow infers. Maps become lists of pairs of key and value."""
    if values.dtype == object and _has_map(kind):
        values = values.map(lambda value: _with_pairs(value, kind, name))
    if isinstance(values.dtype, pd.SparseDtype):
        values = values.astype(values.dtype.subtype)
    try:
        found = _one_array(pa.array(values, from_pandas=True))
    except _CONVERSION_ERRORS as error:
        try:
            # Arrow infers no type for whole numbers of more than 64 bits, but a decimal can hold them.
            if isinstance(kind, Decimal):
                return _one_array(pa.array(values, arrow_type(kind), from_pandas=True))
        except _CONVERSION_ERRORS:
            pass
        reason = quoted_library_text(" ".join(str(error).split()))
        raise InvalidDataError(
            "column {column!r} has values that are not of one type, and the table's is {column_type}: "
            "{reason}; convert them before writing",
            column=name,
            column_type=str(kind),
            reason=reason,
        ) from error
    if values.dtype == object and _has_times(found.type):
        for value in values:
            _check_times(value, found.type, name)
    return found


def _has_times(found: pa.DataType) -> bool:
    inner = [found.field(index).type for index in range(found.num_fields)]
    return bool(pa.types.is_timestamp(found) or pa.types.is_date(found) or any(map(_has_times, inner)))


def _check_times(value: Any, found: pa.DataType, name: str) -> None:
    """Raise InvalidDataError if Arrow has truncated a Python time to convert it to ``found``."""
    if _is_list(found) and isinstance(value, Iterable):
        for member in value:
            _check_times(member, found.value_type, name)
    elif pa.types.is_struct(found) and isinstance(value, Mapping):
        for index in range(found.num_fields):
            field = found.field(index)
            _check_times(value.get(field.name), field.type, name)
    elif isinstance(value, dt.datetime) and not pd.isna(value):
        is_cut = bool(pa.types.is_date(found)) and value.time() != dt.time()
        if is_cut or (isinstance(value, pd.Timestamp) and value.nanosecond):
            what = "dates and times" if is_cut else "a time with nanoseconds, and a table keeps microseconds"
            raise InvalidDataError(
                "column {column!r} has {fault}: {found}; convert it before writing",
                column=name,
                fault=what,
                found=Value.quote(str(value)),
            )


def _one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _with_pairs(value: Any, kind: ColumnType, place: str) -> Any:
    """Return the value with each map as a list of entries, because Arrow infers a struct from a dict."""
    match kind:
        case Map(value=inner) if isinstance(value, Mapping):
            return [{"key": k, "value": _with_pairs(v, inner, f"{place}.value")} for k, v in value.items()]
        case Map(value=inner) if isinstance(value, list):
            return [{"key": k, "value": _with_pairs(v, inner, f"{place}.value")} for k, v in value]
        case Array(element=inner) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            return [_with_pairs(member, inner, f"{place}.element") for member in value]
        case Struct(fields=fields) if isinstance(value, Mapping):
            kinds = {field.name.lower(): field.type for field in fields}
            return {
                name: _with_pairs(member, kinds[str(name).lower()], f"{place}.{name}")
                if str(name).lower() in kinds
                else member
                for name, member in value.items()
            }
    return value


def _has_map(kind: ColumnType) -> bool:
    match kind:
        case Map():
            return True
        case Array(element=inner):
            return _has_map(inner)
        case Struct(fields=fields):
            return any(_has_map(field.type) for field in fields)
    return False


def _pandas_type(frame: pd.DataFrame, name: str, position: int) -> ColumnType:
    """Return the type of a column, or of a level of the index, that the table lacks."""
    values = frame.iloc[:, position] if position >= 0 else pd.Series(frame.index.get_level_values(name))
    return _own_type(_pandas_array(values, Primitive(name="string"), name).type, name)


def _own_type(found: pa.DataType, name: str) -> ColumnType:
    if pa.types.is_dictionary(found):
        return _own_type(found.value_type, name)
    if pa.types.is_null(found):
        return Primitive(name="string")
    try:
        (column,) = columns_from_arrow(pa.schema([pa.field(name, found)])) or (None,)
    except UnsupportedTableError:
        column = None
    if column is None:
        return Primitive(name="string")
    return parse_type(column.type)


def convert(array: pa.Array, kind: ColumnType, place: str) -> pa.Array:
    """Return the same values in a declared type.

    Args:
        array: The values.
        kind: The declared type.
        place: The dotted name of the column, for errors.

    Raises:
        InvalidDataError: If the declared type does not hold a value.
    """
    found = array.type
    if pa.types.is_dictionary(found):
        return convert(array.dictionary_decode(), kind, place)
    if pa.types.is_null(found):
        return pa.nulls(len(array), _target(kind))
    match kind:
        case Array(element=inner) if _is_list(found):
            values = convert(array.flatten(), inner, f"{place}.element")
            return pa.ListArray.from_arrays(_offsets(array), values, mask=array.is_null())
        case Map(value=inner) if _is_map(found):
            return _map(array, inner, place)
        case Struct(fields=fields) if pa.types.is_struct(found):
            return _struct(array, fields, kind, place)
        case Primitive() | Decimal():
            return _convert_leaf(array, kind, place)
    raise _type_error(found, kind, place)


def _is_list(found: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found)
    )


def _is_map(found: pa.DataType) -> bool:
    """Return whether the type is a map, or a list of key-value pairs that stands for a map."""
    if pa.types.is_map(found):
        return True
    if not _is_list(found):
        return False
    entries = found.value_type
    return pa.types.is_null(entries) or (
        pa.types.is_struct(entries)
        and [entries.field(i).name for i in range(entries.num_fields)] == ["key", "value"]
    )


def _offsets(array: pa.Array) -> pa.Array:
    """Return the start of each list within the concatenated values, and the end of the last one."""
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    ends = pc.cumulative_sum(pc.cast(lengths, pa.int64()))
    return pa.concat_arrays([pa.array([0], pa.int64()), ends]).cast(pa.int32())


def _map(array: pa.Array, inner: ColumnType, place: str) -> pa.Array:
    if pa.types.is_map(array.type):
        array = array.cast(
            pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)]))
        )
    offsets, entries = _offsets(array), array.flatten()
    if pa.types.is_null(entries.type):
        keys, values = pa.nulls(0, pa.string()), pa.nulls(0, _target(inner))
    else:
        keys = convert(entries.field("key"), Primitive(name="string"), f"{place}.key")
        values = convert(entries.field("value"), inner, f"{place}.value")
    if keys.null_count:
        raise InvalidDataError(
            "column {column!r} has a map with a null as a key; leave that entry out", column=place
        )
    if not array.null_count:
        return pa.MapArray.from_arrays(offsets, keys, values)
    starts = pc.if_else(pc.is_null(array), pa.scalar(None, pa.int32()), offsets[:-1])
    return pa.MapArray.from_arrays(pa.concat_arrays([starts, offsets[-1:]]), keys, values)


def _within(place: str, name: str) -> str:
    """Return the path of a field of the struct at ``place``."""
    return f"{place}.{name}"


def _struct(array: pa.StructArray, fields: Sequence[StructField], kind: ColumnType, place: str) -> pa.Array:
    given: dict[str, int] = {}
    for index in range(array.type.num_fields):
        name = array.type.field(index).name
        if name.lower() in given:
            raise InvalidDataError(
                "the rows have two columns {column!r}; rename or drop one of them",
                column=_within(place, name),
            )
        given[name.lower()] = index
    wanted = {field.name.lower() for field in fields}
    for name, index in given.items():
        if name not in wanted:
            raise InvalidDataError(
                "column {column!r} is not in the table, which has {struct}: {column_type}; add it to the "
                "table's columns and apply, or leave it out of the rows",
                column=_within(place, array.type.field(index).name),
                struct=place,
                column_type=str(kind),
            )
    members = array.flatten()
    children = []
    for field in fields:
        at = given.get(field.name.lower())
        if at is None and not field.nullable:
            raise InvalidDataError(
                "column {column!r} is missing from the rows and may not be null; give it",
                column=_within(place, field.name),
            )
        children.append(
            pa.nulls(len(array), _target(field.type))
            if at is None
            else convert(members[at], field.type, f"{place}.{field.name}")
        )
    names = [field.name for field in fields]
    return pa.StructArray.from_arrays(children, names=names, mask=array.is_null())


def _convert_leaf(array: pa.Array, kind: Primitive | Decimal, place: str) -> pa.Array:
    found, wanted = array.type, _target(kind)
    if found.equals(wanted):
        return array
    if not _is_of_its_kind(found, kind):
        raise _type_error(found, kind, place)
    try:
        return _cast_exactly(array, wanted)
    except (pa.ArrowException, OverflowError) as error:
        # Python's times have years up to 9999, so that it has no text for others.
        reason = quoted_library_text(" ".join(str(error).split()))
        raise InvalidDataError(
            "column {column!r} is {found_type} in the rows and {column_type} in the table, which cannot hold "
            "every value: {reason}; round or convert the column before writing, or declare a wider type",
            column=place,
            found_type=found,
            column_type=str(kind),
            reason=reason,
        ) from error


def _is_of_its_kind(found: pa.DataType, kind: Primitive | Decimal) -> bool:
    if isinstance(kind, Decimal):
        return _is_number(found)
    if kind.name == "timestamp_ntz":
        return bool(pa.types.is_timestamp(found) and found.tz is None)
    return any(test(found) for test in _ALIKE.get(kind.name, ()))


def _is_number(found: pa.DataType) -> bool:
    return bool(pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found))


def _may_be_date(found: pa.DataType) -> bool:
    """Return whether the type may be that of dates in pandas. The conversion checks each value."""
    return bool(pa.types.is_timestamp(found) and found.tz is None)


_ALIKE: Final[Mapping[str, Sequence[Callable[[pa.DataType], bool]]]] = {
    "string": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "binary": (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
        pa.types.is_binary_view,
    ),
    "float": (pa.types.is_integer, pa.types.is_floating),
    "double": (pa.types.is_integer, pa.types.is_floating),
    "date": (pa.types.is_date, _may_be_date),
    "timestamp": (pa.types.is_timestamp, pa.types.is_date),
    **dict.fromkeys(_INTEGERS, (_is_number,)),
}


def _cast_exactly(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return the values as ``wanted``, or raise ArrowInvalid if a value would change.

    A double may become the nearest float.
    """
    if pa.types.is_float16(array.type):
        array = pc.cast(array, pa.float32())
    found = array.type
    if pa.types.is_floating(found) and not pa.types.is_floating(wanted):
        if pa.types.is_integer(wanted):
            ends, bits = pc.min_max(pc.abs(array))["max"].as_py(), _WHOLE_FLOATS[found]
            if ends is not None and ends >= 2**bits:
                raise pa.ArrowInvalid(f"floats from 2^{bits} on are rounded: {ends:.0f}")
            return pc.cast(array, wanted)
        # A decimal that was read as a float is restored by rounding to the same number of digits.
        rounded = pc.cast(pc.round(array, wanted.scale), wanted)
        _check_unchanged(array, pc.cast(rounded, found), wanted)
        return rounded
    if pa.types.is_float32(wanted) and pa.types.is_float64(found):
        nearest = pc.cast(array, wanted)
        if pc.sum(pc.is_inf(nearest)).as_py() != pc.sum(pc.is_inf(array)).as_py():
            raise pa.ArrowInvalid("a number is too large")
        return nearest
    if pa.types.is_integer(found) and pa.types.is_decimal(wanted):
        return pc.cast(pc.cast(array, pa.decimal256(_MAX_DECIMAL_DIGITS, wanted.scale)), wanted)
    if pa.types.is_date32(wanted):
        days = pc.cast(array, wanted, safe=False)
        _check_unchanged(array, pc.cast(days, found, safe=False), wanted)
        return days
    return pc.cast(array, wanted)


def _check_unchanged(array: pa.Array, again: pa.Array, wanted: pa.DataType) -> None:
    same = pc.fill_null(pc.equal(array, again), fill_value=True)
    if not pc.all(same, min_count=0).as_py():
        value = array[pc.index(same, value=False).as_py()].as_py()
        raise pa.ArrowInvalid(f"{value} cannot be stored as {wanted}")


def _target(kind: ColumnType) -> pa.DataType:
    """Return the Arrow type in which Spark accepts a column type; byte and short keep their size."""
    match kind:
        case Primitive(name=name) if name in _SHORT_INTEGERS:
            return _SHORT_INTEGERS[name]
        case Array(element=inner):
            return pa.list_(_target(inner))
        case Map(value=inner):
            return pa.map_(pa.string(), _target(inner))
        case Struct(fields=fields):
            return pa.struct([(field.name, _target(field.type)) for field in fields])
    return arrow_type(kind)


def _type_error(found: pa.DataType, kind: ColumnType, place: str) -> InvalidDataError:
    return InvalidDataError(
        "column {column!r} is {found_type} in the rows and {column_type} in the table; "
        "convert it before writing",
        column=place,
        found_type=found,
        column_type=str(kind),
    )
