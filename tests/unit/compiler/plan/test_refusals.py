"""Blocked tables: what may not happen in place or from this branch, the reason, and the way out."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.plan.drift import drift_of_workspace
from parquetry.compiler.plan.model import ChangeClass
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import create_table, open_table
from tests.support.handmade_git import commit_all, git
from tests.support.planning import NOW, apply, plan
from tests.support.project_folder import ORDERS, ProjectFolder, columns_with


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


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
    git(folder.root, "init", "--quiet")
    git(folder.root, "add", "parquetry.yml")
    git(folder.root, "commit", "--quiet", "-m", "without the table")
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
    properties.write_text(properties.read_text().replace("hoodie.table.version=6", "hoodie.table.version=10"))
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    result = plan(folder)
    (blocked,) = result.intent.blocked
    assert (blocked.table, blocked.code) == ("orders", "SC503")
    assert "downgrade" in blocked.reason
    assert [action.table for action in result.intent.actions] == ["other"]


def test_a_branch_without_the_applied_commit_would_revert(folder):
    git(folder.root, "init", "--quiet", "--initial-branch=main")
    first = commit_all(folder.root, "first")
    git(folder.root, "switch", "--quiet", "-c", "neighbour")
    folder.orders(description="Theirs.")
    (folder.root / ".gitignore").write_text("warehouse\n")
    theirs = commit_all(folder.root, "theirs")
    apply(folder)
    git(folder.root, "switch", "--quiet", "-c", "mine", first)
    folder.orders(description="Mine.")
    commit_all(folder.root, "mine")
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC502"
    assert theirs[:12] in blocked.reason
    git(folder.root, "merge", "--quiet", "-X", "ours", "neighbour", "-m", "merged")
    assert plan(folder).intent.blocked == ()


def test_a_branch_that_was_squashed_after_its_apply_is_contained(folder):
    git(folder.root, "init", "--quiet", "--initial-branch=main")
    (folder.root / ".gitignore").write_text("warehouse\n")
    commit_all(folder.root, "first")
    git(folder.root, "switch", "--quiet", "-c", "theirs")
    folder.orders(description="Theirs.")
    commit_all(folder.root, "theirs")
    apply(folder)
    git(folder.root, "switch", "--quiet", "main")
    git(folder.root, "merge", "--quiet", "--squash", "theirs")
    commit_all(folder.root, "squashed")
    git(folder.root, "branch", "--quiet", "-D", "theirs")
    folder.orders(description="And mine.")
    assert plan(folder).intent.blocked == ()


def test_an_older_commit_that_declares_what_somebody_went_back_to_does_not_contain_it(folder, monkeypatch):
    git(folder.root, "init", "--quiet", "--initial-branch=main")
    (folder.root / ".gitignore").write_text("warehouse\n")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
    commit_all(folder.root, "first")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-02T00:00:00Z")
    folder.orders(description="Second.")
    commit_all(folder.root, "second")
    apply(folder)
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-03T00:00:00Z")
    git(folder.root, "switch", "--quiet", "-c", "back")
    git(folder.root, "revert", "--no-edit", "HEAD")
    apply(folder)
    git(folder.root, "switch", "--quiet", "main")
    folder.orders(description="Mine.")
    assert [blocked.code for blocked in plan(folder).intent.blocked] == ["SC502"]


def test_a_clone_with_a_part_of_the_history_is_told_to_fetch_it(folder, tmp_path):
    git(folder.root, "init", "--quiet", "--initial-branch=main")
    (folder.root / ".gitignore").write_text("warehouse\n")
    commit_all(folder.root, "first")
    apply(folder)
    folder.orders(description="Second.")
    commit_all(folder.root, "second")
    shallow = tmp_path / "shallow"
    git(folder.root, "clone", "--quiet", "--depth=1", f"file://{folder.root}", str(shallow))
    shutil.copytree(folder.root / "warehouse", shallow / "warehouse")
    (blocked,) = plan(ProjectFolder(shallow)).intent.blocked
    assert (blocked.code, "git fetch --unshallow" in blocked.remedy) == ("SC502", True)
    git(shallow, "fetch", "--quiet", "--unshallow")
    assert plan(ProjectFolder(shallow)).intent.blocked == ()


def test_a_table_that_another_branch_declares_is_not_forgotten(folder):
    git(folder.root, "init", "--quiet", "--initial-branch=main")
    (folder.root / ".gitignore").write_text("warehouse\ntarget\n")
    first = commit_all(folder.root, "first")
    git(folder.root, "switch", "--quiet", "-c", "neighbour")
    folder.write("tables/theirs.yml", ORDERS | {"name": "theirs"})
    theirs = commit_all(folder.root, "theirs")
    apply(folder)
    git(folder.root, "switch", "--quiet", "-c", "mine", first)
    (blocked,) = [b for b in plan(folder).intent.blocked if b.table == "theirs"]
    assert blocked.code == "SC502"
    assert theirs[:12] in blocked.reason


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
