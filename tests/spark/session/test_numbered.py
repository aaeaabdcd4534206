"""Jobs of numbered tasks: what they say, where they run, how they fail."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.numbered import Task, run_numbered

pytestmark = pytest.mark.spark


def teller() -> Task:
    """A task of two rows, which names its process; made here, since tasks cannot import tests."""

    def told(numbers):
        schema = pa.schema({"number": pa.int32(), "process": pa.int64(), "data": pa.binary()})
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                rows = [{"number": number, "process": os.getpid(), "data": b"\xff"}, {"number": number + 100}]
                yield pa.RecordBatch.from_pylist(rows, schema=schema)

    return told


def test_rows_come_in_the_order_of_tasks(spark):
    rows = run_numbered(spark, teller(), 5)
    assert [row["number"] for row in rows] == [0, 100, 1, 101, 2, 102, 3, 103, 4, 104]
    assert [row["data"] for row in rows[:2]] == [b"\xff", None]
    assert run_numbered(spark, teller(), 0) == []


def test_tasks_run_in_processes_that_spark_sql_has_started(spark):
    frame = spark.range(0, 4, 1, 4).mapInArrow(teller(), "number int, process bigint, data binary")
    started = {row["process"] for row in frame.collect()}
    before = dict(spark.sparkContext.environment)
    assert {row["process"] for row in run_numbered(spark, teller(), 1)} <= started
    assert spark.sparkContext.environment == before


def test_an_error_keeps_its_class(spark):
    def broken(_):
        raise CorruptTableError("part 7 is no file; restore it")

    with (
        pytest.raises(CorruptTableError, match=r"^part 7 is no file; restore it$"),
        failures_translated("it"),
    ):
        run_numbered(spark, broken, 2)
