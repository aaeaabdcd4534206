"""Records that are signed: who can only write to the table cannot make one that `run` goes by."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import replace

import pytest

import parquetry
from parquetry.compiler.jobs.run import run_tables
from parquetry.compiler.jobs.table_jobs import Only
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.drift import drift_of_workspace
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.opened import jobs_of
from parquetry.errors import ParquetryError
from parquetry.project_api import NoProgress
from parquetry.runtime.apply.adoption import adopt_table
from parquetry.runtime.errors import CorruptTableError, KeyUnavailableError
from parquetry.runtime.main import execute
from parquetry.runtime.spec.job import JobPlan, Requirements
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.sidecars import APPLIED_FOLDER, IDENTITY_PATH
from tests.support.applied_records import RECORD, edit
from tests.support.project_folder import ProjectFolder

OLD, NEW = (base64.b64encode(letter * 32).decode() for letter in (b"o", b"n"))
SIGNED = {"signing_key": "env:SHOP_SIGNS"}
ROTATED = {"signing_key": "env:SHOP_SIGNS_NOW", "former_signing_keys": ["env:SHOP_SIGNS"]}


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    monkeypatch.setenv("SHOP_SIGNS", OLD)
    monkeypatch.setenv("SHOP_SIGNS_NOW", NEW)


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.project(applied=SIGNED)
    apply_all(folder)
    return folder


def plan(folder):
    return plan_workspace(folder.workspace(), now_ms=0)


def apply_all(folder):
    result = apply_plan(plan(folder), folder.workspace())
    if result.failure is not None:
        raise result.failure


def raised(bug):
    raise bug


def run(folder):
    result = run_tables(
        folder.workspace(),
        only=Only.SERVICES,
        run_id="1",
        prepare=lambda _: execute,
        observer=NoProgress(),
        diagnose=raised,
        applied=True,
    )
    if result.failure is not None:
        raise result.failure


def other_source(document):
    document["spec"]["sources"][0]["path"] = "/etc/*.csv"


def second(folder, change=lambda _: None):
    """The first record under the next number, changed, by its digest."""
    place = folder.table / APPLIED_FOLDER / f"{2:020d}.json"
    shutil.copy(folder.table / RECORD, place)
    edit(place, lambda document: (document.update(number=2), change(document)))


def twin(folder):
    """Another table of the project's, with its own record: what could be put into the first one's place."""
    folder.write("tables/copies.yml", {**load(folder, "tables/orders.yml"), "name": "copies"})
    apply_all(folder)
    return folder.root / "warehouse" / "copies"


def load(folder, path):
    import yaml

    return yaml.safe_load((folder.root / path).read_text())


def test_what_is_applied_is_signed_and_run(folder):
    assert json.loads((folder.table / RECORD).read_text())["signature"].startswith("hmac-sha256:")
    assert OLD not in (folder.table / RECORD).read_text()
    assert plan(folder).is_empty
    run(folder)
    assert parquetry.load(folder.root).table("orders").clean().files_deleted == 0


ATTACKS = {
    "another source": lambda folder: edit(folder.table / RECORD, other_source),
    "a newer record": lambda folder: second(folder, other_source),
    "an older record as the newest": second,
    "another identity": lambda folder: edit(
        folder.table / IDENTITY_PATH, lambda document: document.update(id="another")
    ),
    "a signature of nothing": lambda folder: edit(
        folder.table / RECORD, lambda document: document.update(signature=7)
    ),
    "the record of another table": lambda folder: shutil.copy(twin(folder) / RECORD, folder.table / RECORD),
    "all records of another table": lambda folder: shutil.copytree(
        twin(folder) / ".hoodie" / ".parquetry", folder.table / ".hoodie" / ".parquetry", dirs_exist_ok=True
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_who_can_only_write_to_the_table_makes_no_record(folder, name):
    workspace = folder.workspace()
    jobs = [job for job in jobs_of(workspace, workspace.table("orders")) if job.requirements.exists]
    ATTACKS[name](folder)
    before = sorted(folder.table.rglob("*"))
    with pytest.raises(ParquetryError, match="SC508"):
        run(folder)
    for job in jobs:
        with pytest.raises(CorruptTableError, match="SC508"):
            execute(replace(job, requirements=Requirements(exists=True)))
    with pytest.raises(CorruptTableError, match="SC508"):
        parquetry.load(folder.root).table("orders", applied=True).clean()
    assert [blocked.code for blocked in plan(folder).intent.blocked] == ["SC508"]
    drifts = drift_of_workspace(folder.workspace())[-1].drifts
    assert ("DR102", True) in [(drift.code, "SC508" in (drift.remedy or "")) for drift in drifts]
    assert sorted(folder.table.rglob("*")) == before
    assert open_table(open_store(folder.table)).spec is not None


def test_a_record_without_a_signature_is_signed_by_apply_and_not_run_before(folder):
    edit(folder.table / RECORD, lambda document: (document.pop("signature"), other_source(document)))
    with pytest.raises(CorruptTableError, match=r"SC508 .* is not signed"):
        run(folder)
    (action,) = plan(folder).intent.actions
    changes = {change.path: change for change in action.changes}
    assert set(changes) == {"applied.signature", "sources.landing.path"}
    assert (changes["applied.signature"].code, changes["applied.signature"].old) == ("SC103", "not signed")
    apply_all(folder)
    assert plan(folder).is_empty
    run(folder)


def test_a_key_is_declared_exchanged_and_given_up_by_visible_changes(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    apply_all(folder)
    for applied, old, new in (
        (SIGNED, "not signed", "signed"),
        (ROTATED, "signed by a former key", "signed"),
        (None, "signed", "not signed"),
    ):
        folder.project(**({} if applied is None else {"applied": applied}))
        (action,) = plan(folder).intent.actions
        assert [(c.path, c.old, c.new) for c in action.changes] == [("applied.signature", old, new)]
        if applied == ROTATED:
            run(folder)
        apply_all(folder)
        assert plan(folder).is_empty
        run(folder)
    assert read_applied(open_store(folder.table)).ref.number == 4


def test_a_key_that_was_exchanged_without_naming_the_former_one_is_refused(folder):
    folder.project(applied={"signing_key": "env:SHOP_SIGNS_NOW"})
    with pytest.raises(CorruptTableError, match="former_signing_keys"):
        run(folder)


def test_a_target_has_its_own_key(folder):
    target = {"warehouse": "./warehouse", "applied": {"signing_key": "env:SHOP_SIGNS_NOW"}}
    folder.project(applied=SIGNED, targets={"dev": target})
    assert folder.workspace().signing_keys == ("env:SHOP_SIGNS_NOW",)


@pytest.mark.parametrize("key", [None, "", "short", base64.b64encode(b"k" * 31).decode()])
def test_without_the_key_a_plan_says_so_and_nothing_is_applied_or_run(folder, monkeypatch, key):
    if key is None:
        monkeypatch.delenv("SHOP_SIGNS")
    else:
        monkeypatch.setenv("SHOP_SIGNS", key)
    found = plan(folder)
    assert found.is_empty
    (warning,) = found.evidence.warnings
    assert (warning.code, "is not checked" in warning.message) == ("SC508", True)
    with pytest.raises(KeyUnavailableError, match="SHOP_SIGNS"):
        run(folder)
    folder.orders(description="Others.")
    before = sorted(folder.table.rglob("*"))
    with pytest.raises(KeyUnavailableError, match="SHOP_SIGNS"):
        apply_all(folder)
    assert sorted(folder.table.rglob("*")) == before


def test_the_newest_record_taken_away_leaves_one_that_the_project_does_not_declare(folder):
    folder.orders(files={"encryption_key": "env:SHOP_KEY"})
    apply_all(folder)
    (folder.table / APPLIED_FOLDER / f"{2:020d}.json").unlink()
    with pytest.raises(ParquetryError, match=r"SC506 .* files\.encryption_key"):
        parquetry.load(folder.root).run(only="services")
    for record in (folder.table / APPLIED_FOLDER).iterdir():
        record.unlink()
    with pytest.raises(ParquetryError, match="SC506"):
        parquetry.load(folder.root).table("orders").clean()


def test_jobs_carry_references_and_adopting_signs(folder):
    workspace = folder.workspace()
    job = jobs_of(workspace, workspace.table("orders"))[0]
    assert JobPlan.from_json(json.loads(json.dumps(job.to_json()))).owner.keys == ("env:SHOP_SIGNS",)
    store = open_store(folder.table)
    spec = open_table(store).spec
    assert (
        adopt_table(store, spec, project="shop", target="dev", signing_keys=("env:SHOP_SIGNS",)).number == 1
    )
    edit(folder.table / RECORD, lambda document: document.pop("signature"))
    assert (
        adopt_table(store, spec, project="shop", target="dev", signing_keys=("env:SHOP_SIGNS",)).number == 2
    )
    run(folder)
