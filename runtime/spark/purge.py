"""Purge of rows: out of the table, out of every old file, out of the files beside the data, and the proof.

Matching rows are deleted by a write of their own. A clean then deletes all older versions of the files that
held such rows, and a scrub what the timeline and statistics say of them. Each step may be repeated, so who
finds a purge that ended early runs it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.message import Message, Value, command
from parquetry.runtime.arrow.schema import Batches
from parquetry.runtime.commit.recovery import recovered_timeline
from parquetry.runtime.commit.table_state import TableState
from parquetry.runtime.errors import InvalidDataError, NotFoundError, UnsupportedTableError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.services.clean import clean_groups
from parquetry.runtime.services.clean_plan import check_no_writes, protected_files
from parquetry.runtime.services.keys_file import GivenKeys, read_keys
from parquetry.runtime.services.scrub import ScrubResult, scrub
from parquetry.runtime.services.value_search import footer_holds, found_in
from parquetry.runtime.sources.ledger import ingested_by
from parquetry.runtime.spark.lookup.tagging import FILE
from parquetry.runtime.spark.read.scan import scan_files
from parquetry.runtime.spark.session.connect import check_session
from parquetry.runtime.spark.session.keys import quoted_name, record_key_sql
from parquetry.runtime.spark.session.numbered import run_numbered
from parquetry.runtime.spark.session.settings import (
    expression_settings,
    failures_translated,
    reachable_parallelism,
    session_settings,
)
from parquetry.runtime.spark.session.sql_guard import check_expression
from parquetry.runtime.spark.write import write
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.spec.masking import masked_message
from parquetry.runtime.spec.meta_columns import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from parquetry.runtime.spec.table_spec import Column, Operation
from parquetry.runtime.spec.types import Decimal, Primitive, parse_type
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import TIMELINE_FOLDER
from parquetry.runtime.timeline.sidecars import STATISTICS_FOLDER
from parquetry.runtime.timeline.versions import FileGroupId
from parquetry.runtime.timing import DEFAULT_TIMING, Timing
from parquetry.runtime.write.request import WriteRequest

MOST_ROWS: Final = 100_000
"""The driver keeps the keys, to delete by them and to search for them when the rows are gone."""

_MOST_TEXTS: Final = 10 * MOST_ROWS
_NAMED_FILES: Final = 20
_LIVE, _MATCHES, _TEXT = "__live", "__matches", "__text"
_META: Final = (COMMIT_TIME, RECORD_KEY, PARTITION_PATH)
_META_DDL: Final = f"{RECORD_KEY} string, {PARTITION_PATH} string"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PurgeRequest:
    """Which rows are to go: those for which ``where`` (SQL) is true, or those with the keys of a file."""

    where: str | None = None
    keys: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SourceFiles(Brief):
    """Files of a source from which matching rows came: how many, and the paths of some."""

    source: str
    files: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Survey(Brief):
    """What a purge would do: rows to delete in current files, and older files that have such rows.

    ``sources`` are where the rows came from. The rest is for the purge itself.
    """

    table: str
    rows: int
    files: int
    older_rows: int
    older_files: int
    sources: tuple[SourceFiles, ...] = ()
    condition: PurgeCondition = field(repr=False)
    doomed: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    groups: frozenset[FileGroupId] = field(default=frozenset(), repr=False)
    values: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PurgeCondition:
    """Rows by SQL, or by the texts of their record keys."""

    where: str | None
    keys: frozenset[str] = frozenset()

    def matches(self, rows: DataFrame) -> DataFrame:
        """The rows with a column for whether they fulfil the condition."""
        if self.where is not None:
            fulfils = F.coalesce(F.expr(f"({self.where}\n)").cast("boolean"), F.expr("false"))
            return rows.withColumn(_MATCHES, fulfils)
        keys = _texts(rows.sparkSession, self.keys).withColumnRenamed(_TEXT, RECORD_KEY)
        keys = keys.withColumn(_MATCHES, F.expr("true"))
        joined = rows.join(F.broadcast(keys), RECORD_KEY, "left")
        return joined.withColumn(_MATCHES, F.coalesce(_MATCHES, F.expr("false")))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundValue:
    """A file that still holds a value, or a row that fulfils the condition, and where in it."""

    file: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PurgeReport(Brief):
    """What a purge did, and what it found when it checked every file of the table.

    ``checked`` counts files by kind, ``values`` those that were searched for, ``shared_values`` those of them
    that other rows have too, so that files rightly hold them.
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
    sources: tuple[SourceFiles, ...] = ()

    @property
    def is_proven(self) -> bool:
        """Return True if no file of the table holds one of the values."""
        return not self.found


def survey(
    spark: SparkSession, table: TableHandle, request: PurgeRequest, *, timing: Timing = DEFAULT_TIMING
) -> Survey:
    """Find the rows and files that a purge is about; nothing is written but rollbacks of dead writes.

    Raises InvalidDataError for a condition that is no SQL, keys that are none, more than
    :data:`MOST_ROWS` keys, and files that a savepoint protects; ConflictError while a write is unfinished.
    """
    check_session(spark)
    if not table.config.populate_meta_fields:
        raise UnsupportedTableError(
            f"{table.store.uri}: hoodie.populate.meta.fields=false, so rows have no keys to be purged by"
        )
    timeline = recovered_timeline(table, timing=timing)
    check_no_writes(timeline)
    condition = _condition(spark, table, timeline, request)
    files, live = _versions(table, timeline)
    columns = table.effective_spec(timeline).columns
    with (
        session_settings(spark, expression_settings(spark)),
        failures_translated("the condition of the purge"),
    ):
        rows = condition.matches(_rows(spark, table, timeline, files, live))
        doomed = _doomed(rows)
        hits = _hits(rows, doomed)
        counts = {
            (row[FILE], row[_LIVE]): row["count"] for row in hits.groupBy(FILE, _LIVE).count().collect()
        }
        instants = [row[0] for row in hits.select(COMMIT_TIME).distinct().collect()]
        texts = _stacked(hits, columns).distinct().limit(_MOST_TEXTS + 1).collect()
    if len(texts) > _MOST_TEXTS:
        raise InvalidDataError(f"the rows have more than {_MOST_TEXTS:,} values; purge them in parts")
    named = {file.path.rpartition("/")[2]: file for file in files}
    held = [named[name] for name, _ in counts]
    _check_savepoints(table, timeline, held)
    return Survey(
        table=table.name,
        rows=sum(count for (_, is_live), count in counts.items() if is_live),
        files=sum(is_live for _, is_live in counts),
        older_rows=sum(count for (_, is_live), count in counts.items() if not is_live),
        older_files=sum(not is_live for _, is_live in counts),
        sources=_sources(table.store, instants),
        condition=condition,
        doomed=doomed,
        groups=frozenset((file.partition, file.file_id) for file in held),
        values=frozenset(row[0] for row in texts) | {key for key, _ in doomed} | condition.keys,
    )


def purge(
    spark: SparkSession, table: TableHandle, surveyed: Survey, *, timing: Timing = DEFAULT_TIMING
) -> PurgeReport:
    """Delete the surveyed rows, the old files that hold them and what tells of them; then check all files.

    Files that another writer makes of such rows meanwhile are found by the check: run it again. Raises as
    :func:`parquetry.runtime.spark.write.write` and the clean do.
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
    """The record keys as files of the table spell them; InvalidDataError for one that is none."""
    found: list[str | None]
    if keys.columns == (RECORD_KEY,):
        found = [row[0] for row in keys.rows]
    else:
        types = {column.name: column.type for column in state.spec.columns}
        if any(name not in types for name in keys.columns):
            raise InvalidDataError(f"the record key has nested fields: give the column {RECORD_KEY}")
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
            Message(
                Value.uri(str(path)), f": row {number} is no key of the table; correct it, or leave it out"
            )
        )
    return frozenset(key for key in found if key)


def _versions(table: TableHandle, timeline: Timeline) -> tuple[list[FileSlice], frozenset[str]]:
    """All committed files, also those that were replaced, and the paths of the current ones."""
    view = table.view(timeline)
    live = frozenset(file.path for file in view.all_slices())
    groups = [group for partition in view.partitions() for group in view.file_groups(partition)]
    return [file for group in groups for file in group.slices], live


def _rows(
    spark: SparkSession,
    table: TableHandle,
    timeline: Timeline,
    files: Sequence[FileSlice],
    live: Collection[str],
) -> DataFrame:
    """The rows of all these files, each with its file and whether readers see it now."""
    columns = table.effective_spec(timeline).columns
    frames = [
        scan_files(
            spark,
            table.store,
            timeline,
            [file for file in files if (file.path in live) == is_live],
            columns,
            meta=_META,
            positions=True,
        ).withColumn(_LIVE, F.lit(is_live))
        for is_live in (True, False)
    ]
    return frames[0].unionAll(frames[1])


def _doomed(rows: DataFrame) -> tuple[tuple[str, str], ...]:
    """Key and partition of the rows that go, whichever version of them fulfils the condition.

    A row whose current version does not fulfil it stays.
    """
    place = [RECORD_KEY, PARTITION_PATH]
    others = rows.where(F.col(_LIVE) & ~F.col(_MATCHES)).select(*place)
    matched = rows.where(F.col(_MATCHES)).select(*place).distinct()
    found = matched.join(others, place, "left_anti").limit(MOST_ROWS + 1).collect()
    if len(found) > MOST_ROWS:
        raise InvalidDataError(f"more than {MOST_ROWS:,} rows match; purge them in parts")
    return tuple((row[0], row[1]) for row in found)


def _hits(rows: DataFrame, doomed: Sequence[tuple[str, str]]) -> DataFrame:
    """The rows that fulfil the condition, and other versions of those that go."""
    return _marked(rows, doomed).where(_MATCHES)


def _marked(rows: DataFrame, doomed: Sequence[tuple[str, str]]) -> DataFrame:
    keys = rows.sparkSession.createDataFrame(list(doomed), _META_DDL).withColumn("__doomed", F.expr("true"))
    joined = rows.join(F.broadcast(keys), [RECORD_KEY, PARTITION_PATH], "left")
    is_hit = F.col(_MATCHES) | F.coalesce("__doomed", F.expr("false"))
    return joined.withColumn(_MATCHES, is_hit).drop("__doomed")


def _stacked(rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The texts of the personal columns of rows; columns with values inside of values have none."""
    plain = [c for c in columns if c.pii and isinstance(parse_type(c.type), Primitive | Decimal)]
    texts = [F.col(quoted_name(column.name)).cast("string") for column in plain if column.type != "binary"]
    stacked = rows.select(
        F.explode(F.array(*texts) if texts else F.expr("array(CAST(NULL AS string))")).alias(_TEXT)
    )
    return stacked.where(F.col(_TEXT).isNotNull())


def _texts(spark: SparkSession, texts: Iterable[str]) -> DataFrame:
    return spark.createDataFrame([(text,) for text in texts], f"{_TEXT} string")


def _check_savepoints(table: TableHandle, timeline: Timeline, held: Iterable[FileSlice]) -> None:
    """InvalidDataError if a savepoint protects one of the files that have to go."""
    names = {(file.partition, file.path.rpartition("/")[2]) for file in held}
    if not names & protected_files(timeline):
        return
    for time in timeline.savepoints:
        kept = {(p, name) for p, listed in timeline.savepoint_metadata(time).files.items() for name in listed}
        if files := len(kept & names):
            raise InvalidDataError(
                Message(
                    f"{table.store.uri}: the savepoint {time} protects {files:,} files with such rows, "
                    "nothing was purged; delete it first with ",
                    command("service", "savepoint", table.name, time, "--delete"),
                )
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
    """Files by kind, values that other rows have too, and where a value is left."""
    timeline = table.timeline()
    files, live = _versions(table, timeline)
    columns = table.effective_spec(timeline).columns
    with (
        session_settings(spark, expression_settings(spark)),
        failures_translated("the condition of the purge"),
    ):
        rows = surveyed.condition.matches(_rows(spark, table, timeline, files, live))
        marked = _marked(rows, surveyed.doomed)
        left = {row[0] for row in marked.where(_MATCHES).select(FILE).distinct().collect()}
        others = marked.where(~F.col(_MATCHES))
        texts = others.select(F.col(RECORD_KEY).alias(_TEXT)).unionAll(_stacked(others, columns))
        values = F.broadcast(_texts(spark, surveyed.values))
        shared = frozenset(row[0] for row in values.join(texts, _TEXT, "left_semi").collect())
    data = {file.path: file for file in files}
    found = [FoundValue(file=path, place="rows") for path in data if path.rpartition("/")[2] in left]
    listed = [info.path for info in table.store.list("", recursive=True)]
    unknown = [path for path in listed if path not in data and _kind(path) == "data"]
    found += [FoundValue(file=path, place="not checked, an unfinished write's") for path in unknown]
    wanted = surveyed.values - shared
    searched = [path for path in listed if path not in unknown]
    found += _search(spark, table.store, searched, frozenset(data), wanted)
    shown = sorted({(_masked(table, one.file), one.place) for one in found})
    checked = Counter(_kind(path) for path in searched)
    return checked, shared, tuple(FoundValue(file=file, place=place) for file, place in shown)


def _masked(table: TableHandle, path: str) -> str:
    return str(masked_message(Message(Value.file(path)), table.spec, location=table.store.uri))


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
    """Where one of the values is, in tasks that read some of the files each; files that go meanwhile pass."""
    tasks = min(len(paths), 4 * reachable_parallelism(spark))
    schema = pa.schema([("file", pa.string()), ("place", pa.string())])

    def search(numbers: Iterable[pa.RecordBatch]) -> Batches:
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            found = []
            for path in paths[number::tasks]:
                try:
                    places = (footer_holds if path in data else found_in)(store, path, values)
                except NotFoundError:
                    continue
                found += [{"file": path, "place": place} for place in places]
            yield pa.RecordBatch.from_pylist(found, schema=schema)

    rows = run_numbered(spark, search, tasks)
    return [FoundValue(file=row["file"], place=row["place"]) for row in rows]
