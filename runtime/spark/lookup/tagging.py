"""Tagging: the file and row position of each incoming key in the table, or nulls.

Only keys and control columns are read: the keys files of the batch, and the record keys and row numbers of
the files that may contain one of the keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.message import Message, Text, Value, joined
from parquetry.runtime.base_file.model import DELETE, HASH, ORDERING, POSITION
from parquetry.runtime.commit.outcome import KeyRange
from parquetry.runtime.errors import CorruptTableError, NotFoundError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spark.session.connect import is_connect
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.settings import load_files
from parquetry.runtime.spec.meta_columns import PARTITION_PATH, RECORD_KEY
from parquetry.runtime.stage.batch_keys import tied_rows
from parquetry.runtime.stage.part import ARRIVAL, PARTITION, REFERENCE, keys_name
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.task_failures import line_around

FILE = "__file"
STORED_ORDERING = "__stored_ordering"
STORED_PARTITION = "__stored_partition"
STORED_KEY = "__stored_key"
TO_LOCATE = "__to_locate"
"""The mark of deletes that apply to any partition with their key."""

BROADCAST_BYTES = 24 * 1024 * 1024
"""The limit of a broadcast; a larger lookup shuffles both sides by key."""

_MOST_NAMED_FILES = 10

_STRICT = {
    "recursiveFileLookup": "true",
    # Regardless of the session's settings: a skipped file would lose rows or write keys twice, and
    # files of other writers than Spark contain dates of the proleptic Gregorian calendar.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
}


def key_rows(spark: SparkSession, staged: StagedRows) -> DataFrame:
    """Read the keys and control columns of a stage."""
    uris = [staged.spec.location.spark_uri(keys_name(name)) for name in staged.names.values()]
    return read_files(spark, uris)


def read_files(spark: SparkSession, uris: Sequence[str], schema: str | None = None) -> DataFrame:
    """Read Parquet files by their exact names: nothing in a name is a pattern or a partition value.

    The addresses must be escaped for Hadoop's globbing, which stays on. Without it Spark treats the escapes
    as part of the name, and reads a missing file as one without rows.

    Raises:
        NotFoundError: If a file was removed.

    """
    reader = spark.read.format("parquet").options(**_STRICT)
    if schema is not None:
        reader = reader.schema(schema)
    with failures_translated("files to read", of_table=True):
        return load_files(spark, reader, uris)


def read_slices(
    spark: SparkSession, store: ObjectStore, files: Sequence[FileSlice], schema: str
) -> DataFrame:
    """Read base files of a table, and check that each has the size that it was listed with.

    Spark lists the files again and skips empty ones, so a truncated file would lose rows without an error. A
    Spark Connect server does not report its listing, so the store is asked there.

    Raises:
        CorruptTableError: If a file has another size than it was listed with.
        NotFoundError: If a file was removed.

    """
    frame = read_files(spark, [store.spark_uri(file.path) for file in files], schema)
    if is_connect(spark):
        _check_stored(store, files)
        return frame
    relation = frame._jdf.queryExecution().analyzed().relation()  # noqa: SLF001 - what Spark has listed
    found, listed = relation.location().sizeInBytes(), sum(file.size_bytes for file in files)
    if found == listed:
        return frame
    resized = _resized_files(files, map_each(files, lambda file: store.stat(file.path)))
    raise _resized_error(
        store,
        joined("; ", resized)
        if resized
        else Message(
            "its files have {found_bytes:,} bytes instead of {expected_bytes:,}",
            found_bytes=found,
            expected_bytes=listed,
        ),
    )


def _check_stored(store: ObjectStore, files: Sequence[FileSlice]) -> None:
    """Raise NotFoundError if a file was removed, or CorruptTableError if a file has another size."""
    now = map_each(files, lambda file: store.stat(file.path))
    if gone := [file for file, info in zip(files, now, strict=True) if info is None]:
        raise NotFoundError("files to read: {file} is gone; run again", file=Value.file(gone[0].path))
    if resized := _resized_files(files, now):
        raise _resized_error(store, joined("; ", resized))


def _resized_files(files: Sequence[FileSlice], now: Sequence[ObjectInfo | None]) -> list[Message]:
    """Return texts with the old and the new size of files that have changed, for at most ten files."""
    sizes = ((file, info.size_bytes if info else 0) for file, info in zip(files, now, strict=True))
    return [
        Message(
            "{file} has {found_bytes:,} bytes instead of {expected_bytes:,}",
            file=Value.file(file.path),
            found_bytes=size,
            expected_bytes=file.size_bytes,
        )
        for file, size in sizes
        if size != file.size_bytes
    ][:_MOST_NAMED_FILES]


def _resized_error(store: ObjectStore, reason: Text) -> CorruptTableError:
    """Return the error for files that another program changed while they were read."""
    return CorruptTableError(
        "{table}: {reason}: another program overwrites files while they are read; restore them from a "
        "backup, or the table to a savepoint",
        table=store.uri,
        reason=reason,
    )


def winners(staged: StagedRows, keys: DataFrame, *, partitioned: bool) -> DataFrame:
    """Return the winning row of every key, as ``stage.keys.winning_rows`` chooses it.

    Args:
        staged: The stage, whose spec contains the rules.
        keys: The rows of :func:`key_rows`, perhaps with the mark ``TO_LOCATE``, which a winner keeps.
        partitioned: Whether keys are unique per partition.

    """
    ordering = [name for name in (ORDERING,) if name in keys.columns]
    extra = [name for name in (TO_LOCATE,) if name in keys.columns]
    grouping = [PARTITION, RECORD_KEY] if partitioned else [RECORD_KEY]
    rank = [DELETE, HASH, REFERENCE, *extra, *([] if partitioned else [PARTITION])]
    outcome = [F.col(f"best.{name}") for name in rank]
    if staged.folds:
        later = (
            Window.partitionBy(*grouping)
            .orderBy(F.col(ARRIVAL).desc())
            .rowsBetween(Window.unboundedPreceding, -1)
        )
        after = keys.withColumn("__after", F.max(F.struct(ORDERING)).over(later))
        counts = F.col("__after").isNull() | (F.struct(ORDERING) > F.col("__after"))
        # The greatest ordering value is compared with the stored row's; the greatest non-delete remains.
        best = F.max(F.struct((~F.col(DELETE)).alias("stays"), ORDERING, *rank)).alias("best")
        greatest = F.max(F.struct(ORDERING)).alias("greatest")
        found = after.where(counts).groupBy(*grouping).agg(best, greatest)
        return found.select(*grouping, f"greatest.{ORDERING}", *outcome)
    outcome += [F.col(f"best.{name}") for name in ordering]
    arrival = [ARRIVAL] if staged.spec.has_arrival else []
    best = F.max(F.struct(*ordering, *arrival, *rank)).alias("best")
    if not staged.spec.refuses_ties:
        return keys.groupBy(*grouping).agg(best).select(*grouping, *outcome)
    least = F.max(F.struct(*ordering, (~F.col(DELETE)).alias("stays"), F.bitwise_not(HASH).alias("hash")))
    is_tied = F.expr(f"least.stays AND (best.{DELETE} OR least.hash <> ~best.{HASH})")
    before, behind = map(F.lit, line_around(tied_rows))
    listed = F.to_json(F.array(RECORD_KEY))
    refusal = F.raise_error(F.concat(before, listed.substr(F.lit(2), F.length(listed) - 2), behind))
    key = F.when(is_tied, refusal.cast("string")).otherwise(F.col(RECORD_KEY)).alias(RECORD_KEY)
    found = keys.groupBy(*grouping).agg(best, least.alias("least"))
    return found.select(*grouping[:-1], key, *outcome)


def may_hold(file: FileSlice, keys: KeyRange | None) -> bool:
    """Return whether the file may contain a key of that range, by its own key range in UTF-8 order."""
    if keys is None or file.min_key is None or file.max_key is None:
        return file.rows != 0
    return KeyRange(smallest=file.min_key, largest=file.max_key).overlaps(keys)


def stored_keys(spark: SparkSession, store: ObjectStore, files: Sequence[FileSlice]) -> DataFrame:
    """Return record key, partition path, file name and row number of every row of the files."""
    frame = read_slices(spark, store, files, f"{RECORD_KEY} string, {PARTITION_PATH} string")
    return frame.select(
        F.col(RECORD_KEY).alias(STORED_KEY),
        F.col(PARTITION_PATH).alias(STORED_PARTITION),
        F.col("_metadata.file_name").alias(FILE),
        F.col("_metadata.row_index").alias(POSITION),
    )


def tag(incoming: DataFrame, matches: DataFrame | None, *, by_partition: bool) -> DataFrame:
    """Return the incoming keys, each with the file name and position at which it was found, or nulls.

    A key with several positions is returned once for each.

    Args:
        incoming: The rows of the batch.
        matches: The positions of the keys in files, or None if no file contains one.
        by_partition: Whether a key is searched for only in the partition of its row.

    """
    if matches is None:
        return incoming.select(
            "*",
            F.lit(None).cast("string").alias(FILE),
            F.lit(None).cast("bigint").alias(POSITION),
            F.lit(None).cast("string").alias(STORED_PARTITION),
        )
    found = [name for name in matches.columns if name != STORED_KEY]
    same = same_key(by_partition=by_partition)
    return incoming.join(matches, same, "left").select(*incoming.columns, *found)


def same_key(*, by_partition: bool) -> Column:
    """Return the condition that an incoming and a stored row have the same key."""
    same = F.col(RECORD_KEY) == F.col(STORED_KEY)
    return same & (F.col(PARTITION) == F.col(STORED_PARTITION)) if by_partition else same


def split_moves(tagged: DataFrame, *, ordering: bool) -> DataFrame:
    """Return the tagged rows, with two rows for each that moves to another partition.

    These are a delete where its key was found and an insert in its own partition. A row that is older than a
    stored one does not move: if it was found only in other partitions, its delete flag is null. A delete
    stays a delete where the stored row is. A key that inserts have stored in several partitions is stored
    once afterwards, in the partition of its row.

    Args:
        tagged: The rows with their positions in all partitions.
        ordering: Whether to compare the ordering values of the stored rows.

    """
    here = F.col(STORED_PARTITION).isNull() | (F.col(STORED_PARTITION) == F.col(PARTITION)) | F.col(DELETE)
    stale = F.expr("false")
    if ordering:
        later = F.col(STORED_ORDERING) > F.col(ORDERING)
        beats_null = F.col(STORED_ORDERING).isNotNull() & F.col(ORDERING).isNull()
        stale = F.coalesce(later | beats_null, F.expr("false"))
    # The incoming rows are partitioned by key already, so this shuffles nothing.
    copies = Window.partitionBy(RECORD_KEY)
    numbered = tagged.select(
        "*",
        F.max(stale).over(copies).alias("__late"),
        F.max(here).over(copies).alias("__at_home"),
        F.row_number().over(copies.orderBy(FILE, POSITION)).alias("__copy"),
    )
    insert = F.struct(
        F.expr("false").alias(DELETE),
        F.lit(None).cast("string").alias(FILE),
        F.lit(None).cast("bigint").alias(POSITION),
    )
    late = F.struct(
        F.lit(None).cast("boolean").alias(DELETE),
        F.lit(None).cast("string").alias(FILE),
        F.lit(None).cast("bigint").alias(POSITION),
    )
    delete = F.struct(F.expr("true").alias(DELETE), F.col(FILE).alias(FILE), F.col(POSITION).alias(POSITION))
    stay = F.struct(F.col(DELETE).alias(DELETE), F.col(FILE).alias(FILE), F.col(POSITION).alias(POSITION))
    settled = F.col("__at_home") | (F.col("__copy") > 1)
    steps = (
        F.when(here, F.array(stay))
        .when(F.col("__late") & settled, F.array())
        .when(F.col("__late"), F.array(late))
        .when(settled, F.array(delete))
        .otherwise(F.array(delete, insert))
    )
    kept = [c for c in tagged.columns if c not in (DELETE, FILE, POSITION, STORED_ORDERING)]
    return numbered.select(*kept, F.explode(steps).alias("step")).select(*kept, "step.*")
