"""A view of DuckDB over the live files of a table, as a statement in SQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from parquetry.compiler.reports.inspection import path_for_engines
from parquetry.message import Value
from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.base_file.reader import reading
from parquetry.runtime.errors import ConflictError, KeyUnavailableError, RetryWrite, UnsupportedTableError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.encryption import file_with_footer, open_footer
from parquetry.runtime.read.files import files_to_read
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.rereading import retry_stale

_GLOB: Final = frozenset("*?[")
_SIMPLE: Final = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int32, "INTEGER"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_float32, "FLOAT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_string, "VARCHAR"),
    (pa.types.is_binary, "BLOB"),
    (pa.types.is_date32, "DATE"),
)
_DOUBLE_HOLDS: Final = 32
"""The largest usual size in bits of integers that are all doubles."""
_REMEDY: Final = "read the table with Table.to_duckdb in Python"


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckdbView:
    """A statement that makes a view of the table's rows as of its newest completed write.

    The paths in the statement are not masked.
    """

    table: str
    instant: str | None
    statement: str


class _TypeMismatchError(Exception):
    """DuckDB cannot read a value of a file exactly as the table's type."""


@retry_stale
def duckdb_view(store: ObjectStore) -> DuckdbView:
    """Return the statement of a view of DuckDB that has the table's columns and current rows.

    The view converts the columns of each file to the types of the table. So the footer of each file is read.

    Raises:
        CorruptTableError: If a file is missing or damaged.
        ConflictError: If a clean removes a file meanwhile.
        UnsupportedTableError: If DuckDB would not read a file as the table's reader does. The message names
            the file.

    """
    handle = open_table(store)
    with handle.failures_masked():
        read = files_to_read(handle, time_zone=None)
        wanted = arrow_schema(read.columns)
        known: dict[str, pa.Schema] = {}

        def fields_of(file: FileSlice) -> str:
            found = _stored_schema(store, file)
            text: str = found.to_string()
            known.setdefault(text, found)
            return text

        groups: dict[str, list[FileSlice]] = defaultdict(list)
        for file, text in zip(read.files, map_each(read.files, fields_of), strict=True):
            groups[text].append(file)
        parts = [_select(store, files, known[text], wanted) for text, files in groups.items()]
    instant = read.timeline.completed_writes[-1].time if read.timeline.completed_writes else None
    rows = "\nUNION ALL\n".join(parts) if parts else _no_rows(wanted)
    return DuckdbView(
        table=handle.name,
        instant=instant,
        statement=f"CREATE OR REPLACE VIEW {_name(handle.name)} AS\n{rows};",
    )


def _stored_schema(store: ObjectStore, file: FileSlice) -> pa.Schema:
    """Return the schema of a file. Raise UnsupportedTableError if the file is encrypted."""
    place = Value.uri(f"{store.uri}/{file.path}")
    encrypted = UnsupportedTableError(
        "{file} is encrypted, and DuckDB has no key for it; {remedy}", file=place, remedy=_REMEDY
    )
    try:
        with store.open_input(file.path) as content, reading(place):
            metadata, decryption = open_footer(content, store.allowed, place=place)
            if decryption is not None:
                raise encrypted
            return file_with_footer(content, metadata, None).schema_arrow.remove_metadata()
    except KeyUnavailableError:
        raise encrypted from None
    except RetryWrite:
        raise ConflictError(
            "{file} was removed by a clean while it was read; make the view again", file=place
        ) from None


def _select(store: ObjectStore, files: Sequence[FileSlice], found: pa.Schema, wanted: pa.Schema) -> str:
    """Return the query of the rows of files with one schema, in the columns of the table."""
    place = Value.uri(f"{store.uri}/{files[0].path}")
    folded = [name.lower() for name in found.names]
    columns = []
    for field in wanted:
        index = found.get_field_index(field.name)
        if folded.count(field.name.lower()) > 1 or (index < 0 and field.name.lower() in folded):
            raise UnsupportedTableError(
                "{file}: column {column!r} has a name that another column has in another case, and DuckDB "
                "takes them for one; {remedy}",
                file=place,
                column=field.name,
                remedy=_REMEDY,
            )
        try:
            value = (
                "NULL" if index < 0 else _converted(_name(field.name), found.field(index).type, field.type)
            )
        except _TypeMismatchError:
            raise UnsupportedTableError(
                "{file}: DuckDB cannot read column {column!r} of type {found_type} exactly as {column_type}; "
                "{remedy}",
                file=place,
                column=field.name,
                found_type=found.field(index).type,
                column_type=field.type,
                remedy=_REMEDY,
            ) from None
        columns.append(f"CAST({value} AS {_type(field.type)}) AS {_name(field.name)}")
    paths = _lines(_path(store, file) for file in files)
    return f"SELECT\n{_lines(columns)}\nFROM read_parquet([\n{paths}\n], hive_partitioning = false)"


def _no_rows(wanted: pa.Schema) -> str:
    columns = (f"CAST(NULL AS {_type(field.type)}) AS {_name(field.name)}" for field in wanted)
    return f"SELECT\n{_lines(columns)}\nWHERE false"


def _lines(parts: Iterable[str]) -> str:
    return ",\n".join(f"  {part}" for part in parts)


def _converted(value: str, found: pa.DataType, wanted: pa.DataType, *, depth: int = 0) -> str:
    """Return SQL for a value of a file that DuckDB casts to the table's type without a change.

    Fields of structs are found by their names, and times without a zone are in UTC, as in the table's reader.
    DuckDB would take them for times of the session's zone.

    Args:
        value: SQL of the value, as DuckDB reads it.
        found: The type of the value in the file.
        wanted: The type of the table.
        depth: The number of lists around the value.

    Raises:
        _TypeMismatchError: If there is no such SQL.

    """
    element = f"e{depth}"
    if pa.types.is_struct(found) and pa.types.is_struct(wanted):
        return _converted_struct(value, found, wanted, depth)
    if _is_list(found) and pa.types.is_list(wanted):
        inner = _converted(element, found.value_type, wanted.value_type, depth=depth + 1)
        return value if inner == element else f"list_transform({value}, lambda {element}: {inner})"
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        inner = _converted(element, found.item_type, wanted.item_type, depth=depth + 1)
        values = f"list_transform(map_values({value}), lambda {element}: {inner})"
        whole = f"CASE WHEN {value} IS NOT NULL THEN map(map_keys({value}), {values}) END"
        return value if inner == element else whole
    if _is_local_time(found) and pa.types.is_timestamp(wanted) and wanted.tz is not None:
        return f"make_timestamptz(epoch_us({value}))"
    if not _is_exact(found, wanted):
        raise _TypeMismatchError
    return value


def _converted_struct(value: str, found: pa.StructType, wanted: pa.StructType, depth: int) -> str:
    stored = {field.name: f"struct_extract({value}, {_text(field.name)})" for field in found}
    converted = {
        field.name: f"CAST(NULL AS {_type(field.type)})"
        if field.name not in stored
        else _converted(stored[field.name], found.field(field.name).type, field.type, depth=depth)
        for field in wanted
    }
    if list(converted.items()) == list(stored.items()):
        return value
    fields = ", ".join(f"{_name(name)} := {child}" for name, child in converted.items())
    return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({fields}) END"


def _is_exact(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether DuckDB's cast keeps every value of a simple type."""
    is_integer = pa.types.is_signed_integer(found)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        exact = found.unit != "ns" and (found.tz is None) == (wanted.tz is None)
    elif pa.types.is_decimal(found) and pa.types.is_decimal(wanted):
        exact = 0 <= wanted.scale - found.scale <= wanted.precision - found.precision
    elif pa.types.is_signed_integer(wanted):
        exact = is_integer and found.bit_width <= wanted.bit_width
    elif pa.types.is_float64(wanted):
        exact = pa.types.is_floating(found) or (is_integer and found.bit_width <= _DOUBLE_HOLDS)
    elif pa.types.is_string(wanted) or pa.types.is_binary(wanted):
        exact = found in {wanted, pa.large_string() if pa.types.is_string(wanted) else pa.large_binary()}
    else:
        exact = found == wanted
    return bool(exact)


def _is_local_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is None and kind.unit != "ns")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _type(kind: pa.DataType) -> str:
    """Return DuckDB's name of a type of a table."""
    if pa.types.is_struct(kind):
        fields = (kind.field(number) for number in range(kind.num_fields))
        return f"STRUCT({', '.join(f'{_name(field.name)} {_type(field.type)}' for field in fields)})"
    if pa.types.is_list(kind):
        return f"{_type(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP(VARCHAR, {_type(kind.item_type)})"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP WITH TIME ZONE" if kind.tz else "TIMESTAMP"
    return next(name for test, name in _SIMPLE if test(kind))


def _path(store: ObjectStore, file: FileSlice) -> str:
    """Return the path of a file, in which DuckDB expands nothing, as a text of SQL.

    Raise UnsupportedTableError if DuckDB cannot be kept from it.
    """
    path = path_for_engines(store, file)
    if _GLOB.isdisjoint(path):
        return _text(path)
    if "://" in path or "\\" in path:
        raise UnsupportedTableError(
            "{file}: the path has one of the characters * ? [ that DuckDB expands; {remedy}",
            file=Value.uri(f"{store.uri}/{file.path}"),
            remedy=_REMEDY,
        )
    return _text("".join(f"[{char}]" if char in _GLOB else char for char in path))


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
