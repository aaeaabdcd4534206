"""Clustering of a group that is too large for one task: Spark's shuffle sorts its rows by ranges.

A sample gives the boundaries of the ranges. Each task of the shuffle takes a share of the ranges, about eight
files of the target size, and splits its rows into files as a task with a whole group does.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from pyspark.sql import SparkSession

from parquetry.errors import ParquetryError
from parquetry.message import Value
from parquetry.runtime.arrow.fingerprint import MODULUS
from parquetry.runtime.base_file.model import WriteContext
from parquetry.runtime.base_file.result import RESULT_DDL, WriteResults, read_results
from parquetry.runtime.clustering.rewrite.order import SAMPLE_ROWS
from parquetry.runtime.clustering.rewrite.ranges import (
    MESSAGE_BYTES,
    MESSAGE_DDL,
    RANGE,
    RUN,
    Division,
    Sampled,
    gatherer,
    merge_samples,
    read_sample,
    sampler,
    scatterer,
)
from parquetry.runtime.clustering.rewrite.runs import ranges_of
from parquetry.runtime.clustering.rewrite.task import GroupWork, check_values, planned_sample, run_bytes_of
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spark.attempt.routing import one_bucket_per_task
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.numbered import map_in_tasks
from parquetry.runtime.spark.session.settings import ARROW_BATCH_BYTES, arrow_settings, session_settings
from parquetry.runtime.table.statistics import look_up

_SHARES_OF_A_TASK: Final = 4
_RANGES_OF_A_TASK: Final = 4
_MOST_RANGES: Final = 16_384
_NOTHING: Final = WriteResults(files=(), buckets={})


def rewrite_by_ranges(spark: SparkSession, context: WriteContext, work: GroupWork) -> WriteResults:
    """Rewrite a group in several tasks; return an empty result if one of its files was removed.

    The driver receives a sample of at most 8 MiB, and one row per written file and task.

    Raises:
        ParquetryError: If the written rows are not the rows that were read.

    """
    assert work.order is not None
    shares = shares_of(work.slices, _SHARES_OF_A_TASK * work.tasks)
    with (
        session_settings(spark, arrow_settings(spark, rows=ARROW_BATCH_BYTES // MESSAGE_BYTES)),
        failures_translated("the rows to cluster", of_table=True),
    ):
        sampled = _sample(spark, context, work, shares)
        if sampled is None:
            return _NOTHING
        check_values(work, sampled.sample)
        expected_bytes = sampled.rows * sampled.row_bytes
        ranges = ranges_of(expected_bytes, run_bytes=run_bytes_of(context))
        division = Division(
            order=work.order,
            sample=sampled.sample,
            ranks=planned_sample(context, work) or sampled.sample,
            tasks=work.tasks,
            ranges=min(max(ranges, _RANGES_OF_A_TASK * work.tasks), _MOST_RANGES),
        )
        numbers = spark.range(0, len(shares), 1, len(shares))
        messages = map_in_tasks(numbers, scatterer(context, division, shares), MESSAGE_DDL)
        partitioned = one_bucket_per_task(messages, work.tasks).sortWithinPartitions(RANGE, RUN)
        task = gatherer(context, work, division, rows=sampled.rows)
        rows = map_in_tasks(partitioned, task, RESULT_DDL).collect()  # one for each file and bucket
    return written_results(work, read_results(row.asDict() for row in rows), shares=len(shares))


def shares_of(slices: tuple[FileSlice, ...], shares: int) -> list[tuple[FileSlice, ...]]:
    """Split the files, in order, into at most ``shares`` shares of about equal bytes; no share is empty."""
    total = sum(part.size_bytes for part in slices)
    before = accumulate((part.size_bytes for part in slices), initial=0)
    found: dict[int, list[FileSlice]] = {}
    for part, seen in zip(slices, before, strict=False):
        found.setdefault(min(seen * shares // max(total, 1), shares - 1), []).append(part)
    return [tuple(parts) for parts in found.values()]


def written_results(work: GroupWork, results: WriteResults, *, shares: int) -> WriteResults:
    """Return the results of the writing tasks; an empty result if a share or a task found a file removed.

    The reading tasks report share ``i`` as bucket ``-1 - i``.

    Raises:
        ParquetryError: If the rows read and the rows written differ in their count or their hash.

    """
    read = [results.buckets.get(-1 - share) for share in range(shares)]
    written = [results.buckets.get(number) for number in work.numbers]
    known_read = [bucket for bucket in read if bucket is not None]
    known_written = [bucket for bucket in written if bucket is not None]
    if len(known_read) < len(read) or len(known_written) < len(written):
        return _NOTHING
    sums = [
        (sum(b.consumed_rows for b in part), sum(b.consumed_hash for b in part) % MODULUS)
        for part in (known_read, known_written)
    ]
    if sums[0] != sums[1]:
        raise ParquetryError(
            "partition {partition}: the clustering read {read_rows} rows with the fingerprint "
            "{read_fingerprint:x} and wrote {written_rows} rows with the fingerprint "
            "{written_fingerprint:x}. They are not the same rows, so the group is not published; "
            "report this with the clustering spec",
            partition=Value.partition(work.partition),
            read_rows=sums[0][0],
            read_fingerprint=sums[0][1],
            written_rows=sums[1][0],
            written_fingerprint=sums[1][1],
        )
    buckets = {bucket.bucket: bucket for bucket in known_written}
    return WriteResults(files=results.files, buckets=buckets)


def _sample(
    spark: SparkSession, context: WriteContext, work: GroupWork, shares: list[tuple[FileSlice, ...]]
) -> Sampled | None:
    assert work.order is not None
    try:
        known = look_up(context.store, work.slices, columns=())
    except NotFoundError:
        return None
    stride = max(sum(file.rows for file in known.values()) // SAMPLE_ROWS, 1)
    numbers = spark.range(0, len(shares), 1, len(shares))
    samples = map_in_tasks(numbers, sampler(context, work.order, shares, stride=stride), MESSAGE_DDL)
    together = samples.repartition(1).sortWithinPartitions(RUN)
    return read_sample(map_in_tasks(together, merge_samples, MESSAGE_DDL).collect())
