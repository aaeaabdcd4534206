"""Parquet columns that Spark does not read as their declared type.

Spark has no reader for nanoseconds and 16-bit floats, and reads a column of nulls only as integers. Such
columns are read as the stored bytes or numbers, which SQL then converts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.sources.listing import FoundFile, open_file
from parquetry.runtime.sources.parquet_columns import (
    ParquetColumns,
    column_type,
    fields,
    is_list,
    nanoseconds,
)
from parquetry.runtime.spark.read.exact_values import CellPlace
from parquetry.runtime.spark.read.source_failures import UnreadableFileError, nanoseconds_error
from parquetry.runtime.spark.session.conversion import transformed
from parquetry.runtime.spark.session.keys import literal, quoted_name
from parquetry.runtime.spark.session.numbered import map_in_tasks
from parquetry.runtime.task_failures import refusal_sql

_MICROSECONDS: Final = "timestamp, which has microseconds; round the column in the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumn:
    """The way to read a column: the type with which Spark reads it, and SQL for its values.

    ``stored`` is None if the file's column is not read.
    """

    name: str
    stored: str | None
    value: str

    @property
    def is_read_by_spark(self) -> bool:
        """True if Spark reads the column correctly without a conversion."""
        return self.value == quoted_name(self.name)


def stored_columns(
    columns: ParquetColumns, file: FoundFile, place: CellPlace, *, wanted: frozenset[str]
) -> tuple[StoredColumn, ...]:
    """Return the way to read each column of a file.

    A column whose type no table can have raises if the query reads it.

    Args:
        columns: The columns of the file's footer.
        file: The file.
        place: The position that errors name.
        wanted: The lower case names of the columns that are certainly read.

    Raises:
        UnreadableFileError: If a ``wanted`` column has a type that no table can have.

    """
    return tuple(_column(field, file, place, wanted=wanted) for field in columns.schema)


def _column(field: pa.Field, file: FoundFile, place: CellPlace, *, wanted: frozenset[str]) -> StoredColumn:
    try:
        column_type(field, field.name)
    except InvalidDataError as error:
        value = refused_column(field.name, error.in_full(), file, place, wanted=wanted)
        return StoredColumn(name=field.name, stored=None, value=value)
    stored, value = _read_as(field, quoted_name(field.name), place.within(field.name), 0)
    return StoredColumn(name=field.name, stored=stored, value=value)


def refused_column(
    name: str, reason: str, file: FoundFile, place: CellPlace, *, wanted: frozenset[str]
) -> str:
    """Return SQL that raises ``reason`` if the query reads the column.

    Args:
        name: The name of the column.
        reason: The reason why the column cannot be read.
        file: A file with the column.
        place: The position that the error names.
        wanted: The lower case names of the columns that are certainly read.

    Raises:
        UnreadableFileError: If the column is one of the ``wanted``, so that no query is needed to know.

    """
    if name.lower() in wanted:
        raise UnreadableFileError(file.file.path, reason)
    refusal = refusal_sql("InvalidDataError", [f"concat({place.file}, {literal(f': {reason}')})"])
    return f"raise_error({refusal})"


def _read_as(field: pa.Field, sql: str, place: CellPlace, depth: int) -> tuple[str, str]:  # noqa: PLR0911 - a case, an answer
    """Return the type with which Spark reads a field, and SQL for its values."""
    kind, item = field.type, f"p{depth}"
    if pa.types.is_dictionary(kind):
        return _read_as(field.with_type(kind.value_type), sql, place, depth)
    if pa.types.is_null(kind):
        return "int", "NULL"
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        time = _microseconds(sql, place)
        return "bigint", time if kind.tz else f"CAST({time} AS TIMESTAMP_NTZ)"
    if pa.types.is_float16(kind):
        return "binary", _float16(sql)
    if is_list(kind):
        inner, value = _read_as(kind.value_field, item, place.within("element"), depth + 1)
        return f"array<{inner}>", sql if value == item else transformed(sql, item, value)
    if pa.types.is_map(kind):
        inner, value = _read_as(kind.item_field, item, place.within("value"), depth + 1)
        entries = f"transform_values({sql}, (k{depth}, {item}) -> {value})"
        return f"map<string,{inner}>", sql if value == item else entries
    if pa.types.is_struct(kind):
        names, kinds, values = [], [], []
        for part in fields(kind):
            names.append(part.name)
            at = f"{sql}.{quoted_name(part.name)}"
            inner, value = _read_as(part, at, place.within(part.name), depth)
            kinds.append(f"{quoted_name(part.name)}:{inner}")
            values.append((at, value))
        whole = ", ".join(f"{literal(n)}, {value}" for n, (_, value) in zip(names, values, strict=True))
        is_alike = all(at == value for at, value in values)
        made = f"CASE WHEN {sql} IS NOT NULL THEN named_struct({whole}) END"
        return f"struct<{','.join(kinds)}>", sql if is_alike else made
    return str(column_type(field, field.name)), sql


def _microseconds(sql: str, place: CellPlace) -> str:
    rest = f"pmod({sql}, 1000L)"
    time = f"timestamp_micros(({sql} - {rest}) div 1000L)"
    text = f"concat(date_format({time}, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), lpad({rest}, 3, '0'))"
    refused = place.refusal(_MICROSECONDS, text, kind="timestamp")
    return f"CASE WHEN {rest} = 0 THEN {time} WHEN {sql} IS NOT NULL THEN {refused} END"


def _float16(sql: str) -> str:
    """Return SQL for the 16-bit float (IEEE 754 binary16) in two bytes, the low byte first."""
    bits = f"CAST(conv(hex(concat(substr({sql}, 2, 1), substr({sql}, 1, 1))), 16, 10) AS INT)"
    exponent, fraction = "(shiftright(h, 10) & 31)", "(h & 1023)"
    size = (
        f"CASE WHEN {exponent} = 31 THEN IF({fraction} = 0, double('Infinity'), double('NaN'))"
        f" WHEN {exponent} = 0 THEN {fraction} * power(2, -24)"
        f" ELSE (1024 + {fraction}) * power(2, {exponent} - 25) END"
    )
    number = f"transform(array({bits}), h -> CAST(IF(h >= 32768, -1D, 1D) * {size} AS FLOAT))[0]"
    return f"CASE WHEN {sql} IS NOT NULL THEN {number} END"


def check_int96(
    spark: SparkSession, files: Sequence[tuple[FoundFile, ParquetColumns]], storage: Mapping[str, Any]
) -> None:
    """Check with tasks that no 96-bit timestamp has nanoseconds, which Spark would drop.

    The tasks read only such columns, and only those of files that Spark did not write.

    Raises:
        UnreadableFileError: If one has. It names the first file and column.

    """
    searched = [(file, columns.int96) for file, columns in files if columns.int96]
    if not searched:
        return

    schema = pa.schema([("number", pa.int64()), ("name", pa.string()), ("values", pa.int64())])

    def search(numbers: Any) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            file, names = searched[number]
            with open_file(file, storage) as one, open_file(file, storage) as other:
                counts = nanoseconds(one, other, names)
            rows = [{"number": number, "name": name, "values": count} for name, count in counts.items()]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    numbers = spark.range(0, len(searched), 1, len(searched))
    found = map_in_tasks(numbers, search, "number bigint, name string, values bigint").collect()
    for number, name, count in sorted(found)[:1]:
        raise nanoseconds_error(searched[number][0], name, count)
