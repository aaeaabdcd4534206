from __future__ import annotations

import base64
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.base_file.encoding import RowGroupEncoder
from parquetry.runtime.base_file.model import WriteContext, WrittenFile
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import column_types, files_to_read, parse_where
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.bloom import ExactBloomFilter
from parquetry.runtime.parquet.footer import NAN_UNBOUNDED, file_statistics, read_metadata
from parquetry.runtime.spec.table_spec import BloomFilter, Column, FilesPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.file_names import BaseFileName
from tests.support.base_files import (
    FIRST,
    MIB,
    SECOND,
    THIRD,
    Incoming,
    bucket,
    context,
    merging,
    read,
    slice_of,
    write,
)
from tests.support.s3_server import BUCKET
from tests.support.sized_rows import COLUMNS as SIZED
from tests.support.sized_rows import Content, incoming_table

COLUMNS = (Column(name="n", type="bigint"), Column(name="word", type="string"))
SMALL_GROUPS = FilesPolicy(row_group_size_bytes=20_000, compression="snappy")


def some(count: int, first: int = 0) -> list[Incoming]:
    return [
        Incoming(key=f"k{n:06}", values={"n": n, "word": f"w{n % 3}"}) for n in range(first, first + count)
    ]


def foreign(folder: Path, rows: pa.Table, **options) -> FileSlice:
    """A base file as somebody else wrote it, meta columns included."""
    name = BaseFileName(
        partition="p=1", file_id="11111111-1111-1111-1111-111111111111-0", instant=FIRST, write_token="0-1-2"
    )
    meta = {
        "_hoodie_commit_time": [FIRST] * rows.num_rows,
        "_hoodie_commit_seqno": [f"{FIRST}_0_{n}" for n in range(rows.num_rows)],
        "_hoodie_record_key": [f"k{n:06}" for n in range(rows.num_rows)],
        "_hoodie_partition_path": ["p=1"] * rows.num_rows,
        "_hoodie_file_name": [name.name] * rows.num_rows,
    }
    path = folder / name.path
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(meta | dict(zip(rows.column_names, rows.columns, strict=True))), path, **options)
    return FileSlice(
        partition="p=1", file_id=name.file_id, instant=FIRST, path=name.path, size_bytes=path.stat().st_size
    )


def statistics_of(folder: Path, base: FileSlice) -> FileStatistics:
    metadata = read_metadata(open_store(str(folder)), base.path)
    return file_statistics(base.path, metadata, size_bytes=base.size_bytes)


def group_rows(file: WrittenFile) -> list[int]:
    return [file.metadata.row_group(index).num_rows for index in range(file.metadata.num_row_groups)]


def test_a_merge_keeps_the_file_group_and_what_rows_were(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    base = write(ctx, bucket(ctx), some(4)).files[0]
    ctx = context(tmp_path, COLUMNS, instant=SECOND)
    rows = [
        Incoming(key="k000001", position=1, values={"n": 100, "word": None}),
        Incoming(key="k000002", position=2, delete=True),
        *some(1, first=9),
    ]
    written = write(ctx, merging(base, 5), rows)
    (file,) = written.files
    assert (file.stat.file_id, file.stat.prev_commit) == (base.stat.file_id, FIRST)
    assert (
        file.stat.num_writes,
        file.stat.num_deletes,
        file.stat.num_update_writes,
        file.stat.num_inserts,
    ) == (4, 1, 1, 1)
    name = file.stat.path.rpartition("/")[2]
    assert read(ctx, written).select([0, 1, 2, 4, 5, 6]).to_pydict() == {
        "_hoodie_commit_time": [FIRST, SECOND, FIRST, SECOND],
        "_hoodie_commit_seqno": [f"{FIRST}_0_0", f"{SECOND}_5_0", f"{FIRST}_0_3", f"{SECOND}_5_1"],
        "_hoodie_record_key": ["k000000", "k000001", "k000003", "k000009"],
        "_hoodie_file_name": [name] * 4,
        "n": [0, 100, 3, 9],
        "word": ["w0", None, "w0", "w0"],
    }
    assert (tmp_path / f".hoodie/.temp/{SECOND}/{file.stat.path}.marker.MERGE").exists()
    assert (tmp_path / base.stat.path).exists()


def test_rows_are_ordered_by_a_field_within_a_struct(tmp_path):
    """As Hudi's own tables may be; a field of a struct that is null is null, the smallest."""
    columns = (Column(name="s", type="struct<t:struct<v:bigint>>"),)

    def rows(*versions):
        values = [None if v is None else {"t": {"v": v}} for v in versions]
        return [Incoming(key=f"k{n}", position=n, values={"s": s}) for n, s in enumerate(values)]

    ctx = context(tmp_path, columns)
    base = write(ctx, bucket(ctx), [replace(row, position=None) for row in rows(5, 5, None, 5)]).files[0]
    ctx = context(tmp_path, columns, instant=SECOND, ordering="s.t.v")
    written = write(ctx, merging(base), rows(4, 6, 1, None))
    found = read(ctx, written).column("s").to_pylist()
    assert [row["t"]["v"] for row in found] == [5, 6, 1, 5]
    assert written.late_rows == 2


@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_file_all_of_whose_incoming_rows_are_late_stays_as_it_is(tmp_path, monkeypatch, delete, encrypted):
    monkeypatch.setenv("LATE_KEY", base64.b64encode(bytes(32)).decode())
    files = FilesPolicy(encryption_key="env:LATE_KEY") if encrypted else SMALL_GROUPS
    ctx = context(tmp_path, COLUMNS, files=files)
    base = write(ctx, bucket(ctx, expected_inserts=4000), some(4000)).files[0]
    there = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    ctx = context(tmp_path, COLUMNS, instant=SECOND, files=files, ordering="n", has_markers=True)
    gone = [
        Incoming(key=f"k{n:06}", position=n, values={"n": n - 1, "word": None}, delete=delete)
        for n in (0, 7, 2000, 3999)
    ]
    written = write(ctx, merging(base), gone)
    assert (written.files, written.late_rows, written.consumed_rows) == ((), 4, 4)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == there
    one_wins = [*gone[:3], replace(gone[3], values={"n": 3999, "word": None})]
    (file,) = write(ctx, merging(base), one_wins).files
    assert (file.stat.num_deletes, file.stat.num_update_writes) == ((1, 0) if delete else (0, 1))


def test_a_file_of_which_all_rows_go_stays_as_an_empty_one(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    base = write(ctx, bucket(ctx), some(3)).files[0]
    ctx = context(tmp_path, COLUMNS, instant=SECOND)
    written = write(ctx, merging(base), [Incoming(key=f"k{n:06}", position=n, delete=True) for n in range(3)])
    (file,) = written.files
    assert (file.stat.num_writes, file.stat.num_deletes, file.min_key, file.max_key) == (0, 3, None, None)
    empty = read(ctx, written)
    assert (empty.num_rows, empty.column_names[5:]) == (0, ["n", "word"])
    assert b"hoodie_min_record_key" not in file.metadata.metadata
    ctx = context(tmp_path, COLUMNS, instant=THIRD)
    assert read(ctx, write(ctx, merging(file), some(2)))["n"].to_pylist() == [0, 1]


def test_untouched_row_groups_are_copied_and_touched_ones_are_not(tmp_path):
    ctx = context(tmp_path, SIZED, files=SMALL_GROUPS)
    table = incoming_table(1, 0, 2000, width=100, content=Content.INCOMPRESSIBLE)
    base = write_bucket(ctx, bucket(ctx, expected_inserts=2000), table.to_batches()).files[0]
    assert base.metadata.num_row_groups >= 5
    first, second = group_rows(base)[:2]
    ctx = context(tmp_path, SIZED, instant=SECOND, files=SMALL_GROUPS)
    change = incoming_table(
        2, first, 1, width=100, content=Content.INCOMPRESSIBLE, positions=pa.array([first])
    )
    written = write_bucket(ctx, merging(base, expected_updates=1), change.to_batches())
    (file,) = written.files
    assert group_rows(file)[:4] == group_rows(base)[:4]
    found = read(ctx, written)
    expected = pa.concat_tables([table.slice(0, first), change, table.slice(first + 1)]).select(
        ["id", "amount", "payload"]
    )
    assert found.select(["id", "amount", "payload"]).equals(expected)
    assert set(found["_hoodie_file_name"].to_pylist()) == {file.stat.path.rpartition("/")[2]}
    assert found["_hoodie_commit_time"].to_pylist().count(SECOND) == 1
    old, new = pq.ParquetFile(tmp_path / base.stat.path), pq.ParquetFile(tmp_path / file.stat.path)
    pages = [
        _pages(tmp_path / path, parquet.metadata, group)
        for path, parquet in ((base.stat.path, old), (file.stat.path, new))
        for group in (0, 1)
    ]
    assert pages[0] == pages[2]
    assert pages[1] != pages[3]
    assert (file.min_key, file.max_key) == (base.min_key, base.max_key)
    assert second == group_rows(file)[1]


def test_columns_that_no_update_changes_are_copied(tmp_path, monkeypatch):
    columns = (
        Column(name="n", type="bigint"),
        Column(name="s", type="struct<f:double,l:array<string>>"),
        Column(name="text", type="string"),
        Column(name="f", type="double"),
    )
    rnd = np.random.default_rng(1)
    rows = [
        Incoming(
            key=f"k{n:06}",
            values={
                "n": n,
                "s": {"f": n / 7, "l": [f"{n}", None]},
                "text": rnd.bytes(30).hex(),
                "f": rnd.normal(),
            },
        )
        for n in range(1500)
    ]
    ctx = context(tmp_path, columns, files=SMALL_GROUPS)
    base = write(ctx, bucket(ctx, expected_inserts=1500), rows).files[0]
    assert base.metadata.num_row_groups > 3
    changed = {3: float("nan"), 5: -0.0, 700: 1.5}
    ctx = context(tmp_path, columns, instant=SECOND, files=SMALL_GROUPS)
    updates = [
        Incoming(key=rows[n].key, position=n, values=rows[n].values | {"f": value})
        for n, value in changed.items()
    ]
    encoded = spied_columns(monkeypatch)
    written = write(ctx, merging(base), updates)
    (file,) = written.files
    assert encoded[0] == ["_hoodie_commit_time", "_hoodie_commit_seqno", "s", "f", "_hoodie_file_name"]
    assert group_rows(file)[:3] == group_rows(base)[:3]
    assert (file.stat.num_update_writes, file.stat.num_writes) == (3, 1500)
    found = read(ctx, written)
    for name in ("n", "s", "text"):
        assert found[name].to_pylist() == [row.values[name] for row in rows]
    expected = [changed.get(n, row.values["f"]) for n, row in enumerate(rows)]
    assert list(map(repr, found["f"].to_pylist())) == list(map(repr, expected))
    assert found["_hoodie_commit_time"].to_pylist() == [
        SECOND if n in changed else FIRST for n in range(1500)
    ]
    assert len(set(found["_hoodie_commit_seqno"].to_pylist())) == 1500
    assert set(found["_hoodie_file_name"].to_pylist()) == {file.stat.path.rpartition("/")[2]}
    bounded = {
        file.metadata.schema.column(i).path: file.metadata.row_group(0).column(i).statistics.has_min_max
        for i in range(file.metadata.num_columns)
    }
    assert [path for path, has in bounded.items() if not has] == ["f"]
    group = file.metadata.row_group(0)
    assert group.total_byte_size == sum(
        group.column(i).total_uncompressed_size for i in range(group.num_columns)
    )


def spied_columns(monkeypatch) -> list[list[str]]:
    """The names of the columns of every table that is encoded from now on."""
    names: list[list[str]] = []
    encode = RowGroupEncoder.encode

    def spied(self: RowGroupEncoder, rows: pa.Table) -> object:
        names.append(rows.column_names)
        return encode(self, rows)

    monkeypatch.setattr(RowGroupEncoder, "encode", spied)
    return names


def test_a_row_group_that_grows_much_is_cut_anew(tmp_path):
    ctx = context(tmp_path, SIZED, files=SMALL_GROUPS)
    table = incoming_table(1, 0, 1000, width=200, content=Content.INCOMPRESSIBLE)
    base = write_bucket(ctx, bucket(ctx, expected_inserts=1000), table.to_batches()).files[0]
    places = pa.array(range(group_rows(base)[0]))
    grown = incoming_table(1, 0, len(places), width=2000, content=Content.INCOMPRESSIBLE, positions=places)
    ctx = context(tmp_path, SIZED, instant=SECOND, files=SMALL_GROUPS)
    file = write_bucket(ctx, merging(base, expected_updates=len(places)), grown.to_batches()).files[0]
    sizes = [
        sum(group.column(i).total_compressed_size for i in range(group.num_columns))
        for group in (file.metadata.row_group(index) for index in range(file.metadata.num_row_groups))
    ]
    assert max(sizes) < 2 * 20_000
    assert file.metadata.num_rows == 1000


def _chunks(path: Path, metadata: pq.FileMetaData, group: int) -> dict[str, bytes]:
    content = path.read_bytes()
    chunks = [metadata.row_group(group).column(index) for index in range(metadata.num_columns)]
    starts = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
    return {
        chunk.path_in_schema: content[at : at + chunk.total_compressed_size]
        for at, chunk in zip(starts, chunks, strict=True)
    }


def _pages(path: Path, metadata: pq.FileMetaData, group: int) -> list[bytes]:
    """The chunks of a row group as stored, the file's name aside."""
    return [pages for name, pages in _chunks(path, metadata, group).items() if name != "_hoodie_file_name"]


def test_small_row_groups_grow_together(tmp_path):
    policy = FilesPolicy(compression="snappy")
    ctx = context(tmp_path, COLUMNS, files=policy)
    file = write(ctx, bucket(ctx), some(100)).files[0]
    for number in range(5):
        ctx = context(tmp_path, COLUMNS, files=policy, instant=f"2026020100000000{number}")
        file = write(ctx, merging(file, expected_inserts=100), some(100, first=100 * (number + 1))).files[0]
    assert group_rows(file) == [600]


def test_rows_appended_bit_by_bit_are_encoded_a_few_times(tmp_path, monkeypatch):
    encoded: list[int] = []
    encode = RowGroupEncoder.encode

    def counted(self: RowGroupEncoder, rows: pa.Table) -> object:
        encoded.append(rows.num_rows)
        return encode(self, rows)

    monkeypatch.setattr(RowGroupEncoder, "encode", counted)
    file = None
    for number in range(16):
        ctx = context(tmp_path, SIZED, instant=f"202602010000000{number:02d}")
        to = bucket(ctx, expected_inserts=1000) if file is None else merging(file, expected_inserts=1000)
        rows = incoming_table(number, 1000 * number, 1000, width=400, content=Content.INCOMPRESSIBLE)
        file = write_bucket(ctx, to, rows.to_batches()).files[0]
        groups = group_rows(file)
        assert sum(groups) == 1000 * (number + 1)
        assert all(rows > 0.9 * sum(groups[at + 1 :]) for at, rows in enumerate(groups))
    assert file is not None
    assert sum(encoded) <= 16_000 * 5
    assert read(ctx, [file]).column("id").to_pylist() == list(range(16_000))


@pytest.mark.parametrize(
    ("columns", "files"),
    [
        (SIZED, FilesPolicy(row_group_size_bytes=20_000, compression="zstd")),
        ((*SIZED, Column(name="added", type="int")), SMALL_GROUPS),
    ],
    ids=["another codec", "another schema"],
)
def test_row_groups_that_are_out_of_date_are_written_anew(tmp_path, columns, files):
    ctx = context(tmp_path, SIZED, files=SMALL_GROUPS)
    table = incoming_table(1, 0, 1000, width=100, content=Content.INCOMPRESSIBLE)
    base = write_bucket(ctx, bucket(ctx, expected_inserts=1000), table.to_batches()).files[0]
    ctx = context(tmp_path, columns, instant=SECOND, files=files)
    written = write_bucket(ctx, merging(base), [])
    assert read(ctx, written).select(["id", "payload"]).equals(table.select(["id", "payload"]))
    group = written.files[0].metadata.row_group(0)
    assert {group.column(index).compression for index in range(group.num_columns)} == {
        files.compression.upper()
    }
    assert written.files[0].metadata.num_columns == 5 + len(columns)


def test_an_exact_bloom_filter_knows_copied_keys(tmp_path):
    files = FilesPolicy(row_group_size_bytes=20_000, bloom_filter=BloomFilter.EXACT)
    ctx = context(tmp_path, SIZED, files=files)
    table = incoming_table(1, 0, 1000, width=100, content=Content.INCOMPRESSIBLE)
    base = write_bucket(ctx, bucket(ctx), table.to_batches()).files[0]
    ctx = context(tmp_path, SIZED, instant=SECOND, files=files)
    file = write_bucket(ctx, merging(base), []).files[0]
    expected = ExactBloomFilter()
    expected.add(table["_hoodie_record_key"])
    assert file.metadata.metadata[b"org.apache.hudi.bloomfilter"] == expected.text().encode()


def test_copied_keys_that_java_orders_otherwise_keep_javas_range(tmp_path):
    ctx = context(tmp_path, SIZED, files=SMALL_GROUPS)
    keys = ["a\uffff", *(f"b{n}" for n in range(998)), "a🙂"]
    table = incoming_table(1, 0, 1000, width=100, content=Content.INCOMPRESSIBLE)
    table = table.set_column(
        table.schema.get_field_index("_hoodie_record_key"), "_hoodie_record_key", pa.array(keys)
    )
    base = write_bucket(ctx, bucket(ctx), table.to_batches()).files[0]
    ctx = context(tmp_path, SIZED, instant=SECOND, files=SMALL_GROUPS)
    file = write_bucket(ctx, merging(base), []).files[0]
    assert (file.min_key, file.max_key) == (min(keys, key=lambda k: k.encode("utf-16-be")), "b997")


def test_files_of_older_schemas_are_widened(tmp_path):
    old = pa.table(
        {
            "word": ["a", "b"],
            "n": pa.array([1, None], pa.int32()),
            "x": pa.array([1.5, None], pa.float32()),
            "price": pa.array([Decimal("1.25"), None], pa.decimal128(5, 2)),
            "s": pa.array(
                [{"a": 1, "l": [1]}, None], pa.struct([("a", pa.int32()), ("l", pa.list_(pa.int32()))])
            ),
            "gone": [True, False],
        }
    )
    columns = (
        Column(name="n", type="bigint"),
        Column(name="word", type="string"),
        Column(name="x", type="double"),
        Column(name="price", type="decimal(6,2)"),
        Column(name="s", type="struct<a:bigint,b:string,l:array<bigint>>"),
        Column(name="new", type="map<string,int>"),
    )
    base = foreign(tmp_path, old)
    ctx = context(tmp_path, columns, instant=SECOND)
    new = {
        "n": 2**40,
        "word": "c",
        "x": 1e300,
        "price": Decimal("9.99"),
        "s": {"a": 2**40, "b": "x", "l": None},
        "new": [("k", 1)],
    }
    written = write(ctx, merging(base), [Incoming(key="k000001", position=1, values=new)])
    assert read(ctx, written).select(ctx.schema.names).to_pylist() == [
        {
            "n": 1,
            "word": "a",
            "x": 1.5,
            "price": Decimal("1.25"),
            "s": {"a": 1, "b": None, "l": [1]},
            "new": None,
        },
        new,
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_compliant_nested_type": False},
        {"store_decimal_as_integer": True},
        {"coerce_timestamps": "ms"},
        {"use_dictionary": False},
    ],
)
def test_encodings_of_other_writers_become_ours(tmp_path, options):
    when = pa.array([1_700_000_000_123_000, None], pa.timestamp("us", tz="UTC"))
    rows = pa.table(
        {"l": [["a", None], None], "d": pa.array([Decimal("-1.01"), None], pa.decimal128(10, 2)), "t": when}
    )
    columns = (
        Column(name="l", type="array<string>"),
        Column(name="d", type="decimal(10,2)"),
        Column(name="t", type="timestamp"),
    )
    base = foreign(tmp_path, rows, **options)
    ctx = context(tmp_path, columns, instant=SECOND)
    written = write(ctx, merging(base), [])
    assert read(ctx, written).select(["l", "d", "t"]).to_pylist() == rows.to_pylist()
    schema = written.files[0].metadata.schema
    leaves = {schema.column(i).path: schema.column(i) for i in range(5, len(schema))}
    assert list(leaves) == ["l.list.element", "d", "t"]
    assert leaves["d"].physical_type == "FIXED_LEN_BYTE_ARRAY"
    assert "microseconds" in str(leaves["t"].logical_type)


@pytest.mark.parametrize("rows_change", [False, True])
def test_no_bounds_of_floats_are_copied_from_a_file_that_may_hide_a_nan(tmp_path, rows_change):
    """Nothing of its floats is decoded, so a NaN beside the bounds would not be seen."""
    columns = (
        Column(name="n", type="bigint"),
        Column(name="x", type="double"),
        Column(name="st", type="struct<y:float>"),
    )
    ctx = context(tmp_path, columns, files=SMALL_GROUPS)
    values = [{"n": n, "x": n / 7, "st": {"y": n / 3}} for n in range(9000)]
    base = write(ctx, bucket(ctx), [Incoming(key=f"k{n:06}", values=v) for n, v in enumerate(values)]).files[
        0
    ]
    path = tmp_path / base.stat.path
    rows = pq.read_table(path)
    numbers = rows["x"].to_pylist()
    numbers[8500] = math.nan
    rows = rows.set_column(rows.schema.get_field_index("x"), "x", pa.array(numbers))
    pq.write_table(rows, path, row_group_size=1000, **RowGroupEncoder(SMALL_GROUPS).options)
    theirs = replace(slice_of(base), size_bytes=path.stat().st_size)
    assert statistics_of(tmp_path, theirs).row_groups[-1].columns["x"].maximum == 8999 / 7

    ctx = context(tmp_path, columns, instant=SECOND, files=SMALL_GROUPS)
    # A row of each row group changes in a column that is no number, or in none.
    changes = [
        Incoming(key=f"k{n:06}", position=n, values={**values[n], "n": -1}) for n in range(0, 9000, 1000)
    ]
    (file,) = write(ctx, merging(theirs), changes if rows_change else changes[:1]).files
    assert read(ctx, [file])["x"].to_pylist()[1:8500] == numbers[1:8500]
    ours = file_statistics("p", file.metadata, size_bytes=1).row_groups
    assert [group.rows for group in ours] == [1000] * 9
    assert [group.columns["x"].maximum for group in ours][1:] == [None] * 8
    # What was decoded, as structs are, is known to hold none.
    assert [group.columns["st.y"].nan_free for group in ours][1:] == [rows_change] * 8
    assert all(group.columns["n"].maximum is not None for group in ours)
    known = file_statistics("p", file.metadata, size_bytes=1)
    types = column_types(columns)
    assert files_to_read([known], parse_where("x > 5000", types=types), types) == [known]


def test_bounds_of_our_floats_are_copied_and_believed(tmp_path):
    columns = (Column(name="n", type="bigint"), Column(name="x", type="double"))
    policy = FilesPolicy(row_group_size_bytes=20_000, compression="snappy")
    ctx = context(tmp_path, columns, files=policy)
    rows = [
        Incoming(key=f"k{n:06}", values={"n": n, "x": math.nan if n == 0 else n / 7}) for n in range(9000)
    ]
    base = write(ctx, bucket(ctx), rows).files[0]
    ctx = context(tmp_path, columns, instant=SECOND, files=policy)
    written = write(ctx, merging(base), [Incoming(key="k000000", position=0, values={"n": 0, "x": math.nan})])
    of_file = file_statistics("p", written.files[0].metadata, size_bytes=1)
    assert len(of_file.row_groups) > 2
    told = [group.columns["x"] for group in of_file.row_groups]
    assert [(one.maximum is None, one.nan_free) for one in told] == [(True, False)] + [(False, True)] * (
        len(told) - 1
    )


def test_a_file_that_pyarrow_writes_again_with_our_footer_keys_is_not_believed(tmp_path):
    columns = (Column(name="n", type="bigint"), Column(name="x", type="double"))
    ctx = context(tmp_path, columns)
    base = write(
        ctx, bucket(ctx), [Incoming(key=f"k{n}", values={"n": n, "x": 1.0}) for n in range(9)]
    ).files[0]
    path = tmp_path / base.stat.path
    assert file_statistics("p", pq.read_metadata(path), size_bytes=1).columns["x"].nan_free
    rows = pq.read_table(path)
    rows = rows.set_column(rows.schema.get_field_index("x"), "x", pa.array([1.0] * 8 + [math.nan]))
    pq.write_table(rows, path)
    again = pq.read_metadata(path)
    assert NAN_UNBOUNDED.encode() in again.metadata
    assert not file_statistics("p", again, size_bytes=1).columns["x"].nan_free


def test_rows_of_a_file_in_one_large_row_group_are_read_in_pieces(tmp_path):
    rows = 200_000
    table = pa.table({"n": np.arange(rows), "word": pa.array(["w"] * rows)})
    base = foreign(tmp_path, table, row_group_size=rows)
    ctx = context(tmp_path, COLUMNS, instant=SECOND, memory_budget_bytes=20 * MIB)
    written = write(ctx, merging(base), [Incoming(key="k", position=rows - 1, values={"n": -1})])
    assert read(ctx, written)["n"].to_pylist() == [*range(rows - 1), -1]
    assert len(group_rows(written.files[0])) > 1


def test_rows_that_do_not_fit_any_more_move_to_a_new_file_group(tmp_path):
    ctx = context(tmp_path, SIZED, max_file_size_bytes=500_000)
    base = write_bucket(
        ctx, bucket(ctx), incoming_table(1, 0, 4000, width=120, content=Content.INCOMPRESSIBLE).to_batches()
    ).files[0]
    rows = base.stat.num_writes
    ctx = context(tmp_path, SIZED, instant=SECOND, max_file_size_bytes=500_000)
    grown = incoming_table(
        2, 0, rows, width=400, content=Content.INCOMPRESSIBLE, positions=pa.array(range(rows))
    )
    grown = grown.take(pa.array(range(0, rows, 2)))
    written = write_bucket(
        ctx, merging(base, expected_updates=grown.num_rows), grown.to_batches(max_chunksize=100)
    )
    limit = max(500_000, base.stat.file_size_bytes)
    sizes = [file.stat.file_size_bytes for file in written.files]
    assert len(sizes) > 1
    assert all(0.9 * 500_000 <= size <= 1.05 * limit for size in sizes[:-1])
    assert [file.stat.prev_commit for file in written.files] == [FIRST] + [None] * (len(sizes) - 1)
    assert sum(file.stat.num_update_writes for file in written.files) == grown.num_rows
    assert sum(file.stat.num_inserts for file in written.files) == 0
    found = read(ctx, written)
    assert found["id"].to_pylist() == list(range(rows))
    assert found["_hoodie_commit_time"].to_pylist() == [SECOND if n % 2 == 0 else FIRST for n in range(rows)]


def test_inserts_roll_over_before_rows_that_are_there(tmp_path):
    ctx = context(tmp_path, SIZED, max_file_size_bytes=500_000)
    base = write_bucket(
        ctx, bucket(ctx), incoming_table(1, 0, 4000, width=120, content=Content.INCOMPRESSIBLE).to_batches()
    ).files[0]
    ctx = context(tmp_path, SIZED, instant=SECOND, max_file_size_bytes=500_000)
    more = incoming_table(2, 10_000, 6000, width=120, content=Content.INCOMPRESSIBLE)
    written = write_bucket(ctx, merging(base, expected_inserts=6000), more.to_batches())
    assert written.files[0].stat.num_writes >= base.stat.num_writes
    assert [file.stat.num_inserts for file in written.files[1:]] == [
        file.stat.num_writes for file in written.files[1:]
    ]
    assert sum(file.stat.num_inserts for file in written.files) == 6000


def test_a_merge_repeated_makes_the_same_bytes(tmp_path):
    ctx = context(tmp_path, SIZED, files=SMALL_GROUPS, max_file_size_bytes=100_000)
    base = write_bucket(
        ctx,
        bucket(ctx, expected_inserts=1000),
        incoming_table(1, 0, 1000, width=120, content=Content.MIXED).to_batches(),
    ).files[0]
    places = pa.array([*range(3), 400, 401])
    change = incoming_table(2, 0, 5, width=300, content=Content.INCOMPRESSIBLE, positions=places)
    more = incoming_table(3, 9000, 500, width=120, content=Content.MIXED)
    contents = []
    for batch_rows in (3, 64, 1000):
        ctx: WriteContext = context(
            tmp_path, SIZED, instant=SECOND, files=SMALL_GROUPS, max_file_size_bytes=100_000
        )
        batches = pa.concat_tables([change, more]).combine_chunks().to_batches(max_chunksize=batch_rows)
        written = write_bucket(
            ctx, merging(slice_of(base), expected_updates=5, expected_inserts=500), batches
        )
        contents.append({file.stat.path: (tmp_path / file.stat.path).read_bytes() for file in written.files})
    assert len(contents[0]) > 1
    assert contents[0] == contents[1] == contents[2]


def test_a_merge_on_s3_copies_reads_and_rolls_over(s3_options):
    store = open_store(f"s3://{BUCKET}/base-files", s3_options)
    ctx = context(store, SIZED, files=SMALL_GROUPS)
    table = incoming_table(1, 0, 2000, width=100, content=Content.INCOMPRESSIBLE)
    base = write_bucket(ctx, bucket(ctx, expected_inserts=2000), table.to_batches()).files[0]
    ctx = context(store, SIZED, instant=SECOND, files=SMALL_GROUPS, max_file_size_bytes=150_000)
    more = incoming_table(2, 9000, 2000, width=100, content=Content.INCOMPRESSIBLE)
    written = write_bucket(ctx, merging(base, expected_inserts=2000), more.to_batches())
    assert len(written.files) > 1
    assert group_rows(written.files[0])[:2] == group_rows(base)[:2]
    found = read(ctx, written)
    assert found.select(["id", "payload"]).equals(pa.concat_tables([table, more]).select(["id", "payload"]))
