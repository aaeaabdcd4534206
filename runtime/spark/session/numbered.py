"""How tasks in Python are started, in frames of Spark SQL and as jobs that need no SQL.

What they fail with comes back whole, by :mod:`parquetry.runtime.task_failures`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from parquetry.runtime.task_failures import Task, failures_encoded

_TRACEBACKS: Final = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
_TRACEBACKS_VARIABLE: Final = "SPARK_SIMPLIFIED_TRACEBACK"

_ENVIRONMENT: Final = Lock()


def run_numbered(spark: SparkSession, task: Task, tasks: int) -> list[dict[str, Any]]:
    """The rows of all tasks, in their order; each gets a batch of one column with its number.

    Without Spark SQL: planning such a job, and compiling what Spark generates for it, cost more than running
    it. What is written for ``mapInArrow`` over ``spark.range`` runs here too.
    """
    task = failures_encoded(task)

    def run(numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        for rows in task(pa.record_batch({"id": pa.array([number])}) for number in numbers):
            yield from rows.to_pylist()

    if not tasks:
        return []
    job = spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(run)
    with _workers_of_sql(spark):
        # Here Spark takes the function, and with it the environment; the tasks run without the lock.
        job.id()
    said: list[dict[str, Any]] = job.collect()
    return said


def map_in_tasks(frame: DataFrame, task: Task, ddl: str) -> DataFrame:
    """The frame's rows as tasks make them of its batches; ``ddl`` is their schema."""
    return frame.mapInArrow(failures_encoded(task), ddl)


@contextmanager
def _workers_of_sql(spark: SparkSession) -> Iterator[None]:
    """Let Python processes be those that Spark SQL has started: it keeps them apart by their environment.

    The environment is replaced for that time and never changed: another thread that starts a job may be
    going through it.
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
