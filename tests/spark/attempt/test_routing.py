"""Quotas are dealt out to the row, and every bucket has a task of its own."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812

from parquetry.runtime.base_file.model import DELETE, POSITION
from parquetry.runtime.base_file.task import BUCKET
from parquetry.runtime.spark.attempt import routing
from parquetry.runtime.spark.attempt.routing import (
    bucket_salts,
    numbered,
    one_bucket_per_task,
    quota_runs,
    route,
)
from parquetry.runtime.spark.lookup.tagging import FILE
from parquetry.runtime.stage.index import REFERENCE_SHIFT
from parquetry.runtime.stage.part import PARTITION, REFERENCE

pytestmark = pytest.mark.spark

TAGGED = f"{REFERENCE} bigint, {PARTITION} string, {DELETE} boolean, {FILE} string, {POSITION} bigint"


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(0, 20))
def test_runs_of_quotas_give_every_row_its_bucket(quotas, first):
    dealt = [(first + i, rows) for i, rows in enumerate(quotas)]
    expected = [bucket for bucket, rows in dealt for _ in range(rows)]
    runs = quota_runs(dealt)

    found = []
    for number in range(len(expected)):
        run = next(r for r in reversed(runs) if r.start <= number)
        found.append(run.first + (number - run.start) // run.quota)

    assert found == expected
    assert len(runs) <= len(quotas)


def test_equal_quotas_are_one_run():
    assert len(quota_runs([(3, 10)] + [(b, 5) for b in range(4, 1000)] + [(1000, 2)])) == 2


def tagged(spark, tasks):
    rows = []
    for task, partitions in enumerate(tasks):
        numbers = count(task << REFERENCE_SHIFT)
        rows += [(next(numbers), p, False, None, None) for p, n in partitions.items() for _ in range(n)]
    return spark.createDataFrame(rows, TAGGED).repartition(5)


def test_rows_are_numbered_in_order_of_arrival(spark):
    tasks = [{"a": 3, "b": 2}, {}, {"b": 4}, {"a": 1, "c": 5, "b": 1}]
    found = numbered(tagged(spark, tasks)).select(PARTITION, REFERENCE, "__number").collect()

    for partition in "abc":
        rows = sorted((r[REFERENCE], r["__number"]) for r in found if r[PARTITION] == partition)
        assert [number for _, number in rows] == list(range(sum(t.get(partition, 0) for t in tasks)))


def test_new_rows_go_to_buckets_by_exact_quota(spark):
    frame = tagged(spark, [{"a": 30, "b": 7}, {"a": 25, "b": 1}])
    inserts = {"a": [(0, 13), (2, 20), (3, 20), (4, 2)], "b": [(5, 8)]}

    routed = route(frame, files={}, inserts=inserts).collect()

    assert Counter(r[BUCKET] for r in routed) == {0: 13, 2: 20, 3: 20, 4: 2, 5: 8}
    a = sorted((r[REFERENCE], r[BUCKET]) for r in routed if r[BUCKET] != 5)
    assert [bucket for _, bucket in a] == sorted(bucket for _, bucket in a), "in order of arrival"


def test_found_rows_go_to_their_file_and_lost_deletes_nowhere(spark):
    rows = [
        (1, "a", False, "f1", 7),
        (2, "a", True, "f2", 0),
        (3, "a", True, None, None),
        (4, "a", False, None, None),
    ]
    frame = spark.createDataFrame(rows, TAGGED)

    routed = route(frame, files={"f1": 4, "f2": 9}, inserts={"a": [(1, 1)]}).collect()

    assert sorted((r[BUCKET], r[REFERENCE], r[POSITION], r[DELETE]) for r in routed) == [
        (1, 4, None, False),
        (4, 1, 7, False),
        (9, 2, 0, True),
    ]


@pytest.mark.parametrize("version", [(3, 5), None])
@pytest.mark.parametrize("buckets", [1, 7, 40])
def test_a_task_gets_exactly_one_bucket(spark, monkeypatch, version, buckets):
    if version is not None:
        monkeypatch.setattr(routing, "spark_version", lambda _: version)
    rows = spark.range(buckets * 3).selectExpr(f"int(id % {buckets}) AS {BUCKET}")

    placed = (
        one_bucket_per_task(rows, buckets)
        .groupBy(F.spark_partition_id().alias("task"))
        .agg(F.collect_set(BUCKET).alias("buckets"), F.count("*").alias("rows"))
    )

    assert sorted((r.task, r.buckets, r.rows) for r in placed.collect()) == [
        (i, [i], 3) for i in range(buckets)
    ]


def test_salts_are_spark_s_own_hash(spark):
    for buckets in (1, 2, 3, 64, 257):
        salts = bucket_salts(buckets).tolist()
        frame = spark.createDataFrame([(s,) for s in salts], "s int")
        places = frame.selectExpr(f"pmod(hash(s), {buckets}) AS place").collect()
        assert [r.place for r in places] == list(range(buckets))
