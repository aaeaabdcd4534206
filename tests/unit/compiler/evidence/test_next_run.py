"""What `plan --due` says of the next run: exactly what the run would find, and nothing is written."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.codec import decode, encode
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.source_files import list_source
from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.due import find_due, preview_due
from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.command_script import parquetry
from tests.support.project_folder import EVENTS as SMALL_EVENTS
from tests.support.project_folder import ProjectFolder
from tests.support.small_table import FAST, SmallTable
from tests.support.stores import ReadOnlyStore

NOW = 1_800_000_000_000
EVENTS = SMALL_EVENTS | {
    "sources": [
        {"name": "landing", "format": "csv", "path": "landing/*.csv", "operation": "upsert"},
        {"name": "again", "format": "csv", "path": "again/*.csv", "operation": "upsert", "read": "full"},
        {"name": "once", "format": "csv", "path": "once/*.csv", "operation": "insert"},
    ],
}
COPIES = EVENTS | {
    "name": "copies",
    "sources": [{"name": "events", "format": "hudi", "path": "warehouse/events", "operation": "upsert"}],
}


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    folder.write("tables/events.yml", EVENTS)
    folder.write("tables/copies.yml", COPIES)
    for name in ("again", "once"):
        (folder.root / name).mkdir()
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None
    return folder


def put(folder, path, text):
    (folder.root / path).write_text(text, encoding="utf-8")


def store_of(folder, table="events"):
    return open_store(folder.root / "warehouse" / table)


def read_only(folder):
    workspace = folder.workspace()
    return replace(
        workspace, open=lambda place, options, allowed: ReadOnlyStore(open_store(place, options, allowed))
    )


def due(folder):
    return plan_workspace(read_only(folder), now_ms=NOW, due=True)


def ingest(folder, table, source):
    return next(s for s in due(folder).evidence.ingest[table] if s.source == source)


def take(folder, *names):
    """What a run of ``names`` of source landing leaves behind: rows and a ledger entry."""
    handle = open_table(store_of(folder))
    source = next(s for s in handle.spec.sources if s.name == "landing")
    batch = find_due(handle, source, directory=str(folder.root), storage={})
    files = tuple(f.file for f in batch.files if f.file.path.rpartition("/")[2] in names)
    table = SmallTable(store_of(folder), timing=FAST)
    table.upsert(
        {f"k{name}": (1, "a") for name in names}, consumed=[Consumption(source="landing", files=files)]
    )


def test_new_files_are_due_until_they_are_taken_and_again_when_they_change(folder):
    put(folder, "landing/a.csv", "id,v,p\nk,1,a\n")
    put(folder, "landing/b.csv", "id,v,p\nl,1,a\n" * 2)
    found = ingest(folder, "events", "landing")
    assert (found.files, found.size_bytes, found.changed_files) == (2, 13 + 26, 0)
    take(folder, "a.csv")
    assert (ingest(folder, "events", "landing").files, ingest(folder, "events", "landing").size_bytes) == (
        1,
        26,
    )
    put(folder, "landing/a.csv", "id,v,p\nk,1,a\nm,2,a\n")
    changed = ingest(folder, "events", "landing")
    assert (changed.files, changed.changed_files) == (2, 1)


def test_a_source_that_is_read_in_full_is_always_due(folder):
    put(folder, "again/a.csv", "id,v,p\n")
    assert ingest(folder, "events", "again").files == 1


def test_commits_of_a_hudi_table_are_due_with_the_files_that_hold_them(folder):
    table = SmallTable(store_of(folder), timing=FAST)
    table.insert({"a": (1, "x"), "b": (1, "y")})
    found = ingest(folder, "copies", "events")
    handle = open_table(store_of(folder))
    files = handle.view(handle.timeline()).all_slices()
    assert (found.files, found.size_bytes) == (2, sum(file.size_bytes for file in files))
    handle = open_table(store_of(folder, "copies"))
    batch = find_due(handle, handle.spec.sources[0], directory=str(folder.root), storage={})
    SmallTable(store_of(folder, "copies"), timing=FAST).upsert({"a": (1, "x")}, consumed=[batch.consumption])
    assert not ingest(folder, "copies", "events").is_due
    table.upsert({"a": (2, "x")})
    assert ingest(folder, "copies", "events").files == 1


def test_why_a_run_would_fail_is_said_and_the_plan_goes_on(folder):
    spec = EVENTS | {"sources": [EVENTS["sources"][0] | {"path": "nowhere.csv"}, EVENTS["sources"][1]]}
    folder.write("tables/events.yml", spec)
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None
    put(folder, "again/a.csv", "id,v,p\n")
    assert "nowhere.csv" in ingest(folder, "events", "landing").problem
    assert ingest(folder, "events", "again").files == 1
    said = " ".join(PlanView().text(due(folder), Paint(enabled=False)).split())
    assert "ingest landing (upsert): the run would fail: there is no file or folder nowhere.csv" in said


def test_only_the_applied_sources_count_as_they_do_for_run(folder):
    folder.write("tables/events.yml", EVENTS | {"sources": []})
    assert {s.source for s in due(folder).evidence.ingest["events"]} == {"landing", "again", "once"}


def test_a_long_ledger_is_folded_by_runs_and_not_by_plans(folder):
    put(folder, "landing/a.csv", "id,v,p\n")
    store = store_of(folder)
    taken = SmallTable(store, timing=FAST).upsert({"a": (1, "x")}, consumed=[Consumption(source="landing")])
    for number in range(ledger.FOLD_ABOVE + 1):
        (folder.root / f"warehouse/events/.hoodie/.parquetry/sources/landing/{number:017}.json").write_bytes(
            store.read(ledger.entry_path("landing", taken.instant))
        )
    assert ingest(folder, "events", "landing").files == 1
    assert not folded(store)
    handle = open_table(store)
    asked = {"directory": str(folder.root), "storage": {}}
    seen = preview_due(handle, handle.spec.sources[0], **asked)
    assert not folded(store)
    due = find_due(handle, handle.spec.sources[0], **asked)
    assert [each.uri for each in due.files] == [each.uri for each in seen.files]
    assert [file.digest is None for file in due.consumption.files] == [False]
    assert folded(store)


def folded(store):
    return [i.path for i in store.list(".hoodie/.parquetry/sources/landing") if ".folded" in i.path]


def test_every_shape_says_it_and_the_saved_plan_keeps_it(folder):
    put(folder, "landing/a.csv", "id,v,p\nk,1,a\n")
    plan = due(folder)
    (again,) = [json.loads(encode(plan))["evidence"]["ingest"]["events"][0]]
    assert again == {
        "source": "landing",
        "operation": "upsert",
        "files": 1,
        "size_bytes": 13,
        "changed_files": 0,
        "known": [],
        "problem": None,
        "warning": None,
    }
    assert decode(encode(plan), name="plan.json") == plan
    line = "ingest landing (upsert): 1 file, 13 B"
    text = PlanView().text(plan, Paint(enabled=False))
    assert f"events  {line}" in text
    assert "nothing for 1 other table; -v lists all" in text
    assert "ingest events (upsert): nothing new" in PlanView(verbose=True).text(plan, Paint(enabled=False))
    assert text.endswith("Next: parquetry run")
    assert f"- `events`: {line}" in render_markdown(plan, max_bytes=60_000)


def test_without_due_no_source_is_listed(folder):
    assert plan_workspace(folder.workspace(), now_ms=NOW).evidence.ingest is None


def changed_source(folder, **settings):
    """The sources of events as applied, the first with other settings."""
    first, *others = EVENTS["sources"]
    folder.write("tables/events.yml", EVENTS | {"sources": [first | settings, *others]})
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None


def test_a_folder_that_is_not_there_is_a_warning_and_by_option_an_error(folder):
    (folder.root / "landing").rmdir()
    found = ingest(folder, "events", "landing")
    assert "there is no folder landing" in found.warning
    assert (found.problem, found.is_due) == (None, False)
    plan = due(folder)
    said = " ".join(PlanView().text(plan, Paint(enabled=False)).split())
    assert "ingest landing (upsert): nothing new; warning: landing/*.csv matches nothing" in said
    assert decode(encode(plan), name="plan.json").evidence.ingest["events"][0].warning == found.warning
    (folder.root / "landing").mkdir()
    assert ingest(folder, "events", "landing").warning is None
    (folder.root / "landing").rmdir()
    changed_source(folder, if_missing="error")
    found = ingest(folder, "events", "landing")
    assert (found.warning, "there is no folder landing" in found.problem) == (None, True)


def test_a_plan_that_creates_a_table_or_changes_a_source_says_what_its_path_matches(folder):
    sources = [
        {"name": "typo", "format": "csv", "path": "landign/*.csv", "operation": "upsert"},
        {"name": "ending", "format": "csv", "path": "landing/*.cvs", "operation": "upsert"},
    ]
    for name in ("events", "fresh"):
        folder.write(f"tables/{name}.yml", EVENTS | {"name": name, "sources": sources})
    plan = plan_workspace(read_only(folder), now_ms=NOW)
    for name in ("events", "fresh"):
        typo, ending = plan.evidence.sources[name]
        assert "landign/*.csv matches nothing: there is no folder landign" in typo.warning
        assert (ending.source, ending.files, ending.warning) == ("ending", 0, None)
    said = " ".join(PlanView().text(plan, Paint(enabled=False)).split())
    assert said.count("ingest ending (upsert): nothing new") == 2


def test_source_list_says_that_a_folder_is_not_there(folder):
    (folder.root / "landing").rmdir()
    handle = open_table(store_of(folder))
    source = next(s for s in handle.spec.sources if s.name == "landing")
    listed = list_source(handle, source, directory=str(folder.root), storage={})
    assert "there is no folder landing" in listed.problem


def test_a_file_that_is_not_there_is_an_error_and_by_option_a_warning(folder):
    changed_source(folder, path="landing/today.csv")
    assert "there is no file or folder" in ingest(folder, "events", "landing").problem
    changed_source(folder, path="landing/today.csv", if_missing="warn")
    found = ingest(folder, "events", "landing")
    assert (found.problem, "there is no file or folder" in found.warning) == (None, True)
    changed_source(folder, path="warehouse/nothing", format="hudi", if_missing="warn")
    assert "no Hudi table" in ingest(folder, "events", "landing").warning


def read_in_full(folder):
    """What a run of the source leaves that is read in full: rows and a ledger entry; None when nothing is due."""
    handle = open_table(store_of(folder))
    source = next(s for s in handle.spec.sources if s.name == "again")
    batch = find_due(handle, source, directory=str(folder.root), storage={})
    if batch is None:
        return None
    table = SmallTable(store=store_of(folder), timing=FAST)
    return table.upsert({"k1": (1, "a")}, consumed=[batch.consumption])


def test_a_full_read_of_what_was_read_is_not_due(folder):
    put(folder, "again/a.csv", "id\n1\n")
    put(folder, "again/b.csv", "id\n2\n")
    assert read_in_full(folder).instant is not None
    assert read_in_full(folder) is None
    assert not ingest(folder, "events", "again").is_due
    (folder.root / "again/b.csv").unlink()
    assert ingest(folder, "events", "again").files == 1
    assert read_in_full(folder).instant is not None
    put(folder, "again/a.csv", "id\n1\n3\n")
    newest = read_in_full(folder).instant
    assert read_in_full(folder) is None
    rollback(open_table(store_of(folder)), newest)
    assert read_in_full(folder).instant is not None
    assert read_in_full(folder) is None


def test_a_full_read_is_due_again_when_the_source_says_something_else(folder):
    put(folder, "again/a.csv", "id\n1\n")
    assert read_in_full(folder).instant is not None
    landing, again, once = EVENTS["sources"]
    folder.write(
        "tables/events.yml", EVENTS | {"sources": [landing, again | {"options": {"sep": ";"}}, once]}
    )
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None
    assert ingest(folder, "events", "again").files == 1


def test_of_two_full_reads_of_the_same_one_counts(folder):
    put(folder, "again/a.csv", "id\n1\n")
    handle = open_table(store_of(folder))
    source = next(s for s in handle.spec.sources if s.name == "again")
    batch = find_due(handle, source, directory=str(folder.root), storage={})
    table = SmallTable(store=store_of(folder), timing=FAST)
    assert table.upsert({"k1": (1, "a")}, consumed=[batch.consumption]).instant is not None
    assert table.upsert({"k1": (1, "a")}, consumed=[batch.consumption]).superseded


def test_a_ledger_that_was_folded_knows_full_reads(folder):
    for number in range(ledger.FOLD_ABOVE + 2):
        put(folder, "again/a.csv", f"id\n{'1' * (number + 1)}\n")
        assert read_in_full(folder).instant is not None
    assert read_in_full(folder) is None


def test_run_says_what_plan_says_of_a_folder_that_is_not_there(folder):
    (folder.root / "landing").rmdir()
    done = parquetry("run", "-q", "--only", "ingest", "--select", "events", "-p", folder.root)
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "nothing new; warning: landing/*.csv matches nothing: there is no folder landing" in said
    (results,) = folder.root.glob("target/runs/*/results.json")
    assert "no folder landing" in json.loads(results.read_text())["jobs"][0]["result"]["warnings"][0]
    changed_source(folder, if_missing="error")
    done = parquetry("run", "-q", "--only", "ingest", "--select", "events", "-p", folder.root)
    assert (done.returncode, "there is no folder landing" in done.stdout + done.stderr) == (1, True)
