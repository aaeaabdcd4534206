"""Plans of working trees with uncommitted changes, and what records say of them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.workspace.committed import uncommitted_files
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from tests.support.handmade_git import committed, git
from tests.support.project_folder import ProjectFolder

POLICY = {"apiVersion": "parquetry/v1", "kind": "policy", "name": "small"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for actor in ("GITHUB_ACTOR", "GITLAB_USER_LOGIN"):
        monkeypatch.delenv(actor, raising=False)
    made = ProjectFolder.create(tmp_path / "repository" / "shop")
    (made.root / ".gitignore").write_text("warehouse\ntarget\ntables/ignored.yml\n")
    (made.root / "policies").mkdir()
    made.write("policies/small.yml", POLICY)
    committed(made.root)
    return made


def run(folder, *words):
    project = [] if words[0] == "show" else ["-p", str(folder.root)]
    done = CliRunner().invoke(command_line, [*words, *project])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def found(folder):
    return uncommitted_files(folder.workspace())


def test_nothing_is_uncommitted_after_a_commit_whatever_else_lies_in_the_tree(folder):
    (folder.root / "target").mkdir()
    (folder.root / "target" / "manifest.json").write_text("{}")
    (folder.root / "notes.yml").write_text("a: b")
    (folder.root / "tables" / ".orders.yml.swp").write_text("")
    (folder.root / "tables" / "README.md").write_text("Tables.")
    assert found(folder) == ()


def test_changed_new_ignored_and_deleted_specs_are_uncommitted(folder):
    folder.orders(description="Another one.")
    (folder.root / "policies" / "small.yml").unlink()
    ignored = {"name": "ignored", "sources": None, "record_key": None, "ordering": None}
    folder.orders(**ignored)
    (folder.root / "tables" / "orders.yml").rename(folder.root / "tables" / "ignored.yml")
    folder.orders(description="Another one.")
    assert found(folder) == ("policies/small.yml", "tables/ignored.yml", "tables/orders.yml")
    git(folder.root, "add", "tables/orders.yml")
    assert "tables/orders.yml" in found(folder)


def test_avro_schemas_count_where_a_table_is_read_from_them(folder):
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "string"]}]}
    (folder.root / "a.avsc").write_text(json.dumps(schema))
    assert found(folder) == ()
    folder.write(
        "tables/typed.yml",
        {"apiVersion": "parquetry/v1", "kind": "table", "name": "typed", "columns": {"file": "a.avsc"}},
    )
    assert found(folder) == ("a.avsc", "tables/typed.yml")


def test_ends_of_lines_are_no_change(folder):
    file = folder.root / "tables" / "orders.yml"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert found(folder) == ()


def test_without_a_repository_nothing_is_known(tmp_path):
    assert found(ProjectFolder.create(tmp_path / "shop")) is None


def test_a_plan_names_the_uncommitted_files_in_every_shape(folder, tmp_path):
    saved = tmp_path / "plan.json"
    said = "made in a working tree with uncommitted changes"
    assert said not in run(folder, "plan", "--out", str(saved))
    assert said not in run(folder, "show", str(saved), "--format", "markdown")
    folder.orders(description="Another one.")
    assert f"{said}: tables/orders.yml (1)" in run(folder, "plan", "--out", str(saved))
    for shape in ("text", "markdown", "html", "github"):
        assert said in run(folder, "show", str(saved), "--format", shape)
    assert json.loads(saved.read_text())["evidence"]["uncommitted"] == ["tables/orders.yml"]


def test_many_files_are_counted(folder):
    for name in "abcd":
        folder.write(
            f"tables/{name}.yml",
            {
                "apiVersion": "parquetry/v1",
                "kind": "table",
                "name": name,
                "columns": [{"name": "x", "type": "int"}],
            },
        )
    assert "tables/a.yml, tables/b.yml, tables/c.yml, ... (4)" in run(folder, "plan")


def record(folder):
    return read_applied(open_store(folder.table))


def test_a_record_names_the_user_of_git_and_whether_the_tree_was_dirty(folder):
    git(folder.root, "config", "user.name", "Ann Lee")
    git(folder.root, "config", "user.email", "ann@example.com")
    run(folder, "apply", "--auto-approve")
    assert (record(folder).applied_by, record(folder).dirty) == ("Ann Lee <ann@example.com>", False)
    folder.orders(description="Another one.")
    run(folder, "apply", "--auto-approve")
    assert (record(folder).ref.number, record(folder).dirty) == (2, True)


def test_a_plan_approved_by_its_id_hides_no_uncommitted_files(folder, tmp_path):
    saved = tmp_path / "plan.json"
    run(folder, "plan", "--out", str(saved))
    plan_id = json.loads(saved.read_text())["plan_id"]
    folder.orders(tags=["other"])
    run(folder, "apply", str(saved), "--approved", plan_id)
    assert record(folder).dirty is True


def test_outside_a_repository_the_user_of_the_system_is_recorded(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    run(folder, "apply", "--auto-approve")
    assert record(folder).applied_by.endswith(" (operating system)")
    assert (record(folder).dirty, record(folder).ref.git_commit) == (None, None)


def test_in_continuous_integration_the_forge_names_who_acts(folder, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTOR", "octo\ncat\x1b[2J" + "x" * 500)
    run(folder, "apply", "--auto-approve")
    by = record(folder).applied_by
    assert by.startswith("octo cat\\x1b[2Jxxx")
    assert len(by) == 200


def test_a_compiled_job_says_that_its_commit_lacks_changes(folder):
    folder.orders(description="Another one.")
    run(folder, "compile")
    job = json.loads((folder.root / "target/jobs/orders/create.json").read_text())
    assert (job["dirty"], job["git_commit"]) == (True, git(folder.root, "rev-parse", "HEAD"))
    assert json.loads((folder.root / "target/manifest.json").read_text())["dirty"] is True
