"""Tables and sessions that lose or double rows unless the write looks twice."""

from __future__ import annotations

import datetime as dt

import pytest

import parquetry
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session import session_settings
from parquetry.runtime.spec import Column, KeyScope, TableSpec

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
    table.upsert(spark.createDataFrame([row], PLACED))
    rows = sorted(tuple(found) for found in table.read(spark).collect())
    assert rows == [*expected, ("other", "a", 1)]


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
