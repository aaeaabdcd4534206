"""Rows that Spark joins have tagged, for the tasks that write: as lists of references, or staged again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.arrow.schema import Batches
from parquetry.runtime.base_file.model import HASH, ORDERING, POSITION
from parquetry.runtime.base_file.task import BUCKET
from parquetry.runtime.base_file.worker_process import freeze_loaded_objects
from parquetry.runtime.spark.attempt.routing import one_bucket_per_task, route
from parquetry.runtime.spark.lookup.tagged_keys import TaggedKeys
from parquetry.runtime.spark.prepare.materialise import run_stage
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.numbered import map_in_tasks
from parquetry.runtime.spark.session.settings import arrow_settings, reachable_parallelism, session_settings
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.index import REFERENCE_SHIFT
from parquetry.runtime.stage.lists import write_list
from parquetry.runtime.stage.location import StageLocation
from parquetry.runtime.stage.part import REFERENCE, SUMMARY_SQL
from parquetry.runtime.stage.regroup import regrouped_spec, stage_by_bucket
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.write.plan import WritePlan

_SUBJECT: Final = "the rows to write"
_LISTS_OF_A_CORE: Final = 3
_ROUTES_OF_A_BATCH: Final = 4096

MapBatches = Callable[[Iterable[pa.RecordBatch]], Batches]


def listed_by_bucket(plan: WritePlan, staged: StagedRows, found: TaggedKeys) -> Mapping[int, str]:
    """Write a list to the stage for each bucket with rows, and return the lists' names by bucket.

    A list contains the rows in the order in which they are written.
    """
    spec = staged.spec
    # Only the keys of rows to remove are staged.
    kept = _kept_columns(staged) if spec.rows else [RECORD_KEY, HASH, *([ORDERING] if spec.ordering else [])]
    routed = route(found.rows, files=plan.files(), inserts=plan.inserts, kept=kept)
    order = [BUCKET, F.col(POSITION).asc_nulls_last(), *([REFERENCE] if spec.rows else [])]
    spark = routed.sparkSession
    tasks = min(len(plan.buckets), _LISTS_OF_A_CORE * reachable_parallelism(spark))
    partitioned = routed.repartition(tasks, BUCKET).sortWithinPartitions(*order)
    settings = arrow_settings(spark, rows=_ROUTES_OF_A_BATCH, by_count=True)
    with session_settings(spark, settings), failures_translated(_SUBJECT):
        listed = map_in_tasks(partitioned, _lister(spec.location), "bucket int, name string").collect()
    return {row["bucket"]: row["name"] for row in listed}


def staged_by_bucket(
    plan: WritePlan, staged: StagedRows, found: TaggedKeys, *, tasks: int, instant: str
) -> StagedRows:
    """Stage the rows again in ``tasks`` tasks: with positions and delete flags, and grouped by bucket.

    Args:
        plan: The buckets.
        staged: The stage as the rows arrived.
        found: The tagged rows.
        tasks: The number of tasks.
        instant: The instant of the write.

    """
    routed = route(found.rows, files=plan.files(), inserts=plan.inserts, kept=_kept_columns(staged))
    files = max(staged.index.files) + 1
    share = F.expr(f"int(shiftright({REFERENCE}, {REFERENCE_SHIFT}) * {tasks} div {files})")
    partitioned = one_bucket_per_task(routed, tasks, by=share).sortWithinPartitions(REFERENCE)
    summary = map_in_tasks(partitioned, _stager(staged, instant), SUMMARY_SQL)
    again = regrouped_spec(staged.spec, folds=staged.folds)
    return run_stage(summary, again, subject=_SUBJECT, rows_of_a_batch=_ROUTES_OF_A_BATCH)


def _kept_columns(staged: StagedRows) -> list[str]:
    """Return the columns of tagged rows that are kept until the rows are written."""
    return [REFERENCE, *([ORDERING] if staged.folds else [])]


def _lister(location: StageLocation) -> MapBatches:
    def write(batches: Iterable[pa.RecordBatch]) -> Batches:
        freeze_loaded_objects()
        for bucket, runs in groupby(_runs(batches), key=itemgetter(0)):
            name = write_list(location, (rows for _, rows in runs))
            yield pa.RecordBatch.from_pydict({"bucket": pa.array([bucket], pa.int32()), "name": [name]})

    return write


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield slices of sorted batches that each belong to one bucket, with its number."""
    for batch in batches:
        numbers = batch.column(BUCKET).to_numpy()
        for start, end in pairwise([0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]):
            if start < end:
                yield int(numbers[start]), batch.slice(start, end - start)


def _stager(staged: StagedRows, instant: str) -> MapBatches:
    spec, index, row_bytes, folds = staged.spec, staged.index, staged.row_bytes or 0.0, staged.folds

    def stage(routes: Iterable[pa.RecordBatch]) -> Batches:
        freeze_loaded_objects()
        context = TaskContext.get()
        assert context is not None
        yield from stage_by_bucket(
            spec,
            index,
            context.partitionId(),
            routes,
            bucket=BUCKET,
            row_bytes=row_bytes,
            instant=instant,
            folds=folds,
        )

    return stage
