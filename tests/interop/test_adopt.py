"""Tables of real Hudi become tables of a project: the next plan is empty, and both sides write on."""

from __future__ import annotations

import copy
import random
import shutil

import pytest

from parquetry.compiler.plan.drift import drift_of_workspace
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.spec_files.adopt import adopt
from tests.interop.test_hudi_beside_us import Beside
from tests.interop.versions import MOSTLY_0_15_0, MOSTLY_1_2_0
from tests.support import our_table
from tests.support.hudi_spark import newest_write
from tests.support.judges import assert_latest
from tests.support.project_folder import ProjectFolder
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def copied(spark, folder, made):
    """A copy of a table of real Hudi in the project's warehouse, as a table that we write to."""
    path = folder.root / "warehouse" / "made"
    shutil.copytree(made.table.path, path)
    model = copy.deepcopy(made.model)
    return our_table.OurTable(spark=spark, path=path, schema=made.schema, model=model, name="made")


def do_adopt(folder, path):
    adopt(folder.workspace(), str(path), name=None, reload=folder.workspace)
    assert_at_rest(folder)
    return folder.workspace().table("made")


def assert_at_rest(folder):
    """Nothing to apply, nothing drifted."""
    workspace = folder.workspace(select=("made",))
    assert plan_workspace(workspace, now_ms=0).is_empty
    (drift,) = drift_of_workspace(workspace)
    assert drift.is_applied
    assert drift.drifts == ()


@MOSTLY_1_2_0
def test_a_table_with_every_operation_and_type_is_adopted_and_both_write_on(
    spark, folder, hudi, all_operations, judges
):
    rnd = random.Random(71)
    ours = copied(spark, folder, all_operations)
    theirs = newest_write(str(ours.path))
    table = do_adopt(folder, ours.path)
    assert (table.spec.record_key, table.spec.ordering, table.spec.partition_by) == (
        ("id",),
        "version",
        ("region",),
    )
    assert (table.spec.hive_style, table.spec.url_encode) == (True, True)
    assert [column.name for column in table.spec.columns] == all_operations.schema.names
    beside = Beside(hudi, ours)
    ours.upsert(ours.rows(rnd, range(28, 75), 20))
    beside.upsert(ours.rows(rnd, range(60, 90, 3), 21))
    ours.delete(ours.rows(rnd, range(40, 45), 22))
    beside.cluster()
    ours.upsert(ours.rows(rnd, range(20), 23))
    assert unsound(ours.path, since=theirs) == []
    assert_latest(judges, str(ours.path), ours.model)
    assert_at_rest(folder)


@MOSTLY_0_15_0
def test_an_unpartitioned_restored_and_archived_table_is_adopted(spark, folder, hudi, archived, judges):
    rnd = random.Random(72)
    ours = copied(spark, folder, archived)
    table = do_adopt(folder, ours.path)
    assert (table.spec.record_key, table.spec.ordering, table.spec.partition_by) == (("id",), "version", ())
    ours.upsert(ours.rows(rnd, range(5, 20), 30))
    Beside(hudi, ours).upsert(ours.rows(rnd, range(15, 25), 31))
    assert_latest(judges, str(ours.path), ours.model)
    assert_at_rest(folder)
