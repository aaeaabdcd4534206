"""Days and times before Spark 3.0 changed its calendar, read by Spark 3.5 as it comes."""

from __future__ import annotations

import datetime as dt

import pytest

import parquetry
from parquetry.runtime.spec.table_spec import Column, TableSpec

pytestmark = [pytest.mark.interop, pytest.mark.spark]

ANCIENT = ("k", dt.date(1, 1, 1), dt.datetime(1492, 10, 12, 2, 0, 0, 7))


def test_hudi_reads_ancient_days_and_times_without_a_setting(spark, tmp_path, hudi):
    columns = (
        Column(name="id", type="string", nullable=False),
        Column(name="day", type="date"),
        Column(name="at", type="timestamp"),
    )
    path = str(tmp_path / "t")
    table = parquetry.create(path, TableSpec(name="t", columns=columns, record_key=("id",)))
    key, day, at = ANCIENT
    row = spark.sql(f"SELECT '{key}' AS id, date'{day}' AS day, timestamp'{at}+00:00' AS at")
    table.upsert(row)
    table.upsert(row.selectExpr("'other' AS id", "day", "at"))  # a merge, which may copy row groups
    rows = hudi.read(path).select(["id", "day", "at"]).to_pylist()
    expected = {"day": day, "at": at.replace(tzinfo=dt.UTC)}
    assert sorted(rows, key=lambda r: r["id"]) == [{"id": "k", **expected}, {"id": "other", **expected}]
