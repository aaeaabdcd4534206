"""Batches whose keys not every task can hold: looked up by joins, with the same result."""

from __future__ import annotations

import random

import pyarrow.parquet as pq
import pytest

import parquetry
from parquetry.runtime.spark.attempt import deliver, upsert
from parquetry.runtime.spark.lookup import tagged_keys, task_lookup
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, FilesPolicy, TableSpec
from parquetry.runtime.stage import regroup
from tests.support.judges import HudiRs, assert_history
from tests.support.our_table import OurReader, create

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("limit", "on_cluster", "tasks"),
    [
        ("_is_located_by_tasks", False, 0),
        pytest.param("is_small", False, 0, marks=pytest.mark.long),
        pytest.param("is_small", True, 0, marks=pytest.mark.long),
        pytest.param("is_small", True, 1, marks=pytest.mark.long),
        ("is_small", True, 3),
        ("bytes that files fetch", True, None),
    ],
)
def test_keys_are_looked_up_by_joins(spark, tmp_path, monkeypatch, limit, on_cluster, tasks):
    """``tasks``: the rows are staged again by so many, grouped by bucket; None: by as many as regroup.py says."""
    if on_cluster:
        monkeypatch.setattr("parquetry.runtime.spark.write.stages_locally", lambda _: False)
        if tasks is None:
            for name in ("_MIN_FETCHED_BYTES", "_WORTHWHILE_BYTES_FACTOR"):
                monkeypatch.setattr(regroup, name, 0)
        else:
            monkeypatch.setattr(deliver, "regrouping_tasks", lambda *_: tasks)
    ways = []

    def count_tagged(*args, **kwargs):
        ways.append("join")
        return counted(*args, **kwargs)

    counted = upsert.count_tagged
    monkeypatch.setattr(upsert, "count_tagged", count_tagged)
    if hasattr(upsert, limit):
        monkeypatch.setattr(upsert, limit, lambda *_: False)
    ours = create(spark, tmp_path / "table", typed=["c_int", "c_string"], project="tests")
    rnd = random.Random(11)
    ours.upsert(ours.rows(rnd, range(40), 5))
    late, tie = ours.rows(rnd, range(5), 4), ours.rows(rnd, range(5, 10), 5)
    none = ours.rows(rnd, range(10, 15), None)
    doubled = [*ours.rows(rnd, range(30, 50), 6), *ours.rows(rnd, range(30, 50), 7)]
    ours.upsert([*late, *tie, *none, *doubled])
    gone = ours.rows(rnd, range(0, 60, 3), 9)
    ours.delete(gone)
    ours.delete(ours.rows(rnd, range(1, 40, 4), 1), with_ordering=True)

    # Nothing is fetched for a table without files, or for deletes, of which only keys are staged.
    assert ways == ["join"] * (4 if hasattr(upsert, limit) else 1)
    assert_history([HudiRs(), OurReader(spark)], str(ours.path), ours.model)


@pytest.mark.parametrize("limit", [None, "_is_located_by_tasks", "is_small"])
def test_rows_that_are_all_late_rewrite_no_file(spark, tmp_path, monkeypatch, limit):
    if limit:
        monkeypatch.setattr(upsert, limit, lambda *_: False)
    columns = tuple(
        Column(name=name, type=kind) for name, kind in (("id", "string"), ("p", "string"), ("v", "bigint"))
    )
    spec = TableSpec(name="t", columns=columns, record_key=("id",), partition_by=("p",), ordering="v")
    table = parquetry.create(tmp_path / "t", spec)

    def frame(*rows):
        return spark.createDataFrame(list(rows), "id string, p string, v bigint")

    def state():
        return {str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*.parquet") if ".hoodie" not in f.parts}

    table.upsert(frame(*((f"{p}{n}", p, 10) for p in "abc" for n in range(5))))
    before = state()
    stale = [("a1", "a", 9), ("a2", "a", 8), ("b3", "b", None)]
    for write in (table.delete, table.upsert):
        done = write(frame(*stale))
        assert (done.late_rows, done.files_rewritten, done.bytes_written) == (3, 0, 0)
        assert state() == before
    # One row that wins: its file alone is written.
    done = table.delete(frame(*stale, ("c4", "c", 10)))
    assert (done.deleted_rows, done.late_rows, done.files_rewritten, done.files_added) == (1, 3, 1, 0)
    (file,) = state() - before
    assert file.startswith("t/p=c/")
    kept = HudiRs().read(str(tmp_path / "t")).to_pylist()
    assert sorted(row["id"] for row in kept) == [
        f"{p}{n}" for p in "abc" for n in range(5) if p + str(n) != "c4"
    ]


@pytest.mark.parametrize(
    ("on_cluster", "keys_files"), [pytest.param(False, 16, marks=pytest.mark.long), (True, 16), (True, 0)]
)
def test_small_batches_are_not(spark, tmp_path, monkeypatch, on_cluster, keys_files):
    """``keys_files``: behind so many a task puts the keys together first."""
    monkeypatch.setattr(task_lookup, "_KEYS_FILES", keys_files)
    if on_cluster:
        monkeypatch.setattr("parquetry.runtime.spark.write.stages_locally", lambda _: False)
    monkeypatch.setattr(upsert, "count_tagged", lambda *_, **__: pytest.fail("a join"))
    ours = create(spark, tmp_path / "table", typed=["c_int"], project="tests")
    rnd = random.Random(12)
    ours.upsert(ours.rows(rnd, range(10), 1))
    ours.upsert(ours.rows(rnd, range(5, 15), 2))
    ours.delete(ours.rows(rnd, range(4), 3))

    assert_history([HudiRs()], str(ours.path), ours.model)


def test_a_first_batch_of_several_files_in_any_codec(spark, tmp_path):
    spec = TableSpec(
        name="t",
        columns=(Column(name="id", type="bigint"), Column(name="t", type="string")),
        sizing=SizingPolicy(max_file_size_bytes=200_000, small_file_limit_bytes=100_000),
        files=FilesPolicy(compression="uncompressed"),
    )
    table = parquetry.create(tmp_path / "t", spec)
    assert table.insert(spark.range(20_000).selectExpr("id", "uuid() AS t")).inserted_rows == 20_000
    files = list((tmp_path / "t").glob("*.parquet"))
    assert len(files) > 3
    assert {pq.read_metadata(file).row_group(0).column(6).compression for file in files} == {"UNCOMPRESSED"}
    assert all(file.stat().st_size < 210_000 for file in files)


def test_what_is_kept_of_few_keys_has_few_partitions(spark):
    cores = spark.sparkContext.defaultParallelism
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "200")
    few, more, many = (tagged_keys._shuffle_settings(own, keys) for keys in (1000, 25_000_000, 10**9))
    assert [int(one["spark.sql.shuffle.partitions"]) for one in (few, more, many)] == [cores, 100, 200]
