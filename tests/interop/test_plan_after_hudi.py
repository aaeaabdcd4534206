"""A plan after real Hudi has written into an applied table: there is nothing to do, and debt is still counted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from tests.interop.versions import MOSTLY_1_2_0
from tests.support.hudi_spark import HudiTable
from tests.support.project_folder import ProjectFolder, columns_with

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def rows(first, last, revision):
    ids = list(range(first, last))
    return pa.table(
        {
            "order_id": pa.array(ids, pa.int64()),
            "city": pa.array([("Oslo", "Rome")[n % 2] for n in ids]),
            "amount": pa.array([n / 2 for n in ids], pa.float64()),
            "items": pa.array(ids, pa.int32()),
            "revision": pa.array([revision] * len(ids), pa.int64()),
        }
    )


@MOSTLY_1_2_0
def test_a_foreign_upsert_changes_no_plan(tmp_path, hudi):
    folder = ProjectFolder.create(tmp_path / "shop")
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=0), workspace).failure is None
    table = HudiTable(
        path=str(folder.table), name="orders", key=("order_id",), ordering="revision", partition_by=("city",)
    )
    hudi.write(table, rows(0, 20, 1), "upsert")
    hudi.write(table, rows(10, 30, 2), "upsert")
    plan = plan_workspace(folder.workspace(), now_ms=0, due=True)
    assert plan.is_empty
    assert plan.evidence.drift == ()
    assert plan.evidence.due["orders"].small_files == 2
    folder.orders(columns=columns_with(note={"type": "string"}, items={"type": "bigint"}))
    changed = plan_workspace(folder.workspace(), now_ms=0)
    live = {change.path: change.live for change in changed.intent.actions[0].changes}
    assert live == {"columns.items.type": "int", "columns.note": None}
    assert apply_plan(changed, folder.workspace()).failure is None
    assert plan_workspace(folder.workspace(), now_ms=0).is_empty
