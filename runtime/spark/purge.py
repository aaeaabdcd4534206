"""Purge: removes rows from the table, its old files and the files beside the data, and proves the removal.

A write of its own deletes the matching rows. A clean then deletes all older versions of the files that
contained such rows, and a scrub removes their values from the timeline and the statistics. Each step can be
repeated, so a purge that ended early is completed by running it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.message import FILE_FIELD, Value, command
from parquetry.runtime.arrow.schema import Batches
from parquetry.runtime.commit.recovery import recovered_timeline
from parquetry.runtime.commit.table_state import TableState
from parquetry.runtime.errors import InvalidDataError, NotFoundError, UnsupportedTableError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.publish.delta import LOG_FOLDER
from parquetry.runtime.publish.model import METADATA_FOLDER
from parquetry.runtime.publish.publishing import formats_of
from parquetry.runtime.services.clean import clean_groups
from parquetry.runtime.services.clean_plan import check_no_writes, protected_files
from parquetry.runtime.services.keys_file import GivenKeys, read_keys
from parquetry.runtime.services.scrub import ScrubResult, scrub
from parquetry.runtime.services.value_search import matches_in_file, matches_in_footer
from parquetry.runtime.sources.ledger import ingested_by
from parquetry.runtime.spark.lookup.tagging import FILE
from parquetry.runtime.spark.read.scan import scan_files
from parquetry.runtime.spark.read.stored_keys import with_keys
from parquetry.runtime.spark.session.connect import check_timestamp_type
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.keys import quoted_name, record_key_sql
from parquetry.runtime.spark.session.numbered import run_numbered
from parquetry.runtime.spark.session.settings import (
    expression_settings,
    reachable_parallelism,
    session_settings,
)
from parquetry.runtime.spark.session.sql_guard import check_expression
from parquetry.runtime.spark.write import write
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.spec.meta_columns import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from parquetry.runtime.spec.table_spec import Column, Operation
from parquetry.runtime.spec.types import Decimal, Primitive, parse_type
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import TIMELINE_FOLDER
from parquetry.runtime.timeline.sidecars import QUARANTINE_FOLDER, STATISTICS_FOLDER
from parquetry.runtime.timeline.versions import FileGroupId
from parquetry.runtime.timing import DEFAULT_TIMING, Timing
from parquetry.runtime.write.request import WriteRequest

MOST_ROWS: Final = 100_000
"""The limit of rows per purge, as the driver keeps their keys to delete by and to search for."""

_MOST_TEXTS: Final = 10 * MOST_ROWS
_NAMED_FILES: Final = 20
_LIVE, _MATCHES, _TEXT = "__live", "__matches", "__text"
_META: Final = (COMMIT_TIME, RECORD_KEY, PARTITION_PATH)
_META_DDL: Final = f"{RECORD_KEY} string, {PARTITION_PATH} string"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PurgeRequest:
    """The rows to purge: those for which ``where`` (SQL) is true, or those whose keys a file lists."""

    where: str | None = None
    keys: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SourceFiles(Brief):
    """The files of a source that matching rows came from: their number, and the paths of some."""

    source: str
    files: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Survey(Brief):
    """The effect of a purge: the rows to delete in current files, and the older files that contain such rows.

    ``sources`` lists the files that the rows came from, or is None if rows have no commit times. The fields
    after it are input for :func:`purge`.
    """

    table: str
    rows: int
    files: int
    older_rows: int
    older_files: int
    sources: tuple[SourceFiles, ...] | None = ()
    condition: PurgeCondition = field(repr=False)
    doomed: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    groups: frozenset[FileGroupId] = field(default=frozenset(), repr=False)
    values: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PurgeCondition:
    """The condition that selects rows: SQL, or the texts of their record keys."""

    where: str | None
    keys: frozenset[str] = frozenset()

    def matches(self, rows: DataFrame) -> DataFrame:
        """Return the rows with a column ``__matches``, which is true if the row fulfils the condition."""
        if self.where is not None:
            fulfils = F.coalesce(F.expr(f"({self.where}\n)").cast("boolean"), F.expr("false"))
            return rows.withColumn(_MATCHES, fulfils)
        keys = _personal_texts(rows.sparkSession, self.keys).withColumnRenamed(_TEXT, RECORD_KEY)
        keys = keys.withColumn(_MATCHES, F.expr("true"))
        joined = rows.join(F.broadcast(keys), RECORD_KEY, "left")
        return joined.withColumn(_MATCHES, F.coalesce(_MATCHES, F.expr("false")))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundValue:
    """A file that still contains a value or a matching row, and the part of the file that contains it."""

    file: str = field(metadata=FILE_FIELD)
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PurgeReport(Brief):
    """The effect of a purge, and the findings of its check of every file of the table.

    ``checked`` counts the files by kind, ``values`` the values that were searched for. ``shared_values``
    counts the values that other rows contain too, so that files may contain them.
    """

    table: str
    rows_deleted: int
    delete: str | None
    clean: str | None
    files_deleted: int
    scrubbed: ScrubResult
    checked: Mapping[str, int]
    values: int
    shared_values: int
    found: tuple[FoundValue, ...]
    sources: tuple[SourceFiles, ...] | None = ()

    @property
    def is_proven(self) -> bool:
        """True if no file of the table contains one of the values."""
        return not self.found


def survey(
    spark: SparkSession, table: TableHandle, request: PurgeRequest, *, timing: Timing = DEFAULT_TIMING
) -> Survey:
    """Find the rows and files that a purge removes; write nothing except rollbacks of dead writes.

    Raises:
        InvalidDataError: If the condition is not valid SQL, a key is not a key of the table, more than
            :data:`MOST_ROWS` rows match, or a savepoint protects one of the files.
        UnsupportedTableError: If the table is published in another format.
        ConflictError: If a write is unfinished.

    """
    check_timestamp_type(spark)
    _check_unpublished(table)
    timeline = recovered_timeline(table, timing=timing)
    check_no_writes(timeline)
    condition = _condition(spark, table, timeline, request)
    files, live = _all_files(table, timeline)
    columns = table.effective_spec(timeline).columns
    with (
        session_settings(spark, expression_settings(spark)),
        failures_translated("the condition of the purge"),
    ):
        rows = condition.matches(_versions_of_rows(spark, table, timeline, files, live))
        doomed = _rows_to_delete(rows)
        hits = _matching_versions(rows, doomed)
        counts = {
            (row[FILE], row[_LIVE]): row["count"] for row in hits.groupBy(FILE, _LIVE).count().collect()
        }
        instants = [row[0] for row in hits.select(COMMIT_TIME).distinct().collect()]
        texts = _text_frame(hits, columns).distinct().limit(_MOST_TEXTS + 1).collect()
    if len(texts) > _MOST_TEXTS:
        raise InvalidDataError(
            "the rows have more than {limit:,} values; purge them in parts", limit=_MOST_TEXTS
        )
    named = {file.path.rpartition("/")[2]: file for file in files}
    matching_files = [named[name] for name, _ in counts]
    _check_savepoints(table, timeline, matching_files)
    return Survey(
        table=table.name,
        rows=sum(count for (_, is_live), count in counts.items() if is_live),
        files=sum(is_live for _, is_live in counts),
        older_rows=sum(count for (_, is_live), count in counts.items() if not is_live),
        older_files=sum(not is_live for _, is_live in counts),
        sources=_sources(table.store, instants) if table.config.meta_columns.has_commit_times else None,
        condition=condition,
        doomed=doomed,
        groups=frozenset(file.key for file in matching_files),
        values=frozenset(row[0] for row in texts) | {key for key, _ in doomed} | condition.keys,
    )


def purge(
    spark: SparkSession, table: TableHandle, surveyed: Survey, *, timing: Timing = DEFAULT_TIMING
) -> PurgeReport:
    """Delete the surveyed rows, their old files and their values in metadata; then check all files.

    Another writer may add a file with such rows meanwhile. The check finds it: run the purge again. Errors
    are those of :func:`parquetry.runtime.spark.write.write` and of the clean.
    """
    deleted = None
    if surveyed.rows:
        keys = spark.createDataFrame(list(surveyed.doomed), _META_DDL)
        deleted = write(spark, table, keys, WriteRequest(operation=Operation.DELETE), timing=timing).instant
    cleaned = clean_groups(table, surveyed.groups, timing=timing)
    scrubbed = scrub(table, timing=timing)
    checked, shared, found = _check(spark, table, surveyed)
    return PurgeReport(
        table=surveyed.table,
        rows_deleted=surveyed.rows if deleted else 0,
        delete=deleted,
        clean=cleaned.instant,
        files_deleted=cleaned.files_deleted,
        scrubbed=scrubbed,
        checked=checked,
        values=len(surveyed.values),
        shared_values=len(shared),
        found=found,
        sources=surveyed.sources,
    )


def _condition(
    spark: SparkSession, table: TableHandle, timeline: Timeline, request: PurgeRequest
) -> PurgeCondition:
    if request.keys is None:
        assert request.where is not None
        check_expression(spark, request.where, place="where")
        return PurgeCondition(where=request.where)
    state = TableState(handle=table, timeline=timeline)
    keys = read_keys(request.keys, state.rules.record_key, most_rows=MOST_ROWS)
    return PurgeCondition(where=None, keys=_key_texts(spark, state, keys, request.keys))


def _key_texts(spark: SparkSession, state: TableState, keys: GivenKeys, path: Path) -> frozenset[str]:
    """Return the given keys as the record keys that files contain.

    Raises:
        InvalidDataError: If a given key is not a key of the table, or the record key has nested fields.

    """
    found: list[str | None]
    if keys.columns == (RECORD_KEY,):
        found = [row[0] for row in keys.rows]
    else:
        types = {column.name: column.type for column in state.spec.columns}
        if any(name not in types for name in keys.columns):
            raise InvalidDataError(
                "the record key has nested fields: give the column {column}", column=RECORD_KEY
            )
        texts = spark.createDataFrame(
            list(keys.rows), ", ".join(f"{quoted_name(n)} string" for n in keys.columns)
        )
        with session_settings(spark, expression_settings(spark)):
            typed = texts.selectExpr(
                *(f"try_cast({quoted_name(n)} AS {types[n]}) AS {quoted_name(n)}" for n in keys.columns)
            )
            key = record_key_sql(state.rules, typed.schema)
            given = " AND ".join(f"{quoted_name(n)} IS NOT NULL" for n in keys.columns)
            found = [row[0] for row in typed.selectExpr(f"CASE WHEN {given} THEN {key} END").collect()]
    if number := next((number for number, key in enumerate(found, 1) if not key), 0):
        raise InvalidDataError(
            "{file}: row {row} is not a key of the table; correct it, or leave it out",
            file=Value.uri(str(path)),
            row=number,
        )
    return frozenset(key for key in found if key)


def _all_files(table: TableHandle, timeline: Timeline) -> tuple[list[FileSlice], frozenset[str]]:
    """Return all committed files, replaced ones included, and the paths of the current files."""
    view = table.view(timeline)
    live = frozenset(file.path for file in view.all_slices())
    groups = [group for partition in view.partitions() for group in view.file_groups(partition)]
    return [file for group in groups for file in group.slices], live


def _versions_of_rows(
    spark: SparkSession,
    table: TableHandle,
    timeline: Timeline,
    files: Sequence[FileSlice],
    live: Collection[str],
) -> DataFrame:
    """Return the rows of all ``files``, each with its file and a flag that is true for files in ``live``."""
    state = TableState(handle=table, timeline=timeline)
    frames = [
        scan_files(
            spark,
            table,
            timeline,
            [file for file in files if (file.path in live) == is_live],
            state.spec.columns,
            meta=_META,
            positions=True,
        ).withColumn(_LIVE, F.lit(is_live))
        for is_live in (True, False)
    ]
    return with_keys(frames[0].unionAll(frames[1]), state.stored_keys, files)


def _rows_to_delete(rows: DataFrame) -> tuple[tuple[str, str], ...]:
    """Return the record key and partition path of each row to delete.

    A row is deleted if any version of it fulfils the condition, unless its current version does not.

    Raises:
        InvalidDataError: If more than :data:`MOST_ROWS` rows match.

    """
    place = [RECORD_KEY, PARTITION_PATH]
    others = rows.where(F.col(_LIVE) & ~F.col(_MATCHES)).select(*place)
    matched = rows.where(F.col(_MATCHES)).select(*place).distinct()
    found = matched.join(others, place, "left_anti").limit(MOST_ROWS + 1).collect()
    if len(found) > MOST_ROWS:
        raise InvalidDataError("more than {limit:,} rows match; purge them in parts", limit=MOST_ROWS)
    return tuple((row[0], row[1]) for row in found)


def _matching_versions(rows: DataFrame, doomed: Sequence[tuple[str, str]]) -> DataFrame:
    """Return the rows that fulfil the condition, and all other versions of the rows to delete."""
    return _with_match_flag(rows, doomed).where(_MATCHES)


def _with_match_flag(rows: DataFrame, doomed: Sequence[tuple[str, str]]) -> DataFrame:
    keys = rows.sparkSession.createDataFrame(list(doomed), _META_DDL).withColumn("__doomed", F.expr("true"))
    joined = rows.join(F.broadcast(keys), [RECORD_KEY, PARTITION_PATH], "left")
    is_hit = F.col(_MATCHES) | F.coalesce("__doomed", F.expr("false"))
    return joined.withColumn(_MATCHES, is_hit).drop("__doomed")


def _text_frame(rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Return the texts of the rows' personal columns, one per row, except nested and binary columns."""
    plain = [c for c in columns if c.pii and isinstance(parse_type(c.type), Primitive | Decimal)]
    texts = [F.col(quoted_name(column.name)).cast("string") for column in plain if column.type != "binary"]
    stacked = rows.select(
        F.explode(F.array(*texts) if texts else F.expr("array(CAST(NULL AS string))")).alias(_TEXT)
    )
    return stacked.where(F.col(_TEXT).isNotNull())


def _personal_texts(spark: SparkSession, texts: Iterable[str]) -> DataFrame:
    return spark.createDataFrame([(text,) for text in texts], f"{_TEXT} string")


def _check_unpublished(table: TableHandle) -> None:
    """Raise UnsupportedTableError if the metadata of another format may hold values of the rows."""
    declared = bool(formats_of(table))
    folders = [folder for folder in (LOG_FOLDER, METADATA_FOLDER) if table.store.list(folder)]
    if declared or folders:
        raise UnsupportedTableError(
            "{table}: a purge does not look for values in {folder}; remove publish from the table, apply, "
            "delete the folder {folder}, purge, and publish the table again",
            table=table.store.uri,
            folder=" and ".join(folders) or LOG_FOLDER,
        )


def _check_savepoints(table: TableHandle, timeline: Timeline, matching_files: Iterable[FileSlice]) -> None:
    """Raise InvalidDataError if a savepoint protects one of the files to delete."""
    names = {(file.partition, file.path.rpartition("/")[2]) for file in matching_files}
    if not names & protected_files(timeline):
        return
    for time in timeline.savepoints:
        kept = {(p, name) for p, listed in timeline.savepoint_metadata(time).files.items() for name in listed}
        if files := len(kept & names):
            raise InvalidDataError(
                "{table}: the savepoint {instant} protects {files:,} files with such rows, so nothing was "
                "purged; delete it first with {command}",
                table=table.store.uri,
                instant=time,
                files=files,
                command=command("service", "savepoint", table.name, time, "--delete"),
            )


def _sources(store: ObjectStore, instants: Sequence[str]) -> tuple[SourceFiles, ...]:
    found = []
    for source, files in ingested_by(store, instants).items():
        paths = sorted({file.path for file in files})
        found.append(SourceFiles(source=source, files=len(paths), paths=tuple(paths[:_NAMED_FILES])))
    return tuple(found)


def _check(
    spark: SparkSession, table: TableHandle, surveyed: Survey
) -> tuple[Mapping[str, int], frozenset[str], tuple[FoundValue, ...]]:
    """Search all files for the values, and return the findings.

    Returns:
        The number of files by kind, the values that other rows contain too, and the findings.

    """
    timeline = table.timeline()
    files, live = _all_files(table, timeline)
    columns = table.effective_spec(timeline).columns
    with (
        session_settings(spark, expression_settings(spark)),
        failures_translated("the condition of the purge"),
    ):
        rows = surveyed.condition.matches(_versions_of_rows(spark, table, timeline, files, live))
        marked = _with_match_flag(rows, surveyed.doomed)
        left = {row[0] for row in marked.where(_MATCHES).select(FILE).distinct().collect()}
        others = marked.where(~F.col(_MATCHES))
        texts = others.select(F.col(RECORD_KEY).alias(_TEXT)).unionAll(_text_frame(others, columns))
        values = F.broadcast(_personal_texts(spark, surveyed.values))
        shared = frozenset(row[0] for row in values.join(texts, _TEXT, "left_semi").collect())
    data = {file.path: file for file in files}
    found = [FoundValue(file=path, place="rows") for path in data if path.rpartition("/")[2] in left]
    listed = [info.path for info in table.store.list("", recursive=True)]
    unchecked = {one.file: one for one in _unchecked(listed, data)}
    found += unchecked.values()
    wanted = surveyed.values - shared
    searched = [path for path in listed if path not in unchecked]
    found += _search(spark, table.store, searched, frozenset(data), wanted)
    checked = Counter(_kind(path) for path in searched)
    return checked, shared, tuple(sorted(set(found), key=lambda one: (one.file, one.place)))


def _unchecked(paths: Iterable[str], data: Collection[str]) -> Iterator[FoundValue]:
    """Yield the files that may contain rows and that no commit names; ``data`` are those of commits.

    Encrypted and encoded values cannot be found by their texts, and such a file may have another schema.
    """
    for path in paths:
        if path.startswith(f"{QUARANTINE_FOLDER}/"):
            yield FoundValue(file=path, place="not checked, in the quarantine of orphans")
        elif path not in data and _kind(path) == "data":
            yield FoundValue(file=path, place="not checked, an unfinished write's")


def _kind(path: str) -> str:
    if path.startswith(f"{STATISTICS_FOLDER}/"):
        return "statistics"
    if not path.startswith(f"{TIMELINE_FOLDER}/"):
        return "data" if path.endswith(".parquet") else "other"
    return "timeline" if path.count("/") == 1 else "other"


def _search(
    spark: SparkSession,
    store: ObjectStore,
    paths: Sequence[str],
    data: frozenset[str],
    values: frozenset[str],
) -> list[FoundValue]:
    """Search files for the values in parallel tasks; skip files that are deleted meanwhile."""
    tasks = min(len(paths), 4 * reachable_parallelism(spark))
    schema = pa.schema([("file", pa.string()), ("place", pa.string())])

    def search(numbers: Iterable[pa.RecordBatch]) -> Batches:
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            found = []
            for path in paths[number::tasks]:
                try:
                    names = (matches_in_footer if path in data else matches_in_file)(store, path, values)
                except NotFoundError:
                    continue
                found += [{"file": path, "place": place} for place in names]
            yield pa.RecordBatch.from_pylist(found, schema=schema)

    rows = run_numbered(spark, search, tasks)
    return [FoundValue(file=row["file"], place=row["place"]) for row in rows]
