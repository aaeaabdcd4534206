"""Spark itself evaluates random conditions; no row group with a row of its answer is skipped."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from parquetry.runtime.layout.skipping.files import files_to_read, parse_where, reads_of, rows_to_read
from parquetry.runtime.layout.skipping.predicate import Unknown
from parquetry.runtime.parquet.dictionaries import with_dictionaries
from parquetry.runtime.parquet.footer import file_statistics, read_metadata
from parquetry.runtime.parquet.page_index import file_pages
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.local import LocalStore
from tests.support.base_files import Incoming, bucket, context, merging, write
from tests.support.conditions import CONDITIONS, ROW_SCHEMA, ROWS, TYPES

pytestmark = pytest.mark.spark

ROWS_PER_GROUP = 3
SCHEMA = ROW_SCHEMA.insert(0, pa.field("id", pa.int64()))
MIXED = [
    "i = '3'",
    "s = 3",
    "s > 1",
    "n < '2'",
    "b = 'true'",
    "x = '1.0'",
    "dec = '1.5'",
    "dec > 1",
    "dec <= 0.1F",
    "dec = 1.000000000000000000000000000000000001",
    "x > 0.1F",
    "x = 0.1",
    "x < 1e0",
    "n = 2.0F",
    "n = 16777216F",
    "i = 9007199254740993",
    "i <= 9007199254740992.0D",
    "i in (1, 2.5, 3D)",
    "i in (1, null)",
    "i not in (1, null)",
    "n between 1 and 2.5D",
    "s in ('a', 'b')",
    "d >= '1970'",
    "d < '1970-01-01 12:00:00'",
    "d = TIMESTAMP '1970-01-01 00:00:00'",
    "d > TIMESTAMP '1970-01-01 00:00:00'",
    "ts >= DATE '1970-01-01'",
    "ts < '1970-01-01'",
    "ts > '1970-01-01 01:30'",
    "ts <= '1970-1-1 1:30:00'",
    "ts between '1969-12-31 12:00:00.5' and TIMESTAMP '1970-01-01 00:00:00+01:00'",
    "s like 'a_%'",
    "s like 'é%' or not s like '%b'",
    "s like 'ab'",
    "s >= ''",
    "i = 1 = true",
    "i = 1 and n = 1 = false",
    "case when i > 0 and n > 0 then x else i end > 1 and i < 5",
    "not i = 1 and not n <> 2",
    "! i = 1 or ! b",
    "i = 1 or exists(array(1, 2), k -> k > 1 and k < i)",
    "length(s) between 1 and 2 and i < 0",
    "I > 2 AND `X` < 2",
    "s = 'a' 'b' or s = 'z'",
    "x = double('nan')",
    "x > double('infinity')",
    "x = 'NaN'",
    "x <=> 'nan'",
    "not x < 'NaN'",
    "x >= 'Infinity'",
    "x between '-inf' and 2.5D",
    "x in ('NaN', 1.0D)",
    "x in (double('nan'), 1.0D)",
    "x not in (0.0D, 1.0D)",
    "x not in (0D, 2D, 3D, 4D, 5D, 6D, 7D, 8D, 9D, 11D, 12D, 13D)",
    "x in (0D, 2D, 3D, 4D, 5D, 6D, 7D, 8D, 9D, 11D, 12D, 13D)",
    "x <> 0.0D and x > -1e-300D",
    "not (x <=> 1.0D)",
    "i + 1 between 1 and 3 and n is not null",
    "coalesce(i, 1) = 1 and s is null",
    "i is distinct from 1 and n <=> 2",
    "b is true and i is not null",
    "(i, n) in ((1L, 1))",
    "i = -(-1)",
    "i = - 1 or -1 < n",
]


@pytest.fixture(scope="module")
def spark(spark):
    """A session of its own in the Spark of all tests: its settings stay here."""
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.filterPushdown", "false")
    session.conf.set("spark.sql.ansi.enabled", "false")
    return session


def written(rows, folder):
    """A parquet file of the rows, and the statistics of each of its row groups as a file's."""
    table = pa.Table.from_pylist(
        [
            {**row, "id": number, "ts": row["ts"] and row["ts"].replace(tzinfo=UTC)}
            for number, row in enumerate(rows)
        ],
        schema=SCHEMA,
    )
    path = folder / "rows.parquet"
    pq.write_table(table, path, row_group_size=ROWS_PER_GROUP, store_schema=False)
    whole = file_statistics("rows.parquet", pq.read_metadata(path), size_bytes=path.stat().st_size)
    return path, whole


def matching(spark, path, conditions):
    """For each condition the ids of the rows for which Spark finds it true."""
    frame = spark.read.parquet(str(path)).selectExpr(
        "id", *(f"({text}) AS c{number}" for number, text in enumerate(conditions))
    )
    answers = frame.collect()
    return [{row["id"] for row in answers if row[f"c{number}"] is True} for number in range(len(conditions))]


def written_by_us(rows, folder):
    """The same rows as files of our own writer, each of as many rows as such a row group."""
    columns = [Column(name=name, type=kind) for name, kind in {"id": "bigint", **TYPES}.items()]
    whole = None
    ctx = context(folder, columns)
    for number, first in enumerate(range(0, len(rows), ROWS_PER_GROUP)):
        part = [
            Incoming(key=f"k{n}", values={**row, "id": n, "ts": row["ts"] and row["ts"].replace(tzinfo=UTC)})
            for n, row in enumerate(rows[first : first + ROWS_PER_GROUP], start=first)
        ]
        (file,) = write(ctx, bucket(ctx, number), part).files
        found = file_statistics("p", file.metadata, size_bytes=1)
        groups = () if whole is None else whole.row_groups
        whole = replace(found, row_groups=(*groups, *found.row_groups))
    return folder / "p=1", whole


def check(whole, text, ids, zone):
    predicate = parse_where(text, types=TYPES, time_zone=ZoneInfo(zone))
    for number, group in enumerate(whole.row_groups):
        of_group = range(number * ROWS_PER_GROUP, (number + 1) * ROWS_PER_GROUP)
        kept = files_to_read([replace(whole, row_groups=(group,))], predicate, TYPES)
        assert kept or ids.isdisjoint(of_group), (text, group)
    return predicate


@given(
    st.lists(ROWS, min_size=20, max_size=40),
    st.lists(CONDITIONS, min_size=20, max_size=40, unique_by=lambda condition: condition.text),
)
@settings(max_examples=8, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_spark_agrees_with_the_model_and_loses_no_row(spark, tmp_path_factory, rows, conditions):
    path, whole = written(rows, tmp_path_factory.mktemp("random"))
    _, ours = written_by_us(rows, tmp_path_factory.mktemp("ours"))
    for condition, ids in zip(conditions, matching(spark, path, [c.text for c in conditions]), strict=True):
        assert ids == {n for n, row in enumerate(rows) if condition.holds(row) is True}, condition.text
        check(whole, condition.text, ids, "UTC")
        check(ours, condition.text, ids, "UTC")


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
@given(rows=st.lists(ROWS, min_size=30, max_size=60))
@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_comparisons_between_types_lose_no_row(spark, tmp_path_factory, zone, rows):
    spark.conf.set("spark.sql.session.timeZone", zone)
    path, whole = written(rows, tmp_path_factory.mktemp("mixed"))
    _, ours = written_by_us(rows, tmp_path_factory.mktemp("ours"))
    understood = [
        check(whole, text, ids, zone) != Unknown()
        for text, ids in zip(MIXED, matching(spark, path, MIXED), strict=True)
    ]
    for text, ids in zip(MIXED, matching(spark, path, MIXED), strict=True):
        check(ours, text, ids, zone)
    assert sum(understood) > len(MIXED) // 3
    spark.conf.set("spark.sql.session.timeZone", "UTC")


PAGED = [
    "id = 1234",
    "id < 450",
    "id BETWEEN 990 AND 1010 OR id = 2999",
    "day = DATE '1970-01-05'",
    "word = 'w0007'",
    "price > 29.5",
    "at >= TIMESTAMP '1970-01-01 00:40:00'",
    "half IS NULL AND id >= 200",
    "half IS NOT NULL AND turn = 3",
    "turn = 3 AND id < 1000",
    "word >= 'w0006' AND id < 100",
]


def test_spark_reads_the_rows_of_the_pages_that_are_counted(spark, tmp_path):
    """Of a file of its own writer, parquet-mr, whose pages of 100 rows hold texts that it cuts short."""
    spark.conf.set("spark.sql.parquet.filterPushdown", "true")
    rows = spark.range(0, 3000, 1, 1).selectExpr(
        "id",
        "CAST(id % 7 AS INT) AS turn",
        "date_add(DATE '1970-01-01', CAST(id DIV 400 AS INT)) AS day",
        "CAST(id / 100 AS DECIMAL(9, 2)) AS price",
        "TIMESTAMP '1970-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id) AS at",
        "concat('w', lpad(CAST(id DIV 300 AS STRING), 4, '0'), repeat('x', 80)) AS word",
        "IF(id % 1000 < 500, id, NULL) AS half",
    )
    options = {"parquet.page.row.count.limit": "100", "parquet.page.size.row.check.min": "1"}
    rows.write.options(**options).parquet(str(tmp_path / "t"))
    (path,) = (tmp_path / "t").glob("*.parquet")
    store, types = LocalStore(str(path.parent)), {name: str(kind) for name, kind in rows.dtypes}
    file = file_statistics(path.name, read_metadata(store, path.name), size_bytes=1)
    pages = file_pages(store, file, range(len(file.row_groups)), types)
    (group,) = (replace(group, pages=pages[number]) for number, group in enumerate(file.row_groups))
    few = 0
    for where in PAGED:
        read = spark.read.parquet(str(path)).where(where)
        matching = {row.id for row in read.select("id").collect()}
        left = rows_to_read(group, parse_where(where, types=types, time_zone=UTC), types)
        assert matching <= {row for part in left.ranges for row in part}, where
        assert left.rows == scanned_rows(read), where
        few += left.rows < group.rows / 4
    assert few >= len(PAGED) // 2
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")


VALUES_ASKED = [
    "n = 45",
    "n IN (45, 46, 101)",
    "n = 45 AND word = 'w004'",
    "n = 45 OR word = 'w070'",
    "word = 'w045'",
    "word LIKE 'w04%'",
    "day = DATE '1970-02-15'",
    "price = 0.45",
    "x = 4.5D",
    "at = TIMESTAMP '1970-01-01 00:00:45'",
    "n BETWEEN 31 AND 33",
    "n <> 45",
]


@pytest.mark.parametrize("where", VALUES_ASKED)
def test_spark_skips_the_row_groups_whose_dictionaries_lack_a_value(spark, tmp_path, where):
    """Each of five row groups has thirty values of its own, and two that are the bounds of all."""
    spark.conf.set("spark.sql.parquet.filterPushdown", "true")
    numbers = [n for part in range(5) for n in (0, 199, *range(30 * part, 30 * part + 30)) * 3]
    instants = pa.array([n * 1_000_000 for n in numbers], pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.table(
        {
            "id": pa.array(range(len(numbers)), pa.int64()),
            "n": pa.array(numbers, pa.int32()),
            "word": [f"w{n:03}" for n in numbers],
            "day": pa.array(numbers, pa.int32()).cast(pa.date32()),
            "price": pa.array([Decimal(n).scaleb(-2) for n in numbers], pa.decimal128(9, 2)),
            "x": [n / 10 for n in numbers],
            "at": instants,
        }
    )
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=len(numbers) // 5, store_schema=False)
    read = spark.read.parquet(str(tmp_path / "t.parquet"))
    types = {name: str(kind) for name, kind in read.dtypes}
    store = LocalStore(str(tmp_path))
    file = file_statistics("t.parquet", read_metadata(store, "t.parquet"), size_bytes=1)
    predicate = parse_where(where, types=types, time_zone=UTC)
    found = reads_of(
        with_dictionaries(store, {"t.parquet": file}, [predicate], types).values(), predicate, types
    )
    assert found.fewest_rows == scanned_rows(read.where(where))
    assert (found.dictionary_rows is None) == (where in VALUES_ASKED[-2:])
    assert (found.fewest_rows < found.rows) == (where not in VALUES_ASKED[-2:])
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")


def scanned_rows(frame):
    """How many rows the scan of a plan gives to the filter behind it, by Spark's own metric."""
    executed = frame.select("id")._jdf.queryExecution().executedPlan()
    executed.executeCollect()
    scans = executed.collectLeaves()
    assert scans.size() == 1
    return scans.apply(0).metrics().apply("numOutputRows").value()


NAN_COLUMNS = (
    Column(name="id", type="bigint"),
    Column(name="x", type="double"),
    Column(name="y", type="float"),
    Column(name="st", type="struct<z:double>"),
)


def floats(number, x):
    return Incoming(key=f"k{number}", values={"id": number, "x": x, "y": x, "st": {"z": x}})


@pytest.mark.parametrize(
    "where", ["x > 100", "y > 100", "st.z > 100", "x = double('nan')", "NOT (y <= 100)", "x >= 3 AND y >= 3"]
)
def test_push_down_finds_rows_with_nan_in_our_files(spark, tmp_path, where):
    """NaN is Spark's largest number, and no writer counts it into a maximum."""
    spark.conf.set("spark.sql.parquet.filterPushdown", "true")
    created = context(tmp_path, NAN_COLUMNS)
    first = write(
        created, bucket(created), [floats(i, float("nan") if i == 7 else float(i % 3)) for i in range(20)]
    )
    merged = context(tmp_path, NAN_COLUMNS, instant="20260102000000000")
    second = write(
        merged, merging(first.files[0]), [floats(i, float("nan") if i == 27 else 1.0) for i in range(20, 40)]
    )
    for run_bucket_task, ids in ((first, {7}), (second, {7, 27})):
        (file,) = run_bucket_task.files
        frame = spark.read.parquet(created.store.spark_uri(file.stat.path))
        assert {row["id"] for row in frame.where(where).select("id").collect()} == ids
        statistics = file_statistics(file.stat.path, file.metadata, size_bytes=file.stat.file_size_bytes)
        assert statistics.columns["id"].maximum == max(row["id"] for row in frame.select("id").collect())
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
