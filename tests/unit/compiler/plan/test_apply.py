"""Plans that are applied: whole, once, and only if they still fit."""

from __future__ import annotations

import dataclasses

import pytest

from parquetry.compiler.errors import BlockedPlanError
from parquetry.compiler.plan.apply import apply_plan, check_fits
from parquetry.compiler.plan.model import ChangeClass
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import create_table
from tests.support.planning import apply, plan
from tests.support.project_folder import ORDERS, ProjectFolder


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def test_a_blocked_plan_is_not_applied_in_part(folder):
    apply(folder)
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    folder.orders(partition_by=None)
    with pytest.raises(BlockedPlanError, match="orders"):
        apply_plan(plan(folder), folder.workspace())
    assert not (folder.root / "warehouse/other").exists()


def test_an_interrupted_creation_is_finished(folder):
    workspace = folder.workspace()
    spec = plan(folder).intent.actions[0].spec
    create_table(open_store(folder.table), spec, project="shop")
    (action,) = plan(folder).intent.actions
    assert action.change_class is ChangeClass.CREATE
    assert apply_plan(plan(folder), workspace).failure is None
    assert plan(folder).is_empty


def test_a_stale_plan_is_refused(folder):
    apply(folder)
    folder.orders(description="First.")
    stale = plan(folder)
    folder.orders(description="Second.")
    apply(folder)
    result = apply_plan(stale, folder.workspace())
    assert isinstance(result.failure, StalePlanError)
    assert "plan (or compile) again" in str(result.failure)
    assert read_applied(open_store(folder.table)).spec.extra.description == "Second."


def test_a_plan_is_consumed_once(folder):
    apply(folder)
    folder.orders(description="First.")
    once = plan(folder)
    assert apply_plan(once, folder.workspace()).failure is None
    assert isinstance(apply_plan(once, folder.workspace()).failure, StalePlanError)


def test_a_creation_that_lost_its_race_is_refused(folder):
    mine = plan(folder)
    folder.orders(description="Theirs.")
    apply(folder)
    assert isinstance(apply_plan(mine, folder.workspace()).failure, StalePlanError)


def test_a_plan_for_another_target_is_refused(folder):
    made = plan(folder)
    other = dataclasses.replace(made, intent=dataclasses.replace(made.intent, target="prod"))
    with pytest.raises(StalePlanError, match="target prod"):
        check_fits(other, folder.workspace())
