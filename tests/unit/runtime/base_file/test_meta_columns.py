"""Files that leave meta columns empty: written, merged, patched, thinned out and stitched."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.meta_columns import COMMIT_TIME, META_COLUMNS, MetaColumns
from parquetry.runtime.spec.table_spec import Column, FilesPolicy
from parquetry.runtime.table.file_names import BaseFileName
from tests.support.base_files import (
    FIRST,
    SECOND,
    THIRD,
    Incoming,
    batches,
    bucket,
    context,
    merging,
    read,
    slice_of,
    write,
)

COLUMNS = (
    Column(name="n", type="bigint"),
    Column(name="word", type="string"),
    Column(name="pad", type="string"),
)
FEWER = [MetaColumns.COMMIT_TIME, MetaColumns.NONE]


def at(folder, instant, meta, **changes):
    files = FilesPolicy(row_group_size_bytes=20_000, compression="snappy", meta_columns=meta)
    return context(folder, COLUMNS, instant=instant, files=files, **changes)


def rows(numbers, word):
    return [
        Incoming(key=f"k{n:06}", values={"n": n, "word": word, "pad": f"{n * 7919 % 10_007:0>40}"})
        for n in numbers
    ]


def assert_filled(table, meta, times):
    """All five columns are there, the empty ones are null in each row, and the times are these."""
    assert table.column_names[:5] == list(META_COLUMNS)
    filled = [name for name in META_COLUMNS if table.column(name).null_count < table.num_rows]
    assert filled == [name for name in META_COLUMNS if name not in meta.empty]
    if meta.has_commit_times:
        found = dict(zip(table.column("n").to_pylist(), table.column(COMMIT_TIME).to_pylist(), strict=True))
        assert found == times


def assert_footer(ctx, file):
    """Nothing in it is about keys."""
    pairs = pq.read_metadata(ctx.store.root / file.stat.path).metadata
    assert {b"parquet.avro.schema", b"writer.model.name"} <= pairs.keys()
    assert not [name for name in pairs if b"record_key" in name or b"bloom" in name]
    assert (file.min_key, file.max_key) == (None, None)


@pytest.mark.parametrize("meta", FEWER)
@pytest.mark.parametrize("before", [MetaColumns.ALL, None])
@pytest.mark.parametrize("seed", range(6))
def test_a_merge_empties_the_columns_of_rows_that_it_copies(tmp_path, meta, before, seed):
    """Row groups that are copied, patched, thinned out or decoded."""
    rnd = random.Random(seed)
    old = at(tmp_path, FIRST, before or meta)
    (base,) = write(old, bucket(old), rows(range(3000), "old")).files
    start = rnd.choice([0, 700, 2500])
    touched = sorted(rnd.sample(range(start, 3000), rnd.choice([0, 1, 60, 400])))
    gone = {n for n in touched if seed % 3 == 0 or (seed % 3 == 1 and n % 2)}
    incoming = [
        Incoming(key=row.key, values=row.values, position=row.values["n"], delete=row.values["n"] in gone)
        for row in rows(touched, "new")
    ] + rows(range(3000, 3000 + rnd.choice([0, 5])), "new")
    new = at(tmp_path, SECOND, meta)
    written = write(new, merging(base), incoming)
    table = read(new, written)
    changed = {row.values["n"] for row in incoming} - gone
    expected = {n: "new" if n in changed else "old" for n in (set(range(3000)) | changed) - gone}
    assert dict(zip(table.column("n").to_pylist(), table.column("word").to_pylist(), strict=True)) == expected
    assert_filled(table, meta, {n: SECOND if word == "new" else FIRST for n, word in expected.items()})
    for file in written.files:
        assert_footer(new, file)


def foreign(folder, meta_values, **values):
    """A file of another writer, with these meta columns."""
    name = BaseFileName(
        partition="p=1", file_id="11111111-1111-1111-1111-111111111111-0", instant=FIRST, write_token="0-1-2"
    )
    path = folder / name.path
    path.parent.mkdir(parents=True, exist_ok=True)
    count = len(values["n"])
    meta = {key: pa.array(value or [None] * count, pa.string()) for key, value in meta_values.items()}
    pq.write_table(pa.table(meta | values), path, store_schema=False, compression="snappy")
    return FileSlice(
        partition="p=1", file_id=name.file_id, instant=FIRST, path=name.path, size_bytes=path.stat().st_size
    )


EARLIER = "20250101000000000"


@pytest.mark.parametrize("meta", FEWER)
@pytest.mark.parametrize("times", [None, [None, EARLIER, None], "absent"])
@pytest.mark.parametrize("rewritten", [False, True])
def test_a_copied_row_without_a_commit_time_has_that_of_its_file(tmp_path, meta, times, rewritten):
    """It was written then, and its next file is younger."""
    stored = dict.fromkeys(META_COLUMNS) | {COMMIT_TIME: times} if times != "absent" else {}
    base = foreign(tmp_path, stored, n=[0, 1, 2], word=["a", "b", "c"], pad=["x", "y", "z"])
    ctx = at(tmp_path, SECOND, meta)
    if rewritten:
        written = rewrite_group(ctx, GroupWork(index=0, partition="p=1", slices=(base,), target_bytes=10_000))
        updated = []
    else:
        updated = [1]
        incoming = [Incoming(key="k", values={"n": 1, "word": "B", "pad": "y"}, position=1)]
        written = write(ctx, merging(base), incoming)
    found = times if isinstance(times, list) else [None] * 3
    expected = {n: SECOND if n in updated else found[n] or FIRST for n in range(3)}
    assert_filled(read(ctx, written), meta, expected)
    # Rows that keep their commit times keep them in the next file, too, whose row groups are copied.
    after = at(tmp_path, THIRD, meta)
    (file,) = written.files
    last = write_bucket(
        after,
        merging(slice_of(file)),
        batches([Incoming(key="k9", values={"n": 9, "word": "n", "pad": "p"})], after.schema),
    )
    assert_filled(read(after, last), meta, expected | {9: THIRD})


@pytest.mark.parametrize("meta", FEWER)
def test_stitched_files_have_the_meta_columns_of_the_setting(tmp_path, meta):
    """Pages of the table's columns are copied, those of keys are not."""
    old = at(tmp_path, FIRST, MetaColumns.ALL)
    slices = []
    for number in range(4):
        numbers = range(number * 3000, number * 3000 + 3000)
        (file,) = write(old, bucket(old, number), rows(numbers, f"w{number}")).files
        slices.append(slice_of(file))
    new = at(tmp_path, SECOND, meta)
    work = GroupWork(index=0, partition="p=1", slices=tuple(slices), target_bytes=10**7)
    written = rewrite_group(new, work)
    table = read(new, written)
    assert sorted(table.column("n").to_pylist()) == list(range(12_000))
    assert_filled(table, meta, dict.fromkeys(range(12_000), FIRST))
    for file in written.files:
        assert_footer(new, file)
    assert sum(part.size_bytes for part in slices) > sum(f.stat.file_size_bytes for f in written.files)
