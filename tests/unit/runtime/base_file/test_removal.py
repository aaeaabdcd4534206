"""Row groups that lose rows and change nothing else: written again without decoding all there is."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.base_file.bucket import BucketWriter
from parquetry.runtime.base_file.model import WriteContext, WrittenBucket, WrittenFile
from parquetry.runtime.base_file.reader import BaseFileReader, open_base_file
from parquetry.runtime.parquet.page_index import file_pages
from parquetry.runtime.spec.table_spec import Column, FilesPolicy
from tests.support.base_files import SECOND, THIRD, Incoming, bucket, context, merging, read, slice_of, write
from tests.support.rows import TYPES, make_row

ROWS = 6000
COLUMNS = (
    Column(name="n", type="bigint", nullable=False),
    Column(name="price", type="decimal(15,2)"),
    Column(name="few", type="decimal(6,3)", nullable=False),
    Column(name="balance", type="decimal(20,4)"),
    Column(name="word", type="string"),
    Column(name="text", type="string"),
    Column(name="ratio", type="double"),
    Column(name="part", type="struct<amount:decimal(9,2),note:string>"),
)
POLICY = FilesPolicy(row_group_size_bytes=50_000, compression="zstd", page_size_bytes=4096)
EDGES = (0, 1, 2, 777, 1500, 4000, ROWS - 1)


def number(digits: int, scale: int) -> Decimal:
    return Decimal(digits).scaleb(-scale)


def values(n: int) -> dict[str, Any]:
    """Rows whose smallest and largest values lie where rows go, see ``EDGES``."""
    sign = -1 if n == 0 else 1
    return {
        "n": sign * n if n != ROWS - 1 else 2**40,
        "price": None if n % 11 == 3 else number(n * 7919 % 100_000 + (10**9 if n in EDGES else 0), 2),
        "few": number(9 if n in EDGES else n % 5, 3),
        "balance": number(n * 31 % 7001 - 3500, 4),
        "word": "zz" if n in EDGES else f"w{n % 3}",
        "text": f"{n * 48271 % 65_537:05}" * 3,
        "ratio": math.nan if 2000 < n < 2010 else n / 8,
        "part": None if n % 7 == 0 else {"amount": number(n, 2), "note": f"n{n % 4}"},
    }


def some() -> list[Incoming]:
    return [Incoming(key=f"k{n:06}", values=values(n)) for n in range(ROWS)]


def deletes(numbers: Iterator[int] | tuple[int, ...] | range) -> list[Incoming]:
    return [Incoming(key=f"k{n:06}", position=n, delete=True) for n in numbers]


@pytest.fixture
def base(tmp_path: Path) -> WrittenFile:
    ctx = context(tmp_path, COLUMNS, files=POLICY)
    (file,) = write(ctx, bucket(ctx, expected_inserts=ROWS), some()).files
    assert file.metadata.num_row_groups >= 3
    return file


def test_each_reader_of_undecoded_rows_decodes_the_column_that_it_was_asked_for(
    base: WrittenFile, tmp_path: Path
) -> None:
    ctx = later(tmp_path)
    decimals = {"price": pa.decimal128(15, 2), "few": pa.decimal128(6, 3)}
    with open_base_file(ctx.store, slice_of(base), ctx.schema, decoded=frozenset(), batch_bytes=1) as reader:
        assert reader.parts is not None
        for asked in (None, "price", "few", None):
            rows = reader.undecoded_columns(reader.parts, decoded=asked).rows(1)
            for name, kind in decimals.items():
                assert (rows.schema.field(name).type == kind) == (name == asked)


def later(tmp_path: Path, instant: str = SECOND, **changes: Any) -> WriteContext:
    return context(tmp_path, COLUMNS, instant=instant, files=POLICY, **changes)


def removed(ctx: WriteContext, base: WrittenFile, gone: list[Incoming], **options: Any) -> WrittenBucket:
    return write(ctx, merging(base, expected_deletes=len(gone)), gone, **options)


def contents(rows: pa.Table) -> list[dict[str, Any]]:
    names = [column.name for column in COLUMNS]
    return [{name: repr(value) for name, value in row.items()} for row in rows.select(names).to_pylist()]


def test_rows_go_and_the_others_stay_without_being_decoded(tmp_path, base, monkeypatch):
    monkeypatch.delattr(BaseFileReader, "whole")
    batches, taken_in = BaseFileReader.batches, []
    monkeypatch.setattr(
        BaseFileReader, "batches", lambda own, group: taken_in.append(group.number) or batches(own, group)
    )
    ctx = later(tmp_path)
    written = removed(ctx, base, deletes(EDGES))
    (file,) = written.files
    assert (file.stat.num_writes, file.stat.num_deletes) == (ROWS - len(EDGES), len(EDGES))
    assert file.metadata.num_row_groups == base.metadata.num_row_groups
    assert set(taken_in) < set(range(base.metadata.num_row_groups)), "but small ones that are to grow"
    kept = [n for n in range(ROWS) if n not in EDGES]
    found = read(ctx, written)
    assert [int(key[1:]) for key in found["_hoodie_record_key"].to_pylist()] == kept
    assert contents(found) == [{name: repr(value) for name, value in values(n).items()} for n in kept]
    assert set(found["_hoodie_file_name"].to_pylist()) == {file.stat.path.rpartition("/")[2]}
    assert (file.min_key, file.max_key) == (f"k{kept[0]:06}", f"k{kept[-1]:06}")


def test_bounds_are_those_of_the_rows_that_stay(tmp_path, base):
    ctx = later(tmp_path)
    (file,) = removed(ctx, base, deletes(EDGES)).files
    parquet = pq.ParquetFile(tmp_path / file.stat.path)
    several: set[bool] = set()
    pages = file_pages(ctx.store, file.statistics, range(parquet.num_row_groups), {c.name for c in COLUMNS})
    for number in range(parquet.num_row_groups):
        rows = parquet.read_row_group(number)
        recorded = file.statistics.row_groups[number].columns
        for name in ("n", "price", "few", "balance", "word", "text"):
            present = [value for value in rows[name].to_pylist() if value is not None]
            said = parquet.metadata.row_group(number).column(rows.column_names.index(name)).statistics
            assert (said.min, said.max) == (min(present), max(present)), name
            assert said.null_count == rows[name].null_count
            firsts, bounds = pages[number].columns[name].firsts, pages[number].columns[name].bounds
            assert min(b.minimum for b in bounds) == recorded[name].minimum
            assert max(b.maximum for b in bounds) == recorded[name].maximum
            several.add(len(firsts) > 1)
    assert True in several
    ratio = file.metadata.schema.names.index("ratio")
    told = [file.metadata.row_group(n).column(ratio).is_stats_set for n in range(parquet.num_row_groups)]
    has_nan = [
        any(map(math.isnan, parquet.read_row_group(n)["ratio"].to_pylist()))
        for n in range(parquet.num_row_groups)
    ]
    bounded = [
        told[n] and file.metadata.row_group(n).column(ratio).statistics.has_min_max for n in range(len(told))
    ]
    assert any(has_nan)
    assert bounded == [not nan for nan in has_nan]


def test_the_schema_stays_and_so_do_encodings(tmp_path, base):
    (file,) = removed(later(tmp_path), base, deletes(EDGES)).files
    assert file.metadata.schema.equals(base.metadata.schema)
    for number in range(base.metadata.num_row_groups):
        for place in range(base.metadata.num_columns):
            old, new = (f.metadata.row_group(number).column(place) for f in (base, file))
            assert new.encodings == old.encodings, old.path_in_schema


@pytest.mark.parametrize("batch_rows", [1, 3])
def test_batches_make_no_difference(tmp_path, base, batch_rows):
    gone = deletes(range(5, ROWS, 97))
    first, again = (
        (tmp_path / removed(later(tmp_path), base, gone, batch_rows=rows).files[0].stat.path).read_bytes()
        for rows in (1000, batch_rows)
    )
    assert first == again


@pytest.mark.parametrize("delete", [True, False])
def test_batches_make_no_difference_where_more_arrives_than_a_row_group_may_be(tmp_path, delete):
    policy = FilesPolicy(compression="uncompressed")
    ctx = context(tmp_path, COLUMNS, files=policy)
    (file,) = write(ctx, bucket(ctx, expected_inserts=ROWS), some()).files
    ctx = context(tmp_path, COLUMNS, instant=SECOND, files=policy, memory_budget_bytes=2**20)
    rows = [
        Incoming(key=f"k{n:06}", position=n, delete=delete, values={**values(n), "text": f"{n:05}" * 400})
        for n in range(0, ROWS, 2)
    ][1:]
    assert sum(len(row.values["text"]) for row in rows) > ctx.row_group_arrow_bytes
    first, again = (
        (tmp_path / write(ctx, merging(file), rows, batch_rows=count).files[0].stat.path).read_bytes()
        for count in (ROWS, 100)
    )
    assert first == again


def test_row_groups_shrink_until_they_grow_together(tmp_path, base):
    """Of which most goes, they are no row groups of their own."""
    ctx = later(tmp_path)
    kept = range(0, ROWS, 40)
    written = removed(ctx, base, deletes(tuple(n for n in range(ROWS) if n not in kept)))
    assert written.files[0].metadata.num_row_groups < base.metadata.num_row_groups
    assert read(ctx, written)["text"].to_pylist() == [values(n)["text"] for n in kept]


def test_rows_go_where_the_file_is_too_full_for_a_row_group_as_it_was(tmp_path, base, monkeypatch):
    asked = []
    monkeypatch.setattr(BucketWriter, "replace", lambda *_: asked.append(1))
    ctx = later(tmp_path)
    written = removed(ctx, base, deletes(EDGES))
    assert len(asked) >= base.metadata.num_row_groups - 1
    kept = [n for n in range(ROWS) if n not in EDGES]
    assert contents(read(ctx, written)) == [
        {name: repr(value) for name, value in values(n).items()} for n in kept
    ]


@pytest.mark.parametrize("ordering", ["few", "word", "part.amount"])
def test_deletes_that_come_late_remove_nothing(tmp_path, base, ordering):
    ctx = later(tmp_path, ordering=ordering)
    name, _, field = ordering.partition(".")
    older: Any = "v" if ordering == "word" else number(-1, 2)
    newer: Any = "x" if ordering == "word" else number(9000, 2) if field else number(8, 3)
    gone = [
        Incoming(key=f"k{n:06}", position=n, delete=True, values={name: {field: order} if field else order})
        for n, order in ((10, older), (11, newer))
    ]
    written = removed(ctx, base, gone)
    assert written.late_rows == 1
    assert (written.files[0].stat.num_deletes, written.files[0].stat.num_writes) == (1, ROWS - 1)
    keys = read(ctx, written)["_hoodie_record_key"].to_pylist()
    assert "k000010" in keys
    assert "k000011" not in keys


def test_what_stays_of_every_type_is_what_was(tmp_path):
    rnd = random.Random(7)
    columns = tuple(Column(name=name, type=kind.spark) for name, kind in TYPES.items())
    rows = [Incoming(key=f"k{n:04}", values=dict(make_row(rnd, TYPES))) for n in range(300)]
    ctx = context(tmp_path, columns)
    (file,) = write(ctx, bucket(ctx, expected_inserts=300), rows).files
    before = read(ctx, [file])
    for instant, gone in ((SECOND, range(3, 300, 7)), (THIRD, range(0, 250, 5))):
        ctx = context(tmp_path, columns, instant=instant)
        keys = before["_hoodie_record_key"].to_pylist()
        numbers = [n for n in gone if n < len(keys)]
        change = [Incoming(key=keys[n], position=n, delete=True) for n in numbers]
        (file,) = removed(ctx, file, change).files
        after = read(ctx, [file])
        expected = before.take([n for n in range(before.num_rows) if n not in numbers])
        kept = [name for name in before.column_names if name != "_hoodie_file_name"]
        assert repr(after.select(kept).to_pylist()) == repr(expected.select(kept).to_pylist())
        before = after
