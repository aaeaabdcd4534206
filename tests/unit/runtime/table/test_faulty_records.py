"""A record that does not fit its digest: what reads goes on and says so, nothing acts by it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.drift import DriftView
from parquetry.cli.views.timeline import TimelineView
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.drift import drift_of_workspace
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.reports.timeline import report_timeline
from parquetry.compiler.workspace.opened import jobs_of
from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.main import execute
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.sidecars import APPLIED_FOLDER, IDENTITY_PATH
from tests.support.applied_records import RECORD, edit
from tests.support.command_script import parquetry as command
from tests.support.project_folder import ProjectFolder


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    apply_plan(plan(folder), folder.workspace())
    return folder


def plan(folder):
    return plan_workspace(folder.workspace(), now_ms=0)


def other_source(document):
    document["spec"]["sources"][0]["path"] = "/etc/*.csv"


def in_the_clear(document):
    document["spec"]["files"]["encryption_key"] = None


def of_old(document):
    document.pop("digest")
    document["format"] = 1


FAULTS = {
    "source": (RECORD, other_source),
    "encryption": (RECORD, in_the_clear),
    "commit": (RECORD, lambda document: document.update(git_commit="f" * 40)),
    "target": (RECORD, lambda document: document.update(target=None)),
    "forgotten": (RECORD, lambda document: document.update(forgotten=True)),
    "a field that nobody knows": (RECORD, lambda document: document.update(wonder=1)),
    "no digest": (RECORD, lambda document: document.pop("digest")),
    "of a format without": (RECORD, of_old),
    "identity": (IDENTITY_PATH, lambda document: document.update(id="another")),
    "made with": (IDENTITY_PATH, lambda document: document["spec"].update(name="another")),
}


@pytest.mark.parametrize("name", ["source", "identity"])
def test_nothing_acts_by_a_changed_record_and_everything_reads_on(folder, name):
    path, change = FAULTS[name]
    edit(folder.table / path, change, sealed=False)
    before = {file: file.read_bytes() for file in folder.table.rglob("*") if file.is_file()}
    for arguments in (["run"], ["apply", "--auto-approve"], ["service", "clean", "orders"]):
        done = command(*arguments, "-p", folder.root)
        assert "SC505" in done.stderr + done.stdout, arguments
        assert done.returncode == 1, (arguments, done.stderr)
    assert {file: file.read_bytes() for file in folder.table.rglob("*") if file.is_file()} == before
    done = command("inspect", "orders", "--format", "json", "-p", folder.root)
    assert done.returncode == 0
    assert "SC505" in json.loads(done.stdout)["warnings"][0]
    assert command("timeline", "orders", "-p", folder.root).returncode == 0
    assert command("drift", "--check", "-p", folder.root).returncode != 0


@pytest.mark.parametrize("name", FAULTS)
def test_plans_and_jobs_stop_and_drift_lists_it(folder, name):
    path, change = FAULTS[name]
    workspace = folder.workspace()
    jobs = [job for job in jobs_of(workspace, workspace.table("orders")) if job.requirements.exists]
    edit(folder.table / path, change, sealed=False)
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC505"
    assert path in blocked.reason
    for job in jobs:
        with pytest.raises(CorruptTableError, match="SC505"):
            execute(replace(job, requirements=Requirements(exists=True)))
    if name != "forgotten":
        drifts = drift_of_workspace(folder.workspace())[0].drifts
        assert [(drift.code, path in drift.remedy) for drift in drifts if drift.path == "applied"] == [
            ("DR102", True)
        ]
        shown = DriftView().text(drift_of_workspace(folder.workspace()), Paint(enabled=False))
        assert "was changed\n" in shown


def test_a_record_under_the_number_of_another_one_is_not_in_force(folder):
    content = (folder.table / RECORD).read_bytes()
    folder.orders(description="Newer.")
    apply_plan(plan(folder), folder.workspace())
    (folder.table / APPLIED_FOLDER / f"{3:020d}.json").write_bytes(content)
    (blocked,) = plan(folder).intent.blocked
    assert "it contains record 1, not the record of its name" in blocked.reason


def test_what_was_opened_before_is_asked_again_where_it_acts(folder):
    store = open_store(folder.table)
    handle = open_table(store)
    write_applied(store, handle.spec, number=2)
    edit(folder.table / APPLIED_FOLDER / f"{2:020d}.json", other_source, sealed=False)
    with pytest.raises(CorruptTableError, match="SC505"):
        clean(handle)
    (folder.table / APPLIED_FOLDER / f"{2:020d}.json").unlink()
    owned = open_table(store, owner=folder.workspace().owner)
    edit(folder.table / IDENTITY_PATH, lambda document: document.update(first_instant=None), sealed=False)
    with pytest.raises(CorruptTableError, match="SC505"):
        owned.check_owner()


def test_a_change_asks_even_where_its_requirements_name_no_record(folder):
    edit(folder.table / RECORD, other_source, sealed=False)
    store = open_store(folder.table)
    spec = open_table(store).spec
    change = TableChange(
        spec=spec, requirements=Requirements(exists=True), alters_schema=False, project="shop", restores=True
    )
    with pytest.raises(CorruptTableError, match="SC505"):
        apply_change(store, change)


def test_a_table_is_not_finished_by_a_changed_identity(folder):
    (folder.table / ".hoodie" / "hoodie.properties").unlink()
    edit(folder.table / IDENTITY_PATH, lambda document: document["spec"].update(name="x"), sealed=False)
    with pytest.raises(CorruptTableError, match="SC505"):
        open_table(open_store(folder.table))
    assert not (folder.table / ".hoodie" / "hoodie.properties").exists()


def test_the_timeline_says_it_in_text_and_json(folder):
    edit(folder.table / RECORD, other_source, sealed=False)
    report = report_timeline(open_store(folder.table))
    assert "SC505" in TimelineView().text(report, Paint(enabled=False)).splitlines()[-1]
    assert "SC505" in TimelineView().json(report)["warnings"][0]


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["extra"].update(queries=[7]),
        lambda spec: spec["extra"].update(queries=["q"]),
        lambda spec: spec["extra"].update(clustering="x"),
        lambda spec: spec["extra"]["clustering"].update(execution="x"),
        lambda spec: spec["extra"].update(tests={"a": 1}),
        lambda spec: spec["extra"].update(tags=7),
        lambda spec: spec["columns"][0].update(type="struct<"),
        lambda spec: spec.update(sources=7),
        lambda spec: spec.update(retention=[]),
    ],
)
def test_a_spec_that_makes_no_sense_is_named_by_whatever_reads_it(folder, change):
    edit(folder.table / RECORD, lambda document: change(document["spec"]))
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC503"
    assert RECORD in blocked.reason
    with pytest.raises(CorruptTableError, match=r"00001\.json: .*apply again"):
        open_table(open_store(folder.table))


def test_who_wrote_records_before_they_had_digests_is_not_accused(folder):
    edit(folder.table / RECORD, of_old, sealed=False)
    (blocked,) = plan(folder).intent.blocked
    assert "it has the old format 1" in blocked.reason
    assert "changed by something else" not in blocked.reason
    assert "plan and apply again" in blocked.remedy
