"""Compiled jobs as people run them: a script under spark-submit, a JSON file, and `run` by spark-submit."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.runtime.main import RESULT_PREFIX
from tests.support.command_script import SCRIPT, environment, parquetry
from tests.support.processes import compute_in_java
from tests.support.project_folder import ProjectFolder, with_leave

pytestmark = pytest.mark.spark

FIRST = "order_id,city,amount,items,revision\n1,Rome,1.5,2,1\n2,Oslo,3.0,1,1\n"
SECOND = "order_id,city,amount,items,revision\n2,Oslo,4.0,1,2\n"
SPARK = {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = ProjectFolder.create(tmp_path_factory.mktemp("jobs") / "shop")
    folder.project(targets={"dev": {"warehouse": "./warehouse", "spark": SPARK}})
    folder.deliver("a.csv", FIRST)
    return folder


def executed(*command):
    """The process, and the result that the job reported as its last line."""
    done = subprocess.run(
        [str(part) for part in command], env=environment(), capture_output=True, text=True, check=False
    )
    reported = [line for line in done.stdout.splitlines() if line.startswith(RESULT_PREFIX)]
    return done, json.loads(reported[-1].removeprefix(RESULT_PREFIX)) if reported else None


def answered(folder, *arguments):
    done = parquetry(*arguments, "-p", folder.root, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_scripts_create_ingest_and_clean(folder):
    answered(folder, "compile")
    jobs = folder.root / "target/jobs/orders"
    done, result = executed(sys.executable, jobs / "create.py")
    assert (done.returncode, result["applied"]["created"]) == (0, True), done.stderr
    submit = Path(sys.executable).parent / "spark-submit"
    done, result = executed(submit, "--master", "local[2]", jobs / "ingest_landing.py")
    assert done.returncode == 0, done.stderr[-4000:]
    assert (result["files_read"], result["commit"]["inserted_rows"]) == (1, 2)
    done, result = executed(sys.executable, "-m", "parquetry.runtime", jobs / "clean.json")
    assert (done.returncode, result["services"]["files_cleaned"]) == (0, 0), done.stderr


def test_a_script_of_a_spec_that_is_not_applied_any_more_exits_4(folder):
    folder.orders(description="Applied after the compilation.")
    answered(folder, "apply", "--auto-approve")
    done, result = executed(sys.executable, folder.root / "target/jobs/orders/ingest_landing.py")
    assert done.returncode == 4
    assert "its spec differs from the expected" in result["error"]
    assert "Traceback" not in done.stderr


def submitting(folder):
    """The project with a target whose jobs go to spark-submit."""
    submitted = SPARK | {"launcher": "spark-submit", "submit_args": ["--name", "from-run"]}
    folder.project(targets={"dev": with_leave({"warehouse": "./warehouse", "spark": submitted})})
    answered(folder, "apply", "--auto-approve")
    return folder


@pytest.mark.long  # test_launcher shows the same on a cluster
def test_run_hands_jobs_to_spark_submit_where_the_target_says_so(folder):
    folder.deliver("b.csv", SECOND)
    submitting(folder)
    jobs = {job["job"]: job["result"] for job in answered(folder, "run")["jobs"]}
    assert jobs["ingest_landing"]["commit"]["updated_rows"] == 1
    (results,) = (folder.root / "target/runs").glob("*/results.json")
    assert json.loads(results.read_text())["jobs"][0]["result"] == jobs["ingest_landing"]
    assert [row["rows"] for row in answered(folder, "timeline", "orders")["instants"]][-1]["updated"] == 1


def test_a_failure_under_spark_submit_keeps_its_exit_code_and_message(folder):
    folder.deliver("c.csv", "order_id,city,amount,items,revision\nthree,Oslo,4.0,1,2\n")
    submitting(folder)
    done = parquetry("run", "-p", folder.root)
    assert done.returncode == 1
    (line,) = [
        line for line in done.stderr.splitlines() if line.startswith("error: source landing of orders")
    ]
    assert "c.csv cannot be read: line 2, column 'order_id': \"three\" is not bigint" in line
    assert "c.csv" not in done.stdout


def test_a_spark_submit_that_is_not_there_is_named(folder):
    done = parquetry("run", "-p", submitting(folder).root, SPARK_HOME="/nowhere")
    assert done.returncode == 1
    assert "/nowhere/bin/spark-submit cannot be started" in done.stderr


ENDLESS = (
    "SELECT cast(order_id AS bigint) + r.id AS order_id, city, cast(amount AS double) AS amount, "
    "cast(items AS int) AS items, cast(revision AS bigint) AS revision FROM source, range(100000000000) r"
)


def test_an_interrupted_run_exits_130_and_leaves_the_table_as_it_was(spark, tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    source = {"name": "landing", "format": "csv", "path": "landing/*.csv", "operation": "upsert"}
    folder.orders(sources=[source | {"select": ENDLESS}])
    folder.deliver("a.csv", FIRST)
    answered(folder, "apply", "--auto-approve")
    before = answered(folder, "timeline", "orders")
    run = subprocess.Popen(
        [str(SCRIPT), "run", "-p", str(folder.root)],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        # A background job of a shell ignores SIGINT, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for line in run.stderr:
        if "started" in line:
            break
    # The rows are endless, so the write cannot have ended.
    compute_in_java(run.pid)
    run.send_signal(signal.SIGINT)
    said = run.stderr.read()
    assert run.wait(timeout=120) == 130
    assert "interrupted" in said
    folder.orders(sources=[source])
    answered(folder, "apply", "--auto-approve")
    again = CliRunner().invoke(command_line, ["run", "-p", str(folder.root), "--format", "json"])
    jobs = {job["job"]: job["result"] for job in json.loads(again.stdout)["jobs"]}
    assert jobs["ingest_landing"]["commit"]["inserted_rows"] == 2
    instants = answered(folder, "timeline", "orders")["instants"]
    assert instants[: len(before["instants"])] == before["instants"]
    assert {instant["state"] for instant in instants} == {"completed"}


def test_a_broken_job_file_is_refused(tmp_path):
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"version": 2}))
    done, result = executed(sys.executable, "-m", "parquetry.runtime", job)
    assert done.returncode == 4
    assert "compile" in result["error"]
    assert executed(sys.executable, "-m", "parquetry.runtime")[0].returncode == 2
