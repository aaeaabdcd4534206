"""Plans of a small project against tables on local disk: what changes, how far it reaches, what is blocked."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil
import subprocess

import pytest
import yaml
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.errors import BlockedPlanError
from parquetry.compiler.plan.apply import apply_plan, check_fits
from parquetry.compiler.plan.codec import check_age, decode, encode, intent_json
from parquetry.compiler.plan.drift import drift_of_workspace
from parquetry.compiler.plan.model import ChangeClass, Step
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import create_table, open_table
from parquetry.runtime.table.partition_metadata import put_partition_metadata
from tests.support.project_folder import ORDERS, ProjectFolder, columns_with
from tests.support.stores import CountingStore

NOW = 1_800_000_000_000


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def plan(folder, **options):
    return plan_workspace(folder.workspace(**options), now_ms=NOW)


def apply(folder):
    result = apply_plan(plan(folder), folder.workspace())
    assert result.failure is None, result.failure
    return result


def git(folder, *arguments):
    command = [
        "git",
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-C",
        str(folder.root),
        *arguments,
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder, message):
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


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


def test_dropping_a_column_is_blocked_until_it_is_allowed(folder):
    apply(folder)
    folder.orders(columns=columns_with(items=None))
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC310"
    assert "allow" in blocked.remedy
    folder.project(allow=[{"code": "SC310", "table": "orders", "reason": "moved"}])
    (action,) = plan(folder).intent.actions
    assert action.change_class is ChangeClass.BREAKING
    apply(folder)
    handle = open_table(open_store(folder.table))
    assert "items" not in [c.name for c in handle.effective_spec(handle.timeline()).columns]


def test_a_column_that_may_have_been_renamed_is_told_the_way_that_keeps_its_values(folder):
    apply(folder)
    folder.orders(columns=columns_with(items=None, pieces={"type": "int"}))
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC310"
    assert "SELECT *, items AS pieces FROM source" in blocked.remedy
    assert "allow: [{code: SC310" in blocked.remedy
    assert blocked.recipe
    folder.orders(columns=columns_with(items=None, pieces={"type": "string"}))
    (blocked,) = plan(folder).intent.blocked
    assert (blocked.remedy.startswith("add to parquetry.yml"), blocked.recipe) == (True, ())


def test_a_protected_table_refuses_what_is_allowed(folder):
    apply(folder)
    folder.orders(columns=columns_with(items=None))
    target = {"warehouse": "./warehouse", "protect": ["ord*"]}
    folder.project(allow=[{"code": "SC310", "table": "orders", "reason": "moved"}], targets={"dev": target})
    (blocked,) = plan(folder).intent.blocked
    assert "protect" in blocked.remedy


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"record_key": ["order_id", "city"], "columns": columns_with(city={"nullable": False})}, "SC401"),
        ({"partition_by": None}, "SC402"),
        ({"partitioning": {"hive_style": False}}, "SC402"),
        ({"ordering": "items"}, "SC404"),
        ({"columns": columns_with(amount={"type": "float"})}, "SC311"),
        ({"columns": columns_with(amount={"nullable": False})}, "SC312"),
        ({"columns": columns_with(extra={"type": "string", "nullable": False})}, "SC313"),
        ({"columns": columns_with(items=None, ITEMS={"type": "int"})}, "SC315"),
    ],
)
def test_what_the_files_depend_on_never_changes_in_place(folder, changes, code):
    apply(folder)
    folder.orders(**changes)
    folder.project(allow=[{"code": code, "table": "orders", "reason": "because"}])
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == code
    said = " ".join(text for step in blocked.recipe for text in (step.text, *step.commands))
    assert "orders_v2" in said
    assert "format: hudi" in said
    assert [w.code for w in plan(folder).evidence.warnings] == ["SC601"]


def test_the_copy_of_a_table_that_names_its_location_is_given_another(folder):
    apply(folder)
    folder.orders(partition_by=None)
    assert "location" not in plan(folder).intent.blocked[0].recipe[1].text
    folder.orders(location="orders", partition_by=None)
    (blocked,) = plan(folder).intent.blocked
    assert "`name: orders_v2`, another location and `sources:" in blocked.recipe[1].text


def test_a_table_that_nothing_was_written_to_may_be_made_afresh(folder):
    apply(folder)
    folder.orders(partition_by=None)
    assert "delete its folder warehouse/orders and plan again" in plan(folder).intent.blocked[0].remedy
    shutil.rmtree(folder.table)
    apply(folder)
    assert plan(folder).is_empty


def test_a_table_that_something_happened_to_is_kept(folder):
    apply(folder)
    folder.orders(partition_by=None)
    begun = folder.table / ".hoodie/20260101000000000.commit.requested"
    begun.touch()
    assert "delete" not in plan(folder).intent.blocked[0].remedy
    begun.unlink()
    folder.orders(columns=columns_with(note={"type": "string"}))
    apply(folder)
    folder.orders(columns=columns_with(note={"type": "string"}), partition_by=None)
    (blocked,) = plan(folder).intent.blocked
    assert "delete" not in blocked.remedy
    assert blocked.recipe


def test_a_recipe_puts_the_recorded_spec_back_although_it_was_never_committed(folder, monkeypatch):
    git(folder, "init", "--quiet")
    git(folder, "add", "parquetry.yml")
    git(folder, "commit", "--quiet", "-m", "without the table")
    folder.orders(retention={"clean": {"keep_commits": None, "max_age": "3d"}})
    apply(folder)
    folder.orders(partition_by=None, description="Wanted.")
    steps_back(folder, monkeypatch)
    assert plan(folder).is_empty


def test_a_recipe_puts_the_spec_of_a_renamed_table_back(folder, monkeypatch):
    apply(folder)
    (folder.root / "tables/orders.yml").unlink()
    renamed = ORDERS | {"name": "deals", "moved": {"from": "orders"}, "location": "orders"}
    del renamed["partition_by"]
    folder.write("tables/deals.yml", renamed)
    steps_back(folder, monkeypatch)
    assert {change.path for change in plan(folder).intent.actions[0].changes} == {"name"}


def test_a_recipe_puts_the_spec_of_a_moved_table_back(folder, monkeypatch):
    apply(folder)
    folder.orders(location="./elsewhere/orders", description="Wanted.")
    steps_back(folder, monkeypatch)
    assert plan(folder).is_empty


def steps_back(folder, monkeypatch):
    """Execute the first step of the recipe of the one blocked table."""
    monkeypatch.chdir(folder.root)
    for line in plan(folder).intent.blocked[0].recipe[0].commands:
        words = shlex.split(line)
        if words[0] == "parquetry":
            done = CliRunner().invoke(command_line, words[1:])
            assert done.exit_code == 0, done.output
        else:
            subprocess.run(words, check=True)
    for copy in folder.root.glob("tables/*_v2.yml"):
        copy.unlink()


def test_moving_a_table_is_blocked(folder):
    apply(folder)
    folder.orders(location="./elsewhere/orders")
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC403"
    assert "warehouse/orders" in blocked.reason


def test_a_key_that_is_replaced_has_to_be_among_the_former_ones(folder):
    folder.orders(files={"encryption_key": "env:OLD"})
    apply(folder)
    for files in ({"encryption_key": "env:NEW"}, {}):
        folder.orders(files=files)
        (blocked,) = plan(folder).intent.blocked
        assert blocked.code == "SC406"
        assert "files that env:OLD encrypted could not be read" in blocked.reason
        assert "files.former_encryption_keys" in blocked.remedy
    for files in ({"encryption_key": "env:NEW"}, {}):
        folder.orders(files={**files, "former_encryption_keys": ["env:OLD"]})
        (action,) = plan(folder).intent.actions
        assert [change.path for change in action.changes][-1] == "files.former_encryption_keys"
    folder.orders(files={"encryption_key": "env:NEW", "former_encryption_keys": ["env:OLD"]})
    apply(folder)
    folder.orders(files={"encryption_key": "env:NEW"})
    assert plan(folder).intent.blocked == ()


def test_a_table_of_another_name_is_planned_only_where_its_spec_says_that_it_was_renamed(folder):
    folder.orders(location="./warehouse/there")
    apply(folder)
    folder.orders(location="./warehouse/there", name="deals")
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC405"
    assert "is applied as orders" in blocked.reason
    assert "`moved: {from: orders}`" in blocked.remedy
    folder.orders(location="./warehouse/there", name="deals", moved={"from": "others"})
    assert [blocked.code for blocked in plan(folder).intent.blocked] == ["SC405"]


def test_a_renamed_table_without_its_location_is_not_made_anew(folder):
    apply(folder)
    folder.orders(name="deals", moved={"from": "orders"})
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC403"
    assert "warehouse/orders" in blocked.reason
    assert "`location: orders`" in blocked.reason
    assert blocked.remedy == "a renamed table keeps its location: write it into tables/orders.yml"


def test_a_table_that_lost_its_location_is_found_in_a_clone_that_never_applied(folder):
    folder.orders(location="./warehouse/there")
    apply(folder)
    (folder.root / "target/locations.json").unlink()
    folder.orders()
    result = plan(folder)
    (blocked,) = result.intent.blocked
    assert (blocked.code, result.intent.actions) == ("SC403", ())
    assert "warehouse/there" in blocked.reason


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


def test_moving_a_table_that_was_renamed_in_place_is_blocked(folder):
    folder.orders(location="./warehouse/there")
    apply(folder)
    folder.orders(location="./warehouse/there", name="deals", moved={"from": "orders"})
    (action,) = plan(folder).intent.actions
    assert [(c.path, c.old, c.new) for c in action.changes] == [("name", "orders", "deals")]
    apply(folder)
    folder.orders(location="./warehouse/elsewhere", name="deals")
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC403"
    assert "warehouse/there" in blocked.reason


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


def test_a_blocked_plan_is_not_applied_in_part(folder):
    apply(folder)
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    folder.orders(partition_by=None)
    with pytest.raises(BlockedPlanError, match="orders"):
        apply_plan(plan(folder), folder.workspace())
    assert not (folder.root / "warehouse/other").exists()


def test_another_projects_table_is_blocked(folder):
    spec = TableSpec.from_json({"name": "orders", "columns": [{"name": "a", "type": "int"}]})
    create_table(open_store(folder.table), spec, project="stock")
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC501"
    assert "'stock'" in blocked.reason
    assert "rename this project to 'stock'" in blocked.remedy


def test_a_table_of_another_version_is_blocked_and_the_others_are_planned(folder):
    apply(folder)
    properties = folder.table / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.version=6", "hoodie.table.version=9"))
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    result = plan(folder)
    (blocked,) = result.intent.blocked
    assert (blocked.table, blocked.code) == ("orders", "SC503")
    assert "downgrade" in blocked.reason
    assert [action.table for action in result.intent.actions] == ["other"]


def test_an_interrupted_creation_is_finished(folder):
    workspace = folder.workspace()
    spec = plan(folder).intent.actions[0].spec
    create_table(open_store(folder.table), spec, project="shop")
    (action,) = plan(folder).intent.actions
    assert action.change_class is ChangeClass.CREATE
    assert apply_plan(plan(folder), workspace).failure is None
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


def test_a_stale_plan_is_refused(folder):
    apply(folder)
    folder.orders(description="First.")
    stale = plan(folder)
    folder.orders(description="Second.")
    apply(folder)
    result = apply_plan(stale, folder.workspace())
    assert isinstance(result.failure, StalePlanError)
    assert "plan (or compile) again" in str(result.failure)
    assert read_applied(open_store(folder.table)).spec.extra.description == "Second."


def test_a_plan_is_consumed_once(folder):
    apply(folder)
    folder.orders(description="First.")
    once = plan(folder)
    assert apply_plan(once, folder.workspace()).failure is None
    assert isinstance(apply_plan(once, folder.workspace()).failure, StalePlanError)


def test_a_creation_that_lost_its_race_is_refused(folder):
    mine = plan(folder)
    folder.orders(description="Theirs.")
    apply(folder)
    assert isinstance(apply_plan(mine, folder.workspace()).failure, StalePlanError)


def test_a_branch_without_the_applied_commit_would_revert(folder):
    git(folder, "init", "--quiet", "--initial-branch=main")
    first = commit(folder, "first")
    git(folder, "switch", "--quiet", "-c", "neighbour")
    folder.orders(description="Theirs.")
    (folder.root / ".gitignore").write_text("warehouse\n")
    theirs = commit(folder, "theirs")
    apply(folder)
    git(folder, "switch", "--quiet", "-c", "mine", first)
    folder.orders(description="Mine.")
    commit(folder, "mine")
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC502"
    assert theirs[:12] in blocked.reason
    git(folder, "merge", "--quiet", "-X", "ours", "neighbour", "-m", "merged")
    assert plan(folder).intent.blocked == ()


def test_a_branch_that_was_squashed_after_its_apply_is_contained(folder):
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder.root / ".gitignore").write_text("warehouse\n")
    commit(folder, "first")
    git(folder, "switch", "--quiet", "-c", "theirs")
    folder.orders(description="Theirs.")
    commit(folder, "theirs")
    apply(folder)
    git(folder, "switch", "--quiet", "main")
    git(folder, "merge", "--quiet", "--squash", "theirs")
    commit(folder, "squashed")
    git(folder, "branch", "--quiet", "-D", "theirs")
    folder.orders(description="And mine.")
    assert plan(folder).intent.blocked == ()


def test_an_older_commit_that_declares_what_somebody_went_back_to_does_not_contain_it(folder, monkeypatch):
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder.root / ".gitignore").write_text("warehouse\n")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
    commit(folder, "first")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-02T00:00:00Z")
    folder.orders(description="Second.")
    commit(folder, "second")
    apply(folder)
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-03T00:00:00Z")
    git(folder, "switch", "--quiet", "-c", "back")
    git(folder, "revert", "--no-edit", "HEAD")
    apply(folder)
    git(folder, "switch", "--quiet", "main")
    folder.orders(description="Mine.")
    assert [blocked.code for blocked in plan(folder).intent.blocked] == ["SC502"]


def test_a_clone_with_a_part_of_the_history_is_told_to_fetch_it(folder, tmp_path):
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder.root / ".gitignore").write_text("warehouse\n")
    commit(folder, "first")
    apply(folder)
    folder.orders(description="Second.")
    commit(folder, "second")
    shallow = tmp_path / "shallow"
    git(folder, "clone", "--quiet", "--depth=1", f"file://{folder.root}", str(shallow))
    shutil.copytree(folder.root / "warehouse", shallow / "warehouse")
    (blocked,) = plan(ProjectFolder(shallow)).intent.blocked
    assert (blocked.code, "git fetch --unshallow" in blocked.remedy) == ("SC502", True)
    git(ProjectFolder(shallow), "fetch", "--quiet", "--unshallow")
    assert plan(ProjectFolder(shallow)).intent.blocked == ()


def test_a_saved_plan_round_trips(folder):
    apply(folder)
    folder.orders(columns=columns_with(note={"type": "string"}))
    original = plan(folder)
    assert decode(encode(original), name="plan.json") == original


def tampered(text, change):
    document = json.loads(text)
    change(document)
    document.pop("digest")
    return json.dumps(document | {"digest": digest_of(document)})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text.replace("orders", "order5"), "its digest does not match"),
        (lambda text: "{", r"not a saved plan; write one with `parquetry plan --out FILE`$"),
        (lambda text: "[]", "not a saved plan"),
        (lambda text: tampered(text, lambda d: d.update(version=2)), "version 2"),
        (lambda text: tampered(text, lambda d: d.update(more=1)), "unknown fields"),
        (lambda text: tampered(text, lambda d: d["intent"].update(more=1)), "more: unknown key"),
        (
            lambda text: tampered(text, lambda d: d["intent"].update(project="x")),
            "not the digest of its intent",
        ),
    ],
)
def test_a_saved_plan_that_was_touched_is_refused(folder, spoil, message):
    with pytest.raises(StalePlanError, match=message):
        decode(spoil(encode(plan(folder))), name="plan.json")


def test_a_plan_expires_after_seven_days(folder):
    week = 7 * 86_400_000
    made = plan(folder)
    check_age(made, NOW + week, name="plan.json")
    with pytest.raises(StalePlanError, match="7 days old"):
        check_age(made, NOW + week + 1, name="plan.json")


def test_a_plan_for_another_target_is_refused(folder):
    made = plan(folder)
    other = dataclasses.replace(made, intent=dataclasses.replace(made.intent, target="prod"))
    with pytest.raises(StalePlanError, match="target prod"):
        check_fits(other, folder.workspace())


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


def test_a_table_that_another_branch_declares_is_not_forgotten(folder):
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder.root / ".gitignore").write_text("warehouse\ntarget\n")
    first = commit(folder, "first")
    git(folder, "switch", "--quiet", "-c", "neighbour")
    folder.write("tables/theirs.yml", ORDERS | {"name": "theirs"})
    theirs = commit(folder, "theirs")
    apply(folder)
    git(folder, "switch", "--quiet", "-c", "mine", first)
    (blocked,) = [b for b in plan(folder).intent.blocked if b.table == "theirs"]
    assert blocked.code == "SC502"
    assert theirs[:12] in blocked.reason


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


def test_an_allow_entry_that_is_not_needed_warns_at_its_line(folder):
    apply(folder)
    folder.project(allow=[{"code": "SC310", "table": "orders", "reason": "moved"}])
    result = plan(folder)
    assert result.is_empty
    (warning,) = result.evidence.warnings
    lines = (folder.root / "parquetry.yml").read_text().splitlines()
    line = next(n for n, text in enumerate(lines, start=1) if "SC310" in text)
    assert (warning.code, warning.table) == ("SC601", "orders")
    assert warning.origin.startswith(f"parquetry.yml:{line}:")
    folder.orders(columns=columns_with(items=None))
    result = plan(folder)
    assert result.evidence.warnings == ()
    (change,) = result.intent.actions[0].changes
    assert change.allowed == "moved"


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
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder.root / ".gitignore").write_text("warehouse\ntarget\n")
    commit(folder, "reviewed")
    reviewed = plan(folder)
    merge = commit(folder, "merged")
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
    assert f"warning DR100 table orders cannot be read or written as it is now: {drift.reason}" in text


def test_a_change_of_a_table_that_cannot_be_read_is_blocked_and_other_tables_are_planned(folder):
    apply(folder)
    (newest,) = (folder.table / ".hoodie").glob("*.commit")
    newest.write_bytes(b"{torn")
    folder.orders(columns=columns_with(note={"type": "string"}))
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    result = plan(folder)
    assert [action.table for action in result.intent.actions] == ["other"]
    (blocked,) = result.intent.blocked
    assert (blocked.table, blocked.code, newest.name in blocked.reason) == ("orders", "SC503", True)
    assert result.evidence.warnings == ()


@pytest.mark.parametrize("spoil", ["lost", "cut", "not JSON"])
def test_a_table_whose_own_files_are_lost_or_spoilt_is_blocked_and_other_tables_are_planned(folder, spoil):
    apply(folder)
    hoodie = folder.table / ".hoodie"
    if spoil == "not JSON":
        (record,) = (hoodie / ".parquetry/applied").glob("*.json")
        record.write_bytes(b"{torn")
    elif spoil == "cut":
        (hoodie / "hoodie.properties").write_bytes(b"")
    else:
        folder.orders(columns=columns_with(note={"type": "string"}))
        apply(folder)
        (hoodie / "hoodie.properties").unlink()
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    result = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert [action.table for action in result.intent.actions] == ["other"]
    (blocked,) = result.intent.blocked
    assert (blocked.table, blocked.code, "restore" in blocked.reason) == ("orders", "SC503", True)
    drifts = {found.table: found.drifts for found in drift_of_workspace(folder.workspace())}
    assert [drift.code for drift in drifts["orders"]] == ["DR100"]
    assert drifts["other"] == ()


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
