"""A stranger's first hour: what README and tutorial tell to type, typed in an empty directory; and `init`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from tools.tour import PAGES, play

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.soak if page.name == "README.md" else ())
        for page in PAGES
    ],
)
def test_what_the_page_tells_to_type_works_and_answers_as_shown(page, tmp_path):
    steps = play(page, tmp_path)
    assert sum("parquetry" in step.command for step in steps) >= 6
    for step in steps:
        assert step.exit_code == 0, f"$ {step.command}\n{step.said}"
        assert step.as_shown, f"run `python -m tools.tour`:\n$ {step.command}\n{step.said}"


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
