"""Assignment of rows to the tasks that write them: exact quotas of new rows, one bucket per task.

New rows are numbered per table partition in their order of arrival. The number of a row gives its bucket by
arithmetic. Only counts are shuffled for this, never all rows of a partition into one task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.base_file.model import DELETE, POSITION
from parquetry.runtime.base_file.task import BUCKET
from parquetry.runtime.spark.lookup.tagging import FILE
from parquetry.runtime.spark.session.settings import spark_version
from parquetry.runtime.stage.index import REFERENCE_SHIFT
from parquetry.runtime.stage.part import PARTITION, REFERENCE

_NUMBER, _TASK, _RUNS = "__number", "__task", "__runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRun:
    """Consecutive buckets from ``first`` on that each take ``quota`` new rows, starting at row ``start``."""

    start: int
    quota: int
    first: int


def quota_runs(quotas: Sequence[tuple[int, int]]) -> tuple[QuotaRun, ...]:
    """Join adjacent buckets of equal quota into runs.

    Args:
        quotas: Pairs of bucket and number of new rows, in the order in which rows are assigned.

    Returns:
        Runs of consecutive buckets. Only the last bucket of a run may get fewer rows than the quota.

    """
    runs: list[QuotaRun] = []
    start = 0
    last_bucket, open_ended = -1, False
    for bucket, rows in quotas:
        run = runs[-1] if runs else None
        joins = run is not None and open_ended and bucket == last_bucket + 1 and rows <= run.quota
        if joins:
            assert run is not None
            open_ended = rows == run.quota
        else:
            runs.append(QuotaRun(start=start, quota=rows, first=bucket))
            open_ended = True
        last_bucket = bucket
        start += rows
    return tuple(runs)


def route(
    tagged: DataFrame,
    *,
    files: Mapping[str, int],
    inserts: Mapping[str, Sequence[tuple[int, int]]],
    kept: Sequence[str] = (REFERENCE,),
) -> DataFrame:
    """Return bucket, position, delete flag and the ``kept`` columns of every row that goes to a bucket.

    Deletes of keys that were not found are left out.

    Args:
        tagged: The rows with the file and position at which the lookup found them.
        files: The buckets of the base files, by file name.
        inserts: The quotas by table partition, as pairs of bucket and number of new rows.
        kept: The columns to keep.

    """
    spark = tagged.sparkSession
    columns = [BUCKET, POSITION, DELETE, *kept]
    parts = []
    if files:
        buckets = spark.createDataFrame(list(files.items()), f"{FILE} string, {BUCKET} int")
        parts.append(tagged.where(f"{FILE} IS NOT NULL").join(F.broadcast(buckets), FILE).select(*columns))
    if inserts:
        parts.append(_route_inserts(tagged, inserts).select(*columns))
    routed = parts[0]
    for part in parts[1:]:
        routed = routed.unionAll(part)
    return routed


def _route_inserts(tagged: DataFrame, inserts: Mapping[str, Sequence[tuple[int, int]]]) -> DataFrame:
    spark = tagged.sparkSession
    new = tagged.where(f"{FILE} IS NULL AND NOT {DELETE}")
    single = {p: quotas[0][0] for p, quotas in inserts.items() if len(quotas) == 1}
    if len(single) == len(inserts):
        buckets = spark.createDataFrame(list(single.items()), f"{PARTITION} string, {BUCKET} int")
        return new.join(F.broadcast(buckets), PARTITION)
    runs = [
        (partition, [(r.start, r.quota, r.first) for r in quota_runs(quotas)])
        for partition, quotas in inserts.items()
    ]
    dealt = spark.createDataFrame(
        runs, f"{PARTITION} string, {_RUNS} array<struct<start:bigint,quota:bigint,first:int>>"
    )
    return (
        numbered(new)
        .join(F.broadcast(dealt), PARTITION)
        .withColumn("__run", F.expr(f"element_at(filter({_RUNS}, r -> r.start <= {_NUMBER}), -1)"))
        .withColumn(BUCKET, F.expr(f"int(__run.first + ({_NUMBER} - __run.start) div __run.quota)"))
    )


def numbered(rows: DataFrame) -> DataFrame:
    """Add the row's number within its table partition, from 0, in order of arrival."""
    tasks = rows.withColumn(_TASK, F.expr(f"shiftright({REFERENCE}, {REFERENCE_SHIFT})"))
    before = Window.partitionBy(PARTITION).orderBy(_TASK).rowsBetween(Window.unboundedPreceding, -1)
    offsets = (
        tasks.groupBy(PARTITION, _TASK)
        .agg(F.count("*").alias("__count"))
        .withColumn("__offset", F.coalesce(F.sum("__count").over(before), F.lit(0)))
        .drop("__count")
    )
    inside = Window.partitionBy(PARTITION, _TASK).orderBy(REFERENCE)
    return (
        tasks.withColumn(_NUMBER, F.row_number().over(inside) - 1)
        .join(offsets, [PARTITION, _TASK])
        .withColumn(_NUMBER, F.col(_NUMBER) + F.col("__offset"))
        .drop(_TASK, "__offset")
    )


def one_bucket_per_task(rows: DataFrame, buckets: int, *, by: Column | None = None) -> DataFrame:
    """Repartition the rows into ``buckets`` Spark partitions, one per bucket and with its number.

    ``by`` is an expression for the number of the bucket, if the frame has no column with it.
    """
    number = F.col(BUCKET) if by is None else by
    if spark_version(rows.sparkSession) >= (4, 1):
        return rows.repartitionById(buckets, number)
    salts = F.array(*(F.lit(salt) for salt in bucket_salts(buckets).tolist()))
    return rows.repartition(buckets, F.element_at(salts, number + 1))


def bucket_salts(buckets: int) -> npt.NDArray[np.int32]:
    """Return for each bucket i a number that Spark's hash partitioning assigns to partition i of ``buckets``.

    Spark takes Murmur3 (x86, 32 bit, seed 42) of an int modulo the number of partitions.
    """
    salts = np.full(buckets, -1, np.int64)
    first, step = 0, max(4 * buckets, 1024)
    while (salts < 0).any():
        numbers = np.arange(first, first + step, dtype=np.int64)
        places = spark_hash(numbers.astype(np.int32)).astype(np.int64) % buckets
        salts[places[::-1]] = numbers[::-1]
        first += step
    return salts.astype(np.int32)


def spark_hash(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return Spark's ``hash`` of ints.

    Source: Murmur3_x86_32 of four bytes with seed 42 (Austin Appleby, public domain).
    """
    with np.errstate(over="ignore"):
        k = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
        k = _rotate(k, 15) * np.uint32(0x1B873593)
        h = _rotate(np.uint32(42) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
        mixed: npt.NDArray[np.uint32] = h ^ (h >> np.uint32(16))
    return mixed.view(np.int32)


def _rotate(values: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    rotated: npt.NDArray[np.uint32] = (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
    return rotated
