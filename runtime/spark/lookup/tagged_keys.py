"""The results of a key lookup: keys found in files, new keys and dropped rows, counted and persisted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.base_file.model import DELETE, HASH, POSITION
from parquetry.runtime.commit.outcome import KeyRange
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spark.lookup.tagging import FILE, STORED_PARTITION, key_rows, winners
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.settings import (
    SHUFFLE_PARTITIONS,
    parallelism,
    session_settings,
    set_by_user,
)
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.part import PARTITION
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.write.plan import ChangeCounts

_SETTINGS: Mapping[str, str] = {
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # A broadcast goes through the driver, so only small frames may be broadcast, see BROADCAST_BYTES.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
}
_KEYS_OF_A_PARTITION = 250_000
_LOW = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTotals:
    """The numbers of a batch's inserts, updates and deletes.

    ``changes`` is by partition and file id. ``hash_sums`` is by the partition that the rows go to, modulo
    2**64. ``unmatched_deletes`` found no row. ``late_rows`` lost against rows of other partitions. Neither of
    these is written.
    """

    changes: Mapping[str, Mapping[str, ChangeCounts]]
    inserts: Mapping[str, int]
    inserted_keys: Mapping[str, KeyRange]
    hash_sums: Mapping[str, int]
    unmatched_deletes: int = 0
    late_rows: int = 0

    @property
    def count(self) -> int:
        """The number of rows that will be written or will remove a row."""
        changed = sum(c.updates + c.deletes for files in self.changes.values() for c in files.values())
        return changed + sum(self.inserts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedKeys(KeyTotals):
    """The rows to write, once for each file or partition that they go to, and their totals.

    ``rows`` has reference, partition, hash, delete flag, and the name of the file and the position at which
    the key was found. Both are null for new rows and for rows that are not written.
    """

    rows: DataFrame

    def release(self) -> None:
        """Unpersist the rows."""
        self.rows.unpersist()


def tag_all_as_new(spark: SparkSession, staged: StagedRows, *, partitioned: bool) -> TaggedKeys:
    """Choose one row per key and tag it as new, without a lookup.

    With ``partitioned``, one row per key and partition is chosen.
    """
    keys = winners(staged, key_rows(spark, staged), partitioned=partitioned)
    tagged = keys.select(
        "*",
        F.lit(None).cast("string").alias(FILE),
        F.lit(None).cast("bigint").alias(POSITION),
        F.lit(None).cast("string").alias(STORED_PARTITION),
    )
    return count_tagged(tagged, files=(), rows=staged.rows)


def count_tagged(tagged: DataFrame, *, files: Sequence[FileSlice], rows: int) -> TaggedKeys:
    """Persist the tagged rows and count them.

    Args:
        tagged: The rows with the file and position at which they were found.
        files: The files that were searched.
        rows: The number of rows of the batch that were looked up.

    """
    by_name = {file.path.rpartition("/")[2]: file for file in files}
    keys = rows + sum(file.rows or 0 for file in files)
    with session_settings(tagged.sparkSession, {**_SETTINGS, **_shuffle_settings(tagged.sparkSession, keys)}):
        kept = tagged.persist(StorageLevel.DISK_ONLY)
    keyed = RECORD_KEY in kept.columns
    try:
        counted = _count_by_target(kept, keyed=keyed)
    except BaseException:
        kept.unpersist()
        raise
    changes: dict[str, dict[str, ChangeCounts]] = {}
    inserts: dict[str, int] = {}
    ranges: dict[str, KeyRange] = {}
    sums: dict[str, int] = {}
    unmatched = late = 0
    for row in counted:
        if row[FILE] is None and row["__home"] is None:
            unmatched = row["deletes"]
            late = row["rows"] - unmatched
            continue
        file = by_name[row[FILE]] if row[FILE] is not None else None
        partition = file.partition if file else row["__home"]
        sums[partition] = (sums.get(partition, 0) + row["low"] + (row["high"] << 32)) % (1 << 64)
        if file is None:
            inserts[partition] = row["rows"]
            if keyed:
                ranges[partition] = KeyRange(smallest=row["min_key"], largest=row["max_key"])
        else:
            changes.setdefault(partition, {})[file.file_id] = ChangeCounts(
                updates=row["rows"] - row["deletes"], deletes=row["deletes"]
            )
    return TaggedKeys(
        rows=kept,
        changes=changes,
        inserts=inserts,
        inserted_keys=ranges,
        hash_sums=sums,
        unmatched_deletes=unmatched,
        late_rows=late,
    )


def _shuffle_settings(spark: SparkSession, keys: int) -> Mapping[str, str]:
    """Return the setting for the number of shuffle partitions that so many keys need.

    The number is at most the user's own. Without a number of the user, the result is empty.
    """
    given = set_by_user(spark, SHUFFLE_PARTITIONS) or ""
    few = max(parallelism(spark), -(-keys // _KEYS_OF_A_PARTITION))
    return {SHUFFLE_PARTITIONS: str(min(few, int(given)))} if given.isdecimal() else {}


def _count_by_target(rows: DataFrame, *, keyed: bool) -> list[Row]:
    """Count the rows and deletes, and add up the hashes, in one row for each destination.

    A destination is a file, or the partition of new rows. Rows without one are counted together. If ``keyed``
    is set, the rows have the key range too.
    """
    keys = (F.min(RECORD_KEY).alias("min_key"), F.max(RECORD_KEY).alias("max_key")) if keyed else ()
    with (
        session_settings(rows.sparkSession, _SETTINGS),
        failures_translated("the keys of the rows", of_table=True),
    ):
        counted: list[Row] = (
            rows.withColumn(
                "__home", F.expr(f"CASE WHEN {FILE} IS NULL AND NOT {DELETE} THEN {PARTITION} END")
            )
            .groupBy(FILE, "__home")
            .agg(
                F.count_if(DELETE).alias("deletes"),
                F.count("*").alias("rows"),
                F.sum(F.col(HASH).bitwiseAND(_LOW)).alias("low"),
                F.sum(F.shiftrightunsigned(HASH, 32)).alias("high"),
                *keys,
            )
            .collect()
        )
    return counted
