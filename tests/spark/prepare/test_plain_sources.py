"""Sources that are nothing but parquet files: read past Spark, with the same keys, folders and rows."""

from __future__ import annotations

import datetime as dt
from contextlib import nullcontext
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquetry
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.prepare import staging
from parquetry.runtime.spark.prepare.parquet_scan import plain_files
from parquetry.runtime.spark.read.source_failures import source_failures
from parquetry.runtime.spark.session.settings import session_settings
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.stage.partition_paths import PartitionPaths
from parquetry.runtime.table.partition_path import KeyRules
from tests.support.judges import HudiRs
from tests.support.spark_writes import as_on_a_cluster

pytestmark = pytest.mark.spark

WORDS = ["plain", "a b", "Ωmega 中文 🙂", "50%", "a/b", "k=v", "it's", "", None, "__null__"]
DAYS = [dt.date(1, 1, 1), dt.date(1969, 12, 31), None, dt.date(9999, 12, 31), dt.date(2013, 6, 1)]
ROWS = 60
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "s": pa.string(),
        "small": pa.int16(),
        "n": pa.int32(),
        "b": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("ms", tz="UTC"),
        "price": pa.decimal128(7, 2),
        "l": pa.list_(pa.struct({"x": pa.int32()})),
        "m": pa.map_(pa.string(), pa.int64()),
    }
)
COLUMNS = (
    Column(name="id", type="string", nullable=False),
    Column(name="s", type="string"),
    Column(name="small", type="smallint"),
    Column(name="n", type="bigint"),
    Column(name="b", type="boolean"),
    Column(name="day", type="date"),
    Column(name="at", type="timestamp"),
    Column(name="price", type="decimal(9,2)"),
    Column(name="l", type="array<struct<x:bigint,y:string>>"),
    Column(name="m", type="map<string,bigint>"),
    Column(name="absent", type="double"),
)


def table_of_rows():
    rows = [
        {
            "id": f"k{i}",
            "s": WORDS[i % len(WORDS)],
            "small": i - 5,
            "n": -i if i % 7 else None,
            "b": [True, False, None][i % 3],
            "day": DAYS[i % len(DAYS)],
            "at": dt.datetime(2020, 1, 1, 0, 0, i, 123000, dt.UTC),
            "price": Decimal(i) / 4,
            "l": [{"x": i}, None] if i % 4 else None,
            "m": [("k", i)],
        }
        for i in range(ROWS)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "so urce%20#?"
    folder.mkdir()
    rows = table_of_rows()
    pq.write_table(rows.slice(0, 41), folder / "one.parquet", row_group_size=7)
    pq.write_table(rows.slice(41), folder / "two {x}.parquet")
    return folder


def read(spark, folder):
    return spark.read.format("parquet").option("recursiveFileLookup", "true").load(str(folder))


@pytest.mark.parametrize(
    ("key", "partition", "setting"),
    [
        (("id",), ("s",), {}),
        pytest.param(("id",), ("s", "day"), {"hive_style": False}, marks=pytest.mark.long),
        pytest.param(("n", "s"), ("b", "small"), {}, marks=pytest.mark.long),
        (("s", "day", "b"), (), {}),
        pytest.param(("small",), ("day",), {"url_encode": False}, marks=pytest.mark.long),
        ((), ("s", "n", "b"), {}),
    ],
)
def test_the_same_table_as_by_way_of_spark(spark, tmp_path, source, monkeypatch, key, partition, setting):
    spec = TableSpec(name="t", columns=COLUMNS, record_key=key, partition_by=partition, **setting)
    frame = read(spark, source)
    assert plain_files(frame) is not None
    if key and key != ("id",):
        frame = frame.where(" OR ".join(f"coalesce(CAST({k} AS string), '') != ''" for k in key))
        if len(key) > 1:  # of which this text would be the key of null
            frame = frame.where("s IS DISTINCT FROM '__null__'")
        frame.write.parquet(str(tmp_path / "keyed"))
        frame = spark.read.parquet(str(tmp_path / "keyed"))
        assert plain_files(frame) is not None
    found, count = {}, frame.count()
    for way in ("plain", "plain, on a cluster", "spark"):
        if way == "spark":
            monkeypatch.setattr(staging, "plain_files", lambda _: None)
        table = parquetry.create(tmp_path / way, spec)
        with as_on_a_cluster() if "cluster" in way else nullcontext():
            assert table.insert(frame).inserted_rows == count
        rows = HudiRs().read(str(tmp_path / way)).to_pylist()
        hidden = {"_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"}
        hidden |= set() if key else {"_hoodie_record_key"}
        found[way] = sorted(repr(sorted((k, v) for k, v in row.items() if k not in hidden)) for row in rows)

    assert found["plain"] == found["plain, on a cluster"] == found["spark"]


def test_selected_and_renamed_columns_are_plain(spark, source):
    frame = read(spark, source)
    plain = plain_files(
        frame.selectExpr("n AS other", "id").alias("x").select("x.other", "id").withColumnRenamed("id", "key")
    )
    assert plain.sources == {"other": "n", "key": "id"}
    assert sum(len(piece.row_groups) for share in plain.pieces for piece in share) == 7


@pytest.mark.parametrize(
    "computed",
    [
        lambda f: f.where("n > 0"),
        lambda f: f.selectExpr("id", "n + 1 AS n"),
        lambda f: f.selectExpr("id", "CAST(n AS bigint) AS n"),
        lambda f: f.limit(3),
        lambda f: f.dropDuplicates(["id"]),
        lambda f: f.union(f),
        lambda f: f.join(f.select("id"), "id"),
        lambda f: f.selectExpr("id", "rand() AS x"),
        lambda f: f.repartition(3),
    ],
)
def test_whatever_computes_is_left_to_spark(spark, source, computed):
    assert plain_files(computed(read(spark, source))) is None


@pytest.mark.parametrize("option", ["ignoreMissingFiles", "ignoreCorruptFiles"])
def test_files_that_may_be_passed_over_are_left_to_spark(spark, source, option):
    strict, forgiving = (spark.read.option(option, value).parquet(str(source)) for value in ("false", "TRUE"))
    assert plain_files(strict) is not None
    assert plain_files(forgiving) is None


def test_a_cached_frame_is_left_to_spark(spark, tmp_path, source):
    frame = read(spark, source)
    rows = frame.count()
    cached = frame.cache()
    try:
        assert plain_files(cached) is None
        assert plain_files(cached.select("n", "id")) is None
        table = parquetry.create(tmp_path / "t", TableSpec(name="t", columns=COLUMNS))
        assert table.insert(cached).inserted_rows == rows
    finally:
        cached.unpersist()


@pytest.mark.parametrize("ends", ["", "PAR1", "footer"])
def test_a_part_that_cannot_be_read_is_named(spark, tmp_path, source, ends):
    frame = read(spark, source)
    broken = source / "two {x}.parquet"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:4] + b"\0" * 1000 + whole[1004:] if ends == "footer" else ends.encode())
    table = parquetry.create(tmp_path / "t", TableSpec(name="t", columns=COLUMNS))
    with (
        pytest.raises(
            InvalidDataError, match=r"of t: file:.*two%20%7Bx%7D\.parquet cannot be read: .*; correct"
        ),
        source_failures("source s of t"),
    ):
        table.insert(frame)
    broken.write_bytes(whole)
    assert table.insert(frame).inserted_rows == ROWS


def test_paths_of_many_columns_of_many_values():
    values = [np.random.default_rng(seed).permutation(10_000) for seed in range(5)]
    rules = KeyRules(
        record_key=(), partition_by=tuple("abcde"), hive_style=True, url_encode=True, named_key=False
    )
    rows = pa.RecordBatch.from_arrays([pa.array(column) for column in values], names=list("abcde"))
    paths = PartitionPaths(rules=rules).of_rows(rows)
    assert paths.to_pylist() == [
        "/".join(f"{name}={value}" for name, value in zip("abcde", row, strict=True))
        for row in zip(*values, strict=True)
    ]


def test_files_that_spark_reads_in_its_own_way(spark, tmp_path):
    def frame(table, schema=None, **options):
        path = tmp_path / f"f{len(list(tmp_path.iterdir()))}.parquet"
        pq.write_table(table, path, **options)
        reader = spark.read.schema(schema) if schema else spark.read
        return reader.parquet(str(path))

    plain = pa.table({"id": ["a"], "t": pa.array([0], pa.timestamp("us", tz="UTC"))})
    assert plain_files(frame(plain)) is not None
    assert plain_files(frame(plain, use_deprecated_int96_timestamps=True)) is None
    assert plain_files(frame(plain, schema="id string, absent int")) is None
    assert plain_files(frame(plain.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}))) is None
    assert plain_files(frame(plain.replace_schema_metadata({"org.apache.spark.version": "2.4.8"}))) is None
    assert plain_files(frame(pa.table({"n": pa.array([1], pa.int32())}), schema="n bigint")) is None
    with session_settings(spark, {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}):
        assert plain_files(frame(plain)) is None
    partitioned = tmp_path / "partitioned"
    pq.write_to_dataset(pa.table({"id": ["a"], "p": [1]}), partitioned, partition_cols=["p"])
    assert plain_files(spark.read.parquet(str(partitioned))) is None
    assert plain_files(spark.range(3)) is None


def test_fields_that_differ_in_case_are_one(spark, tmp_path):
    rows = "SELECT 'a' AS id, named_struct('N', 1, 'in', array(named_struct('X', 2))) AS s"
    spark.sql(rows).write.parquet(str(tmp_path / "source"))
    columns = (COLUMNS[0], Column(name="s", type="struct<n:int,in:array<struct<x:bigint>>>"))
    table = parquetry.create(tmp_path / "t", TableSpec(name="t", columns=columns, record_key=("id",)))
    table.insert(spark.read.parquet(str(tmp_path / "source")))
    assert HudiRs().read(str(tmp_path / "t")).column("s").to_pylist() == [{"n": 1, "in": [{"x": 2}]}]


def test_years_that_only_java_spells(spark, tmp_path):
    days = pa.table({"id": ["a", "b"], "day": pa.array([0, 3_000_000], pa.int32()).cast(pa.date32())})
    pq.write_table(days, tmp_path / "days.parquet")
    spec = TableSpec(name="t", columns=(COLUMNS[0], COLUMNS[5]), record_key=("id",), partition_by=("day",))
    table = parquetry.create(tmp_path / "t", spec)
    assert table.insert(spark.read.parquet(str(tmp_path / "days.parquet"))).inserted_rows == 2
    assert {p.name for p in (tmp_path / "t").glob("day=*")} == {"day=1970-01-01", "day=+10183-09-21"}


def test_rows_are_refused_alike(spark, tmp_path):
    spec = TableSpec(
        name="t", columns=(COLUMNS[0], Column(name="n", type="bigint", nullable=False)), record_key=("id",)
    )
    table = parquetry.create(tmp_path / "t", spec)
    rows = pa.table({"id": ["a", None, ""], "n": [1, 2, None]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    assert plain_files(frame) is not None
    with pytest.raises(
        InvalidDataError, match=r"record key is null or empty in 2 of 3 rows.*column 'n' is null in 1"
    ):
        table.insert(frame)
    with pytest.raises(InvalidDataError, match="'extra' is not in the table"):
        table.insert(frame.withColumnRenamed("n", "extra"))
