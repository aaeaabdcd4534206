"""Tests of rows from the command line: their results, their failing keys, and the tests behind a run."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.runtime.storage.open import open_store
from tests.support.project_folder import EVENTS, PROJECT, ProjectFolder
from tests.support.small_table import SmallTable

pytestmark = pytest.mark.spark

TESTS = [
    {"unique": ["v"]},
    {"name": "known", "relationships": {"columns": ["v"], "to": "events"}},
    {"max_orphans": 0},
]


@pytest.fixture
def folder(tmp_path, monkeypatch, spark):
    made = ProjectFolder.create(tmp_path / "shop")
    (made.root / "tables/orders.yml").unlink()
    made.write("tables/events.yml", EVENTS | {"tests": TESTS})
    made.write("parquetry.yml", PROJECT | {"tests": {"after_run": True}})
    monkeypatch.chdir(made.root)
    assert invoke("apply", "--auto-approve").exit_code == 0
    table = SmallTable(store=open_store(made.root / "warehouse/events"))
    table.insert({f"k{n}": (n, "a") for n in range(9)})
    return made


def invoke(*words):
    return CliRunner().invoke(command_line, words)


def test_failing_keys_are_kept_in_the_project_and_named(folder):
    SmallTable(store=open_store(folder.root / "warehouse/events")).insert({"again": (3, "b")})
    done = invoke("test", "--store-failures", "--format", "json", "--junit", "tests.xml")
    said = json.loads(done.stdout)
    assert done.exit_code == 1
    ends = {test["test"]: (test["status"], test["files_read"]) for test in said["tests"]}
    assert ends == {"unique_v": ("failed", 2), "known": ("passed", 2), "max_orphans": ("passed", None)}
    kept = said["tests"][0]["failures"]
    assert kept == f"target/runs/{said['run_id']}/failures/events.unique_v.jsonl"
    assert (folder.root / kept).read_text() == '{"v": "3"}\n'
    assert (folder.root / kept).stat().st_mode & 0o077 == 0
    assert f"failing keys are in {kept}" in (folder.root / "tests.xml").read_text()
    assert kept.rpartition("/")[2] in invoke("test", "--store-failures").stdout


def test_the_next_test_reads_what_is_new(folder):
    read = []
    for _ in range(2):
        said = json.loads(invoke("test", "--format", "json").stdout)
        read.append([test["files_read"] for test in said["tests"]])
    said = json.loads(invoke("test", "--full", "--format", "json").stdout)
    read.append([test["files_read"] for test in said["tests"]])
    assert read == [[1, 1, None], [0, 0, None], [1, 1, None]]


def test_a_run_executes_the_tests_of_its_tables_and_fails_with_them(folder):
    done = invoke("run", "--only", "services", "--format", "json")
    said = json.loads(done.stdout)
    assert done.exit_code == 0
    assert [test["status"] for test in said["tests"]] == ["passed"] * 3
    SmallTable(store=open_store(folder.root / "warehouse/events")).insert({"again": (3, "b")})
    done = invoke("run", "--only", "services", "--format", "json")
    said = json.loads(done.stdout)
    saved = json.loads((folder.root / "target/runs" / said["run_id"] / "results.json").read_text())
    assert (done.exit_code, saved) == (1, said)
    assert {test["test"]: test["status"] for test in said["tests"]}["unique_v"] == "failed"
    assert "1 of 3 tests failed" in done.stderr
    history = json.loads(invoke("test", "--history", "--format", "json").stdout)
    assert [run["status"] for run in history["tests"][0]["runs"]] == ["passed", "failed"]
    assert "unique_v" in invoke("run", "--only", "services").stdout
    folder.write("tables/events.yml", EVENTS | {"tests": [{"unique": ["v"], "severity": "warn"}]})
    assert invoke("run", "--only", "services", "--applied").exit_code == 0
