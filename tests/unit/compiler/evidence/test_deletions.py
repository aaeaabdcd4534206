"""`plan --due` and `service --dry-run` name the files that services then delete, with personal values masked."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.schema import answer_schema
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.codec import decode, encode
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.message import in_full
from parquetry.runtime.services.archive import archive_if_due
from parquetry.runtime.services.clean import clean_if_due
from parquetry.runtime.services.deletions import DeletionReason
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.command_script import parquetry
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.small_table import FAST, SmallTable

NOW = 1_800_000_000_000
WRITES = 14


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    columns = [dict(column, pii=column["name"] == "p") for column in EVENTS["columns"]]
    retention = {"clean": {"keep_commits": 1}, "archive": {"keep_commits": 2}}
    folder.write("tables/events.yml", {**EVENTS, "columns": columns, "retention": retention})
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None
    table = SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)
    for number in range(WRITES):
        table.upsert({"a": (number, "anna")})
    return folder


def files_of(folder):
    root = folder.root / "warehouse/events"
    return {
        path.relative_to(root).as_posix(): path.stat().st_size
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".crc"
    }


def test_the_plan_names_the_files_that_the_due_services_then_delete(folder):
    before = files_of(folder)
    plan = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert files_of(folder) == before
    deletions = plan.evidence.deletions["events"]
    handle = open_table(open_store(folder.root / "warehouse/events"))
    assert clean_if_due(handle, timing=FAST).files_deleted == WRITES - 2
    assert archive_if_due(handle, timing=FAST) is not None
    after = files_of(folder)
    gone = {path: size for path, size in before.items() if path not in after}
    assert {file.path.replace("p=***", "p=anna"): file.size_bytes for file in deletions.files} == gone
    assert set(deletions.by_reason) == {
        DeletionReason.SUPERSEDED,
        DeletionReason.STATISTICS,
        DeletionReason.ARCHIVED,
    }
    assert plan.evidence.tables_with_work == {"events"}
    done = plan_workspace(folder.workspace(), now_ms=NOW, due=True).evidence
    assert done.deletions["events"].files == ()
    assert "events" not in done.tables_with_work


def test_every_format_has_the_totals_and_the_first_files_and_json_has_all(folder):
    plan = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert decode(encode(plan), name="plan.json") == plan
    number = len(plan.evidence.deletions["events"].files)
    short, long = (PlanView(verbose=more).text(plan, Paint(enabled=False)) for more in (False, True))
    pages = [long, render_markdown(plan, max_bytes=60_000), render_html(plan)]
    for text in (short, *pages):
        flat = " ".join(text.split())
        assert f"deletes {number} files" in flat
        assert f"{WRITES - 2} older versions" in flat
        assert "anna" not in text
    assert "moves to the archive" not in short
    for text in pages:
        assert "moves to the archive" in text
        assert f"deletes {number - 20} more files; JSON names all" in " ".join(text.split())
    assert encode(plan).count('"reason":"archived"') > 20


def test_why_the_services_would_fail_is_reported_and_the_plan_goes_on(folder):
    handle = open_table(open_store(folder.root / "warehouse/events"))
    later = f"{int(handle.timeline().last_instant) + 1:017}"
    for name in (f"{later}.commit.requested", f"{later}.inflight"):
        (folder.root / "warehouse/events/.hoodie" / name).write_text("{}")
    plan = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    problem = plan.evidence.deletions["events"].problem
    assert f"another program began the write {later}" in in_full(problem)
    assert "the services would fail" in PlanView().text(plan, Paint(enabled=False))


def test_the_plan_names_the_partitions_that_the_run_then_deletes(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    rule = {"column": "p", "keep": "10d", "at_most": 0.5}
    folder.write("tables/events.yml", EVENTS)
    assert apply_plan(plan_workspace(folder.workspace(), now_ms=NOW), folder.workspace()).failure is None
    table = SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)
    table.insert({day: (1, day) for day in ("2020-01-01", "2020-01-25", "2020-01-30", "x")})
    folder.write("tables/events.yml", {**EVENTS, "retention": {"partitions": rule}})
    workspace = folder.workspace()
    plan = plan_workspace(workspace, now_ms=NOW)
    assert [each.partition for each in plan.evidence.expiring["events"].deleted] == ["p=2020-01-01"]
    assert decode(encode(plan), name="plan.json") == plan
    Draft202012Validator(answer_schema("plan")).validate(PlanView().json(plan))
    for text in (PlanView().text(plan, Paint(enabled=False)), render_markdown(plan, max_bytes=60_000)):
        flat = " ".join(text.split())
        assert "next run: deletes 1 expired partition with 1 file" in flat
        assert "the next run deletes the partitions that this rule no longer keeps" in flat
    assert apply_plan(plan, workspace).failure is None
    before = files_of(folder)
    plan = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert files_of(folder) == before
    assert plan.evidence.expiring is None
    assert decode(encode(plan), name="plan.json") == plan
    Draft202012Validator(answer_schema("plan")).validate(PlanView().json(plan))
    for text in (PlanView().text(plan, Paint(enabled=False)), render_markdown(plan, max_bytes=60_000)):
        flat = " ".join(text.split())
        assert "deletes 1 expired partition with 1 file" in flat
        assert "1 partitions have no day" in flat
    project = ("-p", str(folder.root))
    ran = json.loads(parquetry("run", "--only", "services", "--format", "json", *project).stdout)
    (job,) = (job for job in ran["jobs"] if job["result"]["services"])
    assert job["result"]["services"]["partitions_deleted"] == 1
    assert "have no day" in job["result"]["warnings"][0]
    handle = open_table(open_store(folder.root / "warehouse/events"))
    left = {part.partition for part in handle.view(handle.timeline()).all_slices()}
    assert left == {"p=2020-01-25", "p=2020-01-30", "p=x"}
    done = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert done.evidence.partitions["events"].partitions == ()


def test_a_dry_run_of_a_service_writes_nothing_and_names_every_file_on_demand(folder):
    before = files_of(folder)
    project = ("-p", str(folder.root))
    short = parquetry("service", "clean", "events", "--dry-run", *project).stdout
    assert f"{WRITES - 2} older versions" in short
    assert f"{WRITES - 2} files of statistics" in short
    assert "p=***/" in short
    archived = json.loads(
        parquetry("service", "archive", "events", "--dry-run", "--format", "json", *project).stdout
    )
    assert {file["reason"] for file in archived["files"]} == {"archived"}
    long = parquetry("service", "archive", "events", "--dry-run", "-v", *project).stdout
    long = " ".join(long.split())
    assert long.count("moves to the archive") == len(archived["files"]) == archived["deletes"]["files"]
    short = parquetry("service", "archive", "events", "--dry-run", *project).stdout
    assert f"and {len(archived['files']) - 20} more files; -v names all" in short
    assert files_of(folder) == before
