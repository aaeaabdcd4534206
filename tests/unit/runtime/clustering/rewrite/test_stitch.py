"""Small files become one: what of them is copied, and that it is right whatever they are like."""

from __future__ import annotations

import math
import os
import random
import shutil
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.errors import ParquetryError
from parquetry.runtime.base_file.encoding import page_options
from parquetry.runtime.base_file.reader import open_base_file
from parquetry.runtime.clustering.rewrite import stitch
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.parquet.assembly import ParquetAssembly, ParquetParts
from parquetry.runtime.parquet.footer import MAX_KEY, MIN_KEY, file_statistics
from parquetry.runtime.spec.table_spec import BloomFilter, Column, FilesPolicy
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
from tests.support.effort import each_value_once

COLUMNS = (
    Column(name="n", type="bigint"),
    Column(name="kind", type="string"),
    Column(name="note", type="string"),
    Column(name="x", type="double"),
    Column(name="price", type="decimal(12,2)"),
    Column(name="day", type="date"),
    Column(name="flag", type="boolean"),
    Column(name="blob", type="binary"),
    Column(name="never", type="string"),
    Column(name="tags", type="array<string>"),
    Column(name="place", type="struct<city:string,zip:int>"),
    Column(name="sizes", type="map<string,bigint>"),
)
ROWS = 1500


def some_rows(rnd: random.Random, count: int, first: int) -> list[Incoming]:
    """Values that differ in nearly all rows, but for kinds and the cities; nulls among them."""

    def seldom(value):
        return None if rnd.random() < 0.02 else value

    return [
        Incoming(
            key=f"k{first + number:07}",
            values={
                "n": seldom(rnd.randrange(10**12)),
                "kind": seldom(rnd.choice(["red", "green", "blue"])),
                "note": seldom(f"note {rnd.randrange(10**9)} é"),
                "x": seldom(rnd.choice([0.0, -0.0, rnd.gauss(0, 1), rnd.gauss(0, 1)])),
                "price": seldom(Decimal(rnd.randrange(-(10**9), 10**9)) / 100),
                "day": seldom(date.fromordinal(600_000 + rnd.randrange(150_000))),
                "flag": seldom(rnd.random() < 0.5),
                "blob": seldom(rnd.randbytes(rnd.randrange(9))),
                "never": None,
                "tags": seldom([rnd.choice([None, f"t{rnd.random()}"]) for _ in range(rnd.randrange(4))]),
                "place": seldom({"city": rnd.choice(["Bern", "Genf"]), "zip": seldom(rnd.randrange(10**7))}),
                "sizes": seldom(
                    [(f"s{rnd.random()}", rnd.randrange(10**9)) for _ in range(rnd.randrange(3))]
                ),
            },
        )
        for number in range(count)
    ]


@cache
def rows_of(number: int) -> list[Incoming]:
    """The rows of a small file."""
    return some_rows(random.Random(number), ROWS, 10_000 * number)


SNAPPY = FilesPolicy(compression="snappy")


def made(tmp_path, files=4, policy=SNAPPY, **changes):
    """Small files of two instants, and the context of a clustering behind them."""
    changes["files"] = policy
    found = []
    for number in range(files):
        ctx = context(tmp_path, COLUMNS, instant=FIRST if number % 2 else SECOND, **changes)
        found += write(ctx, bucket(ctx, number), rows_of(number)).files
    return context(tmp_path, COLUMNS, instant="20260103000000000", **changes), found


def stitched(ctx, files, **changes):
    size = {"target_bytes": 100 * MIB}
    group = GroupWork(index=0, partition="p=1", slices=tuple(map(slice_of, files)), **(size | changes))
    return rewrite_group(ctx, group)


def are_same(one: pa.Table, other: pa.Table) -> bool:
    """Whether rows are equal but for their file's name."""
    return one.drop_columns(["_hoodie_file_name"]).equals(other.drop_columns(["_hoodie_file_name"]))


def chunks_of(tmp_path, file, group: int = 0):
    """The column chunks of a row group by the name of the column, and the content of the file."""
    content = (tmp_path / file.stat.path).read_bytes()
    chunks = ParquetParts(pa.BufferReader(content)).chunks(group)
    return {chunk.name: chunk for chunk in chunks}, content


def remade(tmp_path, file, **options) -> None:
    """Write the file again as other programs with the same library do."""
    path = tmp_path / file.stat.path
    stored = pq.ParquetFile(path)
    table = stored.read()
    table = table.replace_schema_metadata(stored.metadata.metadata)
    shape = {
        "store_schema": False,
        "use_dictionary": False,
        "compression": "snappy",
        "write_page_index": True,
    }
    pq.write_table(table, path, **(shape | options))


def source_groups(tmp_path, file) -> int:
    return pq.read_metadata(tmp_path / file.stat.path).num_row_groups


def copied_columns(tmp_path, sources, result) -> set[str]:
    """The columns of the first row group that hold the pages of all sources byte by byte."""
    chunks, content = chunks_of(tmp_path, result)
    found = set()
    for name, chunk in chunks.items():
        pages = b""
        for source in sources:
            for group in range(source_groups(tmp_path, source)):
                own, bytes_of_source = chunks_of(tmp_path, source, group)
                start = own[name].metadata[9][1]
                pages += bytes_of_source[start : own[name].start + own[name].size_bytes]
        start = chunk.metadata[9][1]
        if content[start : chunk.start + chunk.size_bytes] == pages:
            found.add(name)
    return found


PLAIN = {
    *("_hoodie_commit_seqno", "_hoodie_record_key", "n", "note", "price", "day", "blob", "place.zip"),
    *("tags.list.element", "sizes.key_value.key", "sizes.key_value.value", "flag"),
}


def test_pages_are_copied_and_rows_stay_as_they_are(tmp_path):
    ctx, files = made(tmp_path)
    written = stitched(ctx, files)
    (result,) = written.files
    assert are_same(read(ctx, written), read(ctx, files))
    assert set(read(ctx, written).column("_hoodie_file_name").to_pylist()) == {
        result.stat.path.split("/")[-1]
    }
    assert result.metadata.num_row_groups == 1
    copied = copied_columns(tmp_path, files, result)
    # The city of a place repeats, so a struct is decoded as a whole.
    assert copied >= PLAIN - {"place.zip"}
    assert not copied & {"kind", "place.city", "place.zip", "_hoodie_file_name"}
    chunks, _ = chunks_of(tmp_path, result)
    assert page_starts(chunks["n"]) == [0, ROWS, 2 * ROWS, 3 * ROWS]
    assert written.consumed_rows == 4 * ROWS


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "none"])
def test_pages_of_every_codec_are_copied(tmp_path, codec):
    ctx, files = made(tmp_path, files=2, policy=FilesPolicy(compression=codec))
    written = stitched(ctx, files)
    assert are_same(read(ctx, written), read(ctx, files))
    assert copied_columns(tmp_path, files, written.files[0]) >= {"n", "note", "tags.list.element"}


@pytest.mark.parametrize(
    ("which", "otherwise"),
    each_value_once(
        [slice(1, 3), slice(0, 4)],
        [
            ({"data_page_version": "2.0"}, True),
            ({"data_page_version": "2.0", "use_dictionary": ["kind"]}, True),
            (page_options(600), True),
            ({"write_page_index": False}, False),
            ({"compression": "zstd"}, False),
            ({"row_group_size": 1000}, True),
            ({"use_dictionary": True}, False),
            (page_options(100), False),
        ],
    ),
    ids=str,
)
def test_files_that_were_written_otherwise(tmp_path, otherwise, which, monkeypatch):
    options, copied = otherwise
    monkeypatch.setattr(stitch, "_LEAST_VALUES", 400)
    ctx, files = made(tmp_path)
    for file in files[which]:
        remade(tmp_path, file, **options)
    written = stitched(ctx, files)
    assert are_same(read(ctx, written), read(ctx, files))
    assert sum(file.metadata.num_rows for file in written.files) == 4 * ROWS
    if copied:
        assert "n" in copied_columns(tmp_path, files, written.files[0])
    elif which == slice(0, 4):
        assert not copied_columns(tmp_path, files, written.files[0]) & PLAIN


def test_a_row_group_without_rows_breaks_no_run_of_copies(tmp_path):
    ctx, files = made(tmp_path)
    path = tmp_path / files[2].stat.path
    stored = pq.ParquetFile(path).read()
    options = {"store_schema": False, "use_dictionary": False, "write_page_index": True}
    with pq.ParquetWriter(path, stored.schema, compression="snappy", **options) as writer:
        writer.write_table(stored.slice(0, 0), row_group_size=1)
        writer.write_table(stored)
    assert pq.read_metadata(path).row_group(0).num_rows == 0
    written = stitched(ctx, files)
    assert are_same(read(ctx, written), read(ctx, files))
    chunks, _ = chunks_of(tmp_path, written.files[0])
    assert page_starts(chunks["n"]) == [0, ROWS, 2 * ROWS, 3 * ROWS]


def test_a_file_that_became_shorter_is_named(tmp_path):
    ctx, (file,) = made(tmp_path, files=1)
    decoded = frozenset(ctx.schema.names)
    with open_base_file(ctx.store, slice_of(file), ctx.schema, decoded=decoded, batch_bytes=MIB) as reader:
        parts = reader.parts
        assert parts is not None
        assert len(parts.content.read_at(100, 4)) == 100
        os.truncate(tmp_path / file.stat.path, 50)
        with pytest.raises(
            CorruptTableError, match=f"{file.stat.path} is not a whole parquet file .it has fewer than"
        ):
            parts.content.read_at(100, 4)


def test_an_older_schema_between_files_of_the_present_one(tmp_path):
    ctx, files = made(tmp_path, files=2)
    older = context(tmp_path, COLUMNS[:-3], instant=FIRST, files=SNAPPY)
    rows = some_rows(random.Random(3), ROWS, 500_000)
    known = {column.name for column in COLUMNS[:-3]}
    rows = [replace(row, values={k: v for k, v in row.values.items() if k in known}) for row in rows]
    files[1:1] = write(older, bucket(older, 7), rows).files
    written = stitched(ctx, files)
    names = [name for name in read(ctx, [files[0]]).column_names if name not in {"tags", "place", "sizes"}]
    expected = [read(ctx, [file]).select(names) for file in files]
    assert are_same(read(ctx, written).select(names), pa.concat_tables(expected))
    assert read(ctx, written).column("tags").slice(ROWS, ROWS).null_count == ROWS


def test_no_bounds_where_one_of_the_files_holds_a_nan(tmp_path):
    ctx, files = made(tmp_path, files=2)
    rows = some_rows(random.Random(4), ROWS, 900_000)
    rows[77].values["x"] = math.nan
    other = context(tmp_path, COLUMNS, instant=FIRST, files=SNAPPY)
    files += write(other, bucket(other, 8), rows).files
    written = stitched(ctx, files)
    chunks, _ = chunks_of(tmp_path, written.files[0])
    assert "x" in copied_columns(tmp_path, files, written.files[0])
    assert chunks["x"].column_index() is None
    assert chunks["n"].column_index() is not None
    said = written.files[0].metadata.row_group(0)
    known = {said.column(i).path_in_schema: said.column(i).statistics for i in range(said.num_columns)}
    assert (known["x"].has_min_max, known["n"].has_min_max) == (False, True)
    assert known["x"].null_count == read(ctx, files).column("x").null_count


def test_no_bounds_of_floats_where_one_of_the_files_may_hide_a_nan(tmp_path):
    """One says nothing of NaN, as files of other writers do."""
    ctx, files = made(tmp_path, files=3)
    path = tmp_path / files[1].stat.path
    parts = ParquetParts(pa.BufferReader(path.read_bytes()))
    with path.open("wb") as sink:
        assembly = ParquetAssembly(sink, parts)
        for group in range(len(parts.groups)):
            assembly.append(parts, group)
        assembly.finish({})
    size = replace(files[1].stat, file_size_bytes=path.stat().st_size)
    files[1] = replace(files[1], stat=size, metadata=pq.read_metadata(path))
    written = stitched(ctx, files)
    chunks, _ = chunks_of(tmp_path, written.files[0])
    assert {"x", "n"} <= copied_columns(tmp_path, files, written.files[0])
    assert chunks["x"].column_index() is None
    assert chunks["n"].column_index() is not None
    (group,) = file_statistics("p", written.files[0].metadata, size_bytes=1).row_groups
    assert (group.columns["x"].maximum, group.columns["x"].nan_free) == (None, False)
    assert group.columns["n"].maximum is not None


@pytest.mark.parametrize("bloom", [BloomFilter.ALWAYS_TRUE, BloomFilter.EXACT])
def test_the_footer_knows_every_key(tmp_path, bloom):
    ctx, files = made(tmp_path, files=3, policy=FilesPolicy(bloom_filter=bloom))
    (result,) = stitched(ctx, files).files
    assert (result.min_key, result.max_key) == ("k0000000", f"k{20_000 + ROWS - 1:07}")
    footer = {key.decode(): value.decode() for key, value in result.metadata.metadata.items()}
    assert (footer[MIN_KEY], footer[MAX_KEY]) == (result.min_key, result.max_key)
    decoded = rewritten(ctx, read(ctx, files))
    assert footer["org.apache.hudi.bloomfilter"] == decoded["org.apache.hudi.bloomfilter"]


def rewritten(ctx, table: pa.Table) -> dict[str, str]:
    """The footer of one file with such keys that is encoded row by row."""
    other = replace(ctx, instant="20260104000000000")
    keys = [Incoming(key=key) for key in table.column("_hoodie_record_key").to_pylist()]
    (file,) = write(other, bucket(other, 9), keys).files
    return {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}


def test_values_that_repeat_across_files_get_a_dictionary(tmp_path):
    """More than a fifth of a small file's are distinct, which is why it has none."""
    columns = (Column(name="user", type="string"), Column(name="n", type="bigint"))
    rnd = random.Random(6)
    users = [f"user {number} of this table" for number in range(700)]
    files = []
    for number in range(10):
        ctx = context(tmp_path, columns, instant=FIRST)
        rows = [
            Incoming(key=f"k{number}-{n}", values={"user": rnd.choice(users), "n": rnd.randrange(10**15)})
            for n in range(ROWS)
        ]
        files += write(ctx, bucket(ctx, number), rows).files
    assert not any(file.metadata.row_group(0).column(5).has_dictionary_page for file in files)
    ctx = context(tmp_path, columns, instant=SECOND)
    (result,) = stitched(ctx, files).files
    group = result.metadata.row_group(0)
    assert [group.column(place).has_dictionary_page for place in (5, 6)] == [True, False]
    assert copied_columns(tmp_path, files, result) >= {"n", "_hoodie_record_key"}


def test_the_same_files_make_the_same_bytes(tmp_path):
    ctx, files = made(tmp_path, files=3)
    first = [(tmp_path / file.stat.path).read_bytes() for file in stitched(ctx, files).files]
    assert [(tmp_path / file.stat.path).read_bytes() for file in stitched(ctx, files).files] == first


def test_row_groups_and_files_have_their_sizes(tmp_path):
    ctx, files = made(tmp_path, files=14, policy=FilesPolicy(row_group_size_bytes=600_000))
    one = files[0].stat.file_size_bytes
    written = stitched(ctx, files, target_bytes=5 * one)
    assert are_same(read(ctx, written), read(ctx, files))
    sizes = [file.stat.file_size_bytes for file in written.files]
    assert len(sizes) == 3
    assert max(sizes) < 1.25 * min(sizes)
    groups = [file.metadata.num_row_groups for file in written.files]
    assert sum(groups) <= 2 + sum(sizes) / 450_000


def test_little_memory_makes_smaller_row_groups(tmp_path):
    ctx, files = made(tmp_path, files=18, memory_budget_bytes=4 * MIB)
    assert ctx.row_group_arrow_bytes == 4 * MIB
    (result,) = stitched(ctx, files).files
    groups = [result.metadata.row_group(n) for n in range(result.metadata.num_row_groups)]
    assert len(groups) > 1
    assert max(group.total_byte_size for group in groups) <= ctx.row_group_arrow_bytes
    assert are_same(read(ctx, [result]), read(ctx, files))


@pytest.mark.parametrize("value_bytes", [300, 5000])
def test_values_that_are_much_larger_than_in_the_file(tmp_path, count_allocations, value_bytes):
    """A file keeps few long values once, rows have them all: one file's are more than a row group may be."""
    columns = (Column(name="n", type="bigint"), Column(name="b", type="binary"))
    ctx = context(tmp_path, columns, instant=FIRST)
    files = []
    for number in range(12):
        rnd = random.Random(number)
        long = [bytes([letter]) * value_bytes for letter in range(5)]
        rows = [
            Incoming(key=f"k{number}-{row}", values={"n": rnd.randrange(10**15), "b": rnd.choice(long)})
            for row in range(ROWS)
        ]
        files += write(ctx, bucket(ctx, number), rows).files
    after = context(tmp_path, columns, instant=SECOND, memory_budget_bytes=8 * MIB)
    counting = count_allocations()
    written = stitched(after, files)
    assert counting.max_memory() < 3 * after.memory_budget_bytes
    assert len(written.files) == 1
    assert are_same(read(ctx, written), read(ctx, files))


def test_many_files_are_not_open_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(stitch, "_MOST_PENDING", 3)
    ctx, files = made(tmp_path, files=7)
    (result,) = stitched(ctx, files).files
    assert [result.metadata.row_group(n).num_rows for n in range(3)] == [3 * ROWS, 3 * ROWS, ROWS]
    assert are_same(read(ctx, [result]), read(ctx, files))


def test_few_files_of_many_columns_wait_at_once(tmp_path):
    """What is known of their columns takes more memory than their rows, nearly all of which are empty."""
    columns = tuple(Column(name=f"c{number}", type="bigint") for number in range(120))
    ctx = context(tmp_path, columns, instant=FIRST, memory_budget_bytes=4 * MIB)
    rnd = random.Random(9)
    rows = [Incoming(key=f"{rnd.random()}-{rnd.random()}-{n}", values={"c0": n}) for n in range(ROWS)]
    (file,) = write(ctx, bucket(ctx, 0), rows).files
    slices = []
    for number in range(9):
        path = f"p=1/{number}-{file.stat.path.removeprefix('p=1/')}"
        shutil.copy(tmp_path / file.stat.path, tmp_path / path)
        slices.append(replace(slice_of(file), path=path, file_id=f"{number}"))
    group = GroupWork(index=0, partition="p=1", slices=tuple(slices), target_bytes=100 * MIB)
    (result,) = rewrite_group(replace(ctx, instant=SECOND), group).files
    chunks, _ = chunks_of(tmp_path, result)
    assert page_starts(chunks["_hoodie_record_key"]) == [0, ROWS, 2 * ROWS, 3 * ROWS]
    assert [result.metadata.row_group(n).num_rows for n in range(3)] == [4 * ROWS, 4 * ROWS, ROWS]


def test_rows_that_change_while_they_are_decoded_are_noticed(tmp_path, monkeypatch):
    decoded = stitch._decoded

    def spoilt(*arguments):
        table = decoded(*arguments)
        place = table.column_names.index("kind")
        kinds = table.column(place).combine_chunks()
        other = pa.concat_arrays([kinds.slice(1), kinds.slice(0, 1)])
        return table.set_column(place, table.schema.field(place), other)

    monkeypatch.setattr(stitch, "_decoded", spoilt)
    ctx, files = made(tmp_path, files=2)
    with pytest.raises(ParquetryError, match="not the same rows"):
        stitched(ctx, files)
