"""Reading: times, increments, conditions that skip files, files of older schemas."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import parquetry
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.read.files import instant_of
from parquetry.runtime.spark.lookup.tagging import read_files
from parquetry.runtime.spark.read import scan
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.instant import Timezone
from tests.support.judges import HudiRs
from tests.support.our_table import create, to_table

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("when", "ends", "begins"),
    [
        ("20261101123456789", "20261101123456789", "20261101123456789"),
        ("20261101123456", "20261101123456999", "20261101123456000"),
        ("2026-11-01", "20261101000000000", "20261101000000000"),
        ("2026-11-01 12:34:56", "20261101123456999", "20261101123456000"),
        ("2026-11-01 12:34:56.7", "20261101123456700", "20261101123456700"),
        ("2026-11-01T12:34:56.789", "20261101123456789", "20261101123456789"),
        (dt.date(2026, 11, 1), "20261101000000000", "20261101000000000"),
        (dt.datetime(2026, 11, 1, 1, 2, 3, 4567), "20261101010203004", "20261101010203004"),
        (
            dt.datetime(2026, 11, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
            "20261101060000000",
            "20261101060000000",
        ),
        (
            dt.datetime(2037, 7, 9, 3, 26, 41, 849000, tzinfo=dt.UTC),
            "20370709032641849",
            "20370709032641849",
        ),
        (dt.date(12, 1, 2), "00120102000000000", "00120102000000000"),
        ("000", "000", "000"),
    ],
)
def test_times_as_instants(when, ends, begins):
    assert instant_of(when, Timezone.UTC, rounds_up=True) == ends
    assert instant_of(when, Timezone.UTC, rounds_up=False) == begins


def test_many_files_are_found_by_a_few_tasks(spark, tmp_path):
    files = [tmp_path / f"{number}.parquet" for number in range(100)]
    for file in files:
        pq.write_table(pa.table({"id": [1]}), file)
    context = spark.sparkContext
    context.setJobGroup("listing", "files to read")
    frame = read_files(spark, [f"file://{file}" for file in files])
    tracker = context.statusTracker()
    stages = [
        tracker.getStageInfo(stage)
        for job in tracker.getJobIdsForGroup("listing")
        for stage in tracker.getJobInfo(job).stageIds
    ]
    context.setLocalProperty("spark.jobGroup.id", None)
    # By Spark's default there is a task for each file; one more stage reads a schema.
    assert sum(stage.numTasks for stage in stages) <= 4 * context.defaultParallelism + 1
    assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.parallelism") == "10000"
    assert frame.count() == 100


@given(st.datetimes(dt.datetime(1980, 1, 1), dt.datetime(2060, 1, 1)))
def test_a_moment_is_the_instant_of_its_millisecond(when):
    digits = when.isoformat(timespec="milliseconds").translate({ord(c): None for c in "-T:."})
    assert instant_of(when.replace(tzinfo=dt.UTC), Timezone.UTC, rounds_up=True) == digits


@pytest.mark.parametrize(
    "when",
    [
        "yesterday",
        "2026-11",
        "2026-11-01 12:34",
        "",
        "20261101",
        "2026-13-01",
        "2026-02-30",
        "2026-11-01 25:00:00",
    ],
)
def test_text_that_is_no_time(when):
    with pytest.raises(InvalidDataError, match="is not a time; give an instant"):
        instant_of(when, Timezone.UTC, rounds_up=True)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("id =", "where: Spark cannot parse 'id ='"),
        ("", "where: Spark cannot parse ''"),
        ("reflect('java.lang.System', 'getenv') = 'x'", "the function reflect is refused"),
    ],
)
def test_a_condition_that_is_no_sql_or_runs_other_programs(spark, tmp_path, where, message):
    ours = create(spark, tmp_path / "t", typed=["c_int"], project="tests")
    with pytest.raises(InvalidDataError, match=message):
        parquetry.open(ours.path).read(spark, where=where)


def test_history(spark, tmp_path):
    ours = create(spark, tmp_path / "t", typed=["c_int"], project="tests")
    rnd = random.Random(1)
    times = [ours.upsert(ours.rows(rnd, range(i, i + 8), i)) for i in range(0, 20, 4)]
    assert ours.read() == ours.model.latest()
    for time in times:
        assert ours.read(as_of=time) == ours.model.as_of(time)
        assert ours.read(as_of=dt.datetime.strptime(time + "000", "%Y%m%d%H%M%S%f")) == ours.model.as_of(time)
    assert ours.read(since=times[1]) == ours.model.between(times[1])
    assert ours.read(since=times[0], until=times[2]) == ours.model.between(times[0], times[2])
    assert ours.read(until=times[1]) == ours.model.between("0", times[1])
    assert not ours.read(since=times[-1])
    assert not ours.read(as_of="2001-01-01")
    handle = open_table(open_store(str(ours.path)))
    with pytest.raises(InvalidDataError, match="exclude each other"):
        scan_table(spark, handle, as_of=times[0], since=times[1])


def scan_table(spark, handle, **options):
    from parquetry.runtime.spark.read.table import read_table

    return read_table(spark, handle, **options)


def test_an_increment_stops_at_a_pending_write(spark, tmp_path):
    ours = create(spark, tmp_path / "t", typed=["c_int"], project="tests")
    rnd = random.Random(2)
    first = ours.upsert(ours.rows(rnd, range(4), 1))
    second = ours.upsert(ours.rows(rnd, range(4, 8), 1))
    pending = str(int(second) - 1)
    open_store(str(ours.path)).put(f".hoodie/{pending}.commit.requested", b"")

    assert ours.read(since="0") == ours.model.between("0", first)


def test_an_empty_table(spark, tmp_path):
    table = parquetry.create(
        tmp_path / "t",
        TableSpec(
            name="t",
            columns=(Column(name="a", type="array<decimal(5,2)>"), Column(name="id", type="string")),
            record_key=("id",),
        ),
    )
    for options in ({}, {"where": "id = 'x'"}, {"as_of": "2026-11-01"}, {"since": "0"}):
        frame = table.read(spark, **options)
        assert frame.columns == ["a", "id"]
        assert frame.collect() == []
    assert table.read(spark, meta=True).columns[0] == "_hoodie_commit_time"


@pytest.fixture(scope="module")
def events(spark, tmp_path_factory):
    """Days 1 to 4, and in each two files with numbers 0 to 99 and 100 to 199; one day and some texts are null."""
    path = tmp_path_factory.mktemp("events") / "t"
    columns = (
        Column(name="id", type="string", nullable=False),
        Column(name="day", type="date"),
        Column(name="n", type="int"),
        Column(name="x", type="double"),
        Column(name="t", type="string"),
        Column(name="at", type="timestamp"),
        Column(name="s", type="struct<v:bigint>"),
    )
    spec = TableSpec(
        name="t",
        columns=columns,
        record_key=("id",),
        partition_by=("day",),
        sizing=SizingPolicy(small_file_limit_bytes=0),
    )
    table = parquetry.create(path, spec)
    for half in (0, 100):
        table.insert(
            spark.sql(
                f"SELECT CAST(id AS string) AS id, IF(id % 5 = 4, NULL, date_add(date'2026-01-01', CAST(id % 5 AS int))) AS day, "
                f"CAST({half} + id % 100 AS int) AS n, IF(id = 7, double('NaN'), CAST(id AS double)) AS x, "
                f"IF({half} = 0, NULL, concat('t', id)) AS t, timestamp_micros(id * 1000000) AS at, named_struct('v', id) AS s "
                f"FROM range({half * 5}, {half * 5 + 500})"
            )
        )
    return table


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("day = date'2026-01-02'", 2),
        ("day >= '2026-01-03' AND n < 50", 2),
        ("day IN (date'2026-01-01', date'2026-01-04')", 4),
        ("day IS NULL", 2),
        ("day IS NOT NULL AND n >= 100", 4),
        ("n BETWEEN 100 AND 120 OR n = 1000", 5),
        ("t IS NULL", 5),
        ("t IS NOT NULL", 5),
        ("t LIKE 't7%'", 5),
        # The file with the NaN, and those that reach so far.
        ("x > 100000", 1),
        ("x >= 999.0D", 2),
        ("x BETWEEN 200 AND 300 AND NOT x > 290", 5),
        ("x = 'NaN'", 1),
        ("x <> 7 AND day = date'2026-01-01'", 2),
        ("x < 0", 1),
        ("n + 1 = 5", 10),
        ("NOT (n >= 100)", 5),
        ("s.v = 3", 4),
        ("at < timestamp'1970-01-01 00:00:10'", 5),
        ("1 = 0", None),
        ("day = '2026-01-02' AND t = 'no such'", None),
    ],
)
def test_conditions_skip_files_and_lose_no_row(spark, events, where, files):
    found = events.read(spark, where=where)
    expected = events.read(spark).where(where)

    assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))
    if files is not None:
        assert len(found.inputFiles()) == files
    if where not in ONLY_IN_SPARK:
        assert_equal_rows(to_table(expected), events.to_arrow(where=where))
        return
    with pytest.raises(InvalidDataError, match="cannot be evaluated without Spark"):
        events.to_arrow(where=where)


ONLY_IN_SPARK = ("n + 1 = 5", "1 = 0")


def assert_equal_rows(expected, found):
    """Two tables of Arrow have the same rows, in any order."""
    assert found.column_names == expected.column_names
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))


def test_a_condition_that_spark_does_not_understand(spark, events):
    with pytest.raises(InvalidDataError, match=r"where='nope = 1'.*UNRESOLVED_COLUMN"):
        events.read(spark, where="nope = 1")


def test_conditions_on_when_rows_were_written(spark, events):
    instant = events.timeline().instants[1].time
    assert events.read(spark, where=f"_hoodie_commit_time = '{instant}'").count() == 500


def test_columns_are_pruned_and_filters_pushed_down(spark, events):
    plan = events.read(spark, where="n = 5").select("x")._jdf.queryExecution().executedPlan().toString()
    assert "ColumnarToRow" in plan
    assert "PushedFilters: [IsNotNull(n), EqualTo(n,5)]" in plan
    assert "ReadSchema: struct<n:int,x:double>" in plan


OLD = (
    Column(name="id", type="string", nullable=False),
    Column(name="i", type="int"),
    Column(name="f", type="float"),
    Column(name="d", type="decimal(9,2)"),
    Column(name="s", type="struct<a:int,l:array<struct<x:int>>>"),
    Column(name="m", type="map<string,int>"),
)
NEW = (
    OLD[0],
    replace(OLD[1], type="bigint"),
    replace(OLD[2], type="double"),
    replace(OLD[3], type="decimal(9,2)"),
    replace(OLD[4], type="struct<z:string,l:array<struct<y:string,x:bigint>>,a:bigint>"),
    replace(OLD[5], type="map<string,bigint>"),
    Column(name="added", type="string"),
)


@pytest.mark.parametrize("widens", [True, False], ids=["Spark widens", "we cast"])
def test_files_of_older_schemas(spark, tmp_path, monkeypatch, widens):
    if not widens:
        monkeypatch.setattr(scan, "_WIDENS_WHILE_READING", (9, 9))
    spec = TableSpec(name="t", columns=OLD, record_key=("id",), sizing=SizingPolicy(small_file_limit_bytes=0))
    table = parquetry.create(tmp_path / "t", spec)
    old = "SELECT CAST(id AS string) AS id, CAST(id AS int) AS i, CAST(id + 0.5 AS float) AS f, CAST(id AS decimal(9,2)) AS d, named_struct('a', CAST(id AS int), 'l', array(named_struct('x', 1), NULL)) AS s, map('k', 7) AS m FROM range({}, {})"
    table.insert(spark.sql(old.format(0, 4)))
    store = open_store(str(tmp_path / "t"))
    evolved = replace(spec, columns=NEW)
    write_applied(store, evolved, number=2)
    table.insert(
        spark.sql(
            "SELECT CAST(id AS string) AS id, 5000000000 + id AS i, 0.1D AS f, 'new' AS added, map('k', 6000000000) AS m FROM range(4, 6)"
        )
    )
    table.upsert(spark.sql(old.format(3, 4)).selectExpr("*", "'updated' AS added"))

    rows = {r.id: r for r in table.read(spark).collect()}
    assert [str(f.dataType.simpleString()) for f in table.read(spark).schema] == [c.type for c in NEW]
    assert [rows[str(i)].i for i in range(6)] == [0, 1, 2, 3, 5000000004, 5000000005]
    assert [rows[str(i)].f for i in range(6)] == [0.5, 1.5, 2.5, 3.5, 0.1, 0.1]
    assert [rows[str(i)].added for i in range(6)] == [None, None, None, "updated", "new", "new"]
    assert rows["1"].s.asDict(recursive=True) == {"a": 1, "l": [{"x": 1, "y": None}, None], "z": None}
    assert rows["3"].m == {"k": 7}
    theirs = {row["id"]: row["s"] for row in HudiRs().read(str(tmp_path / "t")).to_pylist()}
    assert theirs["1"] == rows["1"].s.asDict(recursive=True)
    assert theirs["3"] == rows["3"].s.asDict(recursive=True)
    assert {r.id for r in table.read(spark, where="i > 4000000000 OR i = 1").collect()} == {"1", "4", "5"}
    assert table.read(spark).where("s.a = 2").count() == 1
    assert table.to_arrow().schema.remove_metadata().field("s").type.get_field_index("z") == 0
    assert_equal_rows(to_table(table.read(spark)), table.to_arrow())
    assert_equal_rows(to_table(table.read(spark)), table.to_batches().read_all())
    assert table.to_arrow(where="i > 4000000000 OR s.a = 2", columns=["id"]).num_rows == 3


def test_any_partition_names(spark, tmp_path):
    values = [
        "_hidden",
        ".dot",
        "a b",
        "{a,b}*?[x]",
        "ünï 🙂",
        "a:b",
        "#h",
        "plus+",
        "per%20cent",
        "back\\slash",
    ]
    for i, encode in enumerate([True, False]):
        spec = TableSpec(
            name="t",
            columns=(Column(name="id", type="string", nullable=False), Column(name="p", type="string")),
            record_key=("id",),
            partition_by=("p",),
            hive_style=False,
            url_encode=encode,
        )
        table = parquetry.create(tmp_path / f"t{i}", spec)
        rows = spark.createDataFrame([(str(n), v) for n, v in enumerate(values)], "id string, p string")
        table.upsert(rows)
        result = table.upsert(rows)
        assert (result.updated_rows, result.inserted_rows) == (len(values), 0)
        assert sorted(r.p for r in table.read(spark).collect()) == sorted(values)
        for value in values:
            quoted = value.replace("\\", "\\\\")
            found = table.read(spark, where=f"p = '{quoted}'")
            assert [r.p for r in found.collect()] == [value]
            assert "\\" in value or len(found.inputFiles()) == 1
