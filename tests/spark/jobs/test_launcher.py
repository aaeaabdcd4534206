"""`launcher: spark-submit` on a master with two workers, and the same job by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from parquetry.runtime.main import RESULT_PREFIX
from tests.support.command_script import environment, parquetry
from tests.support.fast_java import java_options
from tests.support.project_folder import ProjectFolder, with_leave

pytestmark = pytest.mark.spark

CITIES = ("Rome", "Oslo", "Lima")
CONF = {
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "1",
    "spark.executor.extraJavaOptions": java_options(),
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def made(root, master):
    folder = ProjectFolder.create(root / "shop")
    spark = {"master": master, "launcher": "spark-submit", "conf": CONF}
    emitted = {"metrics": {"file": "target/lake.prom"}, "lineage": {"file": "target/lineage.jsonl"}}
    folder.project(targets={"dev": with_leave({"warehouse": "./warehouse", "spark": spark}) | emitted})
    for part in range(3):
        rows = "".join(f"{i},{CITIES[i % 3]},{i}.5,{i},{part}\n" for i in range(part * 50, part * 50 + 80))
        folder.deliver(f"{part}.csv", f"order_id,city,amount,items,revision\n{rows}")
    applied = parquetry("apply", "--auto-approve", "-p", folder.root)
    assert applied.returncode == 0, applied.stderr
    return folder


def commit_of(folder):
    """The newest commit without what names its time: counts, sizes and decisions."""
    done = parquetry("timeline", "orders", "--format", "json", "-p", folder.root)
    newest = json.loads(done.stdout)["instants"][-1]
    return {key: newest[key] for key in ("action", "operation", "rows", "files")}


def rows_of(folder):
    columns = ["order_id", "city", "amount", "items", "revision"]
    files = sorted(Path(folder.table).rglob("*.parquet"))
    live = [
        pq.read_table(file, columns=columns, partitioning=None)
        for file in files
        if ".hoodie" not in file.parts
    ]
    return sorted(tuple(row.values()) for table in live for row in table.to_pylist())


def shipped(root, master):
    """A project whose ingestion was run by spark-submit: the project, the job's result, and what was shipped."""
    folder = made(root, master)
    done = parquetry("run", "--only", "ingest", "--format", "json", "-p", folder.root)
    assert done.returncode == 0, done.stderr[-4000:]
    (job,) = json.loads(done.stdout)["jobs"]
    assert (job["job"], job["result"]["commit"]["inserted_rows"]) == ("ingest_landing", 180)
    (package,) = (folder.root / "target" / "runs").glob("*/parquetry.zip")
    return folder, job["result"], package


def test_run_ships_the_job(tmp_path, standalone):
    folder, result, package = shipped(tmp_path, standalone)
    assert (package.parent / "orders.ingest_landing.py").exists()
    assert not list((folder.table / ".hoodie/.parquetry").glob("reports/*"))
    kept = json.loads((package.parent / "results.json").read_text())
    assert [job["result"] for job in kept["jobs"]] == [result]
    newest = commit_of(folder)
    assert (newest["operation"], newest["rows"]["inserted"]) == ("upsert", 180)
    assert len(rows_of(folder)) == 180
    assert "parquetry_table_rows{" in (folder.root / "target/lake.prom").read_text(encoding="utf-8")
    events = [json.loads(line) for line in (folder.root / "target/lineage.jsonl").read_text().splitlines()]
    (done,) = [event for event in events if event["job"]["name"].endswith("ingest_landing")][1:]
    assert done["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 180


@pytest.mark.long
def test_a_script_by_hand_makes_the_same_commit(tmp_path, standalone):
    launched, of_run, package = shipped(tmp_path / "launched", standalone)
    by_hand = made(tmp_path / "by_hand", standalone)
    assert parquetry("compile", "-p", by_hand.root).returncode == 0
    submitted = subprocess.run(
        [
            *(Path(sys.executable).parent / "spark-submit", "--master", standalone, "--py-files", package),
            *(f"--conf={key}={value}" for key, value in CONF.items()),
            by_hand.root / "target/jobs/orders/ingest_landing.py",
        ],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert submitted.returncode == 0, submitted.stderr[-4000:]
    (said,) = [line for line in submitted.stdout.splitlines() if line.startswith(RESULT_PREFIX)]
    result = json.loads(said.removeprefix(RESULT_PREFIX))
    same = ("inserted_rows", "updated_rows", "deleted_rows", "files_added", "files_rewritten", "operation")
    assert {key: result["commit"][key] for key in same} == {key: of_run["commit"][key] for key in same}
    assert commit_of(by_hand) == commit_of(launched)
    assert rows_of(by_hand) == rows_of(launched)

    second = parquetry("run", "--only", "ingest", "--format", "json", "-p", launched.root)
    assert json.loads(second.stdout)["jobs"][0]["result"]["commit"] is None
