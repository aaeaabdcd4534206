"""A new project: valid, canonical and planned without an edit; the rest of its hour is in tests/spark."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.scaffold import ScaffoldError, project_name, scaffold
from parquetry.project.schema import Kind, bundled
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
    ours = [run.split() for run in runs if run.startswith("parquetry ")]
    known = {name: {o for p in command.params for o in p.opts} for name, command in commands()}
    assert [words[1] for words in ours] == ["validate", "fmt", "ls"]
    for words in ours:
        assert {word for word in words if word.startswith("-")} <= known[words[1]]
        options = [word for word in words[2:] if word != "github"]
        ran = parquetry(words[1], *words[2:], "--project", tmp_path)
        assert ran.exit_code == 0, (options, ran.output)


@pytest.mark.parametrize("there", ["parquetry.yml", "tables/orders.yml", "schemas/x.json", ".gitignore"])
def test_nothing_is_replaced(tmp_path, there):
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_text("mine\n")
    with pytest.raises(ScaffoldError, match="is there already"):
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
