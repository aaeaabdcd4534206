from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from parquetry.errors import ParquetryError
from parquetry.runtime.clustering.rewrite import task
from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.clustering.rewrite.task import GroupWork, check_values, group_rewriter, rewrite_group
from parquetry.runtime.clustering.rewrite.writer import SpreadingWriter
from parquetry.runtime.errors import InvalidDataError, RetryWrite
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.footer import CLUSTERING
from parquetry.runtime.spec.table_spec import Column
from tests.support.base_files import (
    FIRST,
    MIB,
    SECOND,
    Incoming,
    bucket,
    context,
    page_starts,
    read,
    slice_of,
    write,
)

COLUMNS = (
    Column(name="n", type="bigint"),
    Column(name="word", type="string"),
    Column(name="x", type="double"),
    Column(name="day", type="date"),
    Column(name="price", type="decimal(12,2)"),
    Column(name="place", type="struct<city:string,zip:int>"),
)
STORED = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", *(c.name for c in COLUMNS)]


def some_rows(rnd: random.Random, count: int, first: int = 0) -> list[Incoming]:
    """Nulls, NaN, shared prefixes, and values that many rows share."""
    return [
        Incoming(
            key=f"k{first + number}",
            values={
                "n": rnd.choice([None, 7, rnd.randrange(10**12)]),
                "word": rnd.choice([None, "", f"a shared and rather long prefix {rnd.randrange(5000)}"]),
                "x": rnd.choice([None, math.nan, -math.inf, 0.0, rnd.gauss(0, 1)]),
                "day": date.fromordinal(730_000 + int(rnd.expovariate(0.01))),
                "price": Decimal(rnd.randrange(-(10**6), 10**6)) / 100,
                "place": rnd.choice([None, {"city": rnd.choice(["Bern", "Genf"]), "zip": rnd.randrange(99)}]),
            },
        )
        for number in range(count)
    ]


@pytest.fixture
def small_files(tmp_path):
    """Five files of two instants, and the context of a clustering after them."""
    rnd = random.Random(1)
    files = []
    for number in range(5):
        ctx = context(tmp_path, COLUMNS, instant=FIRST if number % 2 else SECOND)
        rows = some_rows(rnd, 700 + number, 1000 * number)
        files += write(ctx, bucket(ctx, number), rows).files
    after = context(tmp_path, COLUMNS, instant="20260103000000000", clustering="0123456789abcdef")
    return after, files


def work(files, **changes) -> GroupWork:
    settings = {"index": 0, "partition": "p=1", "target_bytes": 120 * MIB}
    return GroupWork(slices=tuple(slice_of(file) for file in files), **(settings | changes))


def as_rows(table: pa.Table, *, is_reordered: bool = False) -> list[str]:
    names = [name for name in STORED if not is_reordered or name != "_hoodie_commit_seqno"]
    return sorted(map(repr, table.select(names).to_pylist()))


ORDERS = [
    None,
    RowOrder(strategy="sort", columns=("word", "n")),
    RowOrder(strategy="sort", columns=("place.zip",)),
    RowOrder(strategy="zorder", columns=("n", "word")),
    RowOrder(strategy="hilbert", columns=("x", "price", "day")),
    RowOrder(strategy="sort", columns=("n",), split_by=("place.city",)),
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("budget_bytes", [512 * MIB, 300_000])
def test_the_rows_are_the_same_with_their_commit_columns(small_files, order, budget_bytes, monkeypatch):
    ctx, files = small_files
    written = rewrite_group(replace(ctx, memory_budget_bytes=budget_bytes), work(files, order=order))
    before, after = read(ctx, files), read(ctx, written)
    is_reordered = order is not None
    assert as_rows(after, is_reordered=is_reordered) == as_rows(before, is_reordered=is_reordered)
    assert written.consumed_rows == before.num_rows
    if is_reordered:
        numbers = [f"20260103000000000_0_{number}" for number in range(after.num_rows)]
        assert after.column("_hoodie_commit_seqno").to_pylist() == numbers
    for file in written.files:
        (name,) = set(read(ctx, [file]).column("_hoodie_file_name").to_pylist())
        assert file.stat.path == f"p=1/{name}"
        assert (file.stat.prev_commit, file.stat.num_inserts) == (None, 0)
        assert file.statistics.clustering == "0123456789abcdef"


@pytest.mark.parametrize("order", [None, RowOrder(strategy="sort", columns=("kind", "n"))])
@pytest.mark.parametrize("budget_bytes", [512 * MIB, 300_000])
@pytest.mark.parametrize("last_file", ["few values", "many values", "no such column"])
def test_text_that_some_or_all_files_keep_in_dictionaries(tmp_path, order, budget_bytes, last_file):
    columns = (Column(name="n", type="bigint"), Column(name="kind", type="string"))
    files = []
    for number in range(4):
        is_last = number == 3
        ctx = context(tmp_path, columns[:1] if is_last and last_file == "no such column" else columns)
        kinds = 1000 if is_last and last_file == "many values" else 3
        rows = [
            Incoming(key=f"{number}-{row}", values={"n": row, "kind": f"kind {row % kinds + number:04d}"})
            for row in range(900)
        ]
        files += write(ctx, bucket(ctx, number), rows).files
    ctx = context(tmp_path, columns, instant=SECOND, memory_budget_bytes=budget_bytes)
    written = rewrite_group(ctx, work(files, order=order))
    before = pa.concat_tables([read(ctx, [file]) for file in files], promote_options="default")
    names = ["_hoodie_record_key", "n", "kind"]
    after = read(ctx, written).select(names)
    if order is None:
        assert after.equals(before.select(names))
    else:
        by = [("kind", "ascending"), ("n", "ascending")]
        assert after.sort_by("_hoodie_record_key").equals(before.select(names).sort_by("_hoodie_record_key"))
        assert after.equals(after.sort_by(by))


@pytest.mark.parametrize(("order", "pages"), [(None, 1), (RowOrder(strategy="sort", columns=("n",)), 2)])
def test_pages_are_fine_where_rows_were_put_in_order(small_files, tmp_path, order, pages):
    ctx, files = small_files
    (file,) = rewrite_group(ctx, work(files, order=order)).files
    assert file.stat.num_writes == 3510
    with pa.OSFile(str(tmp_path / file.stat.path)) as content:
        chunks = ParquetParts(content).chunks(0)
        assert {len(page_starts(chunk)) for chunk in chunks} == {pages}


@pytest.mark.parametrize("budget_bytes", [512 * MIB, 300_000])
def test_sorted_rows_are_in_arrows_order(small_files, budget_bytes):
    ctx, files = small_files
    order = RowOrder(strategy="sort", columns=("word", "n"))
    written = rewrite_group(replace(ctx, memory_budget_bytes=budget_bytes), work(files, order=order))
    rows = read(ctx, written).select(["word", "n"])
    assert rows.equals(rows.sort_by([("word", "ascending"), ("n", "ascending")]))


@pytest.mark.parametrize(
    ("order", "declared"),
    [
        (RowOrder(strategy="sort", columns=("word", "n", "x", "day")), ["word", "n"]),
        (RowOrder(strategy="sort", columns=("place.zip", "n")), []),
        (RowOrder(strategy="zorder", columns=("n", "word"), split_by=("day",)), ["day"]),
        (RowOrder(strategy="zorder", columns=("n", "word")), []),
        (None, []),
    ],
)
def test_the_footer_declares_the_order_that_readers_can_rely_on(small_files, tmp_path, order, declared):
    ctx, files = small_files
    written = rewrite_group(ctx, work(files, order=order))
    for file in written.files:
        metadata = pq.read_metadata(tmp_path / file.stat.path)
        for number in range(metadata.num_row_groups):
            sorting = metadata.row_group(number).sorting_columns
            assert [metadata.schema.column(s.column_index).name for s in sorting] == declared
            assert not any(s.descending or s.nulls_first for s in sorting)


def test_a_merge_declares_no_order(small_files, tmp_path):
    ctx, files = small_files
    order = RowOrder(strategy="sort", columns=("n",))
    (clustered,) = rewrite_group(ctx, work(files, order=order)).files
    base = slice_of(clustered)
    later = replace(ctx, instant="20260104000000000", clustering=None)
    to = replace(bucket(later, base=base), file_id=base.file_id)
    (merged,) = write(later, to, [Incoming(key="k1", position=1, values={"n": 10**13})]).files
    metadata = pq.read_metadata(tmp_path / merged.stat.path)
    assert all(not metadata.row_group(number).sorting_columns for number in range(metadata.num_row_groups))


@pytest.mark.parametrize("order", ORDERS)
def test_a_second_attempt_makes_the_same_bytes(small_files, order, tmp_path):
    ctx, files = small_files
    ctx = replace(ctx, memory_budget_bytes=300_000)
    contents = []
    for _ in range(2):
        written = rewrite_group(ctx, work(files, order=order, target_bytes=60_000))
        contents.append({f.stat.path: (tmp_path / f.stat.path).read_bytes() for f in written.files})
    assert contents[0] == contents[1]


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_a_curve_narrows_every_column_however_skewed(tmp_path, curve):
    """The case of prior art that raw bits and dense ranks fail: a skewed column beside a uniform one."""
    rng = np.random.default_rng(7)
    columns = (Column(name="skewed", type="bigint"), Column(name="uniform", type="bigint"))
    ctx = context(tmp_path, columns, instant=FIRST)
    rows = [
        Incoming(key=f"k{i}", values={"skewed": int(s), "uniform": int(u)})
        for i, (s, u) in enumerate(
            zip(np.minimum(rng.zipf(1.3, 40_000), 10**9), rng.integers(0, 10**15, 40_000), strict=True)
        )
    ]
    files = write(ctx, bucket(ctx), rows).files
    after = context(tmp_path, columns, instant=SECOND)
    order = RowOrder(strategy=curve, columns=("skewed", "uniform"))
    table = read(after, rewrite_group(after, work(files, order=order)))
    pieces = [table.slice(start, 40_000 // 64) for start in range(0, 40_000, 40_000 // 64)]
    for name, most in (("skewed", 1.2 * 14.8), ("uniform", 1.2 * 12.1)):
        values = pc.unique(table.column(name)).to_numpy()
        bounds = [pc.min_max(piece.column(name)).as_py() for piece in pieces]
        touched = sum(((values >= b["min"]) & (values <= b["max"])).sum() for b in bounds) / len(values)
        assert touched <= most


def test_rows_that_differ_in_split_by_share_no_file(small_files):
    ctx, files = small_files
    order = RowOrder(strategy="zorder", columns=("n", "x"), split_by=("place.city",))
    written = rewrite_group(ctx, work(files, order=order))
    cities = [set(pc.struct_field(read(ctx, [f]).column("place"), "city").to_pylist()) for f in written.files]
    assert sorted(map(str, cities)) == ["{'Bern'}", "{'Genf'}", "{None}"]


def test_a_number_and_its_like_share_a_file(tmp_path):
    """Sorting takes 0.0 for -0.0, so they come mixed; a file for each turn would be one for each row."""
    ctx = context(tmp_path, COLUMNS, instant=FIRST)
    rows = some_rows(random.Random(2), 40)
    for number, row in enumerate(rows):
        row.values["x"] = (0.0, -0.0, math.nan, -math.nan, 1.0)[number % 5]
    files = write(ctx, bucket(ctx, 0), rows).files
    after = context(tmp_path, COLUMNS, instant=SECOND)
    order = RowOrder(strategy="sort", columns=("n",), split_by=("x",))
    written = rewrite_group(after, work(files, order=order)).files
    assert [file.stat.num_writes for file in written] == [16, 8, 16]


def test_a_file_for_every_row_is_refused(small_files, monkeypatch):
    ctx, files = small_files
    monkeypatch.setattr(task, "_MOST_VALUES", 3)
    few = RowOrder(strategy="sort", columns=("n",), split_by=("place.city",))
    assert len(rewrite_group(ctx, work(files, order=few)).files) == 3
    many = RowOrder(strategy="sort", columns=("n",), split_by=("place.city", "day"))
    refused = r"partition 'p=1' have more than 3 different values of place"
    with pytest.raises(InvalidDataError, match=refused):
        rewrite_group(ctx, work(files, order=many))
    monkeypatch.setattr(SpreadingWriter, "append", None)
    for budget_bytes in (512 * MIB, 300_000):
        with pytest.raises(InvalidDataError, match=refused):
            rewrite_group(replace(ctx, memory_budget_bytes=budget_bytes), work(files, order=many))
    with pytest.raises(InvalidDataError, match=refused):
        check_values(work(files, order=many, tasks=8), read(ctx, files))


@pytest.mark.parametrize(("target", "files_expected"), [(1.0, 10), (0.75, 13), (4.0, 2), (20.0, 1)])
def test_files_are_of_one_size_near_the_target(tmp_path, target, files_expected):
    rnd = random.Random(3)
    columns = (Column(name="n", type="bigint"), Column(name="blob", type="string"))
    ctx = context(tmp_path, columns, instant=FIRST)
    files = []
    for number in range(20):
        rows = [
            Incoming(key=f"{number}-{i}", values={"n": rnd.getrandbits(60), "blob": rnd.randbytes(200).hex()})
            for i in range(2300)
        ]
        files += write(ctx, bucket(ctx, number), rows).files
    after = context(tmp_path, columns, instant=SECOND)
    order = RowOrder(strategy="sort", columns=("n",))
    written = rewrite_group(after, work(files, order=order, target_bytes=int(target * MIB)))
    sizes = [file.stat.file_size_bytes for file in written.files]
    assert len(sizes) == files_expected
    assert max(sizes) <= 1.1 * min(sizes)


@pytest.mark.parametrize("order", [None, RowOrder(strategy="sort", columns=("n",))])
def test_rows_that_are_larger_than_a_file_have_one_each(tmp_path, order):
    """Eight of them are no cell that could not be cut: what is oversize is a single row, for good."""
    rnd = random.Random(4)
    columns = (Column(name="n", type="bigint"), Column(name="blob", type="binary"))
    sizes = [100, 300_000, 100, *[60_000] * 8, 100, 300_000]

    rows = [
        Incoming(key=f"k{number:02}", values={"n": number, "blob": rnd.randbytes(size)})
        for number, size in enumerate(sizes)
    ]
    before = context(tmp_path, columns, instant=FIRST)
    files = write(before, bucket(before), rows).files
    after = context(tmp_path, columns, instant=SECOND)
    written = rewrite_group(after, work(files, order=order, target_bytes=100_000)).files
    large = [file for file in written if file.stat.file_size_bytes > 180_000]
    assert [file.stat.num_writes for file in large] == [1, 1]
    assert sum(file.stat.num_writes for file in written) == len(sizes)


def test_the_digest_stays_with_updates_and_goes_with_inserts(small_files):
    ctx, files = small_files
    (clustered,) = rewrite_group(ctx, work(files)).files
    base = slice_of(clustered)
    later = replace(ctx, instant="20260104000000000", clustering=None)
    to = bucket(later, base=base)
    to = replace(to, file_id=base.file_id)
    for rows, digest in (
        ([Incoming(key="k1", position=1, values={"n": 1})], b"0123456789abcdef"),
        ([Incoming(key="k1", position=1, delete=True)], b"0123456789abcdef"),
        ([Incoming(key="new", values={"n": 1})], None),
    ):
        (merged,) = write(later, to, rows).files
        assert merged.metadata.metadata.get(CLUSTERING.encode()) == digest


def spoilt(kind: str):
    """A strategy that loses, doubles, changes or swaps something in its first batch."""

    def spoil(batches):
        first = next(batches)
        table = pa.Table.from_batches([first])
        if kind == "dropped":
            table = table.slice(1)
        elif kind == "doubled":
            table = pa.concat_tables([table, table.slice(0, 1)])
        else:
            prices = table.column("price").to_pylist()
            if kind == "changed":
                prices[0] += 1
            else:
                other = next(i for i, price in enumerate(prices) if price != prices[0])
                prices[0], prices[other] = prices[other], prices[0]
            at = table.schema.get_field_index("price")
            table = table.set_column(
                at, table.schema.field(at), pa.array(prices, table.schema.field(at).type)
            )
        yield from table.combine_chunks().to_batches()
        yield from batches

    return spoil


@pytest.mark.parametrize("kind", ["dropped", "doubled", "changed", "swapped"])
@pytest.mark.parametrize("way", ["sort_rows", "sort_by_ranges"])
def test_a_strategy_that_spoils_rows_is_caught(small_files, kind, way, monkeypatch):
    ctx, files = small_files
    if way == "sort_by_ranges":
        ctx = replace(ctx, memory_budget_bytes=300_000)
    sort, spoil = getattr(task, way), spoilt(kind)
    if way == "sort_rows":
        monkeypatch.setattr(task, way, lambda *a: next(spoil(iter([sort(*a)]))))
    else:
        monkeypatch.setattr(task, way, lambda *a, **k: spoil(sort(*a, **k)))
    with pytest.raises(ParquetryError, match="not the same rows"):
        rewrite_group(ctx, work(files, order=RowOrder(strategy="sort", columns=("n",))))


@pytest.mark.parametrize("kind", ["dropped", "doubled"])
def test_rows_that_are_lost_on_the_way_into_files_are_missed(small_files, kind, monkeypatch):
    ctx, files = small_files
    append = SpreadingWriter.append

    def spoils(writer, rows):
        append(writer, rows.slice(1) if kind == "dropped" else rows)
        if kind == "doubled":
            append(writer, rows.slice(0, 1))

    monkeypatch.setattr(SpreadingWriter, "append", spoils)
    with pytest.raises(ParquetryError, match="not the same rows"):
        rewrite_group(ctx, work(files))


def test_a_cleaned_file_asks_for_another_plan(small_files, tmp_path):
    ctx, files = small_files
    (tmp_path / files[0].stat.path).unlink()
    with pytest.raises(RetryWrite):
        rewrite_group(ctx, work(files))


def test_a_file_that_is_cleaned_before_the_sample_is_drawn_leaves_the_group_out(
    small_files, tmp_path, monkeypatch
):
    ctx, files = small_files
    ctx = replace(ctx, memory_budget_bytes=300_000)
    sample = task.sample_of

    def drawn_late(*arguments, **settings):
        (tmp_path / files[-1].stat.path).unlink()
        return sample(*arguments, **settings)

    monkeypatch.setattr(task, "sample_of", drawn_late)
    group = work(files, order=RowOrder(strategy="sort", columns=("n",)))
    (answer,) = group_rewriter(ctx, [group])([pa.RecordBatch.from_pydict({"number": [0]})])
    told = {name: value for name, value in answer.to_pylist()[0].items() if value is not None}
    assert told == {"bucket": group.index}


def test_files_of_an_older_schema_get_the_present_one(tmp_path):
    old = context(tmp_path, (Column(name="n", type="int"), Column(name="gone", type="string")), instant=FIRST)
    rows = [Incoming(key=f"k{n}", values={"n": n, "gone": "x"}) for n in range(9)]
    files = write(old, bucket(old), rows).files
    columns = (Column(name="n", type="bigint"), Column(name="added", type="string"))
    ctx = context(tmp_path, columns, instant=SECOND)
    written = rewrite_group(ctx, work(files, order=RowOrder(strategy="sort", columns=("n",))))
    (file,) = written.files
    assert pq.read_schema(tmp_path / file.stat.path).names[5:] == ["n", "added"]
    assert read(ctx, written).column("n").to_pylist() == list(range(9))
