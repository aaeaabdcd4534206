"""Keys and partition paths: the SQL gives what an independent reading of Hudi's rules gives."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session.keys import partition_path_sql, record_key_sql
from parquetry.runtime.spark.session.settings import expression_settings, session_settings
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.stage.partition_paths import PartitionPaths
from parquetry.runtime.table.partition_path import KeyRules, check_partition_path, partition_path
from tests.support.model import TableModel

pytestmark = pytest.mark.spark

SCHEMA = (
    "s string, t string, i int, l bigint, b boolean, f double, d decimal(18,8), day date, at timestamp, "
    "n struct<x:string,y:int>"
)
WORDS = [
    "plain",
    "a b",
    "Ωmega 中文 🙂",
    "50%",
    "a/b",
    "k=v",
    "q?x#y:z",
    "{[^]}<>|~`",
    "tab\there",
    'it\'s "quoted" \\ back',
    "\x01\x1f\x7f",
    "*",
    "..",
    "",
    None,
]


def rules(key=("s",), partition=(), **changes):
    defaults = {"hive_style": True, "url_encode": True, "named_key": len(key) > 1}
    return KeyRules(record_key=tuple(key), partition_by=tuple(partition), **(defaults | changes))


def row(**values):
    return {
        "s": "k",
        "t": None,
        "i": 1,
        "l": 2,
        "b": True,
        "f": 1.5,
        "d": None,
        "day": None,
        "at": None,
        "n": None,
    } | values


def evaluated(spark, rows, sql_of):
    frame = spark.createDataFrame([tuple(r.values()) for r in rows], SCHEMA)
    with session_settings(spark, expression_settings(spark)):
        frame = frame.selectExpr(f"{sql_of(frame.schema)} AS text")
    return [found.text for found in frame.collect()]


@pytest.mark.parametrize("hive_style", [True, False])
@pytest.mark.parametrize("url_encode", [True, False])
def test_partition_paths_of_any_text(spark, hive_style, url_encode):
    setting = {"hive_style": hive_style, "url_encode": url_encode}
    rows = [row(s=one, t=other) for one in WORDS for other in ("x", None, "é/ü")]
    of = rules(partition=("s", "t"), **setting)
    model = TableModel(key=("s",), columns=(), partition_by=("s", "t"), **setting)

    found = evaluated(spark, rows, lambda schema: partition_path_sql(of, schema))

    assert found == [model.place(r)[0] for r in rows]
    assert found == [partition_path(of, {"s": r["s"], "t": r["t"]}) for r in rows]


@pytest.mark.parametrize("hive_style", [True, False])
def test_tasks_spell_partition_paths_as_sql_does(spark, hive_style):
    days = (0, -719_528, -719_163, -719_529, 2_932_896, 2_932_897, -(2**31), 2**31 - 1, None)
    rows = zip(
        [*WORDS, None, None, None], days * 2, [0, -1, 127, None] * 5, [True, False, None] * 6, strict=False
    )
    frame = spark.createDataFrame(list(rows), "s string, days int, y tinyint, b boolean").selectExpr(
        "s", "date_from_unix_date(days) AS day", "y", "CAST(y AS SMALLINT) AS h", "CAST(y AS INT) AS i",
        "CAST(y AS BIGINT) AS l", "b",
    )  # fmt: skip
    columns = [Column(name=f.name, type=f.dataType.simpleString()) for f in frame.schema]
    for fields in (("s",), ("day",), ("y", "h", "i", "l"), ("b", "day", "s"), ()):
        of = rules(partition=fields, hive_style=hive_style)
        with session_settings(spark, expression_settings(spark)):
            rows = frame.selectExpr("*", f"{partition_path_sql(of, frame.schema)} AS path").toArrow()
        paths = PartitionPaths.of(of, columns)
        assert paths is not None
        (batch,) = rows.combine_chunks().to_batches()

        spelled = paths.of_rows(batch)
        assert spelled.to_pylist() == batch.column("path").to_pylist()
        assert sorted(spelled.dictionary.to_pylist()) == sorted(set(spelled.to_pylist()))


@pytest.mark.parametrize("kind", ["decimal(9,2)", "float", "double", "timestamp"])
def test_what_sql_alone_spells(kind):
    columns = [Column(name="v", type=kind), Column(name="n", type="struct<x:int>")]

    assert PartitionPaths.of(rules(partition=("v",)), columns) is None
    assert PartitionPaths.of(rules(partition=("n.x",)), columns) is None


def test_values_of_every_type_as_hudi_spells_them(spark):
    at = dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC)
    values = row(
        s="x",
        i=-7,
        l=2**40,
        b=False,
        d=Decimal("0.00000001"),
        day=dt.date(1901, 3, 4),
        at=at,
        n={"x": "in", "y": 3},
    )
    fields = ("i", "l", "b", "f", "d", "day", "at", "n.x", "n.y")
    expected = {
        "i": "-7",
        "l": "1099511627776",
        "b": "false",
        "f": "1.5",
        "d": "1E-8",
        "day": "1901-03-04",
        "at": "-1",
        "n.x": "in",
        "n.y": "3",
    }
    (key,) = evaluated(spark, [values], lambda schema: record_key_sql(rules(key=fields), schema))
    (path,) = evaluated(spark, [values], lambda schema: partition_path_sql(rules(partition=fields), schema))

    assert key == ",".join(f"{name}:{text}" for name, text in expected.items())
    assert path == "/".join(f"{name}={text}" for name, text in expected.items())


def test_the_text_of_a_key_does_not_depend_on_the_session(spark):
    before = {key: spark.conf.get(key) for key in expression_settings(spark)}
    values = row(d=Decimal("0.00000001"), at=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    found = set()
    for zone, ansi in (("America/Los_Angeles", "true"), ("Asia/Tokyo", "false")):
        with session_settings(spark, {"spark.sql.session.timeZone": zone, "spark.sql.ansi.enabled": ansi}):
            found |= set(
                evaluated(spark, [values], lambda schema: record_key_sql(rules(key=("d", "at")), schema))
            )

    assert found == {"d:1E-8,at:1577836800000000"}
    assert {key: spark.conf.get(key) for key in expression_settings(spark)} == before


def test_null_and_empty_parts_of_a_key(spark):
    rows = [row(s="a", t=None), row(s="", t="b"), row(s=None, t="c"), row(s="", t=None), row(s=None, t="")]

    composite = evaluated(spark, rows, lambda schema: record_key_sql(rules(key=("s", "t")), schema))
    simple = evaluated(spark, rows, lambda schema: record_key_sql(rules(key=("s",)), schema))
    named = evaluated(
        spark, rows[:1], lambda schema: record_key_sql(rules(key=("s",), named_key=True), schema)
    )

    assert composite == ["s:a,t:__null__", "s:__empty__,t:b", "s:__null__,t:c", None, None]
    assert simple == ["a", None, None, None, None]
    assert named == ["s:a"]


def test_no_key_and_no_partition(spark):
    assert evaluated(spark, [row()], lambda schema: partition_path_sql(rules(), schema)) == [""]
    assert record_key_sql(rules(key=()), spark.createDataFrame([], SCHEMA).schema) is None


def test_columns_that_cannot_be_part_of_a_key(spark):
    schema = spark.createDataFrame([], "a array<int>, s struct<x:binary>").schema
    for name in ("a", "s", "s.x"):
        with pytest.raises(InvalidDataError, match=f"'{name}' of type .* cannot be part of record_key; use"):
            record_key_sql(rules(key=(name,)), schema)
    with pytest.raises(InvalidDataError, match=r"'s.z' is not in the table"):
        record_key_sql(rules(key=("s.z",)), schema)


@pytest.mark.parametrize(
    ("path", "setting", "remedy"),
    [
        ("..", {"hive_style": False}, "hive_style and url_encode"),
        ("a/../b", {"hive_style": False, "url_encode": False}, "hive_style and url_encode"),
        ("/a", {"hive_style": False, "url_encode": False}, "hive_style and url_encode"),
        (".hoodie", {"hive_style": False}, "hive_style: true"),
        ("a/.hoodie", {"hive_style": False, "url_encode": False}, "hive_style: true"),
        ("metadata", {"hive_style": False}, "hive_style: true"),
        ("_delta_log", {"hive_style": False}, "hive_style: true"),
        ("p=a/b", {"url_encode": False}, "url_encode: true"),
        ("\0", {"hive_style": False}, "character NUL"),
        ("p=a\0", {}, "character NUL"),
    ],
)
def test_folders_that_readers_would_lose_are_refused(path, setting, remedy):
    with pytest.raises(InvalidDataError, match=remedy) as caught:
        check_partition_path(rules(partition=("p",), **setting), path)
    assert repr(path) in str(caught.value)


def test_folders_that_are_fine():
    check_partition_path(rules(partition=("p",)), "p=..")
    check_partition_path(rules(partition=("p", "q")), "p=a/q=.hoodie")
    check_partition_path(rules(partition=("p",), hive_style=False, url_encode=False), "2013/06/01")
    check_partition_path(rules(), "")


def test_a_partition_is_named_by_all_its_columns_and_no_other():
    with pytest.raises(InvalidDataError, match="named by p, q, not by p;"):
        partition_path(rules(partition=("p", "q")), {"p": 1})
    with pytest.raises(InvalidDataError, match="cannot name a partition"):
        partition_path(rules(partition=("p",)), {"p": [1]})
