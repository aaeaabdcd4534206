"""A new project: valid, canonical and planned without an edit; the rest of its hour is in tests/spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.spec_files.scaffold import ScaffoldError, project_name, scaffold
from parquetry.project.validation.definitions import Kind, bundled
from parquetry.version import VERSION
from tools.command_reference import commands


def parquetry(*arguments):
    return CliRunner().invoke(command_line, [str(argument) for argument in arguments])


def test_a_new_project_needs_no_edit(tmp_path):
    root = tmp_path / "my lake"
    made = parquetry("init", root)
    assert made.exit_code == 0, made.output
    assert "project my-lake" in made.output
    for command in (("validate",), ("fmt", "--check"), ("compile",), ("plan",)):
        done = parquetry(*command, "--project", root)
        assert done.exit_code == 0, done.output
    assert "+ orders  create" in done.output
    assert "warning" not in parquetry("validate", "--project", root).output


def test_the_files_are_listed(tmp_path):
    made = json.loads(parquetry("init", tmp_path / "lake", "--format", "json").stdout)
    found = {
        str(path.relative_to(tmp_path / "lake")) for path in (tmp_path / "lake").rglob("*") if path.is_file()
    }
    assert set(made["files"]) == found
    assert made["project"] == "lake"


def test_modelines_lead_to_schemas(tmp_path):
    scaffold(tmp_path)
    for path in [
        tmp_path / "parquetry.yml",
        *tmp_path.glob("tables/*.yml"),
        *tmp_path.glob("policies/*.yml"),
    ]:
        text = path.read_text()
        mark = "# yaml-language-server: $schema="
        first = text.splitlines()[0]
        assert first.startswith(mark), path
        schema = json.loads((path.parent / first.removeprefix(mark)).read_text())
        assert schema == bundled(Kind(yaml.safe_load(text)["kind"]))


def test_the_workflow_runs_commands_that_exist(tmp_path):
    scaffold(tmp_path)
    workflow = yaml.safe_load((tmp_path / ".github/workflows/parquetry.yml").read_text())
    runs = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    ours = [run.split() for run in runs if run.startswith("parquetry ") and "--version" not in run]
    known = {name: {o for p in command.params for o in p.opts} for name, command in commands()}
    assert [words[1] for words in ours] == ["validate", "fmt", "ls", "diff"]
    for words in ours[:3]:
        assert {word for word in words if word.startswith("-")} <= known[words[1]]
        options = [word for word in words[2:] if word != "github"]
        ran = parquetry(words[1], *words[2:], "--project", tmp_path)
        assert ran.exit_code == 0, (options, ran.output)


@pytest.mark.parametrize("there", ["parquetry.yml", "tables/orders.yml", "schemas/x.json", ".gitignore"])
def test_nothing_is_replaced(tmp_path, there):
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_text("mine\n")
    with pytest.raises(ScaffoldError, match="already exists"):
        scaffold(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / there]
    assert (tmp_path / there).read_text() == "mine\n"


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ScaffoldError, match="cannot be written"):
        scaffold(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("lake", "lake"),
        ("my lake!", "my-lake"),
        ("2026", "_2026"),
        ("true", "_true"),
        ("é", "lake"),
        ("a" * 200, "a" * 128),
    ],
)
def test_names_of_directories_become_names_of_projects(tmp_path, directory, name):
    assert project_name(tmp_path / directory) == name


def workflow_of(root, file="parquetry.yml"):
    document = yaml.safe_load((root / ".github/workflows" / file).read_text())
    (job,) = document["jobs"].values()
    return document, job["steps"]


def test_the_workflow_of_a_project_in_a_folder_lies_at_the_root_of_the_repository(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    made = json.loads(parquetry("init", tmp_path / "data" / "my shop", "--format", "json").stdout)
    assert "../../.github/workflows/parquetry.yml" in made["files"]
    assert not (tmp_path / "data/my shop/.github").exists()
    document, steps = workflow_of(tmp_path)
    assert document["defaults"]["run"]["working-directory"] == "data/my shop"
    assert document["permissions"] == {"contents": "read"}
    assert steps[0]["with"] == {"fetch-depth": 0, "persist-credentials": False}
    # A second project has a workflow of its own, and nothing is replaced.
    before = (tmp_path / ".github/workflows/parquetry.yml").read_text()
    scaffold(tmp_path / "other")
    assert (tmp_path / ".github/workflows/parquetry.yml").read_text() == before
    second, _ = workflow_of(tmp_path, "parquetry-other.yml")
    assert second["defaults"]["run"]["working-directory"] == "other"
    (tmp_path / "again").mkdir()
    (tmp_path / ".github/workflows/parquetry-again.yml").write_text("mine\n")
    with pytest.raises(ScaffoldError, match=r"parquetry-again\.yml already exists"):
        scaffold(tmp_path / "again")


def test_at_the_root_and_outside_a_repository_the_workflow_needs_no_folder(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path / "repository")], check=True)
    for root in (tmp_path / "repository", tmp_path / "plain"):
        scaffold(root)
        assert "defaults" not in workflow_of(root)[0]


def test_the_steps_of_the_workflow_pass_where_they_are_run(tmp_path):
    """Each step as GitHub runs it, in its folder and by bash; pip is replaced by one that reads the file."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    scaffold(tmp_path / "lake", installs="parquetry @ git+https://example.org/parquetry@abc")
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "a project"], check=True)
    subprocess.run([*git, "update-ref", "refs/remotes/origin/main", "HEAD"], check=True)
    (tmp_path / "bin").mkdir()
    pip = tmp_path / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\ntest "$1" = install && echo "$@" >> {tmp_path}/installed\n')
    pip.chmod(0o755)
    document, steps = workflow_of(tmp_path)
    path = os.pathsep.join([str(pip.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    for step in steps:
        if "run" in step:
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
                cwd=tmp_path / document["defaults"]["run"]["working-directory"],
                env={**os.environ, "PATH": path, "GITHUB_BASE_REF": "main"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (step, done.stdout, done.stderr)
    *locked, own = (line.split() for line in (tmp_path / "installed").read_text().splitlines())
    assert [words[-1] for words in locked] == ["requirements-build.txt", "requirements.txt"]
    assert all("--require-hashes" in words for words in locked)
    assert ("--no-deps" in own, own[-1]) == (True, "requirements.in")
    assert "\nparquetry @ git+https://" in (tmp_path / "lake" / "requirements.in").read_text()


@pytest.mark.parametrize(
    ("record", "requirement"),
    [
        (None, f"parquetry=={VERSION}"),
        (
            {"url": "https://u:p@example.org/o/p.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "parquetry @ git+https://example.org/o/p.git@abc",
        ),
        (
            {"url": "ssh://git@example.org/o/p", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "parquetry @ git+https://example.org/o/p@abc",
        ),
        (
            {"url": "https://t:s@example.org/p.whl?x=1", "archive_info": {}},
            "parquetry @ https://example.org/p.whl?x=1",
        ),
        (
            {"url": "https://example.org/p.whl", "archive_info": {"hashes": {"sha256": "a" * 64}}},
            f"parquetry @ https://example.org/p.whl --hash=sha256:{'a' * 64}",
        ),
        ({"url": "file:///nowhere", "dir_info": {"editable": True}}, None),
    ],
)
def test_what_the_workflow_installs_is_what_was_installed_here(tmp_path, monkeypatch, record, requirement):
    class Installed:
        def read_text(self, name):
            return None if record is None else json.dumps(record)

    monkeypatch.setattr("parquetry.compiler.spec_files.scaffold.distribution", lambda _: Installed())
    made = scaffold(tmp_path)
    assert made.installs == requirement
    lines = [line for line in (tmp_path / "requirements.in").read_text().splitlines() if line[:1] != "#"]
    assert lines == ([] if requirement is None else [requirement])


def test_a_clone_that_was_pushed_is_installed_from_where_it_was_pushed_to(tmp_path, monkeypatch):
    clone = tmp_path / "clone of it"
    subprocess.run(["git", "init", "-q", str(clone)], check=True)
    git = ("git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    subprocess.run([*git, "remote", "add", "origin", "git@example.org:o/p.git"], check=True)

    class Installed:
        def read_text(self, name):
            return json.dumps({"url": clone.as_uri(), "dir_info": {"editable": True}})

    monkeypatch.setattr("parquetry.compiler.spec_files.scaffold.distribution", lambda _: Installed())
    assert scaffold(tmp_path / "a").installs is None
    subprocess.run([*git, "update-ref", "refs/remotes/origin/main", "HEAD"], check=True)
    commit = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert scaffold(tmp_path / "b").installs == f"parquetry @ git+https://example.org/o/p.git@{commit}"


def test_nobody_knowing_what_to_install_is_said_at_once_and_by_the_workflow(tmp_path, monkeypatch):
    monkeypatch.setattr("parquetry.compiler.spec_files.scaffold._requirement", lambda: None)
    said = parquetry("init", tmp_path).stdout
    assert "For the workflow: name in requirements.in where pip gets parquetry from." in said
    (install,) = [step["run"] for step in workflow_of(tmp_path)[1] if "--version" in step.get("run", "")]
    assert "::error::requirements.in does not name parquetry" in install
