"""The example examples/shop from its first validation to a second delivery, by the commands of its README."""

from __future__ import annotations

import json
import re
import shutil
from decimal import Decimal

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.runtime.spark.read.table import read_table
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.local_spark import local_spark
from tests.support.repository import ROOT

EXAMPLE = ROOT / "examples" / "shop"
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark():
    return local_spark("example shop")


@pytest.fixture(scope="module")
def project(tmp_path_factory, spark):
    """The example after the commands of its README, with what they said."""
    root = tmp_path_factory.mktemp("example") / "shop"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns("target"))
    return root


def parquetry(project, *arguments):
    return CliRunner().invoke(command_line, [*arguments, "--project", str(project)])


def answered(project, *arguments):
    """The JSON answer of a command that succeeds."""
    result = parquetry(project, *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def rows(project, spark):
    handle = open_table(open_store(project / "target/warehouse/orders"))
    frame = read_table(spark, handle).orderBy("order_id")
    return {row["order_id"]: (row["city"], row["amount"], row["revision"]) for row in frame.collect()}


def readme_blocks():
    return re.findall(r"```\n(.*?)```", (EXAMPLE / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_readme_runs_as_written(project, spark):
    commands, delivery = readme_blocks()
    saved = project / "target"
    saved.mkdir(exist_ok=True)
    for line in commands.splitlines():
        words = line.partition("#")[0].split()
        assert words[0] == "parquetry"
        located = [str(project / word) if word.startswith("target/") else word for word in words[1:]]
        result = parquetry(project, *located)
        assert result.exit_code == 0, result.output
    assert rows(project, spark) == {
        1: ("Rome", Decimal("19.90"), 1),
        2: ("Rome", Decimal("7.50"), 2),
        3: ("Oslo", Decimal("120.00"), 1),
        4: ("Oslo", Decimal("42.50"), 1),
    }

    (project / "landing/2026-02.csv").write_text(delivery)
    jobs = {job["job"]: job["result"] for job in answered(project, "run")["jobs"]}
    assert jobs["ingest_feed"]["files_read"] == 1
    commit = jobs["ingest_feed"]["commit"]
    assert (commit["inserted_rows"], commit["updated_rows"], commit["deleted_rows"]) == (1, 1, 1)
    assert rows(project, spark) == {
        1: ("Rome", Decimal("17.90"), 2),
        2: ("Rome", Decimal("7.50"), 2),
        4: ("Oslo", Decimal("42.50"), 1),
        5: ("Rome", Decimal("61.00"), 1),
    }


def test_a_run_with_nothing_new_writes_nothing(project):
    before = answered(project, "timeline", "orders")
    jobs = {job["job"]: job["result"] for job in answered(project, "run")["jobs"]}
    assert jobs["ingest_feed"]["commit"] is None
    assert answered(project, "timeline", "orders") == before


def test_the_plan_stays_empty_after_ingestion(project):
    assert parquetry(project, "plan", "--detailed-exitcode").exit_code == 0


def test_the_timeline_says_what_each_write_did(project):
    instants = answered(project, "timeline", "orders")["instants"]
    upserts = [instant for instant in instants if instant["operation"] == "upsert"]
    assert [instant["rows"] for instant in upserts] == [
        {"inserted": 4, "updated": 0, "deleted": 0},
        {"inserted": 1, "updated": 1, "deleted": 1},
    ]
    assert set(upserts[0]) == {
        "time",
        "action",
        "state",
        "operation",
        "rows",
        "files",
        "bytes_written",
        "extra",
    }
    one = answered(project, "timeline", "orders", upserts[0]["time"])
    assert one["instants"] == [upserts[0]]


def test_inspect_agrees_with_the_files(project):
    layout = answered(project, "inspect", "orders")
    assert [partition["path"] for partition in layout["partitions"]] == ["city=Oslo", "city=Rome"]
    table = project / "target/warehouse/orders"
    for partition in layout["partitions"]:
        assert partition["small_files"] == partition["files"] == len(partition["file_sizes_bytes"])
        on_disk = {path.stat().st_size for path in (table / partition["path"]).glob("*.parquet")}
        assert set(partition["file_sizes_bytes"]) <= on_disk
    assert layout["totals"]["rows"] == 4
    (query,) = layout["queries"]
    assert query["name"] == "january"
    assert query["files"] == {"read": 2, "total": 2}


def test_a_file_that_changed_is_ingested_again(project, spark):
    path = project / "landing/2026-02.csv"
    path.write_text(path.read_text().replace("61.00,1", "66.00,2"))
    jobs = {job["job"]: job["result"] for job in answered(project, "run", "--only", "ingest")["jobs"]}
    assert set(jobs) == {"ingest_feed"}
    assert (jobs["ingest_feed"]["files_read"], jobs["ingest_feed"]["files_changed"]) == (1, 1)
    assert rows(project, spark)[5] == ("Rome", Decimal("66.00"), 2)
    assert 3 not in rows(project, spark)


def test_a_rolled_back_write_makes_its_files_new_again(project, spark):
    last = answered(project, "timeline", "orders")["instants"][-1]["time"]
    assert parquetry(project, "service", "rollback", "orders", last, "--auto-approve").exit_code == 0
    assert rows(project, spark)[5] == ("Rome", Decimal("61.00"), 1)
    jobs = {job["job"]: job["result"] for job in answered(project, "run", "--only", "ingest")["jobs"]}
    assert jobs["ingest_feed"]["files_read"] == 1
    assert rows(project, spark)[5] == ("Rome", Decimal("66.00"), 2)


def test_restoring_a_savepoint_makes_later_files_new_again(project, spark):
    savepoint = answered(project, "service", "savepoint", "orders", "--comment", "before March")["instant"]
    (project / "landing/2026-03.csv").write_text(
        "op,order_id,city,ordered_at,amount,revision\nU,6,Oslo,2026-03-01T00:00:00Z,1.00,1\n"
    )
    answered(project, "run", "--only", "ingest")
    assert 6 in rows(project, spark)
    answered(project, "service", "restore", "orders", savepoint, "--auto-approve")
    assert 6 not in rows(project, spark)
    answered(project, "run", "--only", "ingest")
    assert 6 in rows(project, spark)


def test_wrong_values_in_a_file_are_an_error_and_nothing_is_written(project, spark):
    before = rows(project, spark)
    path = project / "landing/2026-04.csv"
    path.write_text("op,order_id,city,ordered_at,amount,revision\nU,seven,Oslo,2026-03-01T00:00:00Z,1.00,1\n")
    result = parquetry(project, "run", "--only", "ingest")
    assert result.exit_code == 1
    assert "source feed of orders: file:" in result.output
    assert "2026-04.csv cannot be read" in result.output
    assert '"seven"' in result.output
    path.unlink()
    assert rows(project, spark) == before
    assert parquetry(project, "run").exit_code == 0


def test_services_by_hand(project):
    cleaned = answered(project, "service", "clean", "orders")
    assert cleaned["orphans_deleted"] == 0
    assert parquetry(project, "service", "archive", "orders").exit_code == 0
    assert answered(project, "doctor")["ok"] is True
