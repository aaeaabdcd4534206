"""Plans of a small project against tables on local disk: what changes, and how far it reaches."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
import yaml

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.codec import decode, encode, intent_json
from parquetry.compiler.plan.model import ChangeClass, Step
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.config import METADATA_TABLE_KEYS
from parquetry.runtime.table.handle import create_table, open_table
from parquetry.runtime.table.partition_metadata import put_partition_metadata
from parquetry.runtime.timeline.sidecars import METADATA_DROP_PATH
from tests.support.handmade_git import commit_all, git
from tests.support.metadata_table import exists, switch_on
from tests.support.planning import NOW, apply, plan
from tests.support.project_folder import ORDERS, ProjectFolder, columns_with
from tests.support.stores import CountingStore


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def test_a_declared_table_that_is_not_there_is_created(folder):
    (action,) = plan(folder).intent.actions
    assert (action.table, action.change_class, action.requirements.exists) == (
        "orders",
        ChangeClass.CREATE,
        False,
    )
    assert action.location == "warehouse/orders"
    assert not folder.table.exists()


def test_after_apply_the_plan_is_empty(folder):
    apply(folder)
    assert plan(folder).is_empty
    handle = open_table(open_store(folder.table))
    assert handle.project == "shop"
    assert handle.applied.number == 1
    assert handle.applied.plan_id is not None


@pytest.mark.parametrize(
    ("changes", "path", "change_class", "code"),
    [
        ({"description": "Orders."}, "description", "metadata", "SC101"),
        (
            {"sizing": {"max_file_size": "2MiB", "small_file_limit": "512KiB"}},
            "sizing.max_file_size",
            "policy",
            "SC201",
        ),
        ({"columns": columns_with(note={"type": "string"})}, "columns.note", "evolve", "SC301"),
        ({"columns": columns_with(items={"type": "bigint"})}, "columns.items.type", "evolve", "SC302"),
    ],
)
def test_allowed_changes_are_classed_and_applied(folder, changes, path, change_class, code):
    apply(folder)
    folder.orders(**changes)
    (action,) = plan(folder).intent.actions
    assert (str(action.change_class), action.code) == (change_class, code)
    assert path in [change.path for change in action.changes]
    apply(folder)
    assert plan(folder).is_empty
    assert read_applied(open_store(folder.table)).ref.number == 2


def test_a_change_names_the_line_that_caused_it(folder):
    apply(folder)
    folder.orders(sizing={"max_file_size": "2MiB", "small_file_limit": "512KiB"})
    (change,) = [c for c in plan(folder).intent.actions[0].changes if c.path == "sizing.max_file_size"]
    lines = (folder.root / "tables/orders.yml").read_text().splitlines()
    line = next(n for n, text in enumerate(lines, start=1) if "max_file_size" in text)
    assert change.origin.startswith(f"tables/orders.yml:{line}:")
    assert (change.old, change.new) == ("1MiB", "2MiB")


def test_evolving_commits_the_schema_and_nothing_else(folder):
    apply(folder)
    folder.orders(columns=columns_with(note={"type": "string"}))
    (result,) = apply(folder).results
    handle = open_table(open_store(folder.table))
    metadata = handle.timeline().commit_metadata(result.applied.instant)
    assert metadata.operation == "ALTER_SCHEMA"
    assert metadata.stats == {}
    names = [field["name"] for field in json.loads(metadata.schema)["fields"]]
    assert names[-1] == "note"


def test_a_table_that_is_made_while_its_like_is_forgotten_may_have_been_renamed(folder):
    apply(folder)
    (folder.root / "tables/orders.yml").unlink()
    folder.write("tables/deals.yml", ORDERS | {"name": "deals"})
    (warning,) = plan(folder).evidence.warnings
    assert (warning.code, warning.table) == ("SC602", "deals")
    assert "parquetry rename orders deals" in str(warning.message)
    columns = [*ORDERS["columns"], {"name": "note", "type": "string"}]
    folder.write("tables/deals.yml", ORDERS | {"name": "deals", "columns": columns})
    assert not [warning for warning in plan(folder).evidence.warnings if warning.code == "SC602"]


def test_after_fields_changed_places_the_plan_is_empty(folder):
    nested = {"type": "struct<a:int,l:array<struct<x:int,y:string>>>"}
    folder.orders(columns=columns_with(nested=nested))
    apply(folder)
    turned = {"type": "struct<l:array<struct<y:string,x:int>>,a:int>"}
    folder.orders(columns=columns_with(nested=turned))
    (action,) = plan(folder).intent.actions
    assert {(c.path, c.code) for c in action.changes} == {
        ("columns.nested", "SC304"),
        ("columns.nested.l.element", "SC304"),
    }
    apply(folder)
    assert plan(folder).is_empty


def test_ingestion_between_plan_and_apply_changes_nothing(folder):
    apply(folder)
    folder.orders(description="Orders.")
    before = plan(folder)
    later = plan_workspace(folder.workspace(), now_ms=NOW + 60_000)
    assert before.plan_id == later.plan_id
    assert before.evidence != later.evidence


def test_the_plan_id_does_not_depend_on_the_checkout(folder, tmp_path):
    other = ProjectFolder.create(tmp_path / "elsewhere" / "shop")
    assert plan(folder).plan_id == plan(other).plan_id


def test_a_table_without_a_spec_is_forgotten_and_keeps_its_data(folder):
    apply(folder)
    spec = folder.root / "tables/orders.yml"
    kept = spec.read_text()
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    spec.unlink()
    before = plan(folder)
    forget = next(action for action in before.intent.actions if action.table == "orders")
    assert (forget.code, forget.steps, forget.location) == ("SC002", (Step.FORGET,), "warehouse/orders")
    files = set(folder.table.rglob("*.parquet")) | {folder.table / ".hoodie/hoodie.properties"}
    apply(folder)
    assert all(path.exists() for path in files)
    record = read_applied(open_store(folder.table))
    assert (record.ref.number, record.ref.forgotten, record.ref.plan_id) == (2, True, before.plan_id)
    assert plan(folder).is_empty
    spec.write_text(kept)
    (action,) = plan(folder).intent.actions
    assert (action.table, action.code, action.steps) == ("orders", "SC003", (Step.RECORD,))
    apply(folder)
    assert plan(folder).is_empty
    assert not read_applied(open_store(folder.table)).ref.forgotten


def test_a_plan_of_some_tables_forgets_none(folder):
    apply(folder)
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    (folder.root / "tables/orders.yml").unlink()
    assert [a.table for a in plan(folder, select=("other",)).intent.actions] == ["other"]
    assert [a.table for a in plan(folder).intent.actions] == ["other", "orders"]


def test_a_table_outside_the_warehouse_is_forgotten_where_it_was_applied_from(folder):
    folder.orders(location="./elsewhere/deep/orders")
    apply(folder)
    (folder.root / "tables/orders.yml").unlink()
    (action,) = plan(folder).intent.actions
    assert (action.code, action.location) == ("SC002", "warehouse/elsewhere/deep/orders")
    apply(folder)
    assert plan(folder).is_empty


def test_a_nested_table_is_forgotten_from_another_checkout_too(folder):
    folder.orders(location="gold/europe/orders")
    folder.write("tables/other.yml", ORDERS | {"name": "other", "location": "gold/other"})
    apply(folder)
    shutil.rmtree(folder.root / "target")
    (folder.root / "tables/orders.yml").unlink()
    (action,) = plan(folder).intent.actions
    assert (action.code, action.location) == ("SC002", "warehouse/gold/europe/orders")
    apply(folder)
    shutil.rmtree(folder.root / "target")
    assert plan(folder).is_empty


def test_looking_for_forgotten_tables_is_bounded_and_enters_no_table(folder, tmp_path):
    apply(folder)
    (folder.table / "deep" / "deeper").mkdir(parents=True)
    foreign = folder.root / "warehouse/foreign"
    (foreign / ".hoodie").mkdir(parents=True)
    (foreign / "city=Rome" / "inner").mkdir(parents=True)
    for number in range(250):
        (folder.root / f"warehouse/raw/{number:03}/a/b/c").mkdir(parents=True)
    logs = []

    def opened(location, options, allowed):
        logs.append(CountingStore(open_store(location, options, allowed), tmp_path / f"{len(logs)}.log"))
        return logs[-1]

    result = plan_workspace(dataclasses.replace(folder.workspace(), open=opened), now_ms=NOW)
    assert result.is_empty
    listed = [path for log in logs for kind, path in log.calls() if kind == "list_folders"]
    assert 100 < len(listed) <= 201
    assert "foreign" in listed
    assert not [path for path in listed if path.startswith(("foreign/", "orders"))]


def test_tables_of_other_projects_in_the_warehouse_are_left_alone(folder):
    spec = TableSpec.from_json({"name": "theirs", "columns": [{"name": "a", "type": "int"}]})
    create_table(open_store(folder.root / "warehouse/theirs"), spec, project="stock")
    (folder.root / "warehouse/plain").mkdir()
    assert [action.table for action in plan(folder).intent.actions] == ["orders"]


def test_changes_say_what_the_table_says_itself(folder):
    apply(folder)
    folder.orders(columns=columns_with(items={"type": "bigint"}, note={"type": "string"}), ordering="items")
    (blocked,) = plan(folder).intent.blocked
    live = {change.path: change.live for change in blocked.changes}
    assert live == {"columns.items.type": "int", "columns.note": None, "ordering": "revision"}


def test_sizes_of_clustering_that_nobody_wrote_are_no_changes(folder):
    apply(folder)
    sizes = {"max_file_size": "4MiB", "small_file_limit": "2MiB"}
    folder.orders(sizing=sizes)
    (action,) = plan(folder).intent.actions
    assert [c.path for c in action.changes] == ["sizing.max_file_size", "sizing.small_file_limit"]
    apply(folder)
    folder.orders(sizing=sizes, clustering={"plan": {"target_file_size": "3MiB"}})
    (action,) = plan(folder).intent.actions
    assert [(c.path, c.old, c.new) for c in action.changes] == [
        ("clustering.plan.target_file_size", "4MiB", "3MiB")
    ]


def test_comments_key_order_and_formatting_change_no_plan(folder):
    apply(folder)
    folder.orders(columns=columns_with(note={"type": "string"}))
    before = plan(folder)
    spec = folder.root / "tables/orders.yml"
    document = yaml.safe_load(spec.read_text())
    shuffled = dict(reversed(document.items()))
    spec.write_text("# A comment.\n\n" + yaml.safe_dump(shuffled, sort_keys=False, default_flow_style=None))
    after = plan(folder)
    assert intent_json(after.intent) == intent_json(before.intent)
    assert after.plan_id == before.plan_id
    assert after.intent.actions[0].changes[0].origin != before.intent.actions[0].changes[0].origin


def test_a_merge_commit_keeps_the_plan_and_another_change_does_not(folder):
    git(folder.root, "init", "--quiet", "--initial-branch=main")
    (folder.root / ".gitignore").write_text("warehouse\ntarget\n")
    commit_all(folder.root, "reviewed")
    reviewed = plan(folder)
    merge = commit_all(folder.root, "merged")
    assert plan(folder).intent.git_commit == merge
    assert plan(folder).plan_id == reviewed.plan_id
    folder.orders(description="Another one.")
    assert plan(folder).plan_id != reviewed.plan_id


def test_a_property_that_another_program_changed_is_put_back(folder):
    apply(folder)
    properties = folder.table / ".hoodie/hoodie.properties"
    said = properties.read_text()
    properties.write_text(
        said.replace("hoodie.table.precombine.field=revision", "hoodie.table.precombine.field=items")
    )
    (action,) = plan(folder).intent.actions
    assert (action.code, action.change_class, action.steps) == ("SC102", "metadata", (Step.RESTORE,))
    (change,) = action.changes
    assert (change.path, change.old, change.new) == (
        "properties.hoodie.table.precombine.field",
        "items",
        "revision",
    )
    apply(folder)
    assert plan(folder).is_empty
    assert open_table(open_store(folder.table)).config.ordering == "revision"
    assert read_applied(open_store(folder.table)).ref.number == 1
    properties.write_text(
        said.replace("hoodie.table.precombine.field=revision", "hoodie.table.precombine.field=items")
    )
    folder.orders(columns=columns_with(note={"type": "string"}))
    (action,) = plan(folder).intent.actions
    assert action.steps == (Step.RESTORE, Step.EVOLVE, Step.RECORD)
    apply(folder)
    assert plan(folder).is_empty


def test_a_metadata_table_is_dropped_by_an_action_that_every_view_shows(folder):
    apply(folder)
    switch_on(folder.table, "column_stats,files")
    result = plan(folder, select=("orders",))
    (action,) = result.intent.actions
    assert (action.code, action.change_class, action.steps) == (
        "SC104",
        ChangeClass.POLICY,
        (Step.DROP_METADATA_TABLE,),
    )
    assert not action.requirements.no_metadata_table
    (change,) = action.changes
    assert (change.path, change.old, change.new) == (
        "properties.hoodie.table.metadata.partitions",
        "column_stats,files",
        None,
    )
    (drift,) = result.evidence.drift
    assert (drift.code, drift.path) == ("DR104", f"orders.{change.path}")
    assert result.evidence.warnings == ()
    assert decode(encode(result), name="plan.json") == result
    document = intent_json(result.intent)["actions"][0]
    assert document["steps"] == ["drop_metadata_table"]
    for shown in (
        PlanView().text(result, Paint(enabled=False)),
        render_markdown(result, max_bytes=60_000),
        render_html(result),
        str(document["changes"][0]["reason"]),
    ):
        text = " ".join(shown.split())
        assert "readers of a metadata table would miss the rows that parquetry writes" in text
        assert "hoodie.metadata.enable=false in every Hudi writer" in text
    apply(folder)
    assert not exists(folder.table)
    assert plan(folder).is_empty
    assert read_applied(open_store(folder.table)).ref.number == 1


def test_a_metadata_table_is_dropped_before_the_schema_is_committed(folder):
    apply(folder)
    switch_on(folder.table)
    switch_on(folder.table, "column_stats", key=METADATA_TABLE_KEYS[1])
    folder.orders(columns=columns_with(note={"type": "string"}))
    (action,) = plan(folder).intent.actions
    assert (action.code, action.steps) == ("SC301", (Step.DROP_METADATA_TABLE, Step.EVOLVE, Step.RECORD))
    assert [change.code for change in action.changes] == ["SC301", "SC104", "SC104"]
    apply(folder)
    assert plan(folder).is_empty
    assert not exists(folder.table)


def test_a_drop_that_was_interrupted_is_finished_by_the_same_plan_and_by_a_clean(folder):
    apply(folder)
    store = open_store(folder.table)
    for finish in ("plan", "clean"):
        switch_on(folder.table)
        planned = plan(folder)
        switch_on(folder.table, "")
        store.put(METADATA_DROP_PATH, b"files\n")
        assert plan(folder).is_empty
        if finish == "plan":
            assert apply_plan(planned, folder.workspace()).failure is None
        else:
            assert clean(open_table(store)).leftovers_deleted == 1
        assert not exists(folder.table)
        assert store.stat(METADATA_DROP_PATH) is None


def test_the_work_of_the_next_run_is_measured_beside_a_metadata_table(folder):
    apply(folder)
    switch_on(folder.table)
    assert set(plan_workspace(folder.workspace(), now_ms=NOW, due=True).evidence.due) == {"orders"}


def test_a_blocked_change_leaves_the_metadata_table(folder):
    apply(folder)
    switch_on(folder.table)
    folder.orders(ordering="items")
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC404"
    assert "SC104" in [change.code for change in blocked.changes]


def test_a_table_with_a_metadata_table_is_forgotten_and_keeps_it(folder):
    apply(folder)
    switch_on(folder.table)
    (folder.root / "tables/orders.yml").unlink()
    apply(folder)
    assert exists(folder.table)
    assert read_applied(open_store(folder.table)).ref.forgotten
    folder.orders()
    (action,) = plan(folder).intent.actions
    assert (action.code, action.steps) == ("SC003", (Step.DROP_METADATA_TABLE, Step.RECORD))
    apply(folder)
    assert not exists(folder.table)


def test_a_creation_that_was_interrupted_drops_what_hudi_made_meanwhile(folder):
    create_table(open_store(folder.table), folder.workspace().table("orders").spec, project="shop")
    switch_on(folder.table)
    (action,) = plan(folder).intent.actions
    assert action.steps == (Step.DROP_METADATA_TABLE, Step.CREATE, Step.RECORD)
    apply(folder)
    assert plan(folder).is_empty
    assert not exists(folder.table)


def test_a_commit_that_cannot_be_read_is_drift_and_other_tables_are_planned(folder):
    apply(folder)
    (newest,) = (folder.table / ".hoodie").glob("*.commit")
    newest.write_bytes(b"{torn")
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    result = plan(folder)
    assert [action.table for action in result.intent.actions] == ["other"]
    (drift,) = result.evidence.drift
    assert (drift.code, drift.path) == ("DR100", "orders.table")
    assert newest.name in drift.reason
    (warning,) = result.evidence.warnings
    assert (warning.code, warning.table) == ("DR100", "orders")
    text = " ".join(PlanView().text(result, Paint(enabled=False)).split())
    assert f"warning DR100 table orders cannot be read or written as it is now: {drift.reason!s}" in text


def test_what_is_due_of_a_damaged_table_is_a_warning_and_the_others_are_measured(folder):
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    apply(folder)
    put_partition_metadata(open_store(folder.table), "city=Oslo", instant="20260101000000000")
    (folder.table / "city=Oslo/stray.parquet").write_bytes(b"")
    result = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert set(result.evidence.due) == {"other"}
    (warning,) = result.evidence.warnings
    assert (warning.code, warning.table, "stray.parquet" in warning.message) == ("DR100", "orders", True)


def test_drift_is_one_line_of_a_plan(folder):
    apply(folder)
    properties = folder.table / ".hoodie/hoodie.properties"
    said = properties.read_text()
    properties.write_text(
        said.replace("hoodie.table.precombine.field=revision", "hoodie.table.precombine.field=items")
    )
    result = plan(folder)
    (drift,) = result.evidence.drift
    assert (drift.path, drift.live) == ("orders.properties.hoodie.table.precombine.field", "items")
    text = PlanView().text(result, Paint(enabled=False))
    assert len([line for line in text.splitlines() if line.startswith("drift: orders.properties.")]) == 1
    assert decode(encode(result), name="plan.json") == result
    apply(folder)
    assert plan(folder).evidence.drift == ()
