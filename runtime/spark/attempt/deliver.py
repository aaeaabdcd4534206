"""Rows to the tasks that write them, and what these tasks say back.

Under a local master only numbers go through Spark: tasks take the rows out of the local stage
themselves. Elsewhere the staged rows are joined with their routes and shuffled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.arrow.schema import Batches
from parquetry.runtime.base_file.model import DELETE, HASH, POSITION, Bucket, WriteContext
from parquetry.runtime.base_file.result import RESULT_DDL, WriteResults, read_results
from parquetry.runtime.base_file.worker import BUCKET, bucket_writer
from parquetry.runtime.spark.attempt.routing import one_bucket_per_task
from parquetry.runtime.spark.lookup.local import LocatedKeys, read_list
from parquetry.runtime.spark.lookup.tagging import BROADCAST_BYTES, read_files
from parquetry.runtime.spark.session.numbered import Task, run_numbered
from parquetry.runtime.spark.session.settings import (
    ARROW_BATCH_BYTES,
    arrow_settings,
    failures_translated,
    session_settings,
)
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.part import ORDERING, REFERENCE, StageSpec, rows_name
from parquetry.runtime.stage.staged import (
    StagedRows,
    StageReader,
    generated_keys,
)
from parquetry.runtime.write.plan import WritePlan

_ROUTE_BYTES = 48
_LIST_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """What a task needs to read a local stage."""

    spec: StageSpec
    names: Mapping[int, str]
    instant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _LocatedBucket:
    """A bucket, the lists of its rows, and where its share of the new ones starts."""

    bucket: Bucket
    found: str | None
    new: str | None
    start: int


def write_slices(
    spark: SparkSession, context: WriteContext, plan: WritePlan, staged: StagedRows
) -> WriteResults:
    """Write new rows, in order of arrival, from a local stage: no row passes through Spark."""
    starts = _starts(plan)
    stage = _Stage(spec=staged.spec, names=staged.names, instant=context.instant)
    tasks = [(bucket, starts[bucket.index]) for bucket in _largest_first(context, plan, staged)]
    return _run_numbered(spark, _slice_task(context, stage, tasks), len(tasks))


def write_routed(
    context: WriteContext, plan: WritePlan, staged: StagedRows, routed: DataFrame, *, rows: int
) -> WriteResults:
    """Write rows by their routes: bucket, position, reference and delete flag, each as one row."""
    spark = routed.sparkSession
    local = not staged.spec.parquet
    if not local:
        routed = _with_rows(routed, staged, rows)
    placed = one_bucket_per_task(routed, len(plan.buckets)).sortWithinPartitions(
        BUCKET, F.col(POSITION).asc_nulls_last(), REFERENCE
    )
    stage = _Stage(spec=staged.spec, names=staged.names, instant=context.instant)
    buckets = {bucket.index: bucket for bucket in plan.buckets}
    task = _local_task(context, stage, buckets) if local else _shuffled_task(context, stage, buckets)
    with session_settings(spark, arrow_settings(spark, staged.row_bytes)):
        return _run(placed.mapInArrow(task, RESULT_DDL))


def write_deletes(context: WriteContext, plan: WritePlan, routed: DataFrame) -> WriteResults:
    """Remove rows by their routes, which carry the key, the hash and maybe an ordering value."""
    spark = routed.sparkSession
    placed = one_bucket_per_task(routed, len(plan.buckets)).sortWithinPartitions(BUCKET, POSITION)
    buckets = {bucket.index: bucket for bucket in plan.buckets}
    with session_settings(spark, arrow_settings(spark, None)):
        return _run(placed.mapInArrow(_delete_task(context, buckets), RESULT_DDL))


def write_located(
    spark: SparkSession, context: WriteContext, plan: WritePlan, staged: StagedRows, placed: LocatedKeys
) -> WriteResults:
    """Write or remove rows by the lists that tasks have left on a local stage."""
    starts = _starts(plan)
    work = []
    for bucket in _largest_first(context, plan, staged):
        found = placed.found.get(bucket.base.path.rpartition("/")[2]) if bucket.base else None
        new = placed.new.get(bucket.partition) if bucket.expected_inserts else None
        work.append(_LocatedBucket(bucket=bucket, found=found, new=new, start=starts.get(bucket.index, 0)))
    stage = _Stage(spec=staged.spec, names=staged.names, instant=context.instant)
    batch_rows = max(1, min(_LIST_ROWS, int(ARROW_BATCH_BYTES / (staged.row_bytes or 1))))
    return _run_numbered(spark, _located_task(context, stage, work, batch_rows), len(work))


def _run(frame: DataFrame) -> WriteResults:
    with failures_translated("the rows to write"):
        rows = frame.collect()
    return read_results(row.asDict() for row in rows)


def _run_numbered(spark: SparkSession, task: Task, tasks: int) -> WriteResults:
    with failures_translated("the rows to write"):
        rows = run_numbered(spark, task, tasks)
    return read_results(rows)


def _starts(plan: WritePlan) -> Mapping[int, int]:
    """For each bucket with new rows: how many of its partition's go to buckets before it."""
    starts: dict[int, int] = {}
    for quotas in plan.inserts.values():
        start = 0
        for bucket, rows in quotas:
            starts[bucket] = start
            start += rows
    return starts


def _largest_first(context: WriteContext, plan: WritePlan, staged: StagedRows) -> Sequence[Bucket]:
    """The buckets by size: the last task to start should not be the last to end."""
    row_bytes = context.record_size_bytes or staged.row_bytes or 0
    return sorted(plan.buckets, key=lambda bucket: bucket.file_bytes(row_bytes), reverse=True)


def _slice_task(
    context: WriteContext, stage: _Stage, tasks: Sequence[tuple[Bucket, int]]
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    def write(numbers: Iterable[pa.RecordBatch]) -> Batches:
        chosen = [number for batch in numbers for number in batch.column(0).to_pylist()]
        with StageReader(stage.spec, stage.names, instant=stage.instant) as reader:
            for number in chosen:
                bucket, start = tasks[number]
                arrived = reader.rows(bucket.partition, start, start + bucket.expected_inserts)
                rows = (_with_control(batch, bucket.index, None, None) for batch in arrived)
                yield from bucket_writer(context, {bucket.index: bucket})(rows)

    return write


def _local_task(
    context: WriteContext, stage: _Stage, buckets: Mapping[int, Bucket]
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    def write(routes: Iterable[pa.RecordBatch]) -> Batches:
        with StageReader(stage.spec, stage.names, instant=stage.instant) as reader:
            rows = (
                _with_control(
                    reader.take(batch.column(REFERENCE).to_numpy()),
                    batch.column(BUCKET),
                    batch.column(POSITION),
                    batch.column(DELETE),
                )
                for batch in routes
                if batch.num_rows
            )
            yield from bucket_writer(context, buckets)(rows)

    return write


def _located_task(
    context: WriteContext, stage: _Stage, work: Sequence[_LocatedBucket], rows: int
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    def write(numbers: Iterable[pa.RecordBatch]) -> Batches:
        chosen = [number for batch in numbers for number in batch.column(0).to_pylist()]
        with StageReader(stage.spec, stage.names, instant=stage.instant) as reader:
            for number in chosen:
                bucket = work[number].bucket
                listed = _listed(stage.spec, work[number], rows)
                batches = (
                    _with_control(
                        reader.take(batch.column(REFERENCE).to_numpy()),
                        bucket.index,
                        batch.column(POSITION),
                        batch.column(DELETE),
                    )
                    if stage.spec.rows
                    else _key_rows(context, _with_bucket(batch, bucket.index))
                    for batch in listed
                )
                yield from bucket_writer(context, {bucket.index: bucket})(batches)

    return write


def _listed(spec: StageSpec, placed: _LocatedBucket, rows: int) -> Batches:
    """What the lists say about a bucket: rows of its base file by position, then new ones by arrival."""
    if placed.found is not None:
        for batch in read_list(spec.place, placed.found).to_batches(max_chunksize=rows):
            yield batch
    if placed.new is not None:
        new = read_list(spec.place, placed.new).slice(placed.start, placed.bucket.expected_inserts)
        for batch in new.to_batches(max_chunksize=rows):
            nowhere, kept = pa.nulls(batch.num_rows, pa.int64()), pa.array(np.zeros(batch.num_rows, bool))
            yield pa.RecordBatch.from_arrays(
                [batch.column(REFERENCE), nowhere, kept], names=[REFERENCE, POSITION, DELETE]
            )


def _shuffled_task(
    context: WriteContext, stage: _Stage, buckets: Mapping[int, Bucket]
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    def with_key(batch: pa.RecordBatch) -> pa.RecordBatch:
        if RECORD_KEY in batch.schema.names:
            return batch
        if stage.spec.key_column:
            key = batch.column(stage.spec.key_column)
        else:
            key = generated_keys(stage.instant, batch.column(REFERENCE).to_numpy())
        return batch.append_column(RECORD_KEY, key)

    def write(batches: Iterable[pa.RecordBatch]) -> Batches:
        yield from bucket_writer(context, buckets)(with_key(b) for b in batches if b.num_rows)

    return write


def _delete_task(
    context: WriteContext, buckets: Mapping[int, Bucket]
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    def write(batches: Iterable[pa.RecordBatch]) -> Batches:
        yield from bucket_writer(context, buckets)(_key_rows(context, b) for b in batches if b.num_rows)

    return write


def _key_rows(context: WriteContext, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows to remove, of which only the key and maybe the ordering value is known."""
    arrays = {name: batch.column(name) for name in (BUCKET, POSITION, DELETE, HASH, RECORD_KEY)}
    for field in context.schema:
        given = context.ordering is not None and field.name == context.ordering
        arrays[field.name] = batch.column(ORDERING) if given else pa.nulls(batch.num_rows, field.type)
    return pa.RecordBatch.from_pydict(arrays)


def _with_bucket(batch: pa.RecordBatch, bucket: int) -> pa.RecordBatch:
    return batch.append_column(BUCKET, pa.array(np.full(batch.num_rows, bucket, np.int32)))


def _with_control(
    rows: pa.RecordBatch,
    bucket: pa.Array | int,
    position: pa.Array | None,
    delete: pa.Array | None,
) -> pa.RecordBatch:
    count = rows.num_rows
    control = {
        BUCKET: pa.array(np.full(count, bucket, np.int32)) if isinstance(bucket, int) else bucket,
        POSITION: pa.nulls(count, pa.int64()) if position is None else position,
        DELETE: pa.array(np.zeros(count, bool)) if delete is None else delete,
    }
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *control.values()], names=[*rows.schema.names, *control]
    )


def _with_rows(routed: DataFrame, staged: StagedRows, rows: int) -> DataFrame:
    spec = staged.spec
    wide = read_files(
        routed.sparkSession, [spec.place.spark_uri(rows_name(name)) for name in staged.names.values()]
    )
    routes = F.broadcast(routed) if rows * _ROUTE_BYTES <= BROADCAST_BYTES else routed
    return wide.join(routes, REFERENCE)
