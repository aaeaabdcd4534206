"""Recognition of frames that only select columns of local Parquet files, on Spark's own plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from parquetry.runtime.base_file.worker_process import freeze_loaded_objects
from parquetry.runtime.spark.prepare.parquet_rows import FilePiece, NotPlainError, PlainRows, is_read_alike
from parquetry.runtime.spark.session.connect import is_connect
from parquetry.runtime.spark.session.numbered import map_in_tasks
from parquetry.runtime.spark.session.settings import reachable_parallelism
from parquetry.runtime.stage.part import SUMMARY_SQL, StageSpec, fault_batch, stage_rows
from parquetry.runtime.storage.parallel import map_each

NOT_PLAIN: Final = "only Spark spells these keys"
"""The fault of rows that have to be staged with Spark after all."""

_MOST_FILES: Final = 1024
_PIECES_PER_CORE: Final = 3
_LEAST_PIECE_BYTES: Final = 4 * 1024 * 1024
_HARMLESS_OPTIONS: Final = frozenset({"path", "paths", "recursivefilelookup", "mergeschema", "basepath"})
_FORGIVING_OPTIONS: Final = ("ignorecorruptfiles", "ignoremissingfiles")
_PLAIN_SETTINGS: Final[Mapping[str, tuple[str | None, ...]]] = {
    "spark.sql.files.ignoreCorruptFiles": (None, "false"),
    "spark.sql.files.ignoreMissingFiles": (None, "false"),
    "spark.sql.parquet.datetimeRebaseModeInRead": (None, "EXCEPTION", "CORRECTED"),
}
"""The settings that must have one of these values, so that Spark reads files as pyarrow does."""

_LEGACY_KEYS: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_VERSION: Final = b"org.apache.spark.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFiles:
    """Local files, split into row groups for tasks, and the file's column for each frame column."""

    pieces: tuple[tuple[FilePiece, ...], ...]
    sources: Mapping[str, str]


def plain_files(frame: DataFrame) -> PlainFiles | None:
    """Return the files of a frame that only selects and renames columns of local Parquet files, or None.

    Only Spark's analysed plan shows the content of a frame. The plan has no public interface, and a client of
    Spark Connect never gets it. Every footer is checked: a file that Spark would read differently (old
    calendars, INT96, other types than the frame's, a missing column) or that cannot be read leaves the frame
    to Spark.
    """
    spark = frame.sparkSession
    if is_connect(spark) or any(
        spark.conf.get(key, None) not in plain for key, plain in _PLAIN_SETTINGS.items()
    ):
        return None
    try:
        sources = _columns_of_scan(frame._jdf.queryExecution().analyzed())  # noqa: SLF001 - see above
    except Py4JError:
        return None
    paths = _local_paths(frame.inputFiles()) if sources is not None else None
    if sources is None or paths is None:
        return None
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    try:
        footers = map_each(paths, pq.read_metadata)
    except (OSError, ValueError):
        return None  # Spark reads the files, or names the faulty one.
    wanted = {sources[name]: kind for name, kind in types.items()}
    if not all(_is_plain(footer, wanted) for footer in footers):
        return None
    pieces = _pieces(paths, footers, reachable_parallelism(spark))
    return PlainFiles(pieces=pieces, sources=sources)


def stage_plain_rows(spark: SparkSession, spec: StageSpec, rows: PlainRows, files: PlainFiles) -> DataFrame:
    """Return a frame whose tasks read and stage the rows of the files, and return summaries."""
    tasks = len(files.pieces)
    numbers = spark.range(0, tasks, 1, max(tasks, 1))
    return map_in_tasks(numbers, _staging_task(spec, rows, files.pieces), SUMMARY_SQL)


def _staging_task(
    spec: StageSpec, rows: PlainRows, pieces: Sequence[Sequence[FilePiece]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def stage(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_loaded_objects()
        chosen = [number for batch in numbers for number in batch.column(0).to_pylist()]
        for number in chosen:
            try:
                yield from stage_rows(spec, number, rows.read(pieces[number]))
            except NotPlainError:
                yield fault_batch(number, NOT_PLAIN)

    return stage


def _columns_of_scan(plan: Any) -> Mapping[str, str] | None:
    """Return the column of the file for each column of the frame.

    The result is None if the plan does more than select columns.
    """
    wanted = {attribute.exprId().id(): attribute.name() for attribute in _scala(plan.output())}
    node = plan
    while (kind := _kind(node)) in ("Project", "SubqueryAlias"):
        if kind == "Project":
            selected = _selected(_scala(node.projectList()))
            if selected is None:
                return None
            wanted = {selected[expression]: name for expression, name in wanted.items()}
        node = node.child()
    if kind != "LogicalRelation" or not _is_parquet(node.relation()):
        return None
    stored = {attribute.exprId().id(): attribute.name() for attribute in _scala(node.output())}
    if not wanted.keys() <= stored.keys():
        return None
    return {name: stored[expression] for expression, name in wanted.items()}


def _selected(expressions: Sequence[Any]) -> Mapping[int, int] | None:
    """Return the id of the selected column by the id of each expression.

    The result is None if an expression computes a value.
    """
    found: dict[int, int] = {}
    for expression in expressions:
        source = expression.child() if _kind(expression) == "Alias" else expression
        if _kind(source) != "AttributeReference":
            return None
        found[expression.exprId().id()] = source.exprId().id()
    return found


def _is_parquet(relation: Any) -> bool:
    options = relation.options()
    given = {str(key).lower(): str(options.apply(key)).lower() for key in _scala(options.keys().toSeq())}
    return (
        _kind(relation) == "HadoopFsRelation"
        and _kind(relation.fileFormat()) == "ParquetFileFormat"
        and relation.partitionSchema().length() == 0
        and relation.bucketSpec().isEmpty()
        and given.keys() <= _HARMLESS_OPTIONS.union(_FORGIVING_OPTIONS)
        and all(given.get(option, "false") == "false" for option in _FORGIVING_OPTIONS)
    )


def _local_paths(uris: Sequence[str]) -> list[str] | None:
    """Return the paths of the files, or None unless they are local and at most 1,024.

    A cached frame names no files but has rows, so it gives None as well.
    """
    parts = [urlsplit(uri.replace("#", "%23").replace("?", "%3F")) for uri in uris]
    if not 0 < len(parts) <= _MOST_FILES or any(p.scheme != "file" for p in parts):
        return None
    return sorted(unquote(part.path) for part in parts)


def _is_plain(footer: pq.FileMetaData, wanted: Mapping[str, str]) -> bool:
    """Return whether pyarrow reads the wanted columns of a file with the same values as Spark."""
    notes = footer.metadata or {}
    writer = notes.get(_SPARK_VERSION, b"")
    if any(key in notes for key in _LEGACY_KEYS) or writer[:1] in (b"1", b"2"):
        return False
    schema = footer.schema.to_arrow_schema()
    stored = {field.name: field.type for field in schema}
    if len({name.lower() for name in stored}) < len(schema):
        return False
    if writer:
        stored |= dict.fromkeys(_int96_columns(footer), pa.timestamp("us", tz="UTC"))
    return all(name in stored and is_read_alike(stored[name], kind) for name, kind in wanted.items())


def _int96_columns(footer: pq.FileMetaData) -> list[str]:
    """Return the INT96 columns of a file of Spark, which are timestamps.

    INT96 columns of other writers may be local times.
    """
    columns = (footer.schema.column(index) for index in range(footer.num_columns))
    return [column.path for column in columns if column.physical_type == "INT96"]


def _pieces(
    paths: Sequence[str], footers: Sequence[pq.FileMetaData], cores: int
) -> tuple[tuple[FilePiece, ...], ...]:
    """Split the row groups, in order, into about three shares of equal size per core."""
    groups = [
        (path, number, footer.row_group(number).total_byte_size)
        for path, footer in zip(paths, footers, strict=True)
        for number in range(footer.num_row_groups)
    ]
    share = max(sum(size for *_, size in groups) / (_PIECES_PER_CORE * cores), _LEAST_PIECE_BYTES)
    shares: list[list[tuple[str, int]]] = []
    filled = share
    for path, number, size in groups:
        if filled >= share:
            shares.append([])
            filled = 0
        shares[-1].append((path, number))
        filled += size
    return tuple(_joined(chosen) for chosen in shares)


def _joined(groups: Sequence[tuple[str, int]]) -> tuple[FilePiece, ...]:
    by_path: dict[str, list[int]] = {}
    for path, number in groups:
        by_path.setdefault(path, []).append(number)
    return tuple(FilePiece(path=path, row_groups=tuple(numbers)) for path, numbers in by_path.items())


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _scala(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.length())]
