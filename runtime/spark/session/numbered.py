"""Starts Python tasks, in DataFrames and as jobs of their own.

:mod:`parquetry.runtime.task_failures` passes their errors to the driver without loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Lock
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from parquetry.runtime.base_file.worker_process import give_back_memory
from parquetry.runtime.spark.session.connect import is_connect
from parquetry.runtime.task_failures import Task, failures_encoded

_TRACEBACKS: Final = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
_TRACEBACKS_VARIABLE: Final = "SPARK_SIMPLIFIED_TRACEBACK"

_ENVIRONMENT: Final = Lock()


def run_numbered(spark: SparkSession, task: Task, tasks: int) -> list[dict[str, Any]]:
    """Run the task once for each number below ``tasks``, and return all rows in the order of the numbers.

    The rows are summaries, such as one for each file: all of them reach the driver.

    Each task gets one batch with one column, its number. Tasks written for ``mapInArrow`` over
    ``spark.range`` work here too. Except on Spark Connect, the job bypasses Spark SQL, as planning costs as
    much as running a small job.
    """
    if not tasks:
        return []
    if is_connect(spark):
        return _run_by_sql(spark, task, tasks)
    task = in_worker(task)

    def run(numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        for rows in task(pa.record_batch({"id": pa.array([number])}) for number in numbers):
            yield from rows.to_pylist()

    job = spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(run)
    with _workers_of_sql(spark):
        # Spark now serializes the function with the environment; the tasks run without the lock.
        job.id()
    rows: list[dict[str, Any]] = job.collect()
    return rows


def _run_by_sql(spark: SparkSession, task: Task, tasks: int) -> list[dict[str, Any]]:
    """Run the tasks with DataFrames only, as Spark Connect requires.

    Each batch of rows is sent as one binary.
    """

    def run(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in task(numbers):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_batch(rows)
            yield pa.record_batch({"rows": pa.array([sink.getvalue().to_pybytes()], pa.binary())})

    batches = map_in_tasks(spark.range(0, tasks, 1, tasks), run, "rows binary").collect()
    return [row for batch in batches for row in pa.ipc.open_stream(batch["rows"]).read_all().to_pylist()]


def map_in_tasks(frame: DataFrame, task: Task, ddl: str) -> DataFrame:
    """Return a frame with the rows that ``task`` makes from the frame's batches. Its schema is ``ddl``."""
    return frame.mapInArrow(in_worker(task), ddl)


def in_worker(task: Task) -> Task:
    """Wrap the task for a worker process: encode its failure, and free its memory for the next task."""
    encoded = failures_encoded(task)

    @wraps(task)
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from encoded(batches)
        finally:
            give_back_memory()

    return run


@contextmanager
def _workers_of_sql(spark: SparkSession) -> Iterator[None]:
    """Let a job use Spark SQL's Python processes, which Spark identifies by their environment.

    The environment is replaced for this time and never changed in place, as another thread that starts a job
    may be iterating over it.
    """
    context = spark.sparkContext
    with _ENVIRONMENT:
        environment = context.environment
        if spark.conf.get(_TRACEBACKS, "true") == "true":
            context.environment = {_TRACEBACKS_VARIABLE: "1", **environment}
        try:
            yield
        finally:
            context.environment = environment
