"""How many requests a stage on S3 takes."""

from __future__ import annotations

import uuid
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from parquetry.runtime.stage.index import REFERENCE_SHIFT
from parquetry.runtime.stage.location import StoreStage
from parquetry.runtime.stage.part import PARTITION, StageSpec, stage_rows
from parquetry.runtime.stage.reader import StageReader
from parquetry.runtime.stage.staged import StagedRows, staged_rows
from parquetry.runtime.storage.open import open_store
from tests.support.s3_server import BUCKET

TASKS, PARTITIONS, BUCKETS, RUNS = 4, 3, 5, 6
ROWS = 10


@pytest.fixture
def staged(s3_options, s3_requests) -> StagedRows:
    """Rows of each partition in every run of every task; each run is grouped by partition."""
    store = open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}", s3_options)
    spec = StageSpec(
        location=StoreStage(store=store, folder="stage"),
        schema=pa.schema({"k": pa.string(), "n": pa.int64()}),
        key_column="k",
        ordering=None,
        required=(),
        rows=True,
        keys=False,
        run_bytes=1,
    )
    said = [
        row for task in range(TASKS) for b in stage_rows(spec, task, _batches(task)) for row in b.to_pylist()
    ]
    staged = staged_rows(spec, said)
    assert s3_requests["GET"] == TASKS, "the driver reads the totals of each task"
    s3_requests.clear()
    assert len(staged.index.first) == TASKS * PARTITIONS, "runs add nothing to what is remembered"
    return staged


def _batches(task: int):
    for run in range(RUNS):
        first = (task * RUNS + run) * ROWS
        yield pa.RecordBatch.from_pydict(
            {
                "k": [f"{p}-{first + n}" for p in range(PARTITIONS) for n in range(ROWS)],
                "n": [first + n for _ in range(PARTITIONS) for n in range(ROWS)],
                PARTITION: [f"p={p}" for p in range(PARTITIONS) for _ in range(ROWS)],
            }
        )


def test_an_insert_reads_a_range_of_each_task_and_partition_and_one_more_for_each_bucket(staged, s3_requests):
    for p in range(PARTITIONS):
        rows = staged.totals[f"p={p}"].rows
        read = []
        for start, stop in pairwise(rows * bucket // BUCKETS for bucket in range(BUCKETS + 1)):
            with StageReader(staged.spec, staged.index, instant="1") as reader:
                read += [n for b in reader.rows(f"p={p}", start, stop) for n in b.column("n").to_pylist()]
        assert read == list(range(rows))
    assert s3_requests.keys() == {"GET"}
    assert s3_requests["GET"] <= TASKS * PARTITIONS + PARTITIONS * BUCKETS


def test_rows_by_reference_are_fetched_once_and_neighbours_together(staged, s3_requests):
    count = PARTITIONS * RUNS * ROWS
    references = [(np.arange(count) + (task << REFERENCE_SHIFT))[::-1] for task in (2, 0)]
    with StageReader(staged.spec, staged.index, instant="1") as reader, reader.taking(references) as take:
        for some in references * 2:
            assert sum(rows.num_rows for rows in take(some)) == count
    assert s3_requests == {"GET": 2}
