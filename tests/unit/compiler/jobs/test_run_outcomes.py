"""What a run does with a table's failure: the other tables go on, and everything is told at the end."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
import time

import pytest

import parquetry
from parquetry.cli.main import command_line
from parquetry.compiler.jobs import run as running
from parquetry.compiler.jobs import table_jobs
from parquetry.compiler.jobs.launch import new_run_id
from parquetry.message import Message, joined
from parquetry.runtime.errors import CorruptTableError, InvalidDataError, StorageError
from parquetry.runtime.main import JobResult, ServiceResult
from tests.support.project_folder import ORDERS, PROJECT, ProjectFolder

TABLES = ("orders", "parts", "shops")
SERVED = ServiceResult(files_cleaned=1, instants_archived=0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "reports").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "reports"))
    folder = ProjectFolder.create(tmp_path / "shop")
    for name in TABLES[1:]:
        folder.write(f"tables/{name}.yml", ORDERS | {"name": name})
    parquetry.load(folder.root).plan().apply()
    return folder


def run(folder, monkeypatch, errors, *, services=None, options=()):
    """Exit code and the jobs of `run --format json`; ``errors`` are what the tables' first jobs raise."""

    def launch(job):
        if job.table in errors:
            raise errors[job.table]
        return JobResult(table=job.table, job=job.name, services=services)

    monkeypatch.setattr("parquetry.compiler.jobs.launch.launcher_for", lambda *_: lambda _: launch)
    with pytest.raises(SystemExit) as ended:
        command_line.main(["run", "-p", str(folder.root), "--format", "json", *options])
    (saved,) = (folder.root / "target" / "runs").glob("*/results.json")
    return ended.value.code, json.loads(saved.read_text())["jobs"]


def failed(jobs):
    return {job["table"]: job["error"] for job in jobs if job["error"]}


@pytest.mark.parametrize("services", [None, SERVED])
def test_a_bug_in_one_table_leaves_the_others_their_turn(folder, monkeypatch, capsys, tmp_path, services):
    bugs = {"orders": ZeroDivisionError("a figure was 0"), "parts": InvalidDataError("parts is torn")}
    code, jobs = run(folder, monkeypatch, bugs, services=services)
    assert code == 70
    assert [(job["table"], job["error"] is None) for job in jobs] == [
        ("orders", False),
        ("parts", False),
        ("shops", True),
        ("shops", True),
    ]
    said = capsys.readouterr()
    assert json.loads(said.out)["jobs"] == jobs
    (report,) = (tmp_path / "reports").iterdir()
    assert "ZeroDivisionError: a figure was 0" in failed(jobs)["orders"]
    assert str(report) in failed(jobs)["orders"]
    assert str(report) in said.err
    assert "Traceback (most recent call last)" in report.read_text()


def test_a_table_that_cannot_be_looked_at_for_a_bug_is_told_as_one(folder, monkeypatch):
    def observe(store, **known):
        if store.uri.endswith("/parts"):
            raise KeyError("instant")
        return observed(store, **known)

    observed = table_jobs.observe
    monkeypatch.setattr(table_jobs, "observe", observe)
    code, jobs = run(folder, monkeypatch, {})
    assert code == 70
    assert [(job["table"], job["job"]) for job in jobs if job["error"]] == [("parts", "open")]
    assert {job["table"] for job in jobs} == set(TABLES)


def test_a_full_disk_under_one_table_is_no_bug(folder, monkeypatch, tmp_path):
    code, jobs = run(folder, monkeypatch, {"parts": OSError(28, "No space left on device", "/data/x")})
    assert (code, list((tmp_path / "reports").iterdir())) == (1, [])
    assert failed(jobs)["parts"].startswith("/data/x cannot be written or read: No space left on device;")


@pytest.mark.parametrize(("services", "expected"), [(None, 1), (SERVED, 6)])
def test_a_diagnosed_failure_beside_a_commit_is_partly_done(folder, monkeypatch, services, expected):
    code, jobs = run(folder, monkeypatch, {"orders": StorageError("gone")}, services=services)
    assert (code, failed(jobs)) == (expected, {"orders": "gone"})


STATEMENTS = ("a.parquet is gone", "b.parquet is gone", "restore them")
LOST = "; ".join(STATEMENTS)


def test_each_reason_is_told_once_on_stderr_and_stays_in_the_json(folder, monkeypatch, capsys):
    """Also of a job that fails for what the look at the files has told of its table already."""

    def look(observation, *_, **__):
        if observation.handle.config.name == "orders":
            raise CorruptTableError(joined("; ", STATEMENTS))

    monkeypatch.setattr(table_jobs, "check_files", look)
    again = CorruptTableError(joined("; ", STATEMENTS[1:]))
    code, jobs = run(folder, monkeypatch, {"orders": again, "parts": StorageError("gone; restore them")})
    assert code == 1
    assert [(job["job"], job["error"]) for job in jobs if job["table"] == "orders"] == [
        ("files", LOST),
        ("ingest_landing", str(again)),
    ]
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert errors == ["error: parts ingest_landing: gone; restore them", f"error: {LOST}"]


@pytest.mark.parametrize("options", [[], ["-q"]])
def test_the_text_of_a_run_has_no_reasons(folder, monkeypatch, capsys, options):
    errors = {"orders": StorageError("gone"), "parts": InvalidDataError("torn")}

    def launch(job):
        if job.table in errors:
            raise errors[job.table]
        return JobResult(table=job.table, job=job.name, services=SERVED)

    monkeypatch.setattr("parquetry.compiler.jobs.launch.launcher_for", lambda *_: lambda _: launch)
    with pytest.raises(SystemExit) as ended:
        command_line.main(["run", "-p", str(folder.root), *options])
    said = capsys.readouterr()
    assert ended.value.code == 6
    assert [line.split()[-1] for line in said.out.splitlines()[:-1] if "failed" in line] == [
        "failed",
        "failed",
    ]
    assert [line for line in said.err.splitlines() if line.startswith("error: ")] == [
        "error: orders ingest_landing: gone",
        "error: parts ingest_landing: torn",
        "error: 2 of 4 jobs failed; correct the causes, then run again",
    ]


def test_files_that_were_set_aside_are_named_beside_failed_jobs(folder, monkeypatch, capsys):
    def launch(job):
        if job.table == "orders":
            raise StorageError("gone")
        aside = (Message("landing/9.csv is torn"),) if job.table == "parts" else ()
        return JobResult(table=job.table, job=job.name, set_aside=aside if job.source else ())

    monkeypatch.setattr("parquetry.compiler.jobs.launch.launcher_for", lambda *_: lambda _: launch)
    with pytest.raises(SystemExit) as ended:
        command_line.main(["run", "-p", str(folder.root)])
    assert ended.value.code == StorageError.exit_code
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")] == [
        "error: gone",
        "error: source files were set aside (1): landing/9.csv is torn",
    ]


SQL = {
    "sources.landing.delete_when": ("delete_when", "nowhere = 1", "nowhere = 2"),
    "sources.landing.select": (
        "select",
        "SELECT 1 AS order_id FROM source",
        "SELECT 2 AS order_id FROM source",
    ),
    "columns.items.generated": ("generated", "year(now())", "year(now()) + 1"),
}


@pytest.mark.parametrize("path", SQL)
def test_sql_that_fails_is_told_with_its_place_while_the_project_has_it(folder, monkeypatch, path):
    key, applied, edited = SQL[path]

    def declare(text):
        if key == "generated":
            columns = [c | {key: text} if c["name"] == "items" else c for c in ORDERS["columns"]]
            folder.orders(columns=columns)
        else:
            folder.orders(sources=[ORDERS["sources"][0] | {key: text}])

    declare(applied)
    for store in (folder.root / "warehouse").iterdir():
        shutil.rmtree(store)
    parquetry.load(folder.root).plan().apply()
    said = "source landing of orders: Spark cannot compute"

    def error():
        failure = InvalidDataError(said)
        failure.declared = path
        return failure

    lines = (folder.root / "tables/orders.yml").read_text().splitlines()
    number = next(index for index, line in enumerate(lines, start=1) if f"{key}: " in line)
    column = lines[number - 1].index(key) + 1
    code, jobs = run(folder, monkeypatch, {"orders": error()})
    place = f"tables/orders.yml:{number}:{column}"
    assert failed(jobs) == {"orders": f"{place}: {said}"}
    declare(edited)
    shutil.rmtree(folder.root / "target")
    code, jobs = run(folder, monkeypatch, {"orders": error()}, options=["--applied"])
    assert (code, failed(jobs)) == (1, {"orders": said})


def test_a_run_that_ends_while_it_tests_has_left_what_its_jobs_did(folder, monkeypatch):
    def ended(*_, **__):
        raise ZeroDivisionError

    folder.write("parquetry.yml", PROJECT | {"tests": {"after_run": True}})
    monkeypatch.setattr(running, "execute_tests", ended)
    code, jobs = run(folder, monkeypatch, {}, services=SERVED)
    assert code == 70
    assert {job["table"] for job in jobs} == set(TABLES)


def test_results_that_a_full_disk_does_not_take_are_shown_and_their_file_is_named(
    folder, monkeypatch, capsys
):
    place = folder.root / "target" / "runs" / "r1" / "results.json"

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("parquetry.confined_folder.os.replace", full)
    monkeypatch.setattr("parquetry.compiler.jobs.launch.new_run_id", lambda: "r1")
    done = lambda _: lambda job: JobResult(table=job.table, job=job.name, services=SERVED)  # noqa: E731
    monkeypatch.setattr("parquetry.compiler.jobs.launch.launcher_for", lambda *_: done)
    with pytest.raises(SystemExit) as ended:
        command_line.main(["run", "-p", str(folder.root), "--format", "json"])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert {job["table"] for job in json.loads(said.out)["jobs"]} == set(TABLES)
    assert f"{place} cannot be written: No space left on device; the commits of the run are kept" in said.err
    assert [*place.parent.iterdir()] == []


@pytest.mark.parametrize("path", ["results.json", ""])
def test_results_are_not_written_through_a_link(folder, monkeypatch, capsys, tmp_path, path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "results.json").write_text("precious")
    place = folder.root / "target" / "runs" / "r1" / path
    place.parent.mkdir(parents=True)
    place.symlink_to(outside / path)
    monkeypatch.setattr("parquetry.compiler.jobs.launch.new_run_id", lambda: "r1")
    done = lambda _: lambda job: JobResult(table=job.table, job=job.name, services=SERVED)  # noqa: E731
    monkeypatch.setattr("parquetry.compiler.jobs.launch.launcher_for", lambda *_: done)
    with pytest.raises(SystemExit) as ended:
        command_line.main(["run", "-p", str(folder.root), "--format", "json"])
    assert ended.value.code == 1
    assert "is a link" in capsys.readouterr().err
    assert (outside / "results.json").read_text() == "precious"


def test_run_ids_are_in_the_order_of_time_within_a_second_too():
    ids = []
    for _ in range(5):
        ids.append(new_run_id())
        time.sleep(0.002)
    assert ids == sorted(ids)
    assert all(re.fullmatch(r"\d{8}T\d{6}-[0-9a-f]{6}", run_id) for run_id in ids)
