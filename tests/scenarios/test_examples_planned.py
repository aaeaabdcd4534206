"""Every project of the repository: after `apply` there is nothing to plan, and nothing is owed."""

from __future__ import annotations

import shutil

import pytest

from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.opened import open_workspace
from tests.support.repository import ROOT

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/parquetry.yml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_applied_example_has_an_empty_plan(example, tmp_path):
    root = tmp_path / example.name
    shutil.copytree(example, root, ignore=shutil.ignore_patterns("target"))

    def workspace():
        return open_workspace(root, target=None, variables={}, environment={})

    first = plan_workspace(workspace(), now_ms=0)
    assert {action.change_class for action in first.intent.actions} == {"create"}
    assert apply_plan(first, workspace()).failure is None
    again = plan_workspace(workspace(), now_ms=0, due=True)
    assert again.is_empty
    assert again.evidence.warnings == ()
    assert all(debt.is_paid for debt in again.evidence.due.values())


def test_there_are_examples():
    assert {path.name for path in EXAMPLES} >= {"flights", "shop"}
