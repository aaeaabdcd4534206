"""A table's spec from its files: columns and types from Parquet footers or from the text of CSV files."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from parquetry.compiler.spec_files.yaml import column_entry
from parquetry.errors import UsageError, message_of
from parquetry.runtime.arrow.local_rows import convert
from parquetry.runtime.arrow.schema import columns_from_arrow
from parquetry.runtime.errors import InvalidDataError, NotFoundError, UnsupportedTableError
from parquetry.runtime.sources.listing import FoundFile, list_files, open_file
from parquetry.runtime.sources.parquet_columns import (
    STORED_TYPES,
    ParquetColumns,
    column_type,
    fields,
    is_list,
    nanoseconds,
)
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import ColumnType, parse_type
from parquetry.text.printable import quoted

MOST_FILES: Final = 100
MOST_BYTES: Final = 64 * 1024 * 1024
_SHOWN_NAMES: Final = 5
_BLOCK: Final = 4 * 1024 * 1024
_HEADER: Final = 64 * 1024

_FORMATS: Final = {".parquet": "parquet", ".csv": "csv", ".csv.gz": "csv", ".tsv": "csv", ".txt": "csv"}
_SEPARATORS: Final = (",", ";", "\t", "|")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_OF_NAMES: Final = "a name has at most 128 letters, digits and '_', and does not begin with a digit"
_PANDAS_INDEX: Final = re.compile(r"__index_level_\d+__")

_BOOLEAN: Final = r"^(?i:true|false)$"
_INTEGER: Final = r"^-?(0|[1-9][0-9]{0,17})$"
_LONG: Final = r"^-?(0|[1-9][0-9]{0,37})$"
_FIXED: Final = r"^-?(0|[1-9][0-9]{0,17})\.[0-9]{1,9}$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]{0,30})(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$"
_DATE: Final = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
_TIME: Final = r"[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})?$"
_TIMESTAMP: Final = _DATE[:-1] + _TIME
_PATTERNS: Final = {
    "boolean": _BOOLEAN,
    "bigint": _INTEGER,
    "decimal(38,0)": _LONG,
    "decimal": _FIXED,
    "double": _NUMBER,
    "date": _DATE,
    "timestamp": _TIMESTAMP,
}
"""The pattern of each type's text, the narrowest type first.

Digits with a leading zero, such as a postcode, are a string.
"""

_DIGITS: Final = 18
_DIGITS_OF_DOUBLE: Final = 17
"""A number with more digits is more exact than a double, and the reader refuses it."""


class InferenceError(UsageError):
    """No spec can be written for these files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """The document of a table's spec file, and notes for its author.

    ``notes`` are sentences about guesses, and about what the files do not show.
    """

    document: Mapping[str, Any]
    notes: tuple[str, ...]


def infer_table(path: Path, *, root: Path, name: str | None) -> Inferred:
    """Return a spec for the Parquet or CSV files at ``path``, with a source that reads them.

    Args:
        path: a file, or a folder with files of one format at any depth.
        root: the project's directory, to which the path of the source is relative.
        name: the table's name; None to name it after the file or folder.

    Raises:
        InferenceError: if there are no such files, if they have several formats or cannot be read, or if a
        name in them cannot be the name of a column.

    """
    place = _absolute(path)
    if name is not None and not _NAME.fullmatch(name):
        raise InferenceError("--name {name}: {rule}", name=quoted(name), rule=_OF_NAMES)
    table = name or _table_name(place)
    try:
        found = list_files(_literal(place))
    except (InvalidDataError, NotFoundError) as error:
        raise InferenceError("{path}: {reason}", path=path, reason=message_of(error)) from error
    files, suffix = _of_one_format(found, path)
    form = _FORMATS[suffix]
    sampled = files[:MOST_FILES]
    try:
        if form == "csv":
            columns, options, notes = _from_csv(sampled)
        else:
            columns, notes = _from_parquet(sampled)
            options = {}
    except (pa.ArrowException, OSError, UnsupportedTableError) as error:
        raise InferenceError("{path}: {reason}", path=path, reason=message_of(error)) from error
    _check_names([column.name for column in columns], path)
    if len(files) > len(sampled):
        notes.append(f"columns and types are those of {len(sampled)} of {len(files)} files")
    notes.append("every row is inserted; to update rows by a key, declare record_key and operation: upsert")
    read_from = _source_path(place, suffix, root=root, files=files)
    source: dict[str, Any] = {"name": "files", "format": form, "path": read_from}
    source |= {"options": options} if options else {}
    document = {
        "apiVersion": "parquetry/v1",
        "kind": "table",
        "name": table,
        "columns": [column_entry(column) for column in columns],
        "sources": [{**source, "operation": "insert"}],
    }
    return Inferred(document=document, notes=tuple(notes))


def _absolute(path: Path) -> Path:
    """Return the absolute path without ``..``, which a source's path may not contain."""
    return path.resolve() if ".." in path.parts else path.absolute()


def _literal(place: Path) -> str:
    """Return the path as text for ``list_files``; raise InferenceError if it has wildcard characters."""
    if re.search(r"[*?\[{]", str(place)):
        raise InferenceError(
            "{path} has a wildcard in its name; rename it, or name another folder", path=place
        )
    return str(place)


def _table_name(place: Path) -> str:
    """Return a table name made from that of a file or folder; raise InferenceError if none is possible."""
    base = place.name
    for suffix in sorted(_FORMATS, key=len, reverse=True):
        base = base.removesuffix(suffix)
    name = re.sub(r"[^A-Za-z0-9_]+", "_", base).strip("_").lower()
    if not _NAME.fullmatch(name):
        raise InferenceError(
            "{name} cannot become a table name: {rule}; give one with --name",
            name=quoted(place.name),
            rule=_OF_NAMES,
        )
    return name


def _suffix(path: str) -> str | None:
    """Return the known suffix of a path, or None."""
    name = path.lower()
    return next((s for s in sorted(_FORMATS, key=len, reverse=True) if name.endswith(s)), None)


def _of_one_format(found: Sequence[FoundFile], path: Path) -> tuple[list[FoundFile], str]:
    """Return the files and their suffix; raise InferenceError for other or several suffixes."""
    endings = {_suffix(file.uri): file for file in found}
    if not found or None in endings:
        known = ", ".join(_FORMATS)
        if not found:
            raise InferenceError("{path} has no Parquet or CSV files ({suffixes})", path=path, suffixes=known)
        raise InferenceError(
            "{path}: {file} does not end as a Parquet or CSV file ({suffixes}); name a folder without "
            "such files, or one file",
            path=path,
            file=Path(endings[None].uri).name,
            suffixes=known,
        )
    if len(endings) > 1:
        raise InferenceError(
            "{path} has files of several formats ({suffixes}); name a folder with files of one format",
            path=path,
            suffixes=sorted(filter(None, endings)),
        )
    (suffix,) = endings
    assert suffix is not None, "refused above"
    return list(found), suffix


def _source_path(place: Path, suffix: str, *, root: Path, files: Sequence[FoundFile]) -> str:
    """Return the path of the source: relative to the project for files in it, or else absolute."""
    base = _absolute(root)
    shown = os.path.relpath(place, base) if place.is_relative_to(base) else str(place)
    if place.is_file():
        return shown
    is_flat = all("/" not in file.file.path.removeprefix(f"{place}/") for file in files)
    inner = "*" if is_flat else "**/*"
    return f"{inner}{suffix}" if shown == "." else f"{shown}/{inner}{suffix}"


def _renaming(name: str) -> str:
    """Return the item of a SELECT list for a column, which renames it if its name is not valid."""
    if _NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "column"
    escaped = name.replace("`", "``")
    return f"{quoted(f'`{escaped}`')[1:-1]} AS {plain if _NAME.fullmatch(plain) else f'column_{plain}'}"


def _check_names(names: Sequence[str], path: Path) -> None:
    """Raise InferenceError for columns without valid names, or with names that differ only in case."""
    if not names:
        raise InferenceError("{path} has no columns", path=path)
    if wrong := [name for name in names if not _NAME.fullmatch(name)]:
        columns = ", ".join(map(_renaming, names[:_SHOWN_NAMES]))
        more = ", ..." if len(names) > _SHOWN_NAMES else ""
        raise InferenceError(
            "{path}: column names may only have letters, digits and '_', and no digit at their start, "
            "unlike {names}; rename them in the files, or write the spec by hand, with a select in its "
            "source: SELECT {columns}{more} FROM source",
            path=path,
            names=list(map(quoted, wrong[:5])),
            columns=columns,
            more=more,
        )
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) is not name:
            raise InferenceError(
                "{path}: the columns {column} and {other_column} differ only in case",
                path=path,
                column=quoted(other),
                other_column=quoted(name),
            )


def _check_distinct(names: Sequence[str], file: FoundFile) -> None:
    """Raise InferenceError if two columns of the file have the same name, as a run reads no such file."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if (other := seen.setdefault(name, number)) != number:
            raise InferenceError(
                "{file}: columns {first_number} and {number} are both named {column}; rename one of them "
                "in the file",
                file=file.uri,
                first_number=other,
                number=number,
                column=quoted(name),
            )


def _from_parquet(files: Sequence[FoundFile]) -> tuple[tuple[Column, ...], list[str]]:
    """Return the columns of Parquet files, and notes on what was guessed."""
    known = [(file, _parquet_columns(file)) for file in files]
    schemas = [pa.schema([f.with_type(_readable(f.type)) for f in schema]) for _, schema in known]
    whole = pa.schema([])
    for (file, _), schema in zip(known, schemas, strict=True):
        whole = _unified(whole, schema, file)
    declared = [pa.field(f.name, _readable(f.type, of_null=pa.string()), nullable=True) for f in whole]
    columns = columns_from_arrow(pa.schema(declared))
    types = {column.name: parse_type(column.type) for column in columns}
    for file, schema in known:
        _check_values(file, [f.name for f in schema if f.type != whole.field(f.name).type], types)
    notes = _guessed([field.name for field in whole if pa.types.is_null(field.type)])
    local = {
        f.name for _, schema in known for f in schema if pa.types.is_timestamp(f.type) and f.type.tz is None
    }
    if local:
        shown = ", ".join(name for name in types if name in local)
        notes.append(f"times without a zone are taken for UTC: {shown}")
    return columns, notes


def _unified(whole: pa.Schema, schema: pa.Schema, file: FoundFile) -> pa.Schema:
    """Return the columns of both schemas, with types that hold the values of both.

    Raises:
        InferenceError: If no type holds what the file and the files before it have in a column.

    """
    for field in schema:
        if whole.get_field_index(field.name) < 0:
            whole = whole.append(field)
            continue
        found = whole.field(field.name)
        try:
            both = pa.unify_schemas([pa.schema([found]), pa.schema([field])], promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            raise InferenceError(
                "{file}: column {column} is {found_type}, and {other_type} in files before it; no type holds "
                "both: give all files the same type, or make a table for each",
                file=file.uri,
                column=quoted(field.name),
                found_type=str(field.type),
                other_type=str(found.type),
            ) from None
        whole = whole.set(whole.get_field_index(field.name), both.field(0))
    return whole


def _parquet_columns(file: FoundFile) -> pa.Schema:
    """Return the columns of a Parquet file, without those that hold a pandas index.

    Raises:
        InferenceError: if a run could not read one of them, or if the file belongs to a Hudi table.
    """
    with open_file(file) as handle, open_file(file) as again:
        found = ParquetColumns.of(handle)
        if META_COLUMNS[0] in found.schema.names:
            raise InferenceError(
                "{file} belongs to a Hudi table; use parquetry adopt LOCATION", file=file.uri
            )
        for name in nanoseconds(handle, again, found.int96) if found.int96 else ():
            raise InferenceError(
                "{file}: column {column!r} has nanoseconds; round it to microseconds",
                file=file.uri,
                column=name,
            )
    _check_distinct(found.schema.names, file)
    kept = [f for f in found.schema if not (f.name in found.index and _PANDAS_INDEX.fullmatch(f.name))]
    try:
        for field in kept:
            column_type(field, field.name)
    except InvalidDataError as error:
        raise InferenceError("{file}: {reason}", file=file.uri, reason=message_of(error)) from error
    return pa.schema(kept)


def _check_values(file: FoundFile, names: Sequence[str], types: Mapping[str, ColumnType]) -> None:
    """Check that the type of each table column can hold all values of the file.

    Raises:
        InferenceError: if a value does not fit.

    """
    if not names:
        return
    with open_file(file) as handle:
        opened = pq.ParquetFile(handle, coerce_int96_timestamp_unit="us")
        try:
            for batch in opened.iter_batches(columns=list(names)):
                for name, array in zip(batch.schema.names, batch.columns, strict=True):
                    convert(array, types[name], name)
        except InvalidDataError as error:
            raise InferenceError("{file}: {reason}", file=file.uri, reason=message_of(error)) from error


def _guessed(names: Sequence[str]) -> list[str]:
    """Return a note on the columns without any value, or nothing."""
    shown = ", ".join(names)
    return [f"no value says what these columns hold, so they are strings: {shown}"] if names else []


def _readable(  # noqa: PLR0911 - a case, an answer
    kind: pa.DataType, *, of_null: pa.DataType | None = None
) -> pa.DataType:
    """Return the type with which a table holds all values of a Parquet column, at any depth."""
    if pa.types.is_dictionary(kind):
        return _readable(kind.value_type, of_null=of_null)
    if pa.types.is_null(kind):
        return of_null or kind
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC")
    if is_list(kind):
        return pa.list_(_readable(kind.value_type, of_null=of_null))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), _readable(kind.item_type, of_null=of_null))
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, _readable(f.type, of_null=of_null)) for f in fields(kind)])
    return STORED_TYPES.get(kind, kind)


def _from_csv(files: Sequence[FoundFile]) -> tuple[tuple[Column, ...], dict[str, Any], list[str]]:
    """Return the columns of CSV files, the options to read them, and notes on what was guessed."""
    separator = _separator(files[0])
    texts: dict[str, _Text] = {}
    is_cut = False
    for file in files:
        read = 0
        try:
            for batch in _batches(file, separator):
                for name, values in zip(batch.schema.names, batch.columns, strict=True):
                    texts.setdefault(name, _Text()).see(values)
                read += batch.nbytes
                if read > MOST_BYTES:
                    is_cut = True
                    break
        except pa.ArrowInvalid as error:
            if "invalid UTF8" not in str(error):
                raise InferenceError("{file}: {reason}", file=file.uri, reason=message_of(error)) from error
            raise InferenceError(
                "{file} is not UTF-8; convert it, or write the spec by hand and declare encoding in the "
                "options of the source",
                file=file.uri,
            ) from error
    columns = tuple(Column(name=name, type=text.type) for name, text in texts.items())
    options: dict[str, Any] = {} if separator == "," else {"sep": separator}
    options |= {"multiLine": True} if any(text.has_line_ends for text in texts.values()) else {}
    notes = _guessed([name for name, text in texts.items() if text.is_empty])
    if is_cut:
        notes.append(f"types are those of the first {MOST_BYTES // 1024**2} MiB of each file")
    return columns, options, notes


def _separator(file: FoundFile) -> str:
    """Return the separator that is most frequent in the first line, outside of quotes."""
    header = re.sub(r'"[^"]*"', "", _begin(file)).partition("\n")[0]
    return max(_SEPARATORS, key=header.count)


def _begin(file: FoundFile) -> str:
    """Return the first bytes of a file as text."""
    with _text_of(file) as handle:
        return bytes(handle.read(_HEADER)).decode("utf-8-sig", errors="replace")


def _text_of(file: FoundFile) -> Any:
    """Open a file, and decompress it if its name ends in ``.gz``."""
    raw = open_file(file)
    return pa.CompressedInputStream(raw, "gzip") if file.uri.endswith(".gz") else raw


def _batches(file: FoundFile, separator: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a CSV file, with each cell as text."""
    parse = pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    names = next(csv.reader(io.StringIO(_begin(file)), delimiter=separator), [])
    with _text_of(file) as handle:
        batches = pa_csv.open_csv(
            handle,
            read_options=pa_csv.ReadOptions(block_size=_BLOCK),
            parse_options=parse,
            convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
        _check_distinct(batches.schema.names, file)
        yield from batches


class _Text:
    """The text of a CSV column, and the types that fit all values seen so far."""

    def __init__(self) -> None:
        self._possible = set(_PATTERNS)
        self._scales = set[int]()
        self.is_empty = True
        self.has_line_ends = False

    def see(self, values: pa.Array) -> None:
        """Remove the types that one of the values does not fit; an empty cell is null."""
        texts = values.filter(pc.and_(values.is_valid(), pc.not_equal(pc.utf8_length(values), 0)))
        if not len(texts):
            return
        self.is_empty = False
        self.has_line_ends |= bool(pc.any(pc.match_substring_regex(texts, r"[\r\n]")).as_py())
        for kind in tuple(self._possible):
            if not pc.all(pc.match_substring_regex(texts, _PATTERNS[kind])).as_py():
                self._possible.discard(kind)
        digits = pc.utf8_length(pc.replace_substring_regex(texts, r"[eE].*|[-.]", ""))
        if pc.max(digits).as_py() > _DIGITS_OF_DOUBLE:
            self._possible.discard("double")
        if "decimal" in self._possible:
            fractions = pc.utf8_length(pc.list_element(pc.split_pattern(texts, "."), 1))
            self._scales |= set(pc.unique(fractions).to_pylist())
            whole = pc.max(pc.utf8_length(texts)).as_py() - min(self._scales) - 1
            if len(self._scales) > 1 or whole + max(self._scales) > _DIGITS:
                self._possible.discard("decimal")

    @property
    def type(self) -> str:
        """The narrowest type that fits; fractions of a fixed length make a decimal."""
        if self.is_empty:
            return "string"
        kind = next((kind for kind in _PATTERNS if kind in self._possible), "string")
        return f"decimal({_DIGITS},{max(self._scales)})" if kind == "decimal" else kind
