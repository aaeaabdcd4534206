from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from parquetry.runtime.base_file.reader import open_base_file
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.spec.table_spec import Column
from tests.support.allocations import counted_allocations
from tests.support.base_files import MIB, SECOND, bucket, context, merging, slice_of
from tests.support.effort import in_full
from tests.support.repository import ROOT


def merge(folder, file_mib: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.base_file_memory", str(folder), str(file_mib)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_merging_a_wide_file_takes_little_memory(tmp_path):
    found = merge(tmp_path, 24)
    assert found["compression"] > 2
    assert found["peak_mib"] < 500


@pytest.fixture
def pool():
    with counted_allocations() as counting:
        yield counting


def wide_rows(rows: int, *, stored: bool) -> Iterator[pa.RecordBatch]:
    """Rows of a MiB each that do not compress, one a batch."""
    rng = np.random.default_rng(1)
    for number in range(rows):
        yield pa.RecordBatch.from_pydict(
            {
                "_hoodie_record_key": [f"k{number:04}"],
                "__position": pa.array([number if stored else None], pa.int64()),
                "__delete": [False],
                "__hash": [1],
                "c": pa.array([rng.bytes(MIB)], pa.binary()),
            }
        )


def test_rows_of_a_mib_stay_within_the_budget(tmp_path, pool):
    columns = [Column(name="c", type="binary")]
    budget, rows = {"memory_budget_bytes": 80 * MIB}, 400 if in_full() else 200
    ctx = context(tmp_path, columns, max_file_size_bytes=1024 * MIB, **budget)
    (first,) = write_bucket(ctx, bucket(ctx, expected_inserts=rows), wide_rows(rows, stored=False)).files
    created = pool.max_memory()
    ctx = context(tmp_path, columns, instant=SECOND, max_file_size_bytes=1024 * MIB, **budget)
    merge_into = merging(slice_of(first), expected_updates=rows)
    (second,) = write_bucket(ctx, merge_into, wide_rows(rows, stored=True)).files

    assert (first.stat.num_inserts, second.stat.num_update_writes) == (rows, rows)
    assert created <= budget["memory_budget_bytes"]
    assert pool.max_memory() <= budget["memory_budget_bytes"]


def repeated_texts(rows: int, length: int, *, stored: bool) -> Iterator[pa.RecordBatch]:
    """Rows whose text is one of 200, which parquet keeps as a dictionary: many times smaller than in memory."""
    rng = np.random.default_rng(1)
    texts = pa.array([rng.bytes(length // 2).hex() for _ in range(200)])
    for first in range(0, rows, 1000):
        places = np.arange(first, min(first + 1000, rows))
        yield pa.RecordBatch.from_pydict(
            {
                "_hoodie_record_key": pa.array(places).cast(pa.string()),
                "__position": pa.array(places) if stored else pa.nulls(len(places), pa.int64()),
                "__delete": pa.array(np.zeros(len(places), bool)),
                "__hash": pa.array(places),
                "c": texts.take(pa.array(rng.integers(0, len(texts), len(places)))),
            }
        )


def test_rows_of_repeated_texts_that_grow_threefold_stay_within_the_budget(tmp_path, pool):
    columns = [Column(name="c", type="string")]
    budget, rows = {"memory_budget_bytes": 96 * MIB}, 100_000
    ctx = context(tmp_path, columns, **budget)
    incoming = repeated_texts(rows, 1000, stored=False)
    (first,) = write_bucket(ctx, bucket(ctx, expected_inserts=rows), incoming).files
    assert first.stat.file_size_bytes < rows * 1000 / 50
    ctx = context(tmp_path, columns, instant=SECOND, **budget)
    incoming = repeated_texts(rows, 3000, stored=True)
    (second,) = write_bucket(ctx, merging(first, expected_updates=rows), incoming).files
    assert second.stat.num_update_writes == rows
    assert pool.max_memory() <= budget["memory_budget_bytes"]


@pytest.mark.long
def test_a_full_file_whose_every_row_is_updated_fits_a_worker(tmp_path):
    found = merge(tmp_path, 120)
    print(found)
    assert found["compression"] > 5
    assert found["pool_mib"] <= 512  # the budget of a task; what the allocator holds back comes on top
    assert found["peak_mib"] < 1.5 * 1024


def test_names_of_files_which_nobody_reads_make_no_batch_small(tmp_path):
    rows = 6000
    columns = [Column(name="c", type="bigint")]
    ctx = context(tmp_path, columns)
    incoming = pa.RecordBatch.from_pydict(
        {
            "_hoodie_record_key": pa.array(np.arange(rows)).cast(pa.string()),
            "__position": pa.nulls(rows, pa.int64()),
            "__delete": np.zeros(rows, bool),
            "__hash": np.ones(rows, np.int64),
            "c": np.arange(rows),
        }
    )
    (file,) = write_bucket(ctx, bucket(ctx), [incoming]).files
    assert len(file.stat.path) > 64
    opened = open_base_file(ctx.store, slice_of(file), ctx.schema, decoded=frozenset(), batch_bytes=8 * MIB)
    with opened as reader:
        (group,) = reader.row_groups
        assert [batch.num_rows for batch in reader.batches(group)] == [rows]
