"""The rows of a source's files as one Spark frame, by what the format itself knows of its columns."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from fastavro.schema import SchemaParseException
from py4j.protocol import Py4JJavaError
from pyarrow import orc
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from parquetry.message import Message, Value
from parquetry.runtime.errors import InvalidDataError, NotFoundError
from parquetry.runtime.quoting import of_library
from parquetry.runtime.sources.listing import FoundFile, open_file
from parquetry.runtime.spark.read.source_failures import (
    UnreadableFileError,
    gone_file,
    is_gone,
    is_nameless,
    is_of_different_types,
    is_of_missing_format,
    unreadable_file,
    unreadable_files,
)
from parquetry.runtime.spark.read.source_types import check_one_type, with_undeclared_fields
from parquetry.runtime.spark.session.settings import failures_translated, load_files
from parquetry.runtime.spark.session.sql_guard import check_query
from parquetry.runtime.spec.table_spec import Column, Operation, Source
from parquetry.runtime.storage.parallel import map_each

_VIEW = "source"
_HEADER_BYTES = 64 * 1024
_LINE_END = re.compile(r"[\r\n]")
_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_CODECS_OF_SPARK_ALONE = frozenset({"deflate", "snappy", "lz4"})
# Whatever the session says: a file that is passed over counts as taken.
_STRICT = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
_Part: TypeAlias = tuple[DataFrame, FoundFile]


def read_files(
    spark: SparkSession,
    source: Source,
    files: Sequence[FoundFile],
    *,
    columns: Sequence[Column],
    storage: Mapping[str, Any],
) -> DataFrame:
    """The rows of ``files``, before ``select``.

    Files of one batch may differ in their columns: what a file lacks is null. Text formats take
    the types of the table's columns unless a ``select`` is there to convert, and a value that is
    not of its type fails the read instead of turning into null. InvalidDataError for a column of the
    table that only names of folders have.
    """
    frame = _read(spark, source, files, columns, storage)
    if source.select is None and source.operation is not Operation.DELETE:  # which may do with a key
        _check_folders(frame, files, columns)
    return frame


def _read(
    spark: SparkSession,
    source: Source,
    files: Sequence[FoundFile],
    columns: Sequence[Column],
    storage: Mapping[str, Any],
) -> DataFrame:
    match source.format:
        case "avro":
            return _read_avro(spark, source, files, storage)
        case "csv" | "json":
            frame = _read_text(spark, source, files, columns, storage)
            if not frame.columns:
                raise _without_columns(files[0])
            return frame
        case _:
            return _union_of_one_type(_loaded_apart(spark, source, files, {"mergeSchema": "true"}, storage))


def _check_folders(frame: DataFrame, files: Sequence[FoundFile], columns: Sequence[Column]) -> None:
    there = {name.lower() for name in frame.columns}
    lacking = {column.name.lower() for column in columns if not column.generated} - there
    for file in files if lacking else ():
        *folders, _ = file.file.path.split("/")
        for depth, folder in enumerate(folders):
            name, sign, _ = folder.partition("=")
            if sign and name.lower() in lacking:
                above = file.spark_uri.split("/")[: depth - len(folders) - 1]
                raise InvalidDataError(
                    Message(
                        f"the column {name!r} is in names of folders only, as for ",
                        Value.uri(file.file.path),
                        ", and would be null; put basePath: ",
                        Value.uri("/".join(above)),
                        " into the source's options to read it from there",
                    )
                )


def selected(spark: SparkSession, frame: DataFrame, source: Source, *, place: str) -> DataFrame:
    """The frame after the source's ``select``, a query over the view ``source``.

    InvalidDataError for a query that is refused, or that asks for columns that are not there.
    """
    if source.select is None:
        return frame
    check_query(spark, source.select, place=place)
    # Under a name of its own: the session may have a view `source` that is not ours to replace.
    view = f"parquetry_{_VIEW}_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(view)
    try:
        with failures_translated(place):
            return spark.sql(f"WITH {_VIEW} AS (SELECT * FROM {view}) (\n{source.select}\n)")
    finally:
        spark.catalog.dropTempView(view)


def _load(
    spark: SparkSession,
    source: Source,
    files: Sequence[FoundFile],
    defaults: Mapping[str, str],
    schema: T.StructType | None = None,
) -> DataFrame:
    reader = spark.read.format(source.format).options(**(_STRICT | dict(defaults) | dict(source.options)))
    if schema is not None:
        reader = reader.schema(schema)
    try:
        return load_files(spark, reader, [file.spark_uri for file in files])
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
            _load(spark, source, half, defaults, schema)
        raise unreadable_files([file.file.path for file in files], error) from error


def _loaded_apart(
    spark: SparkSession,
    source: Source,
    files: Sequence[FoundFile],
    defaults: Mapping[str, str],
    storage: Mapping[str, Any],
) -> list[_Part]:
    """One frame, or one per schema where a column has other types in some files, which Spark refuses."""
    try:
        return [(_load(spark, source, files, defaults), files[0])]
    except Py4JJavaError as error:
        if len(files) == 1 or not is_of_different_types(error):
            raise
    schemas = map_each(files, lambda file: _footer_schema(file, source, storage))
    groups: dict[str | None, list[FoundFile]] = {}
    for file, schema in zip(files, schemas, strict=True):
        groups.setdefault(schema, []).append(file)
    middle = len(files) // 2
    apart = list(groups.values()) if len(groups) > 1 else [files[:middle], files[middle:]]
    return [part for group in apart for part in _loaded_apart(spark, source, group, defaults, storage)]


def _footer_schema(file: FoundFile, source: Source, storage: Mapping[str, Any]) -> str | None:
    """The columns and types of a parquet or ORC file; None where only Spark can tell them."""
    with _opened(file, storage) as handle:
        try:
            schema = orc.ORCFile(handle).schema if source.format == "orc" else pq.read_schema(handle)
        except (OSError, ValueError):  # an encrypted footer, say
            return None
        return str(schema.remove_metadata())


def _read_text(
    spark: SparkSession,
    source: Source,
    files: Sequence[FoundFile],
    columns: Sequence[Column],
    storage: Mapping[str, Any],
) -> DataFrame:
    defaults = {"mode": "FAILFAST"} | ({"header": "true"} if source.format == "csv" else {})
    groups = _by_header(files, source, storage) if source.format == "csv" else [files]
    if source.select is not None:
        return _union_of_one_type([(_load(spark, source, group, defaults), group[0]) for group in groups])
    return _union([_typed(spark, source, group, columns, defaults) for group in groups])


def _without_columns(file: FoundFile) -> UnreadableFileError:
    reason = "it has no columns" if file.file.size_bytes else "it is empty"
    return UnreadableFileError(file.file.path, reason)


def _typed(
    spark: SparkSession,
    source: Source,
    files: Sequence[FoundFile],
    columns: Sequence[Column],
    defaults: Mapping[str, str],
) -> DataFrame:
    declared = {column.name.lower(): column.type for column in columns}
    found = _load(spark, source, files, defaults).schema
    fields = [T.StructField(f.name, _type_of(declared.get(f.name.lower()), f.dataType)) for f in found.fields]
    return _load(spark, source, files, defaults, T.StructType(fields))


def _by_header(
    files: Sequence[FoundFile], source: Source, storage: Mapping[str, Any]
) -> list[Sequence[FoundFile]]:
    """The files in groups of one header line each: Spark maps CSV columns by position, not by name."""
    options = {name.lower(): value for name, value in source.options.items()}
    if options.get("header", "true").lower() != "true":
        return [files]
    groups: dict[str, list[FoundFile]] = {}
    for file, header in zip(files, map_each(files, lambda f: _header(f, options, storage)), strict=True):
        groups.setdefault(header, []).append(file)
    return list(groups.values())


def _header(file: FoundFile, options: Mapping[str, str], storage: Mapping[str, Any]) -> str:
    """The first line that is neither blank nor a comment, or else something that only this file has."""
    suffix = file.uri.rpartition(".")[2]
    if suffix in _CODECS_OF_SPARK_ALONE:
        return file.uri
    codec = _CODECS.get(suffix)
    with _opened(file, storage) as raw:
        handle = pa.CompressedInputStream(raw, codec) if codec else raw
        try:
            begin = bytes(handle.read(_HEADER_BYTES))
        except OSError as error:
            raise UnreadableFileError(file.file.path, of_library(str(error))) from error
    try:
        text = begin.decode(options.get("encoding", options.get("charset", "utf-8")), errors="replace")
    except LookupError:  # an encoding that only Java knows
        text = begin.decode("latin-1")
    comment = options.get("comment")
    lines = (line for line in _LINE_END.split(text) if line.strip())
    return next((line for line in lines if not (comment and line.startswith(comment))), text)


def _opened(file: FoundFile, storage: Mapping[str, Any]) -> Any:
    try:
        return open_file(file, storage)
    except NotFoundError as error:
        raise gone_file(file.file.path) from error


def _read_avro(
    spark: SparkSession, source: Source, files: Sequence[FoundFile], storage: Mapping[str, Any]
) -> DataFrame:
    """One read per writer schema, as Spark would take one file's schema for all of them."""
    by_schema: dict[str, list[FoundFile]] = {}
    for file in files:
        by_schema.setdefault(_avro_schema(file, storage), []).append(file)
    groups = by_schema.items()
    return _union_of_one_type([(_load(spark, source, g, {"avroSchema": text}), g[0]) for text, g in groups])


def _avro_schema(file: FoundFile, storage: Mapping[str, Any]) -> str:
    with _opened(file, storage) as handle:
        try:
            return str(fastavro.reader(handle).metadata["avro.schema"])
        except (ValueError, LookupError, EOFError, SchemaParseException) as error:
            raise UnreadableFileError(
                file.file.path, Message("it is no Avro file (", of_library(str(error)), ")")
            ) from error


def _union_of_one_type(parts: Sequence[_Part]) -> DataFrame:
    """The rows of all parts; InvalidDataError when a column holds things that no type of its own does."""
    check_one_type([(frame.schema, file.file.path) for frame, file in parts])
    return _union([frame for frame, _ in parts])


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame, allowMissingColumns=True)
    return whole


def _type_of(declared: str | None, found: T.DataType) -> T.DataType:
    # DataType.fromDDL, the public way back from text, needs Spark 4.
    return found if declared is None else with_undeclared_fields(T._parse_datatype_string(declared), found)  # noqa: SLF001
