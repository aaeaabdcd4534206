"""What Python users write from memory, and what the page about Python shows."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import parquetry
from parquetry.runtime.spec.table_spec import Column, TableSpec
from tests.support.effort import in_full
from tests.support.project_folder import PROJECT, ProjectFolder
from tests.support.repository import ROOT

pytestmark = pytest.mark.spark

PAGE = ROOT / "docs" / "reference" / "python.md"
SPEC = TableSpec(
    name="people",
    columns=(
        Column(name="id", type="bigint", nullable=False),
        Column(name="age", type="int"),
        Column(name="paid", type="decimal(10,2)"),
        Column(name="seen", type="timestamp"),
        Column(name="tags", type="map<string,int>"),
        Column(name="city", type="string"),
    ),
    record_key=("id",),
    partition_by=("city",),
)


@pytest.fixture
def table(spark, tmp_path):
    return parquetry.create(tmp_path / "people", SPEC)


def people(ids, **columns):
    return pd.DataFrame({"id": ids, "city": "Rome", **columns})


def content(table, spark):
    rows = table.read(spark).select("id", "age", "paid", "tags", "city").collect()
    return sorted(tuple(row) for row in rows)


def test_every_method_that_writes_takes_pandas_and_arrow_by_the_declared_types(table, spark):
    first = people(
        [1, 2],
        age=[30, None],
        paid=[1.25, 2],
        seen=pd.to_datetime(["2026-01-01 10:00", None]),
        tags=[{"a": 1}, None],
    )
    assert table.upsert(first).inserted_rows == 2
    assert content(table, spark) == [
        (1, 30, Decimal("1.25"), {"a": 1}, "Rome"),
        (2, None, Decimal("2.00"), None, "Rome"),
    ]
    seen = table.read(spark).where("id = 1").selectExpr("cast(seen as string)").collect()[0][0]
    assert seen == "2026-01-01 10:00:00"

    arrow = pa.table({"id": [2, 3], "age": [7, 8], "city": ["Rome", "Oslo"]})
    assert table.upsert(arrow).updated_rows == 1
    assert table.insert(arrow.slice(1).replace_schema_metadata().to_batches()[0]).inserted_rows == 1
    assert table.bulk_insert(people([4]).astype({"id": "int8"})).inserted_rows == 1
    assert table.delete(pd.DataFrame({"id": [3], "city": ["Oslo"]})).deleted_rows >= 1
    assert table.delete(pa.table({"age": [7]}), match=["age"]).deleted_rows == 1
    flagged = people([1, 9]).assign(op=["D", "I"])
    assert table.upsert(flagged, delete_when="op = 'D'", drop=["op"]).deleted_rows == 1
    assert table.insert_overwrite(pa.table({"id": [5], "city": ["Rome"]}).to_reader()).inserted_rows == 1
    assert [row[0] for row in content(table, spark)] == [5]
    assert table.insert_overwrite_table(people([]).astype({"id": "int64"})).instant is not None
    assert content(table, spark) == []


def test_rows_that_do_not_fit_name_the_column_and_write_nothing(table, spark):
    table.upsert(people([1], age=[1]))
    before = len(table.timeline().instants)
    for rows, column in (
        (people([2], age=["old"]), "'age'"),
        (people([2.5]), "'id'"),
        (people([2], paid=[1.234]), "'paid'"),
        (people([2], nobody=[1]), "'nobody'"),
        (people([None]), "'id'"),
    ):
        with pytest.raises(parquetry.InvalidDataError, match=column):
            table.upsert(rows)
    assert len(table.timeline().instants) == before
    assert [row[0] for row in content(table, spark)] == [1]


def test_many_rows_reach_the_table_through_the_stage_and_leave_nothing_there(table, spark):
    count = 300_000 if in_full() else 30_000
    assert table.bulk_insert(people(range(count), age=7)).inserted_rows == count
    found = table.read(spark).selectExpr("count(distinct id)", "sum(age)").collect()[0]
    assert tuple(found) == (count, 7 * count)
    assert not list(Path(table.uri.removeprefix("file://")).glob(".hoodie/.parquetry/stage/*"))


def test_a_project_runs_and_gives_its_tables(spark, tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    emitted = {"metrics": {"file": "target/lake.prom"}, "lineage": {"file": "target/lineage.jsonl"}}
    folder.project(targets={"dev": PROJECT["targets"]["dev"] | emitted})
    folder.deliver("one.csv", "order_id,city,amount,items,revision\n1,Rome,2.5,3,4\n")
    project = parquetry.load(folder.root)
    with pytest.raises(parquetry.UnappliedError, match=r"call plan\(\)\.apply\(\)"):
        project.run()
    failed = project.run(check=False)
    assert isinstance(failed.failure, parquetry.UnappliedError)
    project.plan().apply()
    result = project.run(spark=spark)
    assert result.failure is None
    assert [outcome.name for outcome in result.outcomes]
    assert repr(result).startswith("RunResult(run_id=")
    assert (folder.root / "target" / "runs" / result.run_id / "results.json").is_file()
    assert "parquetry_table_rows{" in (folder.root / "target/lake.prom").read_text(encoding="utf-8")
    events = (folder.root / "target/lineage.jsonl").read_text(encoding="utf-8").splitlines()
    done = [event for event in map(json.loads, events) if event["job"]["name"] == "dev.orders.ingest_landing"]
    assert [event["eventType"] for event in done] == ["START", "COMPLETE"]
    statistics = done[1]["outputs"][0]["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"]) == (1, 1)
    assert project.table("orders").name == "orders"
    with pytest.raises(parquetry.UnknownTableError, match="did you mean 'orders'"):
        project.table("order")


def test_the_page_about_python_works_as_it_is_shown(spark, tmp_path, monkeypatch):
    """One block after the other in one namespace; what stands in a comment behind a line is its value."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"dt": dt}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    shown = 0
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
        for expression, value in re.findall(r"^(\S.*?) {2,}# -> (.*)$", block, re.MULTILINE):
            assert repr(eval(expression.partition(" = ")[0], names)) == value, expression
            shown += 1
    assert shown >= 3


def test_where_executors_may_go_rows_are_staged_in_the_store_under_the_write_s_own_name(
    table, spark, monkeypatch
):
    """As on a cluster: the folder belongs to a living write, so that no clean takes it away."""
    monkeypatch.setattr("parquetry.runtime.spark.write.stages_locally", lambda _: False)
    assert table.upsert(people(range(100))).inserted_rows == 100
    assert table.upsert(pa.table({"id": [1, 500], "city": ["Rome", "Rome"]}).to_reader()).updated_rows == 1
    assert table.read(spark).count() == 101
    assert not list(Path(table.uri.removeprefix("file://")).glob(".hoodie/.parquetry/stage/*"))
