"""A changed table version in plans: its class, whom it shuts out, and what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import yaml

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.changes import spec_changes
from parquetry.compiler.plan.codec import decode, encode
from parquetry.compiler.plan.drift import drift_of_workspace
from parquetry.compiler.plan.model import ChangeClass, Step
from parquetry.compiler.plan.table_versions import effect_on_readers, is_possible
from parquetry.compiler.spec_files.adopt import adopt
from parquetry.runtime.apply.version_change import change_version
from parquetry.runtime.errors import StalePlanError, UnsupportedTableError
from parquetry.runtime.spec.job import TableOwner, rules_digest
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.admission import check_writable
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import open_table
from tests.support.handmade import HandmadeTable
from tests.support.metadata_table import exists, switch_on
from tests.support.planning import apply, plan
from tests.support.project_folder import ProjectFolder, columns_with

SPEC = TableSpec(name="orders", columns=(Column(name="id", type="string"),), record_key=("id",))


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


@pytest.mark.parametrize(
    ("old", "new", "effect"),
    [
        (6, 9, "shuts out Athena, Daft, Hudi 0.15 on Spark, Hudi 1.0 on Spark, Redshift and Trino"),
        (6, 8, "shuts out Athena, Daft, Hudi 0.15 on Spark, Redshift and Trino"),
        (8, 9, "shuts out Hudi 1.0 on Spark"),
        (
            9,
            6,
            "opens the table to Athena, Daft, Hudi 0.15 on Spark, Hudi 1.0 on Spark, Redshift and Trino again",
        ),
        (9, 8, "opens the table to Hudi 1.0 on Spark again"),
    ],
)
def test_a_changed_version_is_a_class_of_its_own_and_says_whom_it_shuts_out(old, new, effect):
    (change,) = spec_changes(
        replace(SPEC, table_version=old), replace(SPEC, table_version=new), origin=lambda path: f"at {path}"
    )
    assert (change.path, change.old, change.new) == ("table_version", old, new)
    assert (change.code, change.change_class) == ("SC261", ChangeClass.FORMAT)
    assert change.note == change.reason == effect == effect_on_readers(old, new)
    assert not change.needs_allow_entry


def test_the_class_lies_between_rewrite_and_breaking():
    assert ChangeClass.REWRITE.rank < ChangeClass.FORMAT.rank < ChangeClass.BREAKING.rank


def test_version_6_leaves_the_digest_of_a_spec_as_it_was():
    assert "table_version" not in SPEC.to_json()
    newer = replace(SPEC, table_version=9)
    assert newer.to_json() == SPEC.to_json() | {"table_version": 9}
    assert TableSpec.from_json(newer.to_json()) == newer
    assert TableSpec.from_json(SPEC.to_json()).table_version == 6


def test_version_8_is_for_tables_that_have_it():
    assert not is_possible(8, live=None)
    assert not is_possible(8, live=6)
    assert is_possible(8, live=8)
    assert is_possible(8, live=9)
    assert is_possible(6, live=9)


def test_a_new_table_of_version_8_is_refused_with_a_remedy(folder):
    folder.orders(table_version=8)
    (blocked,) = plan(folder).intent.blocked
    assert (blocked.code, blocked.changes) == ("SC509", ())
    assert blocked.reason == (
        "table_version: no table is created with version 8; it is for tables that already have it"
    )
    assert blocked.remedy.startswith("declare table_version: 6")


def test_an_upgrade_to_version_8_is_refused(folder):
    apply(folder)
    folder.orders(table_version=8)
    document = plan(folder)
    (blocked,) = document.intent.blocked
    assert blocked.code == "SC509"
    assert "a table of version 6 cannot get 8" in blocked.reason
    text = PlanView().text(document, Paint(enabled=False))
    assert "SC509" in text


def version(folder):
    return open_table(open_store(folder.table)).config.version


def test_a_table_is_upgraded_and_downgraded_by_plans(folder):
    apply(folder)
    folder.orders(table_version=9)
    document = plan(folder)
    (action,) = document.intent.actions
    assert (action.code, action.change_class) == ("SC261", "format")
    assert action.steps == (Step.UPGRADE, Step.RECORD)
    assert action.requirements.table_version == 6
    (change,) = action.changes
    assert (change.live, change.origin.partition(":")[0]) == (6, "tables/orders.yml")
    text = " ".join(PlanView().text(document, Paint(enabled=False)).split())
    assert "table_version: 6 -> 9" in text
    assert "shuts out Athena, Daft, Hudi 0.15 on Spark" in text
    assert "upgrades the table to its declared version, records the spec" in text
    assert "1 to another table version" in render_html(document)
    assert "shuts out Athena" in render_markdown(document, max_bytes=60_000)
    assert decode(encode(document), name="plan.json") == document
    apply(folder)
    assert version(folder) == 9
    assert plan(folder).is_empty
    folder.orders()
    (action,) = plan(folder).intent.actions
    assert action.steps == (Step.DOWNGRADE, Step.RECORD)
    apply(folder)
    assert version(folder) == 6
    assert plan(folder).is_empty


def test_a_table_is_created_with_version_9_and_evolves(folder):
    folder.orders(table_version=9)
    apply(folder)
    assert version(folder) == 9
    folder.orders(columns=columns_with(note={"type": "string"}))
    (action,) = plan(folder).intent.actions
    assert action.steps == (Step.DOWNGRADE, Step.EVOLVE, Step.RECORD)
    apply(folder)
    assert (version(folder), plan(folder).is_empty) == (6, True)


def test_an_upgrade_by_another_program_is_drift_that_apply_takes_back(folder):
    apply(folder)
    before = read_applied(open_store(folder.table)).ref.number
    change_version(open_store(folder.table), 9)
    (found,) = drift_of_workspace(folder.workspace())
    (drift,) = found.drifts
    assert (drift.code, drift.path, drift.applied, drift.live) == ("DR103", "table_version", 6, 9)
    assert (drift.writer, drift.restorable, drift.acceptable) == ("Hudi 1.1 or later", True, True)
    assert drift.instant
    assert "`parquetry apply` changes the version back" in drift.remedy
    (action,) = plan(folder).intent.actions
    assert (action.code, action.change_class, action.steps) == ("SC262", "format", (Step.DOWNGRADE,))
    (change,) = action.changes
    assert (change.old, change.new) == (9, 6)
    assert "Hudi 1.1 or later changed it; it is changed back" in change.note
    apply(folder)
    assert version(folder) == 6
    assert plan(folder).is_empty
    assert read_applied(open_store(folder.table)).ref.number == before


def test_the_new_version_is_accepted_by_adopt_or_by_its_declaration(folder):
    apply(folder)
    change_version(open_store(folder.table), 9)
    accepted = adopt(folder.workspace(), str(folder.table), name=None, reload=folder.workspace)
    assert [drift.path for drift in accepted.accepted] == ["table_version"]
    assert yaml.safe_load((folder.root / accepted.file).read_text())["table_version"] == 9
    assert plan(folder).is_empty
    change_version(open_store(folder.table), 6)
    folder.orders()
    (action,) = plan(folder).intent.actions
    assert action.code == "SC261"
    apply(folder)
    assert (version(folder), plan(folder).is_empty) == (6, True)


def test_the_metadata_table_of_a_hudi_job_with_its_defaults_is_dropped_before_the_version_changes(folder):
    apply(folder)
    for declared, steps in (
        (6, (Step.DROP_METADATA_TABLE, Step.DOWNGRADE)),
        (9, (Step.DROP_METADATA_TABLE, Step.UPGRADE, Step.RECORD)),
    ):
        change_version(open_store(folder.table), 9)
        switch_on(folder.table, "column_stats,files,partition_stats")
        folder.orders(table_version=declared)
        (found,) = drift_of_workspace(folder.workspace())
        assert [drift.code for drift in found.drifts] == ["DR103", "DR104"]
        (action,) = plan(folder).intent.actions
        assert action.steps == steps
        apply(folder)
        assert (version(folder), plan(folder).is_empty) == (declared, True)
        assert not exists(folder.table)


def test_a_version_is_accepted_beside_a_metadata_table_which_the_next_plan_drops(folder):
    apply(folder)
    change_version(open_store(folder.table), 9)
    switch_on(folder.table)
    accepted = adopt(folder.workspace(), str(folder.table), name=None, reload=folder.workspace)
    assert [drift.path for drift in accepted.accepted] == ["table_version"]
    (action,) = plan(folder).intent.actions
    assert action.steps == (Step.DROP_METADATA_TABLE,)
    apply(folder)
    assert (version(folder), plan(folder).is_empty) == (9, True)


def test_jobs_stop_at_a_table_whose_version_changed(folder):
    apply(folder)
    store = open_store(folder.table)
    change_version(store, 9)
    spec = read_applied(store).spec
    owner = TableOwner(project="shop", target=None, rules=rules_digest(spec))
    handle = open_table(store, owner=owner)
    with pytest.raises(UnsupportedTableError, match="its version is 9, but 6 is applied"):
        check_writable(handle, handle.timeline(), store.now_ms())
    handle = open_table(store)
    check_writable(handle, handle.timeline(), store.now_ms())


def test_a_plan_for_another_version_is_stale(folder):
    apply(folder)
    folder.orders(description="Reviewed.")
    stale = plan(folder)
    change_version(open_store(folder.table), 9)
    failure = apply_plan(stale, folder.workspace()).failure
    assert isinstance(failure, StalePlanError)
    assert "another program has changed the version" in str(failure)


def test_adopt_keeps_the_version_of_a_table(folder):
    made = HandmadeTable(folder.root / "warehouse/t")
    made.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    change_version(open_store(made.folder), 9)
    shutil.rmtree(made.folder / ".hoodie/.parquetry")
    adopted = adopt(folder.workspace(), str(made.folder), name=None, reload=folder.workspace)
    assert yaml.safe_load((folder.root / adopted.file).read_text())["table_version"] == 9
    assert read_applied(open_store(made.folder)).spec.table_version == 9
    assert [action.table for action in plan(folder).intent.actions] == ["orders"]
