"""A stranger's first hour: what README and tutorial tell to type, typed in an empty directory; and `init`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from tests.support.command_script import parquetry
from tools.tour import PAGES, Answer, Step, bash, play

pytestmark = pytest.mark.spark


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_the_page_tells_to_type_works_and_answers_as_shown(page, tmp_path):
    assert_works_as_shown(play(page, tmp_path))


def test_the_tutorial_works_and_answers_as_shown_beside_a_spark_that_runs(spark, tmp_path, monkeypatch):
    """Commands are those of the tutorial; `run` and the lines of Python use the session of the tests."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("COLUMNS", raising=False)

    def shell(command: str, entered: str | None, directory: Path) -> Answer:
        monkeypatch.chdir(directory)
        program, *words = command.split()
        if entered is not None:
            exec(compile(entered, "tutorial.md", "exec"), {})
            return Answer(output="", exit_code=0, directory=directory)
        if (program, *words) == ("parquetry", "run"):
            done = CliRunner().invoke(command_line, words)
            said = done.stdout if done.exit_code == 0 else done.output
            return Answer(output=said, exit_code=done.exit_code, directory=directory)
        if program == "parquetry" and words != ["apply"]:  # which asks, and only on a terminal
            forked = parquetry(*words, cwd=directory)
            said = forked.stdout if forked.returncode == 0 else forked.stdout + forked.stderr
            return Answer(output=said, exit_code=forked.returncode, directory=directory)
        return bash(command, entered, directory)

    (tutorial,) = (page for page in PAGES if page.name == "tutorial.md")
    assert_works_as_shown(play(tutorial, tmp_path, shell))


def assert_works_as_shown(steps: list[Step]) -> None:
    assert sum("parquetry" in step.command for step in steps) >= 6
    for step in steps:
        assert step.exit_code == 0, f"$ {step.command}\n{step.output}"
        assert step.as_shown, f"run `python -m tools.tour`:\n$ {step.command}\n{step.output}"


def test_a_new_project_plans_applies_and_runs_at_once(spark, tmp_path):
    root = str(tmp_path / "lake")
    plan = f"{root}/target/plan.json"
    answered("init", root)
    answered("validate", "-p", root)
    answered("plan", "-p", root, "--out", plan)
    answered("apply", "-p", root, plan)
    answered("run", "-p", root)
    layout = json.loads(answered("inspect", "orders", "-p", root, "--format", "json"))
    assert layout["totals"]["rows"] == 4
    answered("plan", "-p", root, "--detailed-exitcode")
    assert "nothing new" in answered("run", "-p", root)


def answered(*arguments):
    done = CliRunner().invoke(command_line, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout
