from __future__ import annotations

import json
import subprocess

import pytest
import yaml
from click.testing import CliRunner

from parquetry.cli.main import command_line
from tests.support.project_folder import ORDERS, PROJECT, ProjectFolder, columns_with


def git(folder, *words):
    identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
    done = subprocess.run(
        ["git", "-C", str(folder.root), *identity, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("PARQUETRY_BUCKET", "HOME_OF_TABLES"):
        monkeypatch.delenv(name, raising=False)
    folder = ProjectFolder.create(tmp_path / "shop")
    targets = {
        "dev": PROJECT["targets"]["dev"],
        "prod": {"warehouse": "s3a://{{ env_var('PARQUETRY_BUCKET') }}/lake"},
    }
    folder.project(targets=targets)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def run(folder, *arguments, base="main"):
    result = CliRunner().invoke(command_line, ["diff", "--base", base, "-p", str(folder.root), *arguments])
    return result.exit_code, result.output


def diff(folder, *arguments, **settings):
    code, text = run(folder, "--format", "json", *arguments, **settings)
    assert code == 0, text
    return json.loads(text)


def only(folder, *arguments):
    (table,) = diff(folder, *arguments)["tables"]
    return table


def state(folder, sizes, table="orders"):
    file = folder.root / f"{table}.json"
    partition = {"path": "city=Oslo", "small_files": 0, "rows": 5, "file_sizes_bytes": sizes}
    file.write_text(json.dumps({"table": table, "instant": "2026", "partitions": [partition]}))
    return file


def test_comments_order_and_format_are_no_difference(folder):
    path = folder.root / "tables" / "orders.yml"
    document = yaml.safe_load(path.read_text())
    path.write_text("# as ever\n" + yaml.safe_dump(document, sort_keys=True, default_flow_style=True))
    assert diff(folder)["tables"] == []
    assert run(folder, "--detailed-exitcode") == (0, run(folder)[1])
    assert "No differences: 1 table unchanged." in run(folder)[1]


def test_a_summary_counts_what_there_is_and_no_zeros(folder):
    folder.orders(description="Other words.")
    assert run(folder)[1].splitlines()[-1] == "1 metadata."
    folder.write("tables/returns.yml", ORDERS | {"name": "returns"})
    assert run(folder)[1].splitlines()[-1] == "1 create, 1 metadata."
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "second")
    folder.write("tables/returns.yml", ORDERS | {"name": "returns", "owner": "sales"})
    assert run(folder)[1].splitlines()[-1] == "1 metadata, 1 unchanged."
    for name in ("orders", "returns"):
        (folder.root / f"tables/{name}.yml").unlink()
    git(folder, "commit", "-q", "-a", "-m", "third")
    assert run(folder)[1].splitlines()[-1] == "No differences."


@pytest.mark.parametrize(
    ("change", "kind", "path", "code"),
    [
        ({"description": "Other words."}, "metadata", "description", "SC101"),
        (
            {"sizing": {"max_file_size": "2MiB", "small_file_limit": "512KiB"}},
            "policy",
            "sizing.max_file_size",
            "SC201",
        ),
        ({"columns": columns_with(extra={"type": "int"})}, "evolve", "columns.extra", "SC301"),
        ({"columns": columns_with(amount=None)}, "breaking", "columns.amount", "SC310"),
        ({"partition_by": ["items"]}, "breaking", "partition_by", "SC402"),
        ({"location": "elsewhere"}, "breaking", "location", "SC403"),
    ],
)
def test_every_class_names_the_field_and_its_place(folder, change, kind, path, code):
    folder.orders(**change)
    table = only(folder)
    assert (table["status"], table["class"]) == ("changed", kind)
    found = next(change for change in table["changes"] if change["path"] == path)
    assert found["code"] == code
    assert found["origin"].startswith("tables/orders.yml:")
    assert table["never_in_place"] == (code in ("SC402", "SC403"))
    assert table["unallowed"] == (["SC310"] if code == "SC310" else [])


def test_an_allow_entry_is_taken_into_account(folder):
    folder.orders(columns=columns_with(amount=None))
    folder.project(allow=[{"code": "SC310", "table": "orders", "reason": "moved away"}])
    table = only(folder)
    assert (table["unallowed"], table["protected"]) == ([], False)
    assert table["changes"][0]["allowed"] == "moved away"


def test_what_the_target_protects_is_blocked_whatever_is_allowed(folder):
    folder.orders(columns=columns_with(amount=None))
    targets = {"dev": PROJECT["targets"]["dev"] | {"protect": ["ord*"]}}
    allow = [{"code": "SC310", "table": "orders", "reason": "moved away"}]
    folder.project(allow=allow, targets=targets)
    assert only(folder)["protected"]
    assert "blocked: target dev protects this table" in run(folder)[1]
    folder.orders(description="Another one.")
    assert not only(folder)["protected"]


def test_tables_come_and_go(folder):
    (folder.root / "tables" / "orders.yml").rename(folder.root / "tables" / "sales.yml")
    text = (folder.root / "tables" / "sales.yml").read_text()
    (folder.root / "tables" / "sales.yml").write_text(text.replace("name: orders", "name: sales"))
    assert [(t["table"], t["status"], t["class"]) for t in diff(folder)["tables"]] == [
        ("orders", "removed", "metadata"),
        ("sales", "added", "create"),
    ]
    assert [t["table"] for t in diff(folder, "-s", "sales")["tables"]] == ["sales"]
    assert [t["table"] for t in diff(folder, "-s", "orders")["tables"]] == ["orders"]
    assert [t["table"] for t in diff(folder, "--exclude", "sales")["tables"]] == ["orders"]
    assert run(folder, "--detailed-exitcode")[0] == 3


def test_a_target_that_needs_an_environment_is_compared_without_one(folder):
    folder.orders(description="Other words.")
    assert [t["table"] for t in diff(folder, "-t", "prod")["tables"]] == ["orders"]


def test_nothing_is_looked_at(folder, monkeypatch):
    def forbidden(*_, **__):
        raise AssertionError("a store was opened")

    monkeypatch.setattr("parquetry.runtime.storage.open.open_store", forbidden)
    monkeypatch.setattr("parquetry.compiler.workspace.opened.open_store", forbidden)
    folder.orders(description="Other words.")
    assert only(folder)["estimate"] is None
    assert not (folder.root / "warehouse").exists()
    assert not (folder.root / "target").exists()


def test_a_saved_layout_gives_estimates(folder):
    sizes = [300_000] * 4 + [900_000]
    folder.orders(
        sizing={"max_file_size": "1104KiB", "small_file_limit": "256KiB"},
        clustering={"trigger": "async", "execution": {"columns": ["amount"]}},
    )
    estimate = only(folder, "--state", str(state(folder, sizes)))["estimate"]
    assert (estimate["files"], estimate["size_bytes"]) == (5, sum(sizes))
    assert (estimate["small_files_before"], estimate["small_files_after"]) == (4, 0)
    assert (estimate["rewrite_bytes"], estimate["files_after"]) == (sum(sizes), 2)
    assert (
        "debt: about 2.1 MB to cluster, files 5 -> 2" in run(folder, "--state", str(state(folder, sizes)))[1]
    )


def test_files_that_are_no_layout_are_refused(folder):
    file = state(folder, [1])
    code, text = run(folder, "--state", str(file), "--state", str(file))
    assert (code, "second layout of table orders" in text) == (2, True)
    for content in ("[]", "{}", "not json", '{"table": 3, "instant": null, "partitions": []}'):
        file.write_text(content)
        code, text = run(folder, "--state", str(file))
        assert (code, "is not a saved layout" in text) == (2, True), text


def test_a_revision_that_is_not_there_and_one_without_a_project(folder):
    code, text = run(folder, base="nothing")
    assert (code, "no git revision 'nothing'" in text) == (2, True)
    git(folder, "checkout", "-q", "--orphan", "empty")
    git(folder, "rm", "-rfq", "--cached", ".")
    git(folder, "commit", "-q", "--allow-empty", "-m", "empty")
    assert [t["status"] for t in diff(folder, base="empty")["tables"]] == ["added"]


def test_a_target_that_the_revision_did_not_have_yet(folder):
    targets = {**PROJECT["targets"], "new": {"warehouse": "./elsewhere"}}
    folder.project(targets=targets)
    assert [t["status"] for t in diff(folder, "--target", "new")["tables"]] == ["added"]


def test_a_revision_that_was_invalid_is_named_with_its_files(folder):
    folder.orders(ordering="nothing")
    git(folder, "commit", "-q", "-a", "-m", "broken")
    folder.orders()
    code, text = run(folder)
    assert (code, "main:tables/orders.yml:" in text, "PQ401" in text) == (1, True, True)


def test_each_side_takes_the_variables_that_it_declares(folder):
    project = folder.root / "parquetry.yml"
    without = project.read_text()
    project.write_text(f"{without}vars: {{days: 3}}\n")
    folder.orders(retention={"clean": {"keep_commits": "{{ var('days') }}"}})
    (change,) = only(folder, "--var", "days=4")["changes"]
    assert (change["old"], change["new"]) == (10, 4)
    git(folder, "commit", "-q", "-a", "-m", "a variable")
    project.write_text(without)
    folder.orders()
    (change,) = only(folder, "--var", "days=5")["changes"]
    assert (change["old"], change["new"]) == (5, 10)


def test_a_variable_that_neither_side_declares_is_a_mistake(folder):
    code, text = run(folder, "--var", "days=4")
    assert (code, "sets 'days', which the project does not declare" in text) == (2, True)
    project = folder.root / "parquetry.yml"
    project.write_text(f"{project.read_text()}vars: {{days: 3}}\n")
    code, text = run(folder, "--var", "days=4", "--var", "dayz=4")
    assert (code, "sets 'dayz'" in text, "did you mean 'days'?" in text) == (2, True, True)


def test_an_invalid_project_is_explained(folder):
    folder.orders(ordering="nothing")
    code, text = run(folder)
    assert (code, "PQ401" in text) == (1, True)
