"""What a project obeys besides specs: seen whatever it is, alike in every checkout, and never in silence."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.plan.github import render_github
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.git.revisions import RevisionError
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.codec import decode, encode
from parquetry.compiler.plan.guarding import as_merged
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.security.authority import authority_at
from parquetry.compiler.security.untrusted import base_at
from tests.support.command_script import parquetry
from tests.support.handmade_git import committed, git
from tests.support.project_folder import PROJECT, ProjectFolder

RULE = {
    "apiVersion": "parquetry/v1",
    "kind": "guardrail",
    "name": "rule",
    "expression": "true",
    "message": "no",
}


def written(path: str, text: str):
    def write(root):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)

    return write


def project(**keys):
    return lambda root: ProjectFolder(root).project(**keys)


def target(**keys):
    return project(targets={"dev": PROJECT["targets"]["dev"] | keys})


def linked(path: str, to: str):
    return lambda root: (root / path).symlink_to(to)


def executable(path: str):
    def write(root):
        written(path, "#!/bin/sh\n")(root)
        (root / path).chmod(0o755)

    return write


ALLOWED = {"code": "SC301", "table": "orders", "reason": "agreed"}
PRICES = {"currency": "EUR", "storage_gib_month": 0.02}

ADDED = {
    "environment": (project(environment=["REGION"]), "environment", "REGION"),
    "allow": (project(allow=[ALLOWED]), "setting", "allow SC301 orders"),
    "target's prices": (target(prices=PRICES), "setting", "targets.dev.prices"),
    "tests": (project(tests={"after_run": True}), "setting", "tests"),
    "guardrail": (
        lambda root: (
            (root / "guardrails").mkdir(),
            ProjectFolder(root).write("guardrails/rule.yml", RULE),
        ),
        "guardrail",
        "guardrails/rule.yml",
    ),
    "link": (linked("landing/all.csv", "/etc/passwd"), "link", "landing/all.csv"),
    "requirements": (written("requirements.txt", "parquetry\n"), "requirements", "requirements.txt"),
    "lock": (written("locks/apply.lock", "x"), "requirements", "locks/apply.lock"),
    "pyproject": (written("pyproject.toml", "x"), "requirements", "pyproject.toml"),
    "workflow": (written(".github/workflows/x.yml", "on: push\n"), "workflow", ".github/workflows/x.yml"),
    "pipeline": (written(".gitlab-ci.yml", "x: 1\n"), "workflow", ".gitlab-ci.yml"),
    "included pipeline": (
        written(".gitlab/parquetry-shop.yml", "x: 1\n"),
        "workflow",
        ".gitlab/parquetry-shop.yml",
    ),
    "owners": (written(".github/CODEOWNERS", "* @eve\n"), "workflow", ".github/CODEOWNERS"),
    "module": (written("plugins/orders.py", "x = 1\n"), "code", "plugins/orders.py"),
    "jar": (written("jars/codec.jar", "x"), "code", "jars/codec.jar"),
    "program": (executable("bin/deploy"), "code", "bin/deploy"),
    "other requirements": (written("dev-requirements.txt", "x\n"), "requirements", "dev-requirements.txt"),
    "image": (written("Dockerfile", "FROM x\n"), "requirements", "Dockerfile"),
}


@pytest.fixture(scope="module")
def applied(tmp_path_factory):
    """A project in a repository, of which everything is applied."""
    folder = ProjectFolder.create(tmp_path_factory.mktemp("authority") / "shop")
    (folder.root / ".gitignore").write_text("warehouse\ntarget\n")
    committed(folder.root)
    apply_plan(plan_workspace(folder.workspace(), now_ms=0), folder.workspace())
    return folder


@pytest.fixture
def shop(applied, tmp_path):
    return ProjectFolder(shutil.copytree(applied.root, tmp_path / "shop"))


def commit(shop, *changes) -> None:
    git(shop.root, "checkout", "-q", "-B", "change")
    for change in changes:
        change(shop.root)
    git(shop.root, "add", "-A")
    git(shop.root, "commit", "-q", "--allow-empty", "-m", "a change")


def plan(shop):
    return plan_workspace(shop.workspace(), now_ms=0)


@pytest.mark.parametrize("what", ADDED)
def test_an_entry_that_is_added_and_removed(shop, what):
    add, kind, name = ADDED[what]
    empty = plan(shop)
    commit(shop, add)
    found = plan(shop)
    (change,) = found.intent.authority
    assert (change.kind, change.name, change.old) == (kind, name, None)
    assert not found.is_empty
    assert found.intent.actions == ()
    assert found.plan_id != empty.plan_id
    assert decode(encode(found), name="plan.json").intent == found.intent
    git(shop.root, "branch", "-q", "-f", "main", "change")
    git(shop.root, "revert", "--no-edit", "HEAD")
    (gone,) = plan(shop).intent.authority
    assert (gone.kind, gone.name, gone.old, gone.new) == (kind, name, change.new, None)


def test_changed_entries_have_both_digests_and_no_values(shop):
    commit(shop, target(prices=PRICES), written("requirements.txt", "a\n"))
    before = git(shop.root, "rev-parse", "HEAD")
    commit(shop, target(prices=PRICES | {"core_hour": 0.123}), written("requirements.txt", "b\n"))
    root = shop.root
    now = authority_at(root, "HEAD", target="dev").since(authority_at(root, before, target="dev"))
    assert [(c.kind, c.name) for c in now] == [
        ("requirements", "requirements.txt"),
        ("setting", "targets.dev.prices"),
    ]
    assert all(c.old and c.new and c.old != c.new and "0.123" not in c.new for c in now)


def test_every_shape_says_each_entry(shop):
    commit(shop, project(environment=["REGION"]), linked("landing/all.csv", "/etc/passwd"))
    made = plan(shop)
    said = [
        "REGION is new (a variable whose value may be printed)",
        "landing/all.csv is new (a link): (none) -> /etc/passwd",
    ]
    text = PlanView().text(made, Paint(enabled=False))
    assert all(f"+ {line}" in text for line in said)
    assert "No changes" not in text
    assert "2 changes of authority" in text
    comment = render_markdown(made, max_bytes=60_000)
    page, annotations = render_html(made), render_github(made)
    for shown in (comment, page, annotations):
        assert "REGION is new" in shown
        assert "landing/all.csv is new" in shown.replace("\\", "")
        assert "2 changes of authority" in shown
        assert "no changes" not in shown.lower()


def test_names_of_files_forge_no_line(shop):
    commit(shop, written("a\n+ b.py", "x = 1\n"))
    made = plan(shop)
    lines = PlanView().text(made, Paint(enabled=False)).splitlines()
    assert not any(line.strip().startswith("+ b.py") for line in lines)
    comment = render_markdown(made, max_bytes=60_000)
    assert not any(line.startswith("+ b.py") for line in comment.splitlines())


def test_names_that_are_no_text_hide_nothing(shop):
    names = [b"\xff.py", b"\xfe.py", b"a\tb.py"]

    def write(root):
        for name in names:
            Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text("x = 1\n")
        os.symlink(b"/\xff", os.fsencode(root) + b"/link")

    commit(shop, write)
    before = plan(shop)
    assert [c.name for c in before.intent.authority if c.kind == "code"] == [
        "b'\\xfe.py'",
        "b'\\xff.py'",
        "b'a\\tb.py'",
    ]
    assert decode(encode(before), name="plan.json").plan_id == before.plan_id
    for name in names:
        Path(os.fsdecode(os.fsencode(shop.root) + b"/" + name)).write_text(f"x = {len(name)}\n")
        commit(shop)
        after = plan(shop)
        assert after.plan_id != before.plan_id
        before = after


def test_exit_code_says_that_authority_changed(shop):
    words = ("plan", "--detailed-exitcode", "-p", str(shop.root))
    assert parquetry(*words).returncode == 0
    commit(shop, project(environment=["REGION"]))
    done = parquetry(*words)
    assert done.returncode == 3, done.stderr


def test_what_is_not_committed_is_warned_of_and_counts_when_it_is_reviewed(shop):
    commit(shop)
    shop.project(environment=["REGION"])
    made = plan(shop)
    assert (made.intent.authority, made.evidence.uncommitted) == ((), ("parquetry.yml",))
    untrusted = base_at(shop.root, "main", target=None, variables={}, environment={})
    branch = shop.workspace(base=untrusted)
    for found in (plan_workspace(branch, now_ms=0), as_merged(made, shop.workspace())):
        assert [c.name for c in found.intent.authority] == ["REGION"]


def test_other_files_are_no_authority(shop):
    commit(shop, written("README.md", "words"), written("docs/a.md", "words"), written("landing/a.csv", "1"))
    assert plan(shop).is_empty


def test_a_branch_that_lies_behind_changes_only_what_it_changed(shop):
    """What others merged meanwhile is no change of the branch, which does not take it back."""
    commit(shop, project(environment=["REGION"]))
    git(shop.root, "checkout", "-q", "main")
    written("requirements.txt", "a\n")(shop.root)
    git(shop.root, "add", "-A")
    git(shop.root, "commit", "-q", "-m", "meanwhile")
    git(shop.root, "checkout", "-q", "change")
    ours = plan(shop)
    assert [c.name for c in ours.intent.authority] == ["REGION"]
    git(shop.root, "checkout", "-q", "main")
    git(shop.root, "merge", "-q", "--no-ff", "-m", "merged", "change")
    merged = plan(shop)
    assert merged.is_empty
    assert as_merged(merged, shop.workspace()).plan_id == ours.plan_id


def test_the_id_of_a_branch_is_that_of_its_merge(shop):
    """`apply --approved` takes it there, and no other one."""
    commit(shop, written("requirements.txt", "a\n"))
    shop.orders(description="Other words.")
    commit(shop)
    ours = plan(shop)
    git(shop.root, "checkout", "-q", "main")
    git(shop.root, "merge", "-q", "--no-ff", "-m", "merged", "change")
    other = "sha256:" + "0" * 64
    words = ("apply", "-p", str(shop.root), "--approved")
    assert parquetry(*words, other).returncode == 4
    done = parquetry(*words, ours.plan_id)
    assert done.returncode == 0, done.stderr
    assert plan(shop).is_empty


def test_a_project_in_a_folder_has_the_files_of_its_forge_and_what_it_installs(tmp_path):
    folder = ProjectFolder.create(tmp_path / "repository" / "lake" / "shop")
    root = tmp_path / "repository"
    committed(root)
    git(root, "checkout", "-q", "-b", "change")
    for path in (
        ".github/workflows/a.yml",
        "lake/requirements.txt",
        "lake/shop/a.py",
        "lake/shop/requirements.txt",
        "other/requirements.txt",
        "other/b.py",
    ):
        written(path, "x")(root)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "a change")
    found = plan(folder).intent.authority
    assert [c.name for c in found] == [
        "a.py",
        "/lake/requirements.txt",
        "requirements.txt",
        "/.github/workflows/a.yml",
    ]


def test_a_variable_changes_the_setting_that_is_made_of_it(shop):
    key = {"applied": {"signing_key": "env:{{ var('key') }}"}}
    commit(shop, target(**key), project(targets={"dev": PROJECT["targets"]["dev"] | key}, vars={"key": "A"}))
    git(shop.root, "branch", "-q", "-f", "main", "change")
    commit(shop, project(targets={"dev": PROJECT["targets"]["dev"] | key}, vars={"key": "B"}))
    root = shop.root
    before, now = (authority_at(root, revision, target="dev") for revision in ("main", "change"))
    (change,) = now.since(before)
    assert (change.kind, change.name) == ("setting", "targets.dev.applied")


def test_without_a_branch_to_compare_with_a_clone_says_so(shop, tmp_path, caplog):
    git(shop.root, "branch", "-q", "-m", "main", "trunk")
    assert plan(shop).intent.authority == (), "the only branch is the one that others merge into"
    assert caplog.text == ""
    git(tmp_path, "clone", "-q", f"file://{shop.root}", "clone")
    git(tmp_path / "clone", "remote", "set-head", "origin", "--delete")
    made = plan(ProjectFolder(tmp_path / "clone"))
    assert (made.intent.authority, made.evidence.base_commit) == ((), None)
    assert "git remote set-head origin --auto" in caplog.text


def test_a_shallow_clone_takes_nothing_of_others_for_a_change_of_the_branch(shop, tmp_path, caplog):
    commit(shop)
    git(shop.root, "checkout", "-q", "main")
    written(".github/workflows/x.yml", "on: push\n")(shop.root)
    git(shop.root, "add", "-A")
    git(shop.root, "commit", "-q", "-m", "others")
    git(tmp_path, "clone", "-q", "--depth", "1", "--no-single-branch", f"file://{shop.root}", "clone")
    git(tmp_path / "clone", "checkout", "-q", "change")
    assert plan(ProjectFolder(tmp_path / "clone")).intent.authority == ()
    assert "fetch the whole history" in caplog.text


def test_outside_a_repository_nobody_knows(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    made = plan(folder)
    assert made.intent.authority == ()
    assert "authority" not in json.loads(encode(made))["intent"]


def test_a_clone_without_the_commit_before_cannot_say_what_a_merge_changed(shop, tmp_path):
    git(shop.root, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{shop.root}", "clone")
    clone = ProjectFolder(tmp_path / "clone").workspace()
    with pytest.raises(RevisionError, match="fetch the whole history"):
        as_merged(plan_workspace(clone, now_ms=0), clone)
