"""Tables and sessions that lose or double rows unless the write looks twice."""

from __future__ import annotations

import datetime as dt

import pytest

import parquetry
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session.settings import session_settings
from parquetry.runtime.spec.table_spec import Column, KeyScope, TableSpec

pytestmark = pytest.mark.spark

PLACED = "id string, p string, n bigint"


def make(tmp_path, *columns: tuple[str, str], **settings):
    key = Column(name="id", type="string", nullable=False)
    spec = TableSpec(
        name="t",
        columns=(key, *(Column(name=name, type=kind) for name, kind in columns)),
        record_key=("id",),
        **settings,
    )
    return parquetry.create(str(tmp_path / "t"), spec)


@pytest.mark.parametrize(
    ("ordering", "row", "expected"),
    [
        (None, ("k", "c", 5), [("k", "c", 5)]),
        (None, ("k", "b", 5), [("k", "b", 5)]),
        ("n", ("k", "c", 5), [("k", "c", 5)]),
        ("n", ("k", "c", 2), [("k", "a", 1), ("k", "b", 3)]),
    ],
)
def test_a_key_that_lies_in_several_partitions_ends_up_once(spark, tmp_path, ordering, row, expected):
    """Inserts look no keys up, so that they may have put it there; a late row changes nothing."""
    table = make(
        tmp_path,
        ("p", "string"),
        ("n", "bigint"),
        partition_by=("p",),
        key_scope=KeyScope.TABLE,
        ordering=ordering,
    )
    table.insert(spark.createDataFrame([("k", "a", 1), ("k", "b", 3), ("other", "a", 1)], PLACED))
    done = table.upsert(spark.createDataFrame([row], PLACED))
    rows = sorted(tuple(found) for found in table.read(spark).collect())
    assert rows == [*expected, ("other", "a", 1)]
    assert done.late_rows == (row not in expected)


def test_small_integers_order_rows_that_change_partition(spark, tmp_path):
    table = make(
        tmp_path,
        ("p", "string"),
        ("n", "tinyint"),
        partition_by=("p",),
        key_scope=KeyScope.TABLE,
        ordering="n",
    )
    rows = "SELECT 'k' AS id, '{}' AS p, CAST({} AS tinyint) AS n"
    late = [table.upsert(spark.sql(rows.format(p, n))).late_rows for p, n in (("a", 1), ("b", 2), ("c", 1))]
    assert [tuple(row) for row in table.read(spark).collect()] == [("k", "b", 2)]
    assert late == [0, 0, 1]


@pytest.mark.parametrize(("scope", "kept"), [(KeyScope.TABLE, [2]), (KeyScope.PARTITION, [1, 2])])
def test_duplicates_are_rows_of_one_key_where_keys_are_unique(spark, tmp_path, scope, kept):
    table = make(
        tmp_path, ("p", "string"), ("n", "bigint"), partition_by=("p",), key_scope=scope, ordering="n"
    )
    table.insert(spark.createDataFrame([("k", "a", 1), ("k", "b", 2)], PLACED), drop_duplicates=True)
    assert sorted(row.n for row in table.read(spark).collect()) == kept


def test_rows_of_a_table_without_key_are_equal_whatever_hudi_says_of_them(spark, tmp_path):
    spec = TableSpec(name="t", columns=(Column(name="n", type="bigint"),))
    table = parquetry.create(tmp_path / "t", spec)
    table.insert(spark.sql("SELECT 1L AS n UNION ALL SELECT 1L"))
    table.insert_overwrite_table(table.read(spark, meta=True), drop_duplicates=True)
    assert [row.n for row in table.read(spark).collect()] == [1]


def test_deletes_by_hudis_own_columns(spark, tmp_path):
    """A partition path that is null says as little of the place as null partition columns."""
    table = make(tmp_path, ("p", "string"), ("n", "bigint"), partition_by=("p",))
    table.upsert(spark.createDataFrame([("1", "a", 1), ("2", "b", 1), ("3", "b", 1)], PLACED))
    with pytest.raises(InvalidDataError, match=r"'_hoodie_record_key' is int in the rows, and text"):
        table.delete(spark.sql("SELECT 1 AS _hoodie_record_key"))
    places = "_hoodie_record_key string, _hoodie_partition_path string"
    gone = spark.createDataFrame([("1", None), ("2", "p=b"), ("3", "p=a")], places)
    assert table.delete(gone).deleted_rows == 2
    assert [row.id for row in table.read(spark).collect()] == ["3"]


def test_a_condition_on_deletes_means_one_time_in_every_session(spark, tmp_path):
    table = make(tmp_path, ("at", "timestamp"))
    with session_settings(spark, {"spark.sql.session.timeZone": "America/Los_Angeles"}):
        rows = spark.sql("SELECT 'k' AS id, timestamp'2020-01-01 00:00:00' AS at")
        later = "at > timestamp'2020-01-01 07:59:59'"
        for match in ((), ("at",)):
            table.upsert(rows)
            assert table.delete(rows, match=match, delete_when=later).deleted_rows == 1


def test_the_session_cannot_make_files_be_read_wrong_or_passed_over(spark, tmp_path):
    table = make(tmp_path, ("day", "date"))
    table.upsert(spark.sql("SELECT 'k' AS id, date'1200-01-01' AS day"))
    settings = {
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.files.ignoreMissingFiles": "true",
    }
    with session_settings(spark, settings):
        assert [tuple(row) for row in table.read(spark).collect()] == [("k", dt.date(1200, 1, 1))]
        [path] = (tmp_path / "t").glob("*.parquet")
        path.write_bytes(b"PAR1" + bytes(200) + b"PAR1")
        with pytest.raises(Exception, match=path.name):
            table.read(spark).collect()


def test_timestamps_are_points_in_time_whatever_the_session_means_by_the_word(spark, tmp_path):
    table = make(
        tmp_path,
        ("p", "string"),
        ("n", "timestamp"),
        ("none", "struct<at:timestamp>"),
        partition_by=("p",),
        key_scope=KeyScope.TABLE,
        ordering="n",
    )
    with session_settings(spark, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}):
        for p, n in (("a", 2), ("b", 3), ("c", 1)):
            table.upsert(spark.sql(f"SELECT 'k' AS id, '{p}' AS p, timestamp_seconds({n}) AS n"))
        rows = table.read(spark)
        assert [(row.p, row.none) for row in rows.collect()] == [("b", None)]
        assert dict(rows.dtypes)["n"] == "timestamp"


def test_a_generated_column_may_not_run_programs(spark, tmp_path):
    parquetry_column = Column(
        name="g", type="string", generated="reflect('java.lang.System', 'getProperty', 'user.name')"
    )
    spec = TableSpec(
        name="t",
        columns=(Column(name="id", type="string", nullable=False), parquetry_column),
        record_key=("id",),
    )
    table = parquetry.create(str(tmp_path / "t"), spec)
    with pytest.raises(InvalidDataError, match="generated column 'g': the function reflect is refused"):
        table.upsert(spark.sql("SELECT 'k' AS id"))
