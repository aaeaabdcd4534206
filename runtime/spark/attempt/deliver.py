"""Runs the tasks that write rows, and returns their results.

A task writes one bucket and reads its rows from the stage: a range of the rows that arrived for its
partition, or the rows of lists that the lookup wrote to the stage. Spark transports only numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from parquetry.runtime.arrow.schema import Batches
from parquetry.runtime.base_file.model import DELETE, HASH, ORDERING, POSITION, Bucket, WriteContext
from parquetry.runtime.base_file.result import WriteResults, read_results
from parquetry.runtime.base_file.task import run_bucket_task
from parquetry.runtime.base_file.worker_process import freeze_loaded_objects
from parquetry.runtime.spark.attempt.routed_rows import listed_by_bucket, staged_by_bucket
from parquetry.runtime.spark.lookup.tagged_keys import TaggedKeys
from parquetry.runtime.spark.lookup.task_lookup import LocatedKeys
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.numbered import run_numbered
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.index import IndexNumbers
from parquetry.runtime.stage.lists import StagedList
from parquetry.runtime.stage.part import REFERENCE
from parquetry.runtime.stage.reader import StageReader, TakeRows
from parquetry.runtime.stage.regroup import group_of, regrouping_tasks
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.task_failures import Task
from parquetry.runtime.write.plan import WritePlan

_MOST_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """The rows of a list on the stage: all, or ``rows`` of them from row ``start`` on."""

    name: str
    start: int = 0
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _BucketRows:
    """A bucket and its rows: those of ``lists``, or without lists those that arrived from row ``start`` on.

    With ``by_bucket``, the stage contains the bucket's rows as a group of their own.
    """

    bucket: Bucket
    lists: tuple[_Listed, ...] = ()
    start: int = 0
    by_bucket: bool = False


def write_rows(
    spark: SparkSession,
    context: WriteContext,
    plan: WritePlan,
    staged: StagedRows,
    found: TaggedKeys | LocatedKeys | None,
) -> WriteResults:
    """Write the rows of the plan's buckets with one task per bucket, the largest bucket first.

    Args:
        spark: The session.
        context: The settings of the write that all tasks share.
        plan: The buckets.
        staged: The staged rows.
        found: The rows that the lookup found or chose. With None, all staged rows are inserted in order of
            arrival.

    """
    starts = _insert_offsets(plan)
    match found:
        case None:
            rows = [_BucketRows(bucket=b, start=starts[b.index]) for b in plan.buckets]
        case LocatedKeys():
            rows = [_located_rows(b, found, starts.get(b.index, 0)) for b in plan.buckets]
        case TaggedKeys():
            tasks = _regrouping_tasks(staged, plan)
            if tasks:
                staged = staged_by_bucket(plan, staged, found, tasks=tasks, instant=context.instant)
                rows = [_BucketRows(bucket=bucket, by_bucket=True) for bucket in plan.buckets]
            else:
                lists = listed_by_bucket(plan, staged, found)
                listed = [bucket for bucket in plan.buckets if bucket.index in lists]
                rows = [_BucketRows(bucket=b, lists=(_Listed(name=lists[b.index]),)) for b in listed]
    row_bytes = context.record_size_bytes or staged.row_bytes or 0
    # The largest buckets first, so that no large one starts last and delays the end.
    rows.sort(key=lambda work: work.bucket.file_bytes(row_bytes), reverse=True)
    with failures_translated("the rows to write"):
        return read_results(run_numbered(spark, _bucket_task(context, staged, rows), len(rows)))


def _insert_offsets(plan: WritePlan) -> Mapping[int, int]:
    """Return, for each bucket with new rows, how many new rows of its partition go to earlier buckets."""
    starts: dict[int, int] = {}
    for quotas in plan.inserts.values():
        start = 0
        for bucket, rows in quotas:
            starts[bucket] = start
            start += rows
    return starts


def _located_rows(bucket: Bucket, located: LocatedKeys, start: int) -> _BucketRows:
    found = located.update_lists.get(bucket.base.path.rpartition("/")[2]) if bucket.base else None
    new = located.insert_lists.get(bucket.partition) if bucket.expected_inserts else None
    lists = []
    if found is not None:
        lists.append(_Listed(name=found))
    if new is not None:
        lists.append(_Listed(name=new, start=start, rows=bucket.expected_inserts))
    return _BucketRows(bucket=bucket, lists=tuple(lists))


def _regrouping_tasks(staged: StagedRows, plan: WritePlan) -> int:
    """Return the number of tasks that should stage the rows again by bucket, or 0 if that does not pay."""
    if staged.spec.location.is_mapped or not staged.spec.rows:
        return 0  # a mapped stage fetches nothing, and a stage of keys has no rows to group
    return regrouping_tasks(staged.index, plan.buckets)


def _bucket_task(context: WriteContext, staged: StagedRows, work: Sequence[_BucketRows]) -> Task:
    spec, index = staged.spec, staged.index
    control = [POSITION, DELETE, *([ORDERING] if staged.folds else [])]

    def written(reader: StageReader, rows: _BucketRows) -> Batches:
        bucket = rows.bucket
        if rows.by_bucket:
            ordered = reader.in_order(group_of(bucket.index), POSITION)
            yield from run_bucket_task(context, bucket, ordered)
            return
        if not rows.lists:
            arrived = reader.rows(bucket.partition, rows.start, rows.start + bucket.expected_inserts)
            yield from run_bucket_task(context, bucket, (_with_control(batch, None, ()) for batch in arrived))
            return
        lists = [StagedList(spec.location, one.name, start=one.start, rows=one.rows) for one in rows.lists]

        def listed() -> Batches:
            return chain.from_iterable(one.batches(_MOST_ROWS) for one in lists)

        if not spec.rows:
            yield from run_bucket_task(context, bucket, (_key_rows(context, batch) for batch in listed()))
            return
        with reader.taking(_references(batch) for batch in listed()) as take:
            taken = (rows for batch in listed() for rows in _rows_with_control(take, batch, control))
            yield from run_bucket_task(context, bucket, taken)

    def write(numbers: Iterable[pa.RecordBatch]) -> Batches:
        freeze_loaded_objects()
        chosen = [number for batch in numbers for number in batch.column(0).to_pylist()]
        with StageReader(spec, index, instant=context.instant) as reader:
            for number in chosen:
                yield from written(reader, work[number])

    return write


def _references(listed: pa.RecordBatch) -> IndexNumbers:
    references: IndexNumbers = listed.column(REFERENCE).to_numpy()
    return references


def _rows_with_control(take: TakeRows, listed: pa.RecordBatch, control: Sequence[str]) -> Batches:
    done = 0
    for rows in take(_references(listed)):
        yield _with_control(rows, listed.slice(done, rows.num_rows), control)
        done += rows.num_rows


def _key_rows(context: WriteContext, listed: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows to remove, with their key and ordering value, and nulls in all other columns."""
    ordering = [] if context.ordering is None else [ORDERING]
    arrays = {name: listed.column(name) for name in (POSITION, DELETE, HASH, RECORD_KEY, *ordering)}
    nulls = {field.name: pa.nulls(listed.num_rows, field.type) for field in context.schema}
    return pa.RecordBatch.from_pydict(arrays | nulls)


def _with_control(
    rows: pa.RecordBatch, listed: pa.RecordBatch | None, control: Sequence[str]
) -> pa.RecordBatch:
    """Add the ``control`` columns of the list to the rows; without a list the rows are new ones."""
    if listed is not None and POSITION in listed.schema.names:
        control_columns = {name: listed.column(name) for name in control}
    else:
        control_columns = {
            POSITION: pa.nulls(rows.num_rows, pa.int64()),
            DELETE: pa.array(np.zeros(rows.num_rows, bool)),
        }
    return pa.RecordBatch.from_arrays(
        [*rows.columns, *control_columns.values()], names=[*rows.schema.names, *control_columns]
    )
