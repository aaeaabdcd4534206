"""The stage grouped by bucket: the same rows for every bucket, by fewer requests."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from parquetry.runtime.base_file.model import DELETE, POSITION, Bucket
from parquetry.runtime.base_file.task import BUCKET
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage import regroup
from parquetry.runtime.stage.index import POSITION_MASK, REFERENCE_SHIFT, IndexBuilder, StageIndex
from parquetry.runtime.stage.location import StoreStage
from parquetry.runtime.stage.part import PARTITION, REFERENCE, StageSpec, stage_rows
from parquetry.runtime.stage.reader import StageReader
from parquetry.runtime.stage.staged import staged_rows
from parquetry.runtime.storage.open import open_store
from tests.support.stores import CountingStore, Kind

TASKS, ROWS, BUCKETS = 4, 90, 6
MIB = 1024 * 1024


def rows_of(batches):
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("run_bytes", [1, 10**6])
@pytest.mark.parametrize("tasks", [1, 3])
def test_each_bucket_gets_its_rows_by_position_and_new_ones_by_arrival(
    tmp_path, monkeypatch, tasks, run_bytes
):
    monkeypatch.setattr(regroup, "_RUN_BYTES", run_bytes)
    store = CountingStore(open_store(tmp_path / "t"), tmp_path / "log")
    spec = StageSpec(
        location=StoreStage(store=store, folder="stage"),
        schema=pa.schema({"k": pa.string(), "n": pa.int64()}),
        key_column="k",
        ordering="n",
        required=("n",),
        rows=True,
        keys=True,
        run_bytes=1000,
    )
    arrived = [
        pa.record_batch({"k": [f"{t}-{n}" for n in range(ROWS)], "n": range(ROWS), PARTITION: ["p"] * ROWS})
        for t in range(TASKS)
    ]
    staged = staged_rows(spec, rows_of(b for t in range(TASKS) for b in stage_rows(spec, t, [arrived[t]])))
    rnd = random.Random(5)
    routes = [
        {
            REFERENCE: (task << REFERENCE_SHIFT) + n,
            BUCKET: rnd.randrange(BUCKETS),
            POSITION: rnd.choice([None, task * ROWS + (n * 7) % ROWS]),
            DELETE: rnd.random() < 0.1,
        }
        for task in range(TASKS)
        for n in range(ROWS)
        if rnd.random() < 0.9
    ]
    routes.insert(1, routes[0] | {BUCKET: 3, DELETE: True})  # a row that moves

    schema = pa.schema({REFERENCE: pa.int64(), BUCKET: pa.int32(), POSITION: pa.int64(), DELETE: pa.bool_()})
    summary = []
    for task in range(tasks):
        mine = [r for r in routes if (r[REFERENCE] >> REFERENCE_SHIFT) * tasks // TASKS == task]
        cut = [pa.RecordBatch.from_pylist(mine[i : i + 20], schema=schema) for i in range(0, len(mine), 20)]
        summary += rows_of(
            regroup.stage_by_bucket(
                spec, staged.index, task, cut, bucket=BUCKET, row_bytes=20.0, instant="1", folds=False
            )
        )
    again = staged_rows(regroup.regrouped_spec(spec, folds=False), summary)
    again.check("the rows")
    store.reset()

    for bucket in range(BUCKETS):
        expected = sorted(
            (r for r in routes if r[BUCKET] == bucket),
            key=lambda r: (r[POSITION] is None, r[POSITION] or 0, r[REFERENCE]),
        )
        with StageReader(again.spec, again.index, instant="1") as reader:
            found = rows_of(reader.in_order(regroup.group_of(bucket), POSITION))
        assert [(r[RECORD_KEY], r[POSITION], r[DELETE]) for r in found] == [
            (f"{r[REFERENCE] >> REFERENCE_SHIFT}-{r[REFERENCE] & POSITION_MASK}", r[POSITION], r[DELETE])
            for r in expected
        ]
    assert store.counts() == {Kind.READ_RANGE: tasks * BUCKETS}


def index(*, files: int, megabytes: int, partitions: int = 1) -> StageIndex:
    """So many files, each with a batch of so many megabytes for each partition."""
    builder = IndexBuilder()
    groups = [f"p={p}" for p in range(partitions)]
    for part in range(files):
        batches = [
            [{"first": p * 1000, "rows": 1000, "offset": p * megabytes * MIB, "size": megabytes * MIB}]
            for p in range(partitions)
        ]
        builder.add(part, f"{part}", groups, pa.array(batches))
    return builder.index()


def buckets(count: int, *, updates: int = 100_000, inserts: int = 0, partitions: int = 1) -> list[Bucket]:
    return [
        Bucket(
            index=n,
            partition=f"p={n % partitions}",
            file_id=f"{n}",
            expected_updates=updates,
            expected_inserts=inserts,
        )
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("stage", "to", "tasks"),
    [
        # 100 MiB read by 10 buckets is less than a GiB.
        (index(files=10, megabytes=10), buckets(10), 0),
        # 1 GiB read by 50 buckets of one partition: 50 GiB.
        (index(files=100, megabytes=10), buckets(50), 16),
        # The same by partition: each bucket reads its own alone.
        (index(files=20, megabytes=1, partitions=50), buckets(50, partitions=50), 0),
        # New rows are a share of what arrived.
        (index(files=100, megabytes=10), buckets(50, updates=0, inserts=2000), 0),
        # Many tiny ranges: 1,000 files by 100 buckets.
        (index(files=1000, megabytes=0), buckets(100), 1),
        # A bucket of few rows reads no more ranges than it has rows.
        (index(files=100, megabytes=10), buckets(50, updates=2), 0),
        (index(files=1000, megabytes=0), buckets(1000, updates=5), 0),
        (index(files=1000, megabytes=0), buckets(1000, updates=50), 1),
        # 500 GiB: no task takes more than 2 GiB.
        (index(files=5000, megabytes=100), buckets(4000), 245),
    ],
)  # fmt: skip
def test_the_stage_is_grouped_where_buckets_would_fetch_much_more_than_it_has(stage, to, tasks):
    assert regroup.regrouping_tasks(stage, to) == tasks


def test_an_empty_stage_is_not_grouped():
    empty = IndexBuilder().index()
    assert regroup.regrouping_tasks(empty, buckets(3)) == 0
    assert not len(empty.of_group("p"))
    assert np.array_equal(empty.first_of_files, [])


def test_runs_have_at_most_so_many_rows():
    batches = [
        pa.record_batch({"n": list(range(first, first + rows))}) for first, rows in ((0, 5), (5, 16), (21, 1))
    ]
    runs = [run.column("n").to_pylist() for run in regroup._in_runs(batches, most_rows=6)]
    assert [n for run in runs for n in run] == list(range(22))
    assert max(map(len, runs)) <= 6
