"""Base files as one DataFrame with the table's columns, read by Spark's own vectorised reader.

:mod:`parquetry.runtime.spark.read.encrypted` reads encrypted files. Files of older schemas are read with the
types that they contain: missing columns are null, and types that the running Spark cannot widen while reading
are cast afterwards, per file schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.arrow.schema import columns_from_arrow
from parquetry.runtime.base_file.model import POSITION
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.encryption import ENCRYPTION
from parquetry.runtime.parquet.footer import read_metadata
from parquetry.runtime.spark.lookup.tagging import FILE, read_slices
from parquetry.runtime.spark.read.encrypted import encrypted_frame
from parquetry.runtime.spark.session.conversion import convert
from parquetry.runtime.spark.session.keys import quoted
from parquetry.runtime.spark.session.settings import TYPE_SETTINGS, session_settings, spark_version
from parquetry.runtime.spec.avro import columns_from_avro
from parquetry.runtime.spec.meta_columns import COMMIT_TIME, MetaColumns
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Array, ColumnType, Decimal, Map, Primitive, Struct, parse_type
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline

_WIDENS_WHILE_READING: Final = (4, 0)
_STORED_AS_INT: Final = frozenset({"tinyint", "smallint", "int"})

_FILE_NAME: Final = "_metadata.file_name"

_Types = Mapping[str, ColumnType]


def scan_files(
    spark: SparkSession,
    table: TableHandle,
    timeline: Timeline,
    files: Sequence[FileSlice],
    columns: Sequence[Column],
    *,
    meta: Sequence[str],
    positions: bool = False,
) -> DataFrame:
    """Return the ``meta`` columns and the table's ``columns`` of the files, in this order.

    Meta columns are null where a file does not contain them. In a table of commit times alone, a row without
    one has the time of the write that wrote its file. Column pruning and filter push-down work as for any
    Parquet read, except for these commit times.

    Args:
        spark: The session.
        table: The table.
        timeline: The timeline, whose commits contain the schemas of the files.
        files: The base files.
        columns: The columns of the table.
        meta: The names of Hudi's columns to read.
        positions: Whether to add two columns: the file's name and the row's number in the file, from 0.

    """
    store = table.store
    wanted = {c.name: parse_type(c.type) for c in columns}
    if not files:
        return _no_rows(spark, wanted, meta, positions=positions)
    widens = spark_version(spark) >= _WIDENS_WHILE_READING
    types, sealed = _stored_types(store, timeline, files)
    encrypted = [file for file in files if file.instant in sealed]
    casts: dict[str, _Types] = {}
    groups: dict[tuple[tuple[str, str], ...], list[FileSlice]] = {}
    for file in files:
        if file.instant in sealed:
            continue
        if file.instant not in casts:
            found = types[file.instant]
            casts[file.instant] = {
                name: found[name]
                for name, kind in wanted.items()
                if name in found and not _reads_as(found[name], kind, widens=widens)
            }
        signature = tuple((name, str(kind)) for name, kind in casts[file.instant].items())
        groups.setdefault(signature, []).append(file)
    fills_times = COMMIT_TIME in meta and table.config.meta_columns is MetaColumns.COMMIT_TIME
    with session_settings(spark, TYPE_SETTINGS):
        frames = [
            _scan(
                spark,
                store,
                group,
                wanted,
                casts[group[0].instant],
                meta=meta,
                fills_times=fills_times,
                positions=positions,
            )
            for group in groups.values()
        ]
        if encrypted:
            frame = encrypted_frame(spark, store, encrypted, _ddl((), wanted), meta)
            if fills_times:
                frame = frame.withColumn(COMMIT_TIME, F.expr(_written_at(FILE)))
            frames.append(frame if positions else frame.drop(FILE, POSITION))
        return reduce(DataFrame.unionAll, frames)


def _scan(
    spark: SparkSession,
    store: ObjectStore,
    files: Sequence[FileSlice],
    wanted: _Types,
    casts: _Types,
    *,
    meta: Sequence[str],
    fills_times: bool,
    positions: bool,
) -> DataFrame:
    stored = {name: casts.get(name, kind) for name, kind in wanted.items()}
    frame = read_slices(spark, store, files, _ddl(meta, stored))
    own = [
        f"{convert(quoted(name), casts[name], kind)} AS {quoted(name)}" if name in casts else quoted(name)
        for name, kind in wanted.items()
    ]
    hudis = [
        f"{_written_at(_FILE_NAME)} AS {name}" if fills_times and name == COMMIT_TIME else name
        for name in meta
    ]
    places = (f"{_FILE_NAME} AS {FILE}", f"_metadata.row_index AS {POSITION}") if positions else ()
    return frame.selectExpr(*hudis, *own, *places)


def _written_at(file_name: str) -> str:
    """Return SQL for a row's commit time, or else the time of its file, which is in the file's name.

    Bulk inserts of Hudi leave an empty text, and its other writes null.
    """
    return f"coalesce(nullif({COMMIT_TIME}, ''), substring_index(split({file_name}, '_')[2], '.', 1))"


def _no_rows(spark: SparkSession, wanted: _Types, meta: Sequence[str], *, positions: bool) -> DataFrame:
    """Return a frame with the requested columns and no rows."""
    ddl = _ddl(meta, wanted)
    with session_settings(spark, TYPE_SETTINGS):
        return spark.createDataFrame([], f"{ddl}, {FILE} string, {POSITION} bigint" if positions else ddl)


def _ddl(meta: Sequence[str], types: _Types) -> str:
    return ", ".join([*(f"{name} string" for name in meta), *(f"{quoted(n)} {t}" for n, t in types.items())])


def _stored_types(
    store: ObjectStore, timeline: Timeline, files: Sequence[FileSlice]
) -> tuple[Mapping[str, _Types], frozenset[str]]:
    """Return the column types of the files by instant, and the instants whose files are encrypted.

    Both come from the commit's metadata, or from a file's footer if the commit does not contain its schema.
    """
    samples = {file.instant: file for file in files}
    parsed: dict[str, _Types] = {}
    types: dict[str, _Types] = {}
    sealed: set[str] = set()
    unknown = []
    for instant, file in samples.items():
        metadata = timeline.commit_metadata(instant) if timeline.is_completed(instant) else None
        schema = None if metadata is None else metadata.schema
        if metadata is None or schema is None:
            unknown.append(file)
            continue
        if ENCRYPTION in metadata.extra:
            sealed.add(instant)
        if schema not in parsed:
            parsed[schema] = _types(columns_from_avro(schema))
        types[instant] = parsed[schema]
    footers = map_each(unknown, lambda file: read_metadata(store, file.path))
    for file, footer in zip(unknown, footers, strict=True):
        types[file.instant] = _types(columns_from_arrow(footer.schema.to_arrow_schema()))
        if ENCRYPTION.encode() in (footer.metadata or {}):
            sealed.add(file.instant)
    return types, frozenset(sealed)


def _types(columns: Sequence[Column]) -> _Types:
    """Return the type of each column by name."""
    return {c.name: parse_type(c.type) for c in columns}


def _reads_as(found: ColumnType, wanted: ColumnType, *, widens: bool) -> bool:  # noqa: PLR0911 - a case, an answer
    """Return whether Spark's vectorised reader can return the found type as the wanted type."""
    match found, wanted:
        case Struct(), Struct():
            after = {f.name: f.type for f in wanted.fields}
            return all(
                _reads_as(f.type, after[f.name], widens=widens) for f in found.fields if f.name in after
            )
        case Array(element=one), Array(element=other):
            return _reads_as(one, other, widens=widens)
        case Map(value=one), Map(value=other):
            return _reads_as(one, other, widens=widens)
        case Decimal(), Decimal():
            return found.scale == wanted.scale and found.precision <= wanted.precision
        case Primitive(), Primitive():
            if found.name in _STORED_AS_INT and wanted.name in _STORED_AS_INT:
                return True
            return found == wanted or widens
        case _:
            return found == wanted
