"""The history of a table: applies and commits, also archived ones, the newest first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.timeline import TableHistoryView
from parquetry.compiler.reports.history import CommitEntry, report_history
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.table.applied import read_applied, write_applied
from tests.support.applied_records import RECORD, edit
from tests.support.project_folder import ORDERS, ProjectFolder
from tests.support.small_table import make_table
from tests.support.timelines import timeline_of


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=3)


def text(table, most=20):
    return TableHistoryView().text(report_history(table.store, most=most), Paint(enabled=False))


def commits(report):
    return [entry.time for entry in report.entries if isinstance(entry, CommitEntry)]


def test_applies_stand_between_the_commits_of_their_time(table):
    first = table.upsert({"a": (1, "x"), "b": (1, "x")})
    write_applied(
        table.store,
        read_applied(table.store).spec,
        number=2,
        plan_id=f"sha256:{'ab' * 32}",
        git_commit="c" * 40,
        dirty=True,
        applied_by="Ann <ann@example.com>",
    )
    second = table.upsert({"a": (2, "x"), "c": (1, "y")})
    report = report_history(table.store, most=20)
    kinds = [type(entry).__name__ for entry in report.entries]
    assert kinds[:3] == ["CommitEntry", "ApplyEntry", "CommitEntry"]
    assert commits(report)[:2] == [second.instant, first.instant]
    assert report.entries[0].instant.rows.updated == 1
    written = sum(path.stat().st_size for path in (table.store.uri and _folder(table)).rglob("*.parquet"))
    assert (
        sum(entry.instant.bytes_written for entry in report.entries if hasattr(entry, "instant")) == written
    )
    assert not report.has_older
    lines = text(table).splitlines()
    assert lines[0].split() == ["time", "operation", "inserted", "updated", "deleted", "bytes"]
    assert lines[2].endswith("applied, record 2, by Ann <ann@example.com>")
    assert lines[3].strip() == "plan sha256:abababababab, commit cccccccccccc with uncommitted changes"


def _folder(table):
    return Path(table.store.uri.removeprefix("file://"))


def test_only_the_newest_entries_are_shown(table):
    written = [table.upsert({"a": (n, "x")}).instant for n in range(5)]
    report = report_history(table.store, most=2)
    assert (commits(report), report.has_older) == (written[:-3:-1], True)
    assert "There are older entries: -n 4 shows more." in text(table, most=2)


def test_commits_of_the_archive_are_listed_as_those_of_the_timeline(table):
    for n in range(30):
        table.upsert({"a": (n, "x")})
    before = report_history(table.store, most=100)
    clean(table.handle)
    assert archive(table.handle).instants
    assert len(timeline_of(table.store).completed_writes) < 31
    after = report_history(table.store, most=100)
    assert TableHistoryView().json(after) == TableHistoryView().json(before)
    assert (len(commits(after)), after.has_older, after.warnings) == (31, False, ())


def test_a_damaged_archive_is_a_warning(table):
    for n in range(30):
        table.upsert({"a": (n, "x")})
    clean(table.handle)
    archive(table.handle)
    for log in (_folder(table) / ".hoodie/archived").glob(".commits_*"):
        log.write_bytes(b"#HUDI#")
    report = report_history(table.store, most=100)
    assert "a file of the archive log cannot be read" in report.warnings[0]
    assert commits(report)


def test_a_changed_record_is_shown_with_a_warning(table):
    edit(_folder(table) / RECORD, lambda document: document.update(applied_by="Eve"), sealed=False)
    report = report_history(table.store, most=20)
    assert any("another program changed it" in warning for warning in report.warnings)


def test_a_record_of_no_time_is_shown(table):
    edit(_folder(table) / RECORD, lambda document: document.update(applied_at_ms=9 * 10**18))
    assert "9999" in text(table)


def run(folder, *words):
    return CliRunner().invoke(command_line, [*words, "-p", str(folder.root)])


@pytest.fixture
def folder(tmp_path):
    made = ProjectFolder.create(tmp_path / "shop")
    assert run(made, "apply", "--auto-approve").exit_code == 0
    return made


def test_a_record_is_written_as_the_file_of_its_table(folder, tmp_path):
    made = folder.workspace().table("orders").spec
    folder.orders(sizing={"max_file_size": "2MiB", "small_file_limit": "1MiB"}, description="Changed.")
    out = tmp_path / "orders.yml"
    done = run(folder, "history", "orders", "--record", "1", "--out", str(out))
    assert done.exit_code == 0, done.output
    (folder.root / "tables/orders.yml").write_text(out.read_text())
    assert folder.workspace().table("orders").spec == made
    again = run(folder, "history", "orders", "--record", "1", "--out", str(out))
    assert (again.exit_code, "name a new file with --out" in again.output) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--record", "1"), "give both"),
        (("--out", "x.yml"), "give both"),
        (("--record", "7", "--out", "x.yml"), "has no applied record 7"),
    ],
)
def test_what_cannot_be_written_is_a_usage_error(folder, monkeypatch, tmp_path, words, said):
    monkeypatch.chdir(tmp_path)
    done = run(folder, "history", "orders", *words)
    assert (done.exit_code, said in " ".join(done.output.split())) == (2, True)


def test_a_changed_record_is_not_written(folder, tmp_path):
    edit(folder.table / RECORD, lambda document: document.update(plan_id="sha256:0"), sealed=False)
    done = run(folder, "history", "orders", "--record", "1", "--out", str(tmp_path / "x.yml"))
    assert (done.exit_code, "SC505" in done.output) == (1, True)
    assert not (tmp_path / "x.yml").exists()


def test_a_record_of_another_project_is_not_written(folder, tmp_path):
    other = ProjectFolder.create(tmp_path / "other")
    other.project(name="other")
    other.write("tables/orders.yml", ORDERS | {"location": str(folder.table)})
    done = run(other, "history", str(folder.table), "--record", "1", "--out", str(tmp_path / "x.yml"))
    assert (done.exit_code, "SC501" in done.output) == (1, True)


def test_the_answer_names_who_applied(folder):
    entry = json.loads(run(folder, "history", "orders", "--format", "json").output)["entries"][0]
    assert (entry["kind"], entry["record"], entry["target"]) == ("apply", 1, "dev")
    assert entry["applied_by"]
