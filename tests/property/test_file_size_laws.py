"""No file born of a write is above the maximum, and full ones are near it, whatever the rows are like."""

from __future__ import annotations

import base64
import tempfile
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.runtime.base_file.sizing import FileSizer, kept_row_groups
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.base_file.writer import BaseFileWriter
from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.layout.packing import FILL_SHARE, SMALLEST_SHARE
from parquetry.runtime.spec.table_spec import BloomFilter, Column, FilesPolicy
from tests.support.base_files import MIB, SECOND, Incoming, bucket, context, merging, slice_of, write
from tests.support.effort import examples, in_full
from tests.support.sized_rows import COLUMNS, Content, file_bytes_per_row, incoming_batches

LIMIT = (16 if in_full() else 8) * MIB


def sizes(written, limit: int) -> list[float]:
    return sizes_of(written.files, limit)


def sizes_of(files, limit: int) -> list[float]:
    return [file.stat.file_size_bytes / limit for file in files]


def check_sizes(seed: int, width: int, content: Content) -> list[float]:
    """Write a file and a half, then let half of a full file's rows grow threefold and insert a tenth."""
    rng = np.random.default_rng(seed)
    rows = int(LIMIT / file_bytes_per_row(width, content) * rng.uniform(1.3, 1.9))
    guess = None if seed % 2 else width * rng.uniform(0.3, 1.5)
    with tempfile.TemporaryDirectory() as folder:
        ctx = context(Path(folder), COLUMNS, max_file_size_bytes=LIMIT, record_size_bytes=guess)
        arriving = incoming_batches(seed, 0, rows, width=width, content=content)
        created = write_bucket(ctx, bucket(ctx, expected_inserts=rows), arriving)
        born = sizes(created, LIMIT)
        place = f"seed {seed}, {width} B, {content}"
        assert len(born) > 1, place
        assert max(born) <= 1, f"{place}: {born}"
        assert all(size >= 0.9 for size in born[:-1]), f"{place}: {born}"
        base = created.files[0].stat
        places = pa.array(np.arange(0, base.num_writes, 2))
        grown = incoming_batches(seed + 1, 0, len(places), width=3 * width, content=content, positions=places)
        inserts = base.num_writes // 10
        more = incoming_batches(seed + 2, 10**9, inserts, width=width, content=content)
        ctx = context(Path(folder), COLUMNS, instant=SECOND, max_file_size_bytes=LIMIT)
        to = merging(created.files[0], expected_updates=len(places), expected_inserts=inserts)
        merged = write_bucket(ctx, to, chain(grown, more))
        assert sum(file.stat.num_writes for file in merged.files) == base.num_writes + inserts, place
        grew = sizes(merged, LIMIT)
        assert max(grew) <= 1, f"{place}, merged: {grew}"
        assert all(size >= 0.9 for size in sizes(merged, LIMIT)[:-1]), f"{place}, merged: {grew}"
        return born + grew


@pytest.mark.parametrize(
    ("seed", "width", "content"),
    [
        (0, 60, Content.INCOMPRESSIBLE),
        (1, 500, Content.MIXED),
        (2, 4000, Content.INCOMPRESSIBLE),
        (3, 200, Content.DICTIONARY),
    ],
)
def test_sizes_hold(seed, width, content):
    check_sizes(seed, width, content)


@pytest.mark.long
@pytest.mark.parametrize("content", list(Content))
@pytest.mark.parametrize("width", [60, 200, 1000, 4000])
def test_sizes_hold_for_every_seed(width, content):
    born = [size for seed in range(40) for size in check_sizes(seed, width, content)]
    full = [size for size in born if size >= 0.9]
    print(
        f"{content} {width} B: {len(born)} files; full ones p5 {np.percentile(full, 5):.3f} p50 {np.percentile(full, 50):.3f} p95 {np.percentile(full, 95):.3f}"
    )


SIZES = st.integers(1, 200 * MIB)


@given(
    sizer=st.builds(FileSizer, max_bytes=SIZES, row_group_bytes=SIZES, row_group_arrow_bytes=SIZES),
    file_bytes=st.integers(0, 210 * MIB),
    remaining=st.floats(0, 1e10),
    ratio=st.floats(0.001, 2),
    guessed=st.booleans(),
)
def test_a_row_group_is_never_planned_beyond_its_bounds(sizer, file_bytes, remaining, ratio, guessed):
    planned = sizer.next_arrow_bytes(file_bytes, remaining, ratio=ratio, guessed=guessed)
    assert 1 <= planned <= sizer.row_group_arrow_bytes
    if planned > 1:
        assert file_bytes + planned * ratio <= sizer.max_bytes
        assert planned * ratio <= sizer.row_group_bytes
        assert not guessed or planned <= sizer.max_bytes / 2


@given(limit=SIZES, file_bytes=SIZES, remaining=st.floats(0, 1e10))
@settings(max_examples=examples(200))
def test_a_file_takes_the_last_rows_rather_than_leave_a_few(limit, file_bytes, remaining):
    sizer = FileSizer(max_bytes=limit, row_group_bytes=MIB, row_group_arrow_bytes=MIB)
    if sizer.is_full(file_bytes, remaining):
        assert file_bytes >= 0.94 * limit
        assert file_bytes + remaining > 0.97 * limit


@given(sizes=st.lists(SIZES), behind=SIZES)
def test_row_groups_that_stay_small_are_few(sizes, behind):
    kept = kept_row_groups(sizes, behind)
    assert all(size > behind + sum(sizes[at + 1 :]) for at, size in enumerate(sizes[:kept]))
    assert kept <= 20


ORDERS = (
    None,
    RowOrder(strategy="sort", columns=("status", "amount")),
    RowOrder(strategy="zorder", columns=("amount", "payload")),
    RowOrder(strategy="hilbert", columns=("id", "amount")),
)


def check_clustered(seed: int, width: int, content: Content) -> list[float]:
    """Cluster small files of up to three and a half maxima in all, with a target up to the maximum, in every way."""
    rng = np.random.default_rng(seed)
    limit, target = 2 * MIB, int(rng.uniform(0.5, 1) * 2 * MIB)
    rows = max(int(limit / file_bytes_per_row(width, content) * rng.uniform(0.3, 3.5)), 3)
    rows = min(rows, 60_000)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        ctx = context(Path(folder), COLUMNS, max_file_size_bytes=limit)
        slices = []
        count = max(rows // int(rng.integers(2, 9)), 1)
        for number, first in enumerate(range(0, rows, count)):
            here = min(count, rows - first)
            arriving = incoming_batches(seed + number, first, here, width=width, content=content)
            to = bucket(ctx, number, expected_inserts=here)
            slices += [slice_of(file) for file in write_bucket(ctx, to, arriving).files]
        for number, order in enumerate(ORDERS):
            after = context(
                Path(folder), COLUMNS, instant=f"2026010{number + 3}000000000", max_file_size_bytes=limit
            )
            work = GroupWork(index=0, partition="p=1", slices=tuple(slices), target_bytes=target, order=order)
            written = rewrite_group(after, work)
            place = f"seed {seed}, {width} B, {content}, {order}, target {target / limit}"
            assert sum(file.stat.num_writes for file in written.files) == rows, place
            larger = [file for file in written.files if file.stat.num_writes > 1]
            assert all(size <= 1 for size in sizes_of(larger, limit)), f"{place}: {sizes(written, limit)}"
            if width < limit // 50:
                near = min(target, int(FILL_SHARE * limit))
                small = [size for size in sizes(written, near) if size < 0.98 * SMALLEST_SHARE]
                assert len(small) <= 1, f"{place}: {sizes(written, target)}"
            found += sizes(written, limit)
    return found


@pytest.mark.parametrize(
    ("seed", "width", "content"),
    [
        (0, 60, Content.INCOMPRESSIBLE),
        (1, 3000, Content.MIXED),
        (2, 200, Content.DICTIONARY),
        (3, 600_000, Content.INCOMPRESSIBLE),
        pytest.param(4, 3_500_000, Content.INCOMPRESSIBLE, marks=pytest.mark.long),
    ],
)
def test_clustering_keeps_to_the_ceiling_of_every_writer(seed, width, content):
    check_clustered(seed, width, content)


@pytest.mark.long
@pytest.mark.parametrize("content", list(Content))
@pytest.mark.parametrize("width", [60, 1000, 20_000, 300_000, 900_000, 3_000_000])
def test_clustering_keeps_to_the_ceiling_for_every_seed(width, content):
    found = [size for seed in range(12) for size in check_clustered(seed, width, content)]
    print(f"{content} {width} B: {len(found)} files, the largest {max(found):.3f}")


def test_rows_that_grow_with_every_update_do_not_carry_a_file_beyond_the_ceiling(tmp_path):
    """A twentieth of the rows doubles with each update: the file is divided, not a twentieth larger each time."""
    limit, width = 2 * MIB, 500
    rows = int(0.97 * limit / file_bytes_per_row(width, Content.INCOMPRESSIBLE))
    ctx = context(tmp_path, COLUMNS, max_file_size_bytes=limit)
    arriving = incoming_batches(0, 0, rows, width=width, content=Content.INCOMPRESSIBLE)
    file = write_bucket(ctx, bucket(ctx, expected_inserts=rows), arriving).files[0]
    for number in range(6):
        ctx = context(tmp_path, COLUMNS, instant=f"2026010{number + 3}000000000", max_file_size_bytes=limit)
        count = file.stat.num_writes // 20
        places = pa.array(np.arange(number * count, (number + 1) * count))
        grown = incoming_batches(
            number, 0, count, width=2 * width, content=Content.INCOMPRESSIBLE, positions=places
        )
        merged = write_bucket(ctx, merging(file, expected_updates=count, expected_inserts=0), grown)
        assert max(sizes(merged, limit)) <= 1, number
        assert sum(written.stat.num_writes for written in merged.files) == file.stat.num_writes
        file = merged.files[0]


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("bloom", list(BloomFilter))
@pytest.mark.parametrize("width", [30, 400])
def test_all_that_a_file_holds_counts(tmp_path, width, bloom, encrypted):
    """The footer, the page index and a filter of the keys: of files that are small, and of more than 60,000 keys."""
    (tmp_path / "key").write_bytes(base64.b64encode(bytes(32)))
    key = f"file:{tmp_path}/key" if encrypted else None
    limit = (2 if bloom is BloomFilter.EXACT else 1) * MIB
    rows = int(6 * limit / file_bytes_per_row(width, Content.INCOMPRESSIBLE))
    policy = FilesPolicy(bloom_filter=bloom, encryption_key=key)
    ctx = context(tmp_path, COLUMNS, max_file_size_bytes=limit, files=policy)
    arriving = incoming_batches(7, 0, rows, width=width, content=Content.INCOMPRESSIBLE)
    said = []
    with pytest.MonkeyPatch.context() as patch:
        finish = BaseFileWriter.finish

        def finished(writer):
            said.append(writer.size_bytes())
            return finish(writer)

        patch.setattr(BaseFileWriter, "finish", finished)
        written = write_bucket(ctx, bucket(ctx, expected_inserts=rows), arriving)
    found = sizes(written, limit)
    assert sum(file.stat.num_writes for file in written.files) == rows
    assert max(found) <= 1, found
    least = 0.7 if bloom is BloomFilter.EXACT and width == 30 else 0.9
    assert min(found[:-1]) >= least, found
    for file, most in zip(written.files, said, strict=True):
        assert 0.97 * most - 4096 <= file.stat.file_size_bytes <= most


def hexadecimal(rng: np.random.Generator, length: int) -> str:
    return rng.integers(0, 256, length // 2, np.uint8).tobytes().hex()


def test_rows_go_alone_where_eight_are_too_many(tmp_path):
    """A footer takes most of such a file."""
    rng = np.random.default_rng(15)
    limit = 3500
    ctx = context(tmp_path, (Column(name="t", type="string"),), max_file_size_bytes=limit)
    rows = [Incoming(key=f"{number:05}", values={"t": hexadecimal(rng, 150)}) for number in range(64)]
    written = write(ctx, bucket(ctx, expected_inserts=64), rows)
    found = sizes_of([file for file in written.files if file.stat.num_writes > 1], limit)
    assert max(found, default=0) <= 1, found
    assert sum(file.stat.num_writes for file in written.files) == 64


def test_a_file_that_the_next_keys_fill_is_ended(tmp_path):
    """Few keys are long; in UTF-16 order the largest, in UTF-8 order between the others: no bound tells of them."""
    limit, rows = 600_000, 600
    ctx = context(tmp_path, (Column(name="t", type="string"),), max_file_size_bytes=limit)
    rng = np.random.default_rng(0)

    def key(number):
        return ("\uf000" + hexadecimal(rng, 40_000) if number % 97 == 5 else "\U00010400") + f"{number:09}"

    arriving = [Incoming(key=key(number), values={"t": hexadecimal(rng, 2000)}) for number in range(rows)]
    encoded = []
    with pytest.MonkeyPatch.context() as patch:
        encode = BaseFileWriter.encode

        def counted(writer, table):
            encoded.append(table.num_rows)
            assert len(encoded) < 200, encoded
            return encode(writer, table)

        patch.setattr(BaseFileWriter, "encode", counted)
        written = write(ctx, bucket(ctx, expected_inserts=rows), arriving)
    assert sum(file.stat.num_writes for file in written.files) == rows
    assert max(sizes_of([file for file in written.files if file.stat.num_writes > 1], limit)) <= 1


LEAVES = ", ".join(f"f{number}: string" for number in range(40))
ODD_COLUMNS = {
    "keys": (Column(name="t", type="string"),),
    "texts": tuple(Column(name=f"t{number}", type="string") for number in range(12)),
    "structs": (Column(name="s", type=f"struct<{LEAVES}>"), Column(name="n", type="double")),
    "lists": (Column(name="l", type="array<string>"), Column(name="m", type="map<string,double>")),
}


def odd_value(rng: np.random.Generator, column: Column, length: int) -> object:
    match column.type.partition("<")[0]:
        case "struct":
            return {f"f{number}": hexadecimal(rng, length // 20 + 2) for number in range(40)}
        case "array":
            return [hexadecimal(rng, length // 4 + 2) for _ in range(rng.integers(0, 9))]
        case "map":
            return [(hexadecimal(rng, 12), float(rng.random())) for _ in range(rng.integers(0, 9))]
        case "double":
            return float(rng.random())
        case _:
            return hexadecimal(rng, length)


@settings(max_examples=examples(30), deadline=None)
@given(
    kind=st.sampled_from(list(ODD_COLUMNS)),
    key_length=st.sampled_from([12, 500, 4000, 20_000]),
    length=st.sampled_from([20, 300, 3000]),
    limit=st.sampled_from([250_000, 600_000, 1_500_000]),
    encrypted=st.booleans(),
    bloom=st.sampled_from([BloomFilter.EXACT, BloomFilter.ALWAYS_TRUE]),
    codec=st.sampled_from(["zstd", "none"]),
    row_group=st.sampled_from([None, 40_000]),
    seed=st.integers(0, 2**32),
)
def test_no_odd_table_has_a_file_above_the_maximum(
    kind, key_length, length, limit, encrypted, bloom, codec, row_group, seed
):
    """Long keys and texts, many columns in one, indexes and seals: in new files, grown ones and clustered ones."""
    rng = np.random.default_rng(seed)
    columns = ODD_COLUMNS[kind]
    if bloom is BloomFilter.EXACT:
        limit *= 4
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "key").write_bytes(base64.b64encode(bytes(32)))
        policy = FilesPolicy(
            bloom_filter=bloom,
            encryption_key=f"file:{folder}/key" if encrypted else None,
            compression=codec,
            row_group_size_bytes=row_group,
        )
        row_bytes = key_length / 2 + sum(length * (4 if "<" in c.type else 1) for c in columns) / 2
        rows = int(min(max(1.7 * limit / row_bytes, 20), 3000))

        def arriving(numbers, factor, positions=None):
            return [
                Incoming(
                    key=f"{number:09}" + hexadecimal(np.random.default_rng(number), key_length),
                    values={c.name: odd_value(rng, c, length * factor) for c in columns},
                    position=None if positions is None else positions[place],
                )
                for place, number in enumerate(numbers)
            ]

        def made(instant):
            return context(Path(folder), columns, instant=instant, max_file_size_bytes=limit, files=policy)

        ctx = made("20260101000000000")
        first = write(ctx, bucket(ctx, expected_inserts=rows), arriving(range(rows), 1))
        base = first.files[0]
        count = max(base.stat.num_writes // 3, 1)
        ctx = made(SECOND)
        to = merging(base, expected_updates=count, expected_inserts=5)
        changed = arriving(range(count), 2, positions=range(count)) + arriving(range(10**6, 10**6 + 5), 1)
        second = write(ctx, to, changed)
        assert sum(file.stat.num_writes for file in second.files) == base.stat.num_writes + 5
        files = [*first.files, *second.files]
        slices = tuple(slice_of(file) for file in [*first.files[1:], *second.files])
        for number, order in enumerate((None, RowOrder(strategy="sort", columns=(columns[-1].name,)))):
            if order is not None and "<" in columns[-1].type:
                continue
            work = GroupWork(index=0, partition="p=1", slices=slices, target_bytes=limit, order=order)
            files += rewrite_group(made(f"2026020{number + 1}000000000"), work).files
        larger = [file for file in files if file.stat.num_writes > 1]
        assert max(sizes_of(larger, limit), default=0) <= 1
