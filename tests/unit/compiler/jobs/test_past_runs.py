"""What is recorded of runs: also of those that failed, were killed, or go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

import parquetry
from parquetry.cli.main import command_line
from parquetry.compiler.jobs.past_runs import RunState, last_runs, past_run, past_runs
from parquetry.compiler.jobs.run import run_tables
from parquetry.compiler.workspace.run_results import KEPT_RUNS, RESULTS, RUNS, STARTED
from parquetry.project_api import NoProgress
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.main import JobResult
from parquetry.runtime.storage.open import open_store
from tests.support.project_folder import ORDERS, ProjectFolder
from tests.support.repository import ROOT

WRITTEN = CommitResult(
    instant="20260101000000000",
    action="commit",
    operation="UPSERT",
    inserted_rows=7,
    files_added=2,
    bytes_written=3000,
)

HANGING = """
import sys, time
from pathlib import Path
from tests.unit.compiler.jobs.test_past_runs import run, written
from tests.support.project_folder import ProjectFolder

def launch(job):
    if job.table == "orders":
        return written(job)
    print("begun", flush=True)
    time.sleep(600)

run(ProjectFolder(Path(sys.argv[1])), launch)
"""


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.write("tables/parts.yml", ORDERS | {"name": "parts"})
    parquetry.load(folder.root).plan().apply()
    return folder


def last(folder):
    """True for each table whose newest run succeeded, else False."""
    found = last_runs(folder.root, target="dev", tables=["orders", "parts"])
    return {table: run.succeeded for table, run in found.items()}


def written(job):
    return JobResult(table=job.table, job=job.name, files_read=1, commit=WRITTEN)


def nothing(job):
    return JobResult(table=job.table, job=job.name)


def run(folder, launch=nothing, run_id="20260101T000000-aaaaaa"):
    return run_tables(
        folder.workspace(),
        only=None,
        run_id=run_id,
        prepare=lambda _: launch,
        observer=NoProgress(),
        diagnose=lambda bug: InvalidDataError(str(bug)),
    )


def command(folder, *words):
    done = CliRunner().invoke(command_line, ["runs", *words, "-p", str(folder.root)])
    return done.exit_code, done.output


def test_a_run_is_recorded_with_its_jobs(folder):
    run(folder, written)
    (found,) = past_runs(folder.root, most=20)
    assert (found.state, found.exit_code, found.target, found.failures) == (RunState.DONE, 0, "dev", 0)
    assert found.seconds is not None
    jobs = {(job.table, job.name) for job in found.jobs}
    assert {("orders", "ingest_landing"), ("parts", "services")} <= jobs
    written_jobs = [job for job in found.jobs if job.files]
    assert sum(job.bytes_written for job in written_jobs) == 3000 * len(written_jobs) > 0
    assert all(job.seconds is not None for job in found.jobs)


def test_a_failed_run_shows_why(folder):
    def launch(job):
        if job.table == "parts":
            raise InvalidDataError("landing/1.csv is torn")
        return written(job)

    run(folder, launch)
    code, said = command(folder)
    assert (code, "failed, 1 failure" in said) == (0, True)
    code, said = command(folder, "20260101T000000-aaaaaa")
    assert code == 0
    assert "orders ingest_landing  7 inserted, 0 updated, 0 deleted; 2 files written (3 KB)" in said
    lines = said.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("parts ingest_landing"))
    assert "failed" in lines[place]
    assert lines[place + 1].strip() == "landing/1.csv is torn"
    (found,) = json.loads(command(folder, "20260101T000000-aaaaaa", "--format", "json")[1])["runs"]
    assert (found["state"], found["exit_code"], found["failures"]) == ("failed", 6, 1)
    assert [job["error"] for job in found["jobs"] if job["error"]] == ["landing/1.csv is torn"]


def test_warnings_of_a_run_are_shown(folder):
    def launch(job):
        warnings = ("landing/*.csv matches nothing",) if job.name == "ingest_landing" else ()
        return JobResult(table=job.table, job=job.name, warnings=warnings)

    run(folder, launch)
    assert "done, 2 warnings" in command(folder)[1]
    said = " ".join(command(folder, "20260101T000000-aaaaaa")[1].split())
    assert "orders ingest_landing nothing new; 0.0 s; warning: landing/*.csv matches nothing" in said
    (found,) = json.loads(command(folder, "20260101T000000-aaaaaa", "--format", "json")[1])["runs"]
    assert [job["warnings"] for job in found["jobs"] if job["table"] == "orders"] == [
        ["landing/*.csv matches nothing"],
        [],
    ]


def test_a_killed_run_is_unfinished_and_has_what_it_did(folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", HANGING, str(folder.root)],
        stdout=subprocess.PIPE,
        env=environment,
        cwd=ROOT,
        text=True,
    ) as child:
        assert child.stdout.readline() == "begun\n"
        assert [found.state for found in past_runs(folder.root, most=1)] == [RunState.RUNNING]
        assert last(folder) == {}
        child.send_signal(signal.SIGKILL)
    (found,) = past_runs(folder.root, most=1)
    assert (found.state, found.exit_code, found.seconds) == (RunState.UNFINISHED, None, None)
    assert {job.table for job in found.jobs} == {"orders"}
    assert "unfinished" in command(folder)[1]
    assert last(folder) == {"orders": False, "parts": False}


def test_an_interrupted_run_is_unfinished_although_its_process_goes_on(folder):
    def launch(job):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, launch)
    assert [found.state for found in past_runs(folder.root, most=1)] == [RunState.UNFINISHED]


def test_the_newest_hundred_runs_are_kept_and_nothing_else_goes(folder, tmp_path):
    runs = folder.root / RUNS
    (runs / "20250101T000000-000000").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    for n in range(KEPT_RUNS + 5):
        old = runs / f"20250601T{n:06d}-000000"
        (old / "failures").mkdir(parents=True)
        (old / STARTED).write_text("{}")
        (old / "failures" / "link").symlink_to(outside)
    run(folder)
    left = sorted(path.name for path in runs.iterdir() if (path / STARTED).exists())
    assert (len(left), left[-1]) == (KEPT_RUNS, "20260101T000000-aaaaaa")
    assert left[0] == "20250601T000006-000000"
    assert (runs / "20250101T000000-000000").exists()
    assert (outside / "kept").exists()
    assert len(past_runs(folder.root, most=7)) == 7


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"jobs": 1, "counts": [], "seconds": "x"}', '{"jobs": [1, {}]}']
)
def test_damaged_records_are_shown_as_what_they_are(folder, content):
    run(folder)
    for name in (STARTED, RESULTS):
        (folder.root / RUNS / "20260101T000000-aaaaaa" / name).write_text(content)
    assert past_run(folder.root, "20260101T000000-aaaaaa").state is RunState.UNFINISHED
    for words in ((), ("20260101T000000-aaaaaa",)):
        assert command(folder, *words)[0] == 0


def test_an_unknown_run_is_a_usage_error(folder):
    code, said = command(folder, "20260101T000000-bbbbbb")
    assert (code, "omit the id" in said) == (2, True)


def test_without_runs_there_is_nothing(folder):
    assert command(folder) == (0, "No run is recorded yet.\n")
    assert json.loads(command(folder, "--format", "json")[1]) == {"runs": []}


def test_a_disk_that_refuses_stops_no_run(folder):
    (folder.root / "target/runs").write_text("in the way")
    result = run(folder, nothing)
    assert "cannot be written" in result.failure.message or "in the way" in result.failure.message
    assert open_store(folder.table).list(".hoodie")
