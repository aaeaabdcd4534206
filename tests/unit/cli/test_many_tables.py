"""Runs and plans of hundreds of tables: what changed, and one line at the end."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.main import JobResult
from tests.support.project_folder import ORDERS, ProjectFolder

TABLES = 30
WRITTEN = CommitResult(
    instant="20260101000000000",
    action="commit",
    operation="UPSERT",
    inserted_rows=7,
    files_added=2,
    bytes_written=3000,
)


@pytest.fixture
def folder(tmp_path):
    """Thirty applied tables, whose sources have no files."""
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    for n in range(TABLES):
        name = f"t{n:02d}"
        (folder.root / name).mkdir()
        source = ORDERS["sources"][0] | {"path": f"{name}/*.csv"}
        folder.write(f"tables/{name}.yml", ORDERS | {"name": name, "sources": [source]})
    assert called(folder, "apply", "--auto-approve")
    return folder


def called(folder, *words, code=0):
    done = CliRunner().invoke(command_line, [*words, "-p", str(folder.root)])
    assert done.exit_code == code, done.output
    return done.stdout


def launching(monkeypatch, launch):
    monkeypatch.setattr("parquetry.compiler.jobs.launch.launcher_for", lambda *_: lambda _: launch)


def nothing(job):
    return JobResult(table=job.table, job=job.name)


def test_a_run_lists_what_changed_and_sums_up(folder, monkeypatch):
    def launch(job):
        if job.name == "ingest_landing":
            if job.table == "t07":
                raise InvalidDataError("torn")
            if job.table in ("t03", "t05"):
                return JobResult(table=job.table, job=job.name, files_read=1, commit=WRITTEN)
            if job.table == "t09":
                return JobResult(table=job.table, job=job.name, warnings=("look here",))
        return nothing(job)

    launching(monkeypatch, launch)
    lines = called(folder, "run", code=6).splitlines()
    assert {line.split()[0] for line in lines if line.startswith("t")} == {"t03", "t05", "t07", "t09"}
    assert lines[-1].startswith("1 failed, 2 changed, 27 unchanged; 4 files (6 KB) written in ")
    listed = called(folder, "run", "-v", code=6).splitlines()
    assert {line.split()[0] for line in listed if line.startswith("t")} == {
        f"t{n:02d}" for n in range(TABLES)
    }
    assert listed[-1].startswith("1 failed, 2 changed, 27 unchanged; 4 files (6 KB) written in ")


def test_a_run_without_anything_new_is_one_line(folder, monkeypatch):
    launching(monkeypatch, nothing)
    (line,) = called(folder, "run").splitlines()
    assert line.startswith("30 tables: nothing new in ")
    assert len(called(folder, "run", "-v").splitlines()) == 2 * TABLES + 2
    assert len(json.loads(called(folder, "run", "--format", "json"))["jobs"]) == 2 * TABLES


def test_a_plan_of_what_is_due_lists_tables_with_work(folder):
    (folder.root / "t04/a.csv").write_text("order_id,city,amount,items,revision\n1,Rome,1.0,1,1\n")
    lines = called(folder, "plan", "--due").splitlines()
    assert {line.split()[0] for line in lines if line.startswith("    t")} == {"t04"}
    assert "    nothing for 29 other tables; -v lists all" in lines
    assert lines[-2:] == ["No changes: 30 tables as declared; work is due for 1 table.", lines[-1]]
    assert lines[-1].startswith("Next: parquetry run")
    listed = called(folder, "plan", "--due", "-v")
    assert all(f"    t{n:02d}  now 0 B" in listed for n in range(TABLES))
    (folder.root / "t04/a.csv").unlink()
    lines = called(folder, "plan", "--due").splitlines()
    assert lines[-4:] == [
        "due",
        "    nothing for 30 tables; -v lists all",
        "",
        "No changes: 30 tables as declared; no work is due.",
    ]


def test_a_plan_of_one_change_lists_one_table(folder):
    spec = ORDERS | {"name": "t11", "description": "Another.", "sources": None}
    folder.write("tables/t11.yml", {key: value for key, value in spec.items() if value is not None})
    lines = called(folder, "plan").splitlines()
    assert [line.split()[1] for line in lines if line.startswith("~")] == ["t11"]
    assert lines[-2].endswith(", 29 unchanged.")
