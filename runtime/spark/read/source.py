"""The rows of a source's files as one DataFrame, with the columns that the files' format declares."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import fastavro
from py4j.protocol import Py4JJavaError
from pyarrow import orc
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from parquetry.message import Message, Value
from parquetry.runtime.errors import InvalidDataError, NotFoundError
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.sources.avro_types import foreign_columns
from parquetry.runtime.sources.lines import duplicate_header_name, unpacked
from parquetry.runtime.sources.listing import FoundFile, open_file
from parquetry.runtime.sources.parquet_columns import ParquetColumns
from parquetry.runtime.spark.read.cells import CellFormat, conformed
from parquetry.runtime.spark.read.exact_values import CellPlace, exact_value, fits, in_utc
from parquetry.runtime.spark.read.orc_times import has_nanoseconds, is_written_by_spark, times_as_texts
from parquetry.runtime.spark.read.parquet_values import (
    StoredColumn,
    check_int96,
    refused_column,
    stored_columns,
)
from parquetry.runtime.spark.read.source_failures import (
    UnreadableFileError,
    bare_name,
    check_begin,
    gone_file,
    is_gone,
    is_nameless,
    is_of_different_types,
    is_of_missing_format,
    nanoseconds_error,
    unreadable_file,
    unreadable_files,
)
from parquetry.runtime.spark.read.source_types import as_texts, check_one_spelling, check_one_type
from parquetry.runtime.spark.read.unseen_faults import check_unseen_faults
from parquetry.runtime.spark.session.conversion import type_of
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.keys import ROW_POSITION_SQL, fixed_width, literal, quoted_name
from parquetry.runtime.spark.session.settings import expression_settings, load_files, session_settings
from parquetry.runtime.spark.session.sql_guard import check_query
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.reader_options import checked_options
from parquetry.runtime.spec.rules import DELETE_FLAG
from parquetry.runtime.spec.table_spec import MODIFIED, Column, Operation, Source
from parquetry.runtime.spec.types import ColumnType, Primitive, parse_type
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.timeline.avro_model import AVRO_FAILURES

_VIEW = "source"
_HEADER_BYTES = 64 * 1024
_LINE = re.compile(r"(?P<text>[^\r\n]*)(?P<end>\r\n|\r|\n|\Z)")
_CODECS_OF_SPARK_ALONE = frozenset({"deflate", "snappy", "lz4"})
# Regardless of the session's settings: the ledger would count a skipped file as ingested.
_STRICT = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
_TEXTS = frozenset({"csv", "json"})
# RFC 4180, and an error for any deviation; all cells of a row are checked, even those of unused columns.
_STRICT_CSV = {
    "mode": "FAILFAST",
    "header": "true",
    "escape": '"',
    "unescapedquotehandling": "RAISE_ERROR",
    "columnpruning": "false",
}
_STRING = Primitive(name="string")
_CR_AT_END = r"\r\z"
_Part: TypeAlias = tuple[DataFrame, FoundFile]


@dataclass(frozen=True, slots=True)
class _Read:
    """A read of a source into a table with ``columns``. ``storage`` are the options of its file system."""

    spark: SparkSession
    source: Source
    columns: Sequence[Column]
    storage: Mapping[str, Any]


def read_files(
    spark: SparkSession,
    source: Source,
    files: Sequence[FoundFile],
    *,
    columns: Sequence[Column],
    storage: Mapping[str, Any],
    arrival: str | None = None,
) -> DataFrame:
    """Read the rows of ``files``, before the source's ``select``.

    Files of one batch may have different columns: a column that a file lacks is null. Cells of text formats
    are converted to the table's types, and an invalid cell fails the read. If the source has a ``select``,
    the cells stay texts, except whole numbers and booleans of JSON.

    Args:
        spark: The session.
        source: The declaration of the source.
        files: The files of the batch.
        columns: The columns of the table.
        storage: The options of the source's file system.
        arrival: The name of a column to add; None adds none. The column is a text that sorts the rows by
            file, in the source's order of files, and then by position in the file.

    Raises:
        InvalidDataError: If only folder names contain a column of the table, the files have a column that the
            table lacks, or a column has incompatible types in two files.
        UnreadableFileError: If a file does not have the source's format.
        NotFoundError: If a file was removed after the source was listed.

    """
    _check_base_path(source, files)
    read = _Read(spark, source, columns, storage)
    parts = _read(read, files)
    if _needs_table_columns(source):
        fields = {field.name: field for part in reversed(parts) for field in part.schema}
        names = list(dict.fromkeys(name for part in parts for name in part.columns))
        _check_folders(names, files, columns)
        if (name := _first_undeclared(names, read)) is not None:
            raise _undeclared_error(name, _file_with(read, files, fields[name]))
    return _union(parts if arrival is None else [_with_arrival(part, arrival, source) for part in parts])


def _needs_table_columns(source: Source) -> bool:
    """Return whether the files must have the columns of the table.

    They need not if the source has a ``select``, or if the rows are deletes.
    """
    return source.select is None and source.operation is not Operation.DELETE


def _check_base_path(source: Source, files: Sequence[FoundFile]) -> None:
    """Raise InvalidDataError if a file is not below the folder that the option ``basePath`` names."""
    base = checked_options(source.format, source.options).get("basepath")
    folder = None if base is None else f"{bare_name(base).rstrip('/')}/"
    for file in files if folder is not None else ():
        if not bare_name(file.spark_uri).startswith(folder or ""):
            raise InvalidDataError(
                "the option basePath, {base_path}, is not a folder above {file}; name a folder that all "
                "files of the source are below",
                base_path=Value.uri(base or ""),
                file=Value.uri(file.file.path),
            )


def _first_undeclared(names: Iterable[str], read: _Read) -> str | None:
    """Return the first of the names that is no column of the table, or None.

    Hudi's own columns and the dropped columns of the source do not count.
    """
    named = (*META_COLUMNS, DELETE_FLAG, *read.source.drop, *(column.name for column in read.columns))
    known = {name.lower() for name in named}
    return next((name for name in names if name.lower() not in known), None)


def _undeclared_error(name: str, file: str | None) -> InvalidDataError:
    return InvalidDataError(
        "column {column!r} is not in the table; add it to the table's columns and apply, or drop it from the "
        "rows (a column that only delete_when needs: list it under drop){where}",
        column=name,
        where="" if file is None else Message("; it is in {file}", file=Value.uri(file)),
    )


def _file_with(read: _Read, files: Sequence[FoundFile], field: T.StructField) -> str | None:
    """Return the first file with a value in the field.

    The result is None if no file has one, or if Spark fails to find it.
    """
    with suppress(PySparkException, Py4JJavaError, InvalidDataError, UnreadableFileError):
        rows = _load(read, files, {}, T.StructType([field])).where(f"{quoted_name(field.name)} IS NOT NULL")
        (row,) = rows.selectExpr("min(_metadata.file_path) AS name").collect()
        named = row["name"] and bare_name(row["name"])
        return next((file.file.path for file in files if bare_name(file.spark_uri) == named), None)
    return None


def _read(read: _Read, files: Sequence[FoundFile]) -> list[DataFrame]:
    match read.source.format:
        case "avro":
            parts = _read_avro(read, files)
        case "csv" | "json":
            frames = _read_text(read, files)
            if not any(frame.columns for frame in frames):
                raise _no_columns_error(files[0])
            return frames
        case "parquet":
            parts = _read_parquet(read, files)
        case _:
            parts = _read_orc(read, files)
    return _checked_frames(_with_exact_values(read, parts))


def _check_folders(names: Sequence[str], files: Sequence[FoundFile], columns: Sequence[Column]) -> None:
    """Raise InvalidDataError if a column of the table exists only in folder names such as ``day=1``.

    Without the option ``basePath``, Spark would read it as null.
    """
    there = {name.lower() for name in names}
    lacking = {column.name.lower() for column in columns if not column.generated} - there
    for file in files if lacking else ():
        *folders, _ = file.file.path.split("/")
        for depth, folder in enumerate(folders):
            name, sign, _ = folder.partition("=")
            if sign and name.lower() in lacking:
                above = file.spark_uri.split("/")[: depth - len(folders) - 1]
                raise InvalidDataError(
                    "the column {column!r} is in names of folders only, as for {file}, and would be null; "
                    "add basePath: {base_path} to the source's options to read it from there",
                    column=name,
                    file=Value.uri(file.file.path),
                    base_path=Value.uri("/".join(above)),
                )


def selected(spark: SparkSession, frame: DataFrame, source: Source, *, place: str) -> DataFrame:
    """Apply the source's ``select``, a query over the view ``source``, to the frame.

    Raises:
        InvalidDataError: If the query is refused, or it names a column that the frame lacks.

    """
    if source.select is None:
        return frame
    check_query(spark, source.select, place=place)
    # The view has a random name, as the user's session may have a view `source` already.
    view = f"parquetry_{_VIEW}_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(view)
    try:
        with failures_translated(place):
            return spark.sql(f"WITH {_VIEW} AS (SELECT * FROM {view}) (\n{source.select}\n)")
    finally:
        spark.catalog.dropTempView(view)


def with_typed_texts(
    spark: SparkSession, frame: DataFrame, columns: Sequence[Column], source: Source
) -> DataFrame:
    """Convert the texts that a ``select`` over a text format returned to the table's types.

    Frames of other sources are returned as they are.
    """
    if source.select is None or source.format not in _TEXTS:
        return frame
    return _typed(spark, frame, columns, _forms(spark, source, file="''"))


def _forms(spark: SparkSession, source: Source, *, file: str) -> CellFormat:
    options = checked_options(source.format, source.options)
    return CellFormat.of(spark, options, is_json=source.format == "json", file=file)


def _load(
    read: _Read,
    files: Sequence[FoundFile],
    defaults: Mapping[str, str],
    schema: T.StructType | None = None,
) -> DataFrame:
    form = read.source.format
    options = checked_options(form, read.source.options)
    reader = read.spark.read.format(form).options(**(_STRICT | dict(defaults) | options))
    if schema is not None:
        reader = reader.schema(schema)
    try:
        return load_files(read.spark, reader, [file.spark_uri for file in files])
    except (PySparkException, Py4JJavaError) as error:
        if is_gone(error):
            raise gone_file(error) from error
        if not is_nameless(error):
            is_of_files = isinstance(error, AnalysisException | IllegalArgumentException)
            if is_of_files and not is_of_missing_format(error):
                raise unreadable_files([file.file.path for file in files], error) from error
            raise
        if len(files) == 1:
            raise unreadable_file(files[0].file.path, error) from error
        middle = len(files) // 2
        for half in (files[:middle], files[middle:]):
            _load(read, half, defaults, schema)
        raise unreadable_files([file.file.path for file in files], error) from error


def _load_by_schema(read: _Read, files: Sequence[FoundFile]) -> list[tuple[DataFrame, list[FoundFile]]]:
    """Load the files as one frame, or as several if Spark refuses different types of one column.

    Each frame is returned with its files, which have the same schema.
    """
    try:
        return [(_load(read, files, {"mergeSchema": "true"}), list(files))]
    except Py4JJavaError as error:
        if len(files) == 1 or not is_of_different_types(error):
            raise
    schemas = map_each(files, lambda file: _footer_schema(file, read))
    groups: dict[str | None, list[FoundFile]] = {}
    for file, schema in zip(files, schemas, strict=True):
        groups.setdefault(schema, []).append(file)
    middle = len(files) // 2
    apart = list(groups.values()) if len(groups) > 1 else [files[:middle], files[middle:]]
    return [part for group in apart for part in _load_by_schema(read, group)]


def _footer_schema(file: FoundFile, read: _Read) -> str | None:
    """Return the columns and types of a Parquet or ORC file as text, or None if only Spark can read them."""
    if read.source.format == "parquet":
        columns = _parquet_columns(file, read.storage)
        return None if columns is None else str(columns.schema)
    with _read_one(file, read.storage) as handle, suppress(OSError, ValueError):
        return str(orc.ORCFile(handle).schema.remove_metadata())
    return None


def _read_parquet(read: _Read, files: Sequence[FoundFile]) -> list[_Part]:
    """Load the files that Spark reads correctly as one frame, and the others by groups of equal columns."""
    source, storage = read.source, read.storage
    known = dict(zip(files, map_each(files, lambda file: _parquet_columns(file, storage)), strict=True))
    check_int96(read.spark, [(file, found) for file, found in known.items() if found], storage)
    kept = {name.lower() for name in (*source.drop, *(column.name for column in read.columns))}
    wanted = _read_columns(read)
    groups: dict[tuple[tuple[StoredColumn, ...], frozenset[str]], list[FoundFile]] = {}
    for file, found in known.items():
        stored: tuple[StoredColumn, ...] = ()
        index = frozenset[str]()
        if found is not None:
            names = found.schema.names
            if source.select is None:
                index = frozenset(name for name in found.index if name.lower() not in kept)
            given = (name for name in names if name not in index)
            if _needs_table_columns(source) and (extra := _first_undeclared(given, read)) is not None:
                raise _undeclared_error(extra, file.file.path)
            stored = stored_columns(found, file, _cell_position(names, source), wanted=wanted)
            if all(column.is_read_by_spark for column in stored):
                stored = ()
        groups.setdefault((stored, index), []).append(file)
    parts: list[_Part] = []
    for (stored, index), group in groups.items():
        loaded = [(_read_as_stored(read, group, stored), group)] if stored else _load_by_schema(read, group)
        parts += [(frame.drop(*index) if index else frame, alike[0]) for frame, alike in loaded]
    return parts


def _read_columns(read: _Read) -> frozenset[str]:
    """Return the lower case names of the columns that the read needs in any case.

    Without a ``select`` these are the columns of the table. With a ``select``, the query decides.
    """
    return frozenset(() if read.source.select else (column.name.lower() for column in read.columns))


def _read_as_stored(read: _Read, files: Sequence[FoundFile], stored: Sequence[StoredColumn]) -> DataFrame:
    present = [column for column in stored if column.stored is not None]
    schema = T.StructType([T.StructField(c.name, _declared_type(c.stored)) for c in present])
    frame = _load(read, files, {}, schema)
    values = [f"{column.value} AS {quoted_name(column.name)}" for column in stored]
    with session_settings(read.spark, expression_settings(read.spark)):
        return frame.selectExpr(*values, *map(quoted_name, frame.columns[len(present) :]))


def _read_orc(read: _Read, files: Sequence[FoundFile]) -> list[_Part]:
    """Load the files as one frame, or as several with different schemas; return each with one of its files.

    Raises:
        UnreadableFileError: If a time has nanoseconds, which Spark would drop.

    """
    groups = _load_by_schema(read, files)
    for frame, group in groups:
        if any(has_nanoseconds(field.dataType, "") for field in frame.schema.fields):
            is_exact = map_each(group, lambda file: _is_written_by_spark(file, read.storage))
            if searched := [file for file, exact in zip(group, is_exact, strict=True) if not exact]:
                _check_nanoseconds(read, searched, frame.schema)
    return [(frame, group[0]) for frame, group in groups]


def _is_written_by_spark(file: FoundFile, storage: Mapping[str, Any]) -> bool:
    with _read_one(file, storage) as handle, suppress(OSError, ValueError):
        return is_written_by_spark(handle)
    return False


def _check_nanoseconds(read: _Read, files: Sequence[FoundFile], schema: T.StructType) -> None:
    place = _cell_position(schema.names, read.source).file
    if place == "''" and len(files) > 1:
        for file in files:
            _check_nanoseconds(read, [file], schema)
        return
    found = {f.name: has_nanoseconds(f.dataType, quoted_name(f.name)) for f in schema.fields}
    times = {name: sql for name, sql in found.items() if sql}
    counts = (f"struct(count_if({sql}) AS n, min(IF({sql}, {place}, NULL)) AS f)" for sql in times.values())
    names = (f"{count} AS c{number}" for number, count in enumerate(counts))
    texts: Any = times_as_texts(schema)
    (row,) = _load(read, files, {}, texts).selectExpr(*names).collect()
    for name, (count, found_in) in zip(times, row, strict=True):
        if count:
            where = (file for file in files if bare_name(file.spark_uri) == bare_name(found_in))
            raise nanoseconds_error(next(where, files[0]), name, count)


def _parquet_columns(file: FoundFile, storage: Mapping[str, Any]) -> ParquetColumns | None:
    with _read_one(file, storage) as handle, suppress(OSError, ValueError):  # an encrypted footer, say
        return ParquetColumns.of(handle)
    return None


def _cell_position(names: Sequence[str], source: Source) -> CellPlace:
    # A column with the name _metadata hides Spark's own column, which contains the file of a row.
    if any(name.lower() == "_metadata" for name in names):
        return CellPlace(file="''", row=None)
    row = "_metadata.row_index" if source.format == "parquet" else None
    return CellPlace(file="_metadata.file_path", row=row)


def _with_exact_values(read: _Read, parts: Sequence[_Part]) -> list[_Part]:
    """Convert the columns of the table to their declared types, and all local times to UTC."""
    declared = {} if read.source.select else _types(read.columns)
    exact: list[_Part] = []
    for frame, file in parts:
        place = _cell_position(frame.columns, read.source)
        values = [
            (quoted_name(field.name), _exact_value(field, declared, place, is_alone=len(parts) == 1))
            for field in frame.schema.fields
        ]
        if any(name != value for name, value in values):
            with session_settings(read.spark, expression_settings(read.spark)):
                frame = frame.selectExpr(*(f"{value} AS {name}" for name, value in values))  # noqa: PLW2901
        exact.append((frame, file))
    return exact


def _exact_value(
    field: T.StructField, declared: Mapping[str, ColumnType], place: CellPlace, *, is_alone: bool
) -> str:
    name, wanted = quoted_name(field.name), declared.get(field.name.lower())
    try:
        found = type_of(field.dataType, field.name)
    except InvalidDataError:
        if wanted is not None:
            raise
        return name
    if found is None:
        return name
    wanted = wanted or in_utc(found)
    # A write widens the type by itself, without a check of each value.
    if is_alone and fits(found, wanted):
        return name
    return exact_value(name, found, wanted, place.within(field.name))


def _read_text(read: _Read, files: Sequence[FoundFile]) -> list[DataFrame]:
    is_json = read.source.format == "json"
    forms = _forms(read.spark, read.source, file="_metadata.file_path")
    groups = {} if is_json else _by_header(files, forms.options, read.storage)
    check_unseen_faults(read.spark, read.source, files, forms.options, read.storage)
    if is_json:
        frames = [_json_texts(read, files)]
    else:
        forms = replace(forms, empty=uuid.uuid4().hex)
        frames = [_csv_texts(read, group, head=head, forms=forms) for head, group in groups.items()]
    if read.source.select is None:
        frames = [_typed(read.spark, frame, read.columns, forms) for frame in frames]
    return frames


def _typed(spark: SparkSession, frame: DataFrame, columns: Sequence[Column], forms: CellFormat) -> DataFrame:
    """Convert the texts of the frame to the types of the table's ``columns``."""
    declared = _types(columns)
    values: list[str] = []
    for field in frame.schema.fields:
        wanted, name = declared.get(field.name.lower()), quoted_name(field.name)
        found = None if wanted is None else type_of(field.dataType, field.name)
        if wanted is not None and found is not None:
            name = f"{conformed(name, found, wanted, field.name, forms)} AS {name}"
        values.append(name)
    with session_settings(spark, expression_settings(spark)):
        return frame.selectExpr(*values)


def _types(columns: Iterable[Column]) -> Mapping[str, ColumnType]:
    """Return the types of the columns by their names in lower case."""
    return {column.name.lower(): parse_type(column.type) for column in columns}


def _json_texts(read: _Read, files: Sequence[FoundFile]) -> DataFrame:
    """Read JSON records, with a text in place of each leaf that Spark might not read exactly."""
    # By default Spark treats names that differ only in case as one name, and reads one of the fields.
    with session_settings(read.spark, {"spark.sql.caseSensitive": "true"}):
        found = _load(read, files, {"mode": "FAILFAST"}).schema
    declared = {} if read.source.select else {column.name.lower(): column.type for column in read.columns}
    fields = [
        T.StructField(field.name, as_texts(field.dataType, _declared_type(declared.get(field.name.lower()))))
        for field in found.fields
    ]
    schema = T.StructType(fields)
    check_one_spelling(schema)
    return _load(read, files, {"mode": "FAILFAST"}, schema)


def _declared_type(text: str | None) -> T.DataType | None:
    # DataType.fromDDL, the public function for this, needs Spark 4.
    return None if text is None else T._parse_datatype_string(text)  # noqa: SLF001


def _csv_texts(read: _Read, files: Sequence[FoundFile], *, head: _Header, forms: CellFormat) -> DataFrame:
    """Read the cells as texts.

    An empty cell is NULL. An empty cell in quotes is ``''`` in text columns, and ``forms.empty`` in others.
    """
    options, defaults = forms.options, _STRICT_CSV | {"emptyvalue": forms.empty or ""}
    if is_multi_line := options.get("multiline", "").lower() == "true":
        # If Spark detects the line ends itself, it changes those within quotes.
        defaults["linesep"] = "\n"
    has_crlf = is_multi_line and head.has_crlf and "linesep" not in options
    if (duplicate := duplicate_header_name(head.line, options)) is not None:
        raise UnreadableFileError(
            files[0].file.path, Message("its header has the column {column!r} twice", column=duplicate)
        )
    found = _load(read, files, defaults).schema.names
    names = [name.removesuffix("\r") for name in found] if has_crlf else found
    schema = T.StructType([T.StructField(name, T.StringType()) for name in names])
    if _needs_table_columns(read.source) and (extra := _first_undeclared(names, read)) is not None:
        raise _undeclared_error(extra, files[0].file.path)
    frame = _load(read, files, defaults, schema)
    of_table = {name for name, kind in _types(read.columns).items() if kind != _STRING}
    values: list[str] = []
    for name in names:
        cell = column = quoted_name(name)
        if has_crlf and name == names[-1]:
            rest = f"regexp_replace({cell}, {literal(_CR_AT_END)}, '')"
            cell = f"nullif({rest}, {literal(options.get('nullvalue', ''))})"
        if read.source.select is not None or name.lower() not in of_table:
            cell = f"CASE WHEN {cell} = '{forms.empty}' THEN '' ELSE {cell} END"
        values.append(f"{cell} AS {column}")
    return frame.selectExpr(*values)


def _no_columns_error(file: FoundFile) -> UnreadableFileError:
    reason = "it has no columns" if file.file.size_bytes else "it is empty"
    return UnreadableFileError(file.file.path, reason)


@dataclass(frozen=True, slots=True)
class _Header:
    """The first line of a file that is neither blank nor a comment, and whether it ends in CR and LF."""

    line: str
    has_crlf: bool


def _by_header(
    files: Sequence[FoundFile], options: Mapping[str, str], storage: Mapping[str, Any]
) -> Mapping[_Header, Sequence[FoundFile]]:
    """Group the files by header line, as Spark maps CSV columns by position and not by name."""
    groups: dict[_Header, list[FoundFile]] = {}
    has_header = options.get("header", "true").lower() == "true"
    for file, head in zip(files, map_each(files, lambda f: _read_header(f, options, storage)), strict=True):
        key = head if has_header else replace(head, line="")
        groups.setdefault(key, []).append(file)
    return groups


def _read_header(file: FoundFile, options: Mapping[str, str], storage: Mapping[str, Any]) -> _Header:
    """Return the header of a file. If it cannot be read here, return a text that no other file has."""
    suffix = file.uri.rpartition(".")[2]
    if suffix in _CODECS_OF_SPARK_ALONE:
        return _Header(file.uri, has_crlf=False)
    with _read_one(file, storage) as raw:
        try:
            begin = bytes(unpacked(raw, file.uri).read(_HEADER_BYTES))
        except OSError as error:
            raise UnreadableFileError(file.file.path, quoted_library_text(str(error))) from error
    check_begin(file.file.path, begin, options)
    try:
        text = begin.decode(options.get("encoding", "utf-8"), errors="replace")
    except LookupError:  # an encoding that only Java knows
        text = begin.decode("latin-1")
    comment = options.get("comment")
    for line in _LINE.finditer(text):
        if line["text"].strip() and not (comment and line["text"].startswith(comment)):
            return _Header(line["text"], has_crlf=line["end"] == "\r\n")
    return _Header(text, has_crlf=False)


def _read_one(file: FoundFile, storage: Mapping[str, Any]) -> Any:
    try:
        return open_file(file, storage)
    except NotFoundError as error:
        raise gone_file(file.file.path) from error


def _read_avro(read: _Read, files: Sequence[FoundFile]) -> list[_Part]:
    """Load the files of each writer schema separately, because Spark would use one schema for all files."""
    by_schema: dict[str, list[FoundFile]] = {}
    for file in files:
        by_schema.setdefault(_avro_schema(file, read.storage), []).append(file)
    wanted = _read_columns(read)
    parts: list[_Part] = []
    for text, group in by_schema.items():
        with _readable_avro(group[0]):
            foreign, schema = foreign_columns(text)
        frame = _load(read, group, {"avroSchema": schema})
        place = _cell_position(frame.columns, read.source)
        refused = {
            quoted_name(name): refused_column(name, reason, group[0], place, wanted=wanted)
            for name, reason in foreign.items()
        }
        if refused:
            names = map(quoted_name, frame.columns)
            frame = frame.selectExpr(*(f"{refused.get(name, name)} AS {name}" for name in names))
        parts.append((frame, group[0]))
    return parts


def _avro_schema(file: FoundFile, storage: Mapping[str, Any]) -> str:
    with _read_one(file, storage) as handle, _readable_avro(file):
        return str(fastavro.reader(handle).metadata["avro.schema"])


@contextmanager
def _readable_avro(file: FoundFile) -> Iterator[None]:
    try:
        yield
    except AVRO_FAILURES as error:
        reason = quoted_library_text(str(error), kind=type(error).__name__)
        raise UnreadableFileError(
            file.file.path, Message("it is not an Avro file ({reason})", reason=reason)
        ) from error


def _checked_frames(parts: Sequence[_Part]) -> list[DataFrame]:
    """Return the frames of all parts; raise InvalidDataError if types of a column are incompatible."""
    check_one_type([(frame.schema, file.file.path) for frame, file in parts])
    return [frame for frame, _ in parts]


def _with_arrival(frame: DataFrame, name: str, source: Source) -> DataFrame:
    """Add a text column that sorts the rows by file and by position in the file.

    A task may read parts of several files, but reads the rows of each part in order.
    """
    path, parts = "_metadata.file_path", ["'\n'", fixed_width("_metadata.file_block_start"), ROW_POSITION_SQL]
    if source.file_order == MODIFIED:
        # Files from before 1970 count as equally old.
        parts = [fixed_width("greatest(unix_millis(_metadata.file_modification_time), 0)"), path, *parts]
    else:
        # Escaped names sort differently, so they are decoded; url_decode would turn a + into a blank.
        parts = [f"url_decode(replace({path}, '+', '%2B'))", *parts]
    return frame.selectExpr("*", f"concat({', '.join(parts)}) AS {name}")


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    """Unite the frames in order, by column name.

    Spark analyses everything below a union again, so uniting pairs is faster than uniting one after the
    other.
    """
    whole = list(frames)
    while len(whole) > 1:
        pairs = zip(whole[::2], whole[1::2], strict=False)
        alone = whole[-1:] if len(whole) % 2 else []
        whole = [one.unionByName(other, allowMissingColumns=True) for one, other in pairs] + alone
    return whole[0]
