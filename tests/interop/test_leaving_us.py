"""Without `.hoodie/.parquetry` a table is a plain Hudi table: Hudi goes on, and so can we."""

from __future__ import annotations

import random
import shutil

import pytest

from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.spec_files.adopt import adopt
from tests.interop.test_hudi_beside_us import Beside
from tests.interop.versions import MOSTLY_1_2_0
from tests.support import our_table
from tests.support.judges import assert_latest
from tests.support.project_folder import ProjectFolder
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@MOSTLY_1_2_0
def test_hudi_goes_on_writing_and_reading_when_we_have_left(spark, tmp_path, hudi, judges):
    rnd = random.Random(91)
    folder = ProjectFolder.create(tmp_path / "shop")
    ours = our_table.create(
        spark, folder.root / "warehouse" / "ours", typed=("c_int", "c_price", "c_structs")
    )
    ours.upsert(ours.rows(rnd, range(40), 1))
    ours.delete(ours.rows(rnd, range(5), 2))
    ours.insert_overwrite(ours.rows(rnd, [8, 12], 3))
    shutil.rmtree(ours.path / ".hoodie" / ".parquetry")

    beside = Beside(hudi, ours)
    beside.upsert(ours.rows(rnd, range(20, 60), 4))
    beside.delete(ours.rows(rnd, range(20, 24), 5))
    beside.cluster()
    hudi.call("run_clean", str(ours.path), retain_commits=2)
    beside.upsert(ours.rows(rnd, range(50, 70), 6))
    assert_latest(judges, str(ours.path), ours.model)
    assert not (ours.path / ".hoodie" / ".parquetry").exists()

    theirs = ours.model.instants()[-1]
    ours.upsert(ours.rows(rnd, range(60, 75), 7))
    assert unsound(ours.path, since=theirs) == []
    shutil.rmtree(ours.path / ".hoodie" / ".parquetry")
    adopt(folder.workspace(), str(ours.path), name=None, reload=folder.workspace)
    assert plan_workspace(folder.workspace(select=("ours",)), now_ms=0).is_empty
    ours.upsert(ours.rows(rnd, range(70, 80), 8))
    assert_latest(judges, str(ours.path), ours.model)
