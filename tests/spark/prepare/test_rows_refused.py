"""Rows that a table cannot take: what is said, that nothing is left, and that the remedy works."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import parquetry
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.prepare.rows import prepare_rows
from parquetry.runtime.spark.session.settings import session_settings
from parquetry.runtime.spec.rules import CONTROL_COLUMNS
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.spec.types import parse_type
from parquetry.runtime.table.partition_path import KeyRules
from tests.support.handmade import HandmadeTable

pytestmark = pytest.mark.spark

COLUMNS = (
    Column(name="id", type="string", nullable=False),
    Column(name="p", type="string"),
    Column(name="n", type="bigint", nullable=False),
    Column(name="price", type="decimal(10,2)"),
    Column(name="s", type="struct<a:bigint,b:struct<c:string>>"),
    Column(name="day", type="date", generated="to_date(at)"),
    Column(name="at", type="timestamp"),
)
SPEC = TableSpec(name="t", columns=COLUMNS, record_key=("id",), partition_by=("p",))
RULES = KeyRules(record_key=("id",), partition_by=("p",), hive_style=True, url_encode=True, named_key=False)


def prepared(frame, columns=COLUMNS, **options):
    return prepare_rows(frame, columns, RULES, **options)


def test_order_and_missing_columns_and_narrower_types_are_fine(spark):
    frame = spark.sql(
        "SELECT named_struct('b', named_struct('c', 'x'), 'a', 1S) AS s, 5Y AS n, 7BD AS price, 'k' AS ID, "
        "timestamp'2020-02-03 23:00:00' AS at"
    )
    ready = prepared(frame)
    (row,) = ready.frame.collect()

    assert ready.columns == tuple(c.name for c in COLUMNS)
    assert [parse_type(f.dataType.simpleString()) for f in ready.frame.schema][:7] == [
        parse_type(c.type) for c in COLUMNS
    ]
    assert (row.id, row.p, row.n, str(row.price), row.s.a, row.s.b.c, str(row.day)) == (
        "k",
        None,
        5,
        "7.00",
        1,
        "x",
        "2020-02-03",
    )


@pytest.mark.parametrize(
    ("select", "says"),
    [
        (
            "'k' AS id, 1.5D AS n",
            r"column 'n' is double in the rows and bigint in the table.* declare another type",
        ),
        ("'k' AS id, '1' AS n", r"column 'n' is string .* bigint"),
        ("'k' AS id, 1 AS n, 1.2BD AS price", None),
        (
            "'k' AS id, 1 AS n, CAST(1 AS decimal(10,3)) AS price",
            r"'price' is decimal\(10,3\).*decimal\(10,2\)",
        ),
        ("'k' AS id, 1 AS n, CAST(1 AS bigint) AS price", r"'price' is bigint.*decimal\(10,2\)"),
        ("'k' AS id, 1 AS n, named_struct('a', 'x') AS s", r"'s.a' is string.*bigint"),
        (
            "'k' AS id, 1 AS n, named_struct('z', 1) AS s",
            r"'s.z' is not in the table.*add it to the table's columns",
        ),
        ("'k' AS id, 1 AS n, array(1) AS s", r"'s' is array<int>"),
        ("'k' AS id, 1 AS n, named_struct('a', 1, 'A', 2) AS s", r"two columns 's.A'.*rename"),
        (
            "'k' AS id, 1 AS n, 'yes' AS _hoodie_is_deleted",
            r"'_hoodie_is_deleted' is string .*must be boolean",
        ),
        ("'k' AS id, 1 AS n, date'2020-01-01' AS at", r"'at' is date.*timestamp"),
        ("'k' AS id, 1 AS n, 2 AS extra", r"'extra' is not in the table.*drop it"),
        ("'k' AS id, 1 AS n, 2 AS N", r"two columns 'N'"),
        ("'k' AS id", r"'n' is missing from the rows and may not be null"),
    ],
)
def test_schemas_are_refused_before_a_row_is_computed(spark, select, says):
    frame = spark.sql(f"SELECT {select}, raise_error('computed') AS p")
    if says is None:
        prepared(frame)
        return
    with pytest.raises(InvalidDataError, match=says):
        prepared(frame)


@pytest.mark.parametrize("name", sorted(CONTROL_COLUMNS))
def test_names_that_writing_needs_are_refused_in_rows(spark, name):
    frame = spark.sql(f"SELECT 'k' AS id, 1 AS n, 'x' AS p, true AS {name.upper()}")
    with pytest.raises(InvalidDataError, match=rf"called '{name.upper()}'.*rename it"):
        prepared(frame, delete_when=f"{name}", drop=[name])
    prepared(frame.withColumnRenamed(name, "gone"), delete_when="gone", drop=["gone"])


@pytest.mark.parametrize("name", ["__hash", "__delete", "__ref", "__File"])
def test_a_table_of_another_maker_with_such_a_column_can_be_read_and_says_why_not_written(
    spark, tmp_path, name
):
    made = HandmadeTable(tmp_path / "t")
    made.schema = made.schema.replace('"name":"n"', f'"name":"{name}"')
    made.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    made.store.delete_folder(".hoodie/.parquetry")
    table = parquetry.open(tmp_path / "t")
    assert [(r["id"], r[name]) for r in table.read(spark).collect()] == [("k", None)]
    rows = spark.sql("SELECT 'k' AS id, 'a' AS p")
    for write in (table.upsert, table.insert, table.delete):
        with pytest.raises(InvalidDataError, match=rf"the columns of t have one called '{name}'.*rename it"):
            write(rows)


@pytest.mark.parametrize("name", ["_hoodie_is_deleted", "_Hoodie_x"])
def test_a_table_of_another_maker_with_a_name_of_hudis_can_be_written(spark, tmp_path, name):
    made = HandmadeTable(tmp_path / "t")
    made.schema = made.schema.replace('"name":"n"', f'"name":"{name}"')
    made.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    made.store.delete_folder(".hoodie/.parquetry")
    table = parquetry.open(tmp_path / "t")
    table.upsert(spark.sql(f"SELECT 'k' AS id, 'a' AS p, 7L AS {name}"))
    table.insert(spark.sql(f"SELECT 'l' AS id, 'a' AS p, 1L AS {name}"))
    assert sorted((r["id"], r[name]) for r in table.read(spark).collect()) == [("k", 7), ("l", 1)]


@pytest.fixture
def table(tmp_path):
    return parquetry.create(tmp_path / "t", SPEC)


def assert_untouched(table, spark):
    assert [i for i in table.timeline().instants if i.operation not in (None, "ALTER_SCHEMA")][1:] == []
    assert table.read(spark).count() == 0


def test_null_and_empty_keys(spark, table):
    rows = spark.sql("SELECT nullif(CAST(id AS string), '3') AS id, 'x' AS p, id AS n FROM range(6)")
    with pytest.raises(
        InvalidDataError, match=r"record key is null or empty in 1 of 6 rows.*column 'id' is null in 1"
    ):
        table.upsert(rows)
    with pytest.raises(
        InvalidDataError, match=r"record key is null or empty in 6 of 6 rows, first in a row of input"
    ):
        table.insert(rows.selectExpr("'' AS id", "p", "n"))
    assert table.upsert(rows.where("id IS NOT NULL")).inserted_rows == 5


def test_nulls_where_the_table_has_none(spark, table):
    rows = spark.sql("SELECT CAST(id AS string) AS id, 'x' AS p, nullif(id, 4) AS n FROM range(6)")
    with pytest.raises(
        InvalidDataError,
        match=r"column 'n' is null in 1 of 6 rows, first in record key '4' in partition 'p=x'",
    ):
        table.upsert(rows)
    with pytest.raises(InvalidDataError, match="nothing was written: fill or filter"):
        table.bulk_insert(rows)
    # A delete needs its key only.
    assert table.upsert(rows, delete_when="n IS NULL").inserted_rows == 5


def test_generated_columns_are_checked(spark, table):
    rows = spark.sql(
        "SELECT CAST(id AS string) AS id, 'x' AS p, id AS n, timestamp'2020-01-01 05:00:00' AS at, "
        "IF(id = 2, date'2020-01-02', IF(id = 3, NULL, date'2020-01-01')) AS day FROM range(6)"
    )
    with pytest.raises(
        InvalidDataError,
        match=r"generated column 'day' differs from the result of 'to_date\(at\)' in 1 of 6 rows, first in record key '2'",
    ) as refused:
        table.upsert(rows)
    assert refused.value.declared == "columns.day.generated"
    table.upsert(rows.drop("day"))
    assert {str(r.day) for r in table.read(spark).collect()} == {"2020-01-01"}


SHRUNK = (
    Column(name="id", type="string", nullable=False),
    Column(name="n", type="bigint"),
    Column(name="t", type="string", pii=True),
    Column(name="p", type="int", generated="n + 1"),
    Column(name="number", type="int", generated="t"),
    Column(name="price", type="decimal(4,2)", generated="n / 7"),
    Column(name="parts", type="struct<a:bigint,b:int>", generated="named_struct('b', 1, 'a', n)"),
)


@pytest.fixture
def shrunk(tmp_path):
    spec = TableSpec(name="t", columns=SHRUNK, record_key=("id",), partition_by=("p",))
    return parquetry.create(tmp_path / "t", spec)


def test_generated_values_that_their_type_does_not_hold(spark, shrunk):
    rows = spark.sql(
        "SELECT CAST(id AS string) AS id, IF(id = 3, 4294967296, id) AS n, "
        "IF(id = 2, 'none', IF(id = 4, NULL, '5')) AS t FROM range(6)"
    )
    with pytest.raises(InvalidDataError) as refused:
        shrunk.upsert(rows)
    assert re.findall(r"generated column .*?(?= in record| in partition|;)", str(refused.value)) == [
        "generated column 'number': int cannot hold the result of its expression in 1 of 6 rows, first",
        "generated column 'p': int cannot hold the result of 'n + 1' in 1 of 6 rows, first",
    ]
    assert_untouched(shrunk, spark)
    with pytest.raises(InvalidDataError, match=r"decimal\(4,2\) cannot hold the result of 'n / 7' in 1 of 1"):
        shrunk.insert(spark.sql("SELECT 'k' AS id, 700L AS n"))
    # What only deletes needs a key, and the folder it lies in.
    gone = "n = 4294967296 OR t = 'none'"
    with pytest.raises(InvalidDataError, match="'p': int cannot hold") as refused:
        shrunk.upsert(rows, delete_when=gone)
    assert "number" not in str(refused.value)

    assert shrunk.upsert(rows.where("id != 3"), delete_when=gone).inserted_rows == 4
    found = {r.id: (r.p, r.number, str(r.price), r.parts.a) for r in shrunk.read(spark).collect()}
    assert found == {
        "0": (1, 5, "0.00", 0),
        "1": (2, 5, "0.14", 1),
        "4": (5, None, "0.57", 4),
        "5": (6, 5, "0.71", 5),
    }


@pytest.mark.parametrize(
    ("kind", "expression", "says"),
    [
        (
            "array<int>",
            "array(n)",
            r"array<int>, which cannot hold every array<bigint> .*cast it to array<int>",
        ),
        ("int", "nowhere + 1", "generated column 'g': Spark cannot compute.*nowhere"),
        ("date", "n", "generated column 'g': Spark cannot compute.*TRY_CAST"),
        ("bigint", "sum(n)", "generated columns g: Spark cannot compute.*MISSING_GROUP_BY"),
        ("array<int>", "explode(array(array(1)))", "generated columns g: Spark cannot compute.*GENERATOR"),
    ],
)
def test_expressions_that_a_column_cannot_hold(spark, kind, expression, says):
    frame = spark.sql("SELECT 'k' AS id, 1L AS n, raise_error('computed') AS p")
    with pytest.raises(InvalidDataError, match=says) as refused:
        prepared(frame, (*COLUMNS[:3], Column(name="g", type=kind, generated=expression)))
    assert refused.value.declared == "columns.g.generated"


def test_deletes_by_columns_that_come_twice(spark, table):
    rows = spark.sql("SELECT 'k' AS id, 'l' AS ID, 1L AS n, 2L AS N")
    with pytest.raises(InvalidDataError, match="two columns 'ID'; rename or drop one"):
        table.delete(rows)
    with pytest.raises(InvalidDataError, match="two columns 'N'; rename or drop one"):
        table.delete(rows, match=["n"])
    assert_untouched(table, spark)


def test_what_is_empty_or_null_fits_everything(spark, tmp_path):
    columns = (
        COLUMNS[0],
        Column(name="l", type="array<struct<a:int>>"),
        Column(name="m", type="map<string,bigint>"),
        Column(name="s", type="struct<a:int,l:array<string>,m:map<string,date>>"),
    )
    table = parquetry.create(tmp_path / "t", TableSpec(name="t", columns=columns, record_key=("id",)))
    struct = "named_struct('a', null, 'l', array(null), 'm', map('k', null))"
    table.upsert(spark.sql(f"SELECT 'k' AS id, array() AS l, map() AS m, {struct} AS s"))
    found = table.read(spark).first()
    assert (found.l, found.m, found.s.asDict()) == ([], {}, {"a": None, "l": [None], "m": {"k": None}})
    with pytest.raises(InvalidDataError, match=r"column 'l' is map<string,void> in the rows"):
        table.upsert(spark.sql("SELECT 'k' AS id, map() AS l"))


def test_required_fields_inside_structs(spark, tmp_path):
    columns = (
        *COLUMNS[:3],
        Column(name="s", type="struct<a:bigint NOT NULL,b:array<struct<c:int NOT NULL>>>"),
    )
    table = parquetry.create(tmp_path / "t", replace(SPEC, columns=columns))
    rows = (
        "SELECT '{}' AS id, 'x' AS p, 1L AS n, named_struct('a', {}, 'b', array(named_struct('c', {}))) AS s"
    )
    with pytest.raises(InvalidDataError, match=r"field 's.a' is null in 1 of 1 rows"):
        table.upsert(spark.sql(rows.format("k", "CAST(NULL AS int)", "1")))
    with pytest.raises(InvalidDataError, match=r"field 's.b.*c' is null in 1 of 1 rows"):
        table.upsert(spark.sql(rows.format("k", "1", "CAST(NULL AS int)")))
    table.upsert(spark.sql(rows.format("k", "1", "2")))
    assert table.read(spark).first().s.b[0].c == 2


def test_a_query_that_fails(spark, table):
    rows = spark.sql(
        "SELECT CAST(id AS string) AS id, 'x' AS p, CAST(IF(id = 3, 'no', '1') AS bigint) AS n FROM range(6)"
    )
    with pytest.raises(
        InvalidDataError, match=r"rows for t: Spark cannot compute the rows: .*CAST_INVALID_INPUT"
    ):
        table.upsert(rows)
    assert_untouched(table, spark)


@pytest.mark.parametrize(
    ("number", "options", "says"),
    [
        ("array(1L)[CAST(id AS int)]", {}, "rows for t: .*INVALID_ARRAY_INDEX"),
        ("(SELECT id FROM range(3))", {}, "rows for t: .*SCALAR_SUBQUERY_TOO_MANY_ROWS.* expression"),
        ("1L", {"delete_when": "n = = 1"}, "delete_when: .*PARSE_SYNTAX_ERROR"),
        ("1L", {"delete_when": "sum(n) > 1"}, "delete_when: "),
    ],
)
def test_a_query_that_fails_is_no_bug_of_ours(spark, table, number, options, says):
    with session_settings(spark, {"spark.sql.ansi.enabled": "true"}):
        rows = spark.sql(f"SELECT CAST(id AS string) AS id, 'x' AS p, {number} AS n FROM range(3)")
    with pytest.raises(InvalidDataError, match=says):
        table.upsert(rows, **options)
    assert_untouched(table, spark)


@pytest.mark.parametrize("value", ["..", ".hoodie", "metadata", "_delta_log", "."])
def test_partition_values_that_are_no_folders_of_a_table(spark, tmp_path, value):
    table = parquetry.create(tmp_path / "plain", replace(SPEC, hive_style=False))
    rows = spark.createDataFrame([("k", value, 1)], "id string, p string, n int")
    with pytest.raises(InvalidDataError, match="create the table with hive_style"):
        table.upsert(rows)
    remedied = parquetry.create(tmp_path / "remedied", SPEC)
    assert remedied.upsert(rows).inserted_rows == 1
    assert remedied.read(spark).first().p == value


def test_partitions_within_partitions(spark, tmp_path):
    table = parquetry.create(tmp_path / "t", replace(SPEC, hive_style=False, url_encode=False))

    def rows(*values):
        return spark.createDataFrame([(v, v, 1) for v in values], "id string, p string, n int")

    table.upsert(rows("2013/01", "2013/02"))
    for values in (["2013"], ["2013/01/05"], ["2014", "2014/01"]):
        with pytest.raises(InvalidDataError, match=r"would be inside\s+each other"):
            table.upsert(rows(*values))
    table.upsert(rows("2014/01"))
    assert table.read(spark).count() == 3
    encoded = parquetry.create(tmp_path / "e", replace(SPEC, url_encode=False))
    with pytest.raises(InvalidDataError, match="url_encode: true"):
        encoded.upsert(rows("a/b"))
