"""A stranger's first hour: what README and tutorial tell to type, typed in an empty directory; and `init`."""

from __future__ import annotations

import json

import pytest

from tests.support.command_script import parquetry
from tools.tour import PAGES, play

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_the_page_tells_to_type_works_and_answers_as_shown(page, tmp_path):
    steps = play(page, tmp_path)
    assert sum("parquetry" in step.command for step in steps) >= 6
    for step in steps:
        assert step.exit_code == 0, f"$ {step.command}\n{step.said}"
        assert step.as_shown, f"run `python -m tools.tour`:\n$ {step.command}\n{step.said}"


def test_a_new_project_plans_applies_and_runs_at_once(tmp_path):
    root = tmp_path / "lake"
    for arguments in (
        ("init", root),
        ("validate", "-p", root),
        ("plan", "-p", root, "--out", root / "target/plan.json"),
        ("apply", "-p", root, root / "target/plan.json"),
        ("run", "-p", root),
    ):
        done = parquetry(*arguments)
        assert done.returncode == 0, done.stderr
    layout = json.loads(parquetry("inspect", "orders", "-p", root, "--format", "json").stdout)
    assert layout["totals"]["rows"] == 4
    assert parquetry("plan", "-p", root, "--detailed-exitcode").returncode == 0
    again = parquetry("run", "-p", root)
    assert "nothing new" in again.stdout + again.stderr
