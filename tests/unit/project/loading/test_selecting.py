"""``state:changed`` and ``git:REF`` on a small project, its tables and its repository."""

from __future__ import annotations

import subprocess

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.git.revisions import RevisionError, files_at
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.project import SelectionError
from tests.support.project_folder import ORDERS, PROJECT, ProjectFolder

NOW = 1_800_000_000_000


@pytest.fixture
def folder(tmp_path):
    made = ProjectFolder.create(tmp_path / "repository" / "shop")
    made.write("tables/customers.yml", ORDERS | {"name": "customers", "sources": []})
    return made


def selected(folder, *selectors):
    return [table.name for table in folder.workspace(select=selectors).tables]


def git(folder, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, "-C", str(folder.root), *arguments], check=True, capture_output=True)


@pytest.fixture
def committed(folder):
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder.root.parent)], check=True)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_state_changed_is_what_apply_would_touch(folder):
    assert selected(folder, "state:changed") == ["customers", "orders"]
    workspace = folder.workspace(select=("orders",))
    apply_plan(plan_workspace(workspace, now_ms=NOW), workspace)
    assert selected(folder, "state:changed") == ["customers"]
    folder.orders(description="Another one.")
    assert selected(folder, "state:changed") == ["customers", "orders"]
    assert selected(folder, "state:changed,orders") == ["orders"]
    workspace = folder.workspace()
    apply_plan(plan_workspace(workspace, now_ms=NOW), workspace)
    assert selected(folder, "state:changed") == []


def test_only_changed_is_a_state(folder):
    with pytest.raises(SelectionError, match="write state:changed"):
        selected(folder, "state:modified")


def test_git_selects_tables_that_resolve_to_something_else(committed):
    assert selected(committed, "git:HEAD") == []
    text = (committed.root / "tables/orders.yml").read_text()
    (committed.root / "tables/orders.yml").write_text("# A comment is no change.\n" + text)
    assert selected(committed, "git:HEAD") == []
    committed.orders(description="Another one.")
    assert selected(committed, "git:HEAD") == ["orders"]
    git(committed, "commit", "-qam", "second")
    assert selected(committed, "git:main") == []
    assert selected(committed, "git:HEAD~1") == ["orders"]


def test_git_sees_defaults_policies_and_new_files(committed):
    committed.write("parquetry.yml", PROJECT | {"defaults": {"owner": "somebody"}})
    assert selected(committed, "git:HEAD") == ["customers", "orders"]
    committed.write("parquetry.yml", PROJECT)
    committed.write("tables/new.yml", ORDERS | {"name": "new"})
    assert selected(committed, "git:HEAD") == ["new"]
    assert selected(committed, "git:HEAD", "orders") == ["new", "orders"]


def test_git_takes_a_variable_that_only_the_new_side_declares(committed):
    committed.project(vars={"owner": "somebody"}, defaults={"owner": "{{ var('owner') }}"})
    arguments = ["ls", "-p", str(committed.root), "--var", "owner=me", "--select", "git:HEAD"]
    listed = CliRunner().invoke(command_line, [*arguments, "--format", "name"])
    assert (listed.exit_code, listed.output.split()) == (0, ["customers", "orders"])


def test_git_before_the_project_selects_everything(folder):
    subprocess.run(["git", "init", "-q", str(folder.root.parent)], check=True)
    git(folder, "commit", "-q", "--allow-empty", "-m", "nothing yet")
    assert selected(folder, "git:HEAD") == ["customers", "orders"]


@pytest.mark.parametrize("revision", ["nosuch", "--output=x", "HEAD:parquetry.yml"])
def test_an_unknown_revision_is_named(committed, revision):
    with pytest.raises(RevisionError, match="there is no git revision") as caught:
        selected(committed, f"git:{revision}")
    assert revision in str(caught.value)
    assert caught.value.exit_code == 2


def test_git_without_a_repository(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    with pytest.raises(RevisionError):
        selected(folder, "git:HEAD")


def test_a_revision_that_was_not_valid_is_said(committed):
    (committed.root / "tables/orders.yml").write_text("nonsense: true\n")
    git(committed, "commit", "-qam", "broken")
    committed.orders()
    with pytest.raises(SelectionError, match=r"was not valid there: tables/orders\.yml"):
        selected(committed, "git:HEAD")


def test_an_error_of_a_revision_is_said_before_its_warnings(committed):
    committed.write("tables/customers.yml", ORDERS | {"name": "clients", "sources": []})
    (committed.root / "tables/orders.yml").write_text("nonsense: true\n")
    git(committed, "commit", "-qam", "a warning in customers.yml, an error in orders.yml")
    committed.orders()
    with pytest.raises(SelectionError, match=r"was not valid there: tables/orders\.yml"):
        selected(committed, "git:HEAD")


def test_at_a_target_that_the_revision_did_not_have_every_table_is_new(committed):
    targets = {**PROJECT["targets"], "new": {"warehouse": "./elsewhere"}}
    committed.project(targets=targets, default_target="new")
    assert selected(committed, "git:HEAD") == ["customers", "orders"]


def test_a_revision_holds_nothing_but_specs(committed):
    (committed.root / "tables/README").symlink_to("/etc/passwd")
    (committed.root / "landing/rows.csv").write_text("a\n")
    (committed.root / "columns.avsc").write_text("{}")
    git(committed, "add", ".")
    git(committed, "commit", "-qm", "more")
    found = sorted(files_at(committed.root, "HEAD"))
    assert found == ["columns.avsc", "parquetry.yml", "tables/customers.yml", "tables/orders.yml"]


def test_no_table_is_no_line(folder):
    arguments = ["ls", "-p", str(folder.root), "--exclude", "*", "--format", "name"]
    listed = CliRunner().invoke(command_line, arguments)
    assert (listed.exit_code, listed.stdout) == (0, "")
