from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.clustering.forecast.sample import SampleLimits, draw
from parquetry.runtime.clustering.rewrite import runs, task
from parquetry.runtime.clustering.rewrite.input_sample import sample_share
from parquetry.runtime.clustering.rewrite.kept_sample import KeptSample, encode_samples
from parquetry.runtime.clustering.rewrite.order import SAMPLE_BYTES, OrderKeys, RowOrder, sort_indices
from parquetry.runtime.clustering.rewrite.ranges import merge_samples, read_sample, sampler
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group, whole_bytes_of
from parquetry.runtime.spec.table_spec import Column, FilesPolicy
from tests.support.base_files import FIRST, MIB, SECOND, bucket, context, slice_of
from tests.support.clustering_memory import spilled_files
from tests.support.repository import ROOT

COLUMNS = (
    Column(name="n", type="bigint"),
    Column(name="skewed", type="bigint"),
    Column(name="b", type="binary"),
)
ROW_BYTES = 16 * 1024
FILES, ROWS = 6, 1000


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


@pytest.fixture(scope="module")
def written_files(tmp_path_factory):
    """A folder, and the slices of its files of 96 MiB of rows."""
    folder = tmp_path_factory.mktemp("group")
    rng = np.random.default_rng(1)
    ctx = context(folder, COLUMNS, instant=FIRST)
    files = [
        file
        for number in range(FILES)
        for file in write_bucket(ctx, bucket(ctx, number), [incoming(rng)]).files
    ]
    return folder, tuple(slice_of(file) for file in files)


def group_with(slices, order) -> GroupWork:
    """The group of these files, with target files of a quarter of their size."""
    return GroupWork(index=0, partition="p=1", slices=slices, target_bytes=24 * MIB, order=order)


@pytest.mark.parametrize(
    "order",
    [
        RowOrder(strategy="sort", columns=("skewed",)),
        pytest.param(RowOrder(strategy="hilbert", columns=("n", "skewed")), marks=pytest.mark.long),
        None,
    ],
)
def test_a_group_of_many_times_the_budget_stays_near_it(written_files, count_allocations, order):
    folder, slices = written_files
    group = group_with(slices, order)
    after = replace(context(folder, COLUMNS, instant=SECOND), memory_budget_bytes=16 * MIB)
    counting = count_allocations()
    written = rewrite_group(after, group)
    assert written.consumed_rows == FILES * ROWS
    assert counting.max_memory() < 3 * after.memory_budget_bytes


def long_texts(rng, rows, length=400):
    """Rows of few texts, each of which is long; files keep next to nothing of them."""
    texts = pa.array([f"{number:03d}" + "x" * length for number in range(20)])
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
    rng, rows = np.random.default_rng(1), 25_000
    ctx = context(tmp_path, TEXTS, instant=FIRST)
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
    after = replace(context(tmp_path, TEXTS, instant=SECOND), memory_budget_bytes=16 * MIB)
    counting = count_allocations()
    written = rewrite_group(after, group)
    assert written.consumed_rows == 4 * rows
    assert counting.max_memory() < 2 * after.memory_budget_bytes


TEXTS = (Column(name="n", type="bigint"), Column(name="s", type="string"))
BY_TEXT = RowOrder(strategy="sort", columns=("s",))


@pytest.fixture(scope="module")
def very_long_texts(tmp_path_factory):
    """A folder, and two files in it of 5,000 rows with texts of 4,000 characters: 40 MB when decoded."""
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(1)
    ctx = context(folder, TEXTS, instant=FIRST)
    return folder, [
        file
        for number in range(2)
        for file in write_bucket(ctx, bucket(ctx, number), [long_texts(rng, 5000, 4000)]).files
    ]


def test_very_long_texts_are_sorted_in_bounded_memory(very_long_texts, count_allocations):
    folder, files = very_long_texts
    slices = tuple(slice_of(file) for file in files)
    group = GroupWork(index=0, partition="p=1", slices=slices, target_bytes=24 * MIB, order=BY_TEXT)
    after = replace(context(folder, TEXTS, instant=SECOND), memory_budget_bytes=8 * MIB)
    counting = count_allocations()
    assert rewrite_group(after, group).consumed_rows == 10_000
    assert counting.max_memory() < 3 * after.memory_budget_bytes


def test_the_sample_of_a_plan_is_bounded_by_bytes_and_stays_even(very_long_texts, count_allocations):
    folder, files = very_long_texts
    ctx = context(folder, TEXTS, instant=SECOND)
    counting = count_allocations()
    (sample,) = draw(
        ctx.store, [[file.statistics for file in files]], ctx.schema, SampleLimits(kept_bytes=4 * MIB)
    )
    assert counting.max_memory() < 12 * MIB
    assert 2 * MIB < sample.rows.nbytes < 5 * MIB
    assert sample.of_rows == 10_000
    first, second = sample.by_path.values()
    assert abs(first - second) <= 1
    assert first + second == sample.rows.num_rows

    ctx.store.put("kept.parquet", encode_samples([sample.rows]))
    kept = KeptSample(path="kept.parquet", number=0).read(ctx.store, ctx.schema, most_bytes=MIB)
    assert MIB / 3 < kept.nbytes < 1.2 * MIB


def test_samples_of_shares_are_bounded_before_and_after_they_are_merged(very_long_texts, count_allocations):
    folder, files = very_long_texts
    ctx = context(folder, TEXTS, instant=SECOND)
    shares = [(slice_of(file),) for file in files]
    counting = count_allocations()
    found = sample_share(ctx, shares[0], BY_TEXT, stride=1)
    assert SAMPLE_BYTES / 3 < found.sample.nbytes < 1.1 * SAMPLE_BYTES
    assert (found.rows, found.sample.num_rows) == (5000, -(-5000 // found.stride))
    sample = sampler(ctx, BY_TEXT, shares, stride=1)
    numbers = [pa.RecordBatch.from_pydict({"id": [number]}) for number in range(len(shares))]
    (merged,) = merge_samples(sample(numbers))
    whole = read_sample(merged.to_pylist())
    assert (whole.rows, SAMPLE_BYTES / 3 < whole.sample.nbytes < 1.1 * SAMPLE_BYTES) == (10_000, True)
    assert counting.max_memory() < 5 * SAMPLE_BYTES


def rows_of_widths(rng, numbers, widths):
    """Rows that do not compress, of so many bytes each."""
    ends = np.cumsum(widths)
    content = rng.bytes(int(ends[-1]))
    texts = [content[end - width : end] for end, width in zip(ends, widths, strict=True)]
    return pa.RecordBatch.from_pydict(
        {
            "_hoodie_record_key": pa.array(rng.integers(0, 2**62, len(numbers))).cast(pa.string()),
            "__position": pa.nulls(len(numbers), pa.int64()),
            "__delete": pa.array(np.zeros(len(numbers), bool)),
            "__hash": pa.array(np.ones(len(numbers), np.int64)),
            "n": pa.array(numbers),
            "skewed": pa.array(numbers),
            "b": pa.array(texts, pa.binary()),
        }
    )


def group_of(folder, parts) -> GroupWork:
    """A group with a file of each part, which is sorted by ``n``."""
    ctx = context(folder, COLUMNS, instant=FIRST, files=FilesPolicy(compression="uncompressed"))
    files = [file for n, part in enumerate(parts) for file in write_bucket(ctx, bucket(ctx, n), [part]).files]
    order = RowOrder(strategy="sort", columns=("n",))
    slices = tuple(slice_of(file) for file in files)
    return GroupWork(index=0, partition="p=1", slices=slices, target_bytes=24 * MIB, order=order)


def test_wide_rows_that_lie_together_in_the_order_take_no_more_than_scattered_ones(
    tmp_path, count_allocations
):
    rng = np.random.default_rng(1)

    def part():
        numbers = rng.permutation(10**6)[:3000]
        is_wide = np.isin(np.arange(3000), np.argsort(numbers)[-60:])
        return rows_of_widths(rng, numbers, np.where(is_wide, 256 * 1024, 200))

    group = group_of(tmp_path, [part() for _ in range(2)])
    assert group.size_bytes > 30 * MIB
    after = replace(context(tmp_path, COLUMNS, instant=SECOND), memory_budget_bytes=8 * MIB)
    counting = count_allocations()
    written = rewrite_group(after, group)
    assert written.consumed_rows == 6000
    assert counting.max_memory() < 4 * after.memory_budget_bytes


def test_the_number_of_ranges_does_not_hang_on_which_file_comes_first(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    parts = [
        rows_of_widths(rng, rng.integers(0, 10**9, rows), np.full(rows, width))
        for rows, width in [(5000, 200), (200, 25_000), (200, 25_000)]
    ]
    divided_again = []
    again = runs.KeyQuantiles
    monkeypatch.setattr(
        runs,
        "KeyQuantiles",
        lambda keys, **limit: divided_again.append(limit) or again(keys, **limit),
    )
    group = group_of(tmp_path, parts)
    after = replace(context(tmp_path, COLUMNS, instant=SECOND), memory_budget_bytes=4 * MIB)
    for slices in (group.slices, group.slices[::-1]):
        assert rewrite_group(after, replace(group, slices=slices)).consumed_rows == 5400
    assert not divided_again


def rewritten(folder, group, budget_mib, count_allocations, columns=COLUMNS):
    """How many files were spilled, the most MiB that were allocated, and the rows of each new file."""
    after = context(folder, columns, instant=SECOND, memory_budget_bytes=budget_mib * MIB)
    counting = count_allocations()
    with spilled_files() as found:
        written = rewrite_group(after, group)
    assert written.consumed_rows == FILES * ROWS
    files = {file.stat.path: file.stat.num_writes for file in written.files}
    return len(found), counting.max_memory() / MIB, files


def test_rows_are_sorted_in_one_piece_where_the_budget_has_room(written_files, count_allocations):
    folder, slices = written_files
    group = group_with(slices, RowOrder(strategy="sort", columns=("n",)))
    spilled, _, files = rewritten(folder, group, 128, count_allocations)
    assert spilled > 0
    for budget_mib in (256, 768):
        spilled, peak_mib, same = rewritten(folder, group, budget_mib, count_allocations)
        assert (spilled, same) == (0, files)
        assert peak_mib < 256


def test_rows_sorted_in_one_piece_by_their_widest_column_stay_within_the_budget(tmp_path, count_allocations):
    columns = (Column(name="n", type="bigint"), Column(name="b", type="string"))
    rng = np.random.default_rng(1)
    ctx = context(tmp_path, columns)
    files = []
    for number in range(FILES):
        rows = incoming(rng).drop_columns(["skewed"])
        texts = pa.array([rng.bytes(ROW_BYTES // 8).hex() for _ in range(ROWS)])
        rows = rows.set_column(rows.schema.get_field_index("b"), "b", texts)
        files += write_bucket(ctx, bucket(ctx, number), [rows]).files
    order = RowOrder(strategy="zorder", columns=("b", "n"))
    slices = tuple(slice_of(file) for file in files)
    group = GroupWork(index=0, partition="p=1", slices=slices, target_bytes=24 * MIB, order=order)
    spilled, peak_mib, _ = rewritten(tmp_path, group, 96, count_allocations, columns)
    assert spilled == 0
    assert peak_mib < 96


@pytest.mark.parametrize("strategy", ["sort", "zorder", "hilbert"])
def test_what_narrow_rows_are_sorted_by_has_room_beside_them(tmp_path, strategy):
    count, names = 50_000, ("a", "b", "c", "d")
    rng = np.random.default_rng(1)
    rows = pa.table({name: rng.integers(0, 2**40, count) for name in names})
    keys = OrderKeys(RowOrder(strategy=strategy, columns=names), rows.slice(0, 1000))
    tracemalloc.start()
    found = keys.of(rows)
    sort_indices(found)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    budget = 64 * MIB
    ctx = context(tmp_path, COLUMNS, memory_budget_bytes=budget)
    most_rows = whole_bytes_of(ctx, rows.to_batches(), 1.0) / rows.nbytes * count
    in_arrow = rows.nbytes / count + sort_indices(found).nbytes / count
    assert most_rows * (in_arrow + peak / count) < budget
    assert keys.of(rows.slice(9_000)).equals(found.slice(9_000)), "however many come at once"


def test_sorted_runs_stay_in_memory_where_the_budget_has_room_for_all_of_them(
    written_files, count_allocations, monkeypatch
):
    monkeypatch.setattr(task, "_MOST_WHOLE_BYTES", 0)
    folder, slices = written_files
    group = group_with(slices, RowOrder(strategy="sort", columns=("n",)))
    found = {budget: rewritten(folder, group, budget, count_allocations) for budget in (256, 512, 768)}
    assert {budget: spilled for budget, (spilled, _, _) in found.items()} == {256: 3, 512: 2, 768: 0}
    (_, _, files), (_, peak_mib, same), (_, most_mib, too) = found.values()
    assert files == same == too
    rows_mib = FILES * ROWS * ROW_BYTES / MIB
    assert peak_mib < rows_mib + 64 < most_mib + 64 < 768


@pytest.mark.long
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
