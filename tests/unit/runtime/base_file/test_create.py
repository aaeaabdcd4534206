from __future__ import annotations

import math
import random
import re
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.base_file.model import new_file_id
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.parquet.bloom import ALWAYS_TRUE, ExactBloomFilter
from parquetry.runtime.spec.table_spec import BloomFilter, Column, FilesPolicy
from tests.support.base_files import FIRST, Incoming, batches, bucket, context, merging, read, write
from tests.support.rows import TYPES, make_row
from tests.support.sized_rows import COLUMNS as SIZED
from tests.support.sized_rows import Content, incoming_table

COLUMNS = (Column(name="n", type="bigint"), Column(name="word", type="string"))
META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


def some(count: int) -> list[Incoming]:
    return [Incoming(key=f"k{n}", values={"n": n, "word": f"w{n % 3}"}) for n in range(count)]


def metadata(folder: Path, path: str) -> pq.FileMetaData:
    return pq.read_metadata(folder / path)


def test_rows_carry_hudis_columns_in_their_order(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    written = write(ctx, bucket(ctx, 3), some(2))
    (file,) = written.files
    name = f"{uuid.UUID(new_file_id(FIRST, 3)[:-2])}-0_0-0-0_{FIRST}.parquet"
    assert file.stat.path == f"p=1/{name}"
    assert read(ctx, written).to_pylist() == [
        dict(zip(META, (FIRST, f"{FIRST}_3_{n}", f"k{n}", "p=1", name), strict=True))
        | {"n": n, "word": f"w{n}"}
        for n in range(2)
    ]
    assert (file.stat.num_writes, file.stat.num_inserts, file.stat.prev_commit) == (2, 2, None)
    assert file.stat.file_size_bytes == (tmp_path / file.stat.path).stat().st_size


def test_the_footer_says_what_hudi_asks_for(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    keys = ["a\ue000", "a🙂", "b", "a"]
    written = write(ctx, bucket(ctx), [Incoming(key=key) for key in keys])
    footer = metadata(tmp_path, written.files[0].stat.path)
    assert footer.metadata == {
        b"parquet.avro.schema": ctx.avro_schema.encode(),
        b"writer.model.name": b"avro",
        b"org.apache.spark.version": b"3.0.0",
        b"hoodie_bloom_filter_type_code": b"DYNAMIC_V0",
        b"org.apache.hudi.bloomfilter": ALWAYS_TRUE.encode(),
        b"hoodie_min_record_key": b"a",
        b"hoodie_max_record_key": b"b",
    }
    assert written.files[0].metadata.equals(footer)


def test_an_exact_bloom_filter_holds_every_key(tmp_path):
    ctx = context(tmp_path, COLUMNS, files=FilesPolicy(bloom_filter=BloomFilter.EXACT))
    written = write(ctx, bucket(ctx), some(50), batch_rows=7)
    expected = ExactBloomFilter()
    expected.add(pa.array([f"k{n}" for n in range(50)]))
    footer = metadata(tmp_path, written.files[0].stat.path)
    assert footer.metadata[b"org.apache.hudi.bloomfilter"] == expected.text().encode()


def test_parquet_types_are_those_that_hudis_merges_keep(tmp_path):
    columns = tuple(Column(name=name, type=kind.spark) for name, kind in TYPES.items())
    ctx = context(tmp_path, columns)
    rnd = random.Random(1)
    written = write(ctx, bucket(ctx), [Incoming(key=str(n), values=make_row(rnd)) for n in range(50)])
    schema = metadata(tmp_path, written.files[0].stat.path).schema
    leaves = {schema.column(i).path: schema.column(i) for i in range(len(schema))}
    physical = {path: leaf.physical_type for path, leaf in leaves.items()}
    assert {physical[name] for name in META} == {"BYTE_ARRAY"}
    assert [leaves[name].length for name in ("c_price", "c_amount", "c_huge")] == [5, 10, 16]
    assert "FIXED_LEN_BYTE_ARRAY" == physical["c_price"] == physical["c_structs.list.element.p"]
    assert str(leaves["c_timestamp"].logical_type) == str(leaves["c_struct.inner.t"].logical_type)
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(leaves["c_timestamp"].logical_type)
    assert (physical["c_short"], physical["c_date"]) == ("INT32", "INT32")
    assert {"c_words.list.element", "c_map.key_value.key", "c_map.key_value.value"} <= leaves.keys()
    group = metadata(tmp_path, written.files[0].stat.path).row_group(0)
    assert all(group.column(i).has_offset_index for i in range(group.num_columns))
    assert b"ARROW:schema" not in (metadata(tmp_path, written.files[0].stat.path).metadata or {})


@pytest.mark.parametrize(
    ("codec", "expected"),
    [("snappy", "SNAPPY"), ("zstd", "ZSTD"), ("gzip", "GZIP"), ("none", "UNCOMPRESSED")],
)
def test_the_codec_is_the_declared_one(tmp_path, codec, expected):
    ctx = context(tmp_path, COLUMNS, files=FilesPolicy(compression=codec))
    written = write(ctx, bucket(ctx), some(5))
    group = metadata(tmp_path, written.files[0].stat.path).row_group(0)
    assert {group.column(i).compression for i in range(group.num_columns)} == {expected}


def test_columns_that_repeat_get_dictionaries_and_others_do_not(tmp_path):
    ctx = context(
        tmp_path, (*COLUMNS, Column(name="unique", type="string"), Column(name="words", type="array<string>"))
    )
    rows = [
        Incoming(
            key=f"k{n}", values={"n": n % 50, "word": f"w{n % 3}", "unique": f"{n}", "words": [f"{n % 5}"]}
        )
        for n in range(60_000)
    ]
    group = metadata(tmp_path, write(ctx, bucket(ctx), rows).files[0].stat.path).row_group(0)
    chosen = {
        group.column(i).path_in_schema: group.column(i).has_dictionary_page for i in range(group.num_columns)
    }
    assert [name for name, has in chosen.items() if not has] == [
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "unique",
    ]


def test_nan_takes_the_bounds_of_its_row_group_away(tmp_path):
    ctx = context(
        tmp_path,
        (
            Column(name="f", type="double"),
            Column(name="s", type="struct<g:float>"),
            Column(name="l", type="array<float>"),
        ),
    )
    rows = [
        Incoming(key="a", values={"f": 1.0, "s": {"g": math.nan}, "l": [1.0]}),
        Incoming(key="b", values={"f": 2.0, "s": {"g": 1.0}, "l": [math.nan]}),
    ]
    group = metadata(tmp_path, write(ctx, bucket(ctx), rows).files[0].stat.path).row_group(0)
    bounded = {group.column(i).path_in_schema: group.column(i).statistics.has_min_max for i in range(5, 8)}
    assert bounded == {"f": True, "s.g": False, "l.list.element": False}


def test_marker_and_partition_metadata_come_with_the_file(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    written = write(ctx, bucket(ctx, partition="a=1/b=2"), some(1))
    path = written.files[0].stat.path
    assert (tmp_path / f".hoodie/.temp/{FIRST}/{path}.marker.CREATE").read_bytes() == b""
    text = (tmp_path / "a=1/b=2/.hoodie_partition_metadata").read_text()
    assert re.search(rf"commitTime={FIRST}\npartitionDepth=2\n", text)


def test_what_the_driver_has_put_is_not_put_again(tmp_path):
    ctx = context(tmp_path, COLUMNS, has_markers=True)
    write(ctx, bucket(ctx), some(1))
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [
        f"{new_file_id(FIRST, 0)}_0-0-0_{FIRST}.parquet"
    ]


def test_an_unpartitioned_table_has_its_files_at_the_top(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    written = write(ctx, bucket(ctx, partition=""), some(1))
    assert "/" not in written.files[0].stat.path
    assert (tmp_path / ".hoodie_partition_metadata").exists()
    assert read(ctx, written)["_hoodie_partition_path"].to_pylist() == [""]


def test_no_rows_make_no_file_but_are_accounted_for(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    deletes = [Incoming(key="gone", delete=True, hash=-5), Incoming(key="too", delete=True, hash=3)]
    written = write(ctx, bucket(ctx), deletes)
    assert (written.files, written.consumed_rows, written.consumed_hash) == ((), 2, 2**64 - 2)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_full_file_rolls_over_into_new_file_groups(tmp_path):
    table = incoming_table(1, 0, 30_000, width=200, content=Content.INCOMPRESSIBLE)
    ctx = context(tmp_path, SIZED, max_file_size_bytes=1_000_000, has_markers=True)
    written = write_bucket(ctx, bucket(ctx, 7, expected_inserts=30_000), table.to_batches(max_chunksize=500))
    assert len(written.files) > 3
    assert [file.stat.file_id for file in written.files] == [
        new_file_id(FIRST, 7, n) for n in range(len(written.files))
    ]
    assert all(0.9e6 < file.stat.file_size_bytes < 1.05e6 for file in written.files[:-1])
    found = read(ctx, written)
    assert found.select(["id", "payload"]).equals(table.select(["id", "payload"]).combine_chunks())
    assert found["_hoodie_file_name"].to_pylist() == [
        file.stat.path.rpartition("/")[2] for file in written.files for _ in range(file.stat.num_writes)
    ]
    markers = {marker.name for marker in tmp_path.rglob("*.marker.*")}
    assert markers == {file.stat.path.rpartition("/")[2] + ".marker.CREATE" for file in written.files[1:]}
    assert sum(file.stat.num_inserts for file in written.files) == written.consumed_rows == 30_000


def test_bytes_do_not_depend_on_how_rows_arrive(tmp_path):
    table = incoming_table(1, 0, 20_000, width=150, content=Content.MIXED)
    contents = []
    for number, batch_rows in enumerate((100, 977, 20_000)):
        ctx = context(tmp_path / str(number), SIZED, max_file_size_bytes=500_000, record_size_bytes=80)
        written = write_bucket(
            ctx, bucket(ctx, expected_inserts=20_000), table.to_batches(max_chunksize=batch_rows)
        )
        contents.append(
            {file.stat.path: (tmp_path / str(number) / file.stat.path).read_bytes() for file in written.files}
        )
    assert len(contents[0]) > 1
    assert contents[0] == contents[1] == contents[2]


def test_a_row_without_a_key_is_refused(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    rows = batches(some(3), ctx.schema)[0].to_pylist()
    rows[1]["_hoodie_record_key"] = None
    with pytest.raises(InvalidDataError, match="1 rows have no record key"):
        write_bucket(
            ctx,
            bucket(ctx),
            [pa.RecordBatch.from_pylist(rows, schema=batches(some(1), ctx.schema)[0].schema)],
        )
    assert list(tmp_path.rglob("*.parquet*")) == []


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("bigint", 1, None),
        ("struct<a:int NOT NULL>", {"a": 1}, {"a": None}),
        ("array<struct<a:struct<b:int NOT NULL>>>", [{"a": None}, None], [{"a": {"b": None}}]),
        ("map<string,struct<a:int NOT NULL>>", [("k", None)], [("k", {"a": None})]),
    ],
)
def test_a_null_where_none_may_be_is_refused_by_name(tmp_path, kind, good, bad):
    ctx = context(tmp_path, (Column(name="n", type=kind, nullable=kind != "bigint"),))
    with pytest.raises(InvalidDataError) as refused:
        write(ctx, bucket(ctx), [Incoming(key="a", values={"n": good}), Incoming(key="b", values={"n": bad})])
    told = str(refused.value)
    assert "column 'n' is declared non-nullable but contains nulls; supply a value" in told
    assert list(tmp_path.rglob("*.parquet")) == []
    assert read(ctx, write(ctx, bucket(ctx), [Incoming(key="a", values={"n": good})]))["n"].to_pylist() == [
        good
    ]


@pytest.mark.parametrize(
    "kind",
    [
        "struct<a:int NOT NULL>",
        "struct<a:string NOT NULL,b:array<int> NOT NULL,c:map<string,int> NOT NULL>",
        "struct<a:struct<b:decimal(38,2) NOT NULL,c:struct<d:boolean NOT NULL> NOT NULL> NOT NULL>",
        "array<struct<a:struct<b:timestamp NOT NULL>>>",
    ],
)
@pytest.mark.parametrize("nulls", ["made", "given", "missing"])
def test_required_fields_of_structs_that_are_null_are_nobodys_concern(tmp_path, kind, nulls):
    ctx = context(tmp_path, (Column(name="n", type=kind), Column(name="m", type="int")))
    sent = batches([Incoming(key="a"), Incoming(key="b")], ctx.schema)[0]
    if nulls == "made":
        sent = sent.set_column(
            sent.schema.get_field_index("n"), sent.schema.field("n"), pa.nulls(2, ctx.schema.field("n").type)
        )
    if nulls == "missing":
        sent = sent.drop_columns(["n"])
    written = write_bucket(ctx, bucket(ctx), [sent])
    assert read(ctx, written)["n"].to_pylist() == [None, None]
    again = context(tmp_path, (Column(name="n", type=kind),), instant="20270101000000000")
    assert read(again, write_bucket(again, merging(written.files[0]), []))["n"].to_pylist() == [None, None]
