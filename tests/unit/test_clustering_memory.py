from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from parquetry.runtime.base_file import write_bucket
from parquetry.runtime.clustering_order import RowOrder
from parquetry.runtime.clustering_task import GroupWork, rewrite_group
from parquetry.runtime.spec import Column
from tests.support.base_files import FIRST, MIB, SECOND, bucket, context, slice_of
from tests.support.clustering_memory import spilled_files

COLUMNS = (
    Column(name="n", type="bigint"),
    Column(name="skewed", type="bigint"),
    Column(name="b", type="binary"),
)
ROW_BYTES = 16 * 1024
FILES, ROWS = 6, 1000
ROOT = Path(__file__).parents[2]


@pytest.fixture
def count_allocations():
    """Starts counting what Arrow allocates."""
    before = pa.default_memory_pool()

    def start():
        counting = pa.proxy_memory_pool(before)
        pa.set_memory_pool(counting)
        return counting

    yield start
    pa.set_memory_pool(before)


def incoming(rng):
    """Rows that do not compress; half of them share a value."""
    numbers = rng.integers(0, 10**9, ROWS)
    return pa.RecordBatch.from_pydict(
        {
            "_hoodie_record_key": pa.array(rng.integers(0, 2**62, ROWS)).cast(pa.string()),
            "__position": pa.nulls(ROWS, pa.int64()),
            "__delete": pa.array(np.zeros(ROWS, bool)),
            "__hash": pa.array(np.ones(ROWS, np.int64)),
            "n": pa.array(numbers),
            "skewed": pa.array(np.where(numbers % 2, 7, numbers)),
            "b": pa.array([rng.bytes(ROW_BYTES) for _ in range(ROWS)], pa.binary()),
        }
    )


def group_in(folder, order) -> GroupWork:
    """The group of files of 96 MiB of rows, target files of a quarter of that."""
    rng = np.random.default_rng(1)
    ctx = context(folder, COLUMNS, instant=FIRST)
    files = [
        file
        for number in range(FILES)
        for file in write_bucket(ctx, bucket(ctx, number), [incoming(rng)]).files
    ]
    slices = tuple(slice_of(file) for file in files)
    return GroupWork(index=0, partition="p=1", slices=slices, target_bytes=24 * MIB, order=order)


@pytest.mark.parametrize(
    "order",
    [
        RowOrder(strategy="sort", columns=("skewed",)),
        RowOrder(strategy="hilbert", columns=("n", "skewed")),
        None,
    ],
)
def test_a_group_of_many_times_the_budget_stays_near_it(tmp_path, count_allocations, order):
    group = group_in(tmp_path, order)
    after = replace(context(tmp_path, COLUMNS, instant=SECOND), memory_budget_bytes=16 * MIB)
    counting = count_allocations()
    written = rewrite_group(after, group)
    assert written.consumed_rows == FILES * ROWS
    assert counting.max_memory() < 3 * after.memory_budget_bytes


def long_texts(rng, rows):
    """Rows of few texts, each of which is long; files keep next to nothing of them."""
    texts = pa.array([f"{number:03d}" + "x" * 400 for number in range(20)])
    return pa.RecordBatch.from_pydict(
        {
            "_hoodie_record_key": pa.array(rng.integers(0, 2**62, rows)).cast(pa.string()),
            "__position": pa.nulls(rows, pa.int64()),
            "__delete": pa.array(np.zeros(rows, bool)),
            "__hash": pa.array(np.ones(rows, np.int64)),
            "n": pa.array(rng.integers(0, 10**9, rows)),
            "s": texts.take(pa.array(rng.integers(0, len(texts), rows))),
        }
    )


@pytest.mark.parametrize("column", ["n", "s"])
def test_few_long_texts_stay_near_the_budget_when_rows_are_sorted_by_them(
    tmp_path, count_allocations, column
):
    columns = (Column(name="n", type="bigint"), Column(name="s", type="string"))
    rng, rows = np.random.default_rng(1), 25_000
    ctx = context(tmp_path, columns, instant=FIRST)
    files = [
        file
        for number in range(4)
        for file in write_bucket(ctx, bucket(ctx, number), [long_texts(rng, rows)]).files
    ]
    group = GroupWork(
        index=0,
        partition="p=1",
        slices=tuple(slice_of(file) for file in files),
        target_bytes=24 * MIB,
        order=RowOrder(strategy="sort", columns=(column,)),
    )
    assert group.size_bytes < 8 * MIB
    after = replace(context(tmp_path, columns, instant=SECOND), memory_budget_bytes=16 * MIB)
    counting = count_allocations()
    written = rewrite_group(after, group)
    assert written.consumed_rows == 4 * rows
    assert counting.max_memory() < 2 * after.memory_budget_bytes


def test_sorted_runs_stay_in_memory_where_the_budget_has_room_for_all_of_them(tmp_path, count_allocations):
    group = group_in(tmp_path, RowOrder(strategy="sort", columns=("n",)))
    files, spilled, peaks = {}, {}, {}
    for budget_mib in (256, 512, 768):
        budget = {"memory_budget_bytes": budget_mib * MIB}
        counting = count_allocations()
        with spilled_files() as found:
            written = rewrite_group(context(tmp_path, COLUMNS, instant=SECOND, **budget), group)
        spilled[budget_mib] = len(found)
        peaks[budget_mib] = counting.max_memory() / MIB
        files[budget_mib] = {file.stat.path: file.stat.num_writes for file in written.files}
        assert written.consumed_rows == FILES * ROWS
    assert spilled == {256: 3, 512: 2, 768: 0}
    assert files[256] == files[512] == files[768]
    rows_mib = FILES * ROWS * ROW_BYTES / MIB
    assert peaks[512] < rows_mib + 64 < peaks[768] + 64 < 768


@pytest.mark.soak
@pytest.mark.parametrize(
    ("budget_mib", "peak_mib", "is_spilled"), [(256, 600, True), (4096, 4096 + 128, False)]
)
def test_a_group_of_2_5_gib_in_memory_is_clustered_within_the_budget(
    tmp_path, budget_mib, peak_mib, is_spilled
):
    command = [
        sys.executable,
        "-m",
        "tests.support.clustering_memory",
        str(tmp_path),
        "2560",
        str(budget_mib),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    print(found)
    assert found["rows"] > 2_400_000
    assert found["peak_mib"] < peak_mib
    assert bool(found["spilled_files"]) == is_spilled
