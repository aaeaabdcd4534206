"""The sample of a plan: kept beside it, used by who executes it, gone with it."""

from __future__ import annotations

import pytest

from parquetry.runtime.clustering.plan.due import schedule_clustering
from parquetry.runtime.clustering.rewrite import task
from parquetry.runtime.clustering.rewrite.kept_sample import SAMPLE_KEY
from parquetry.runtime.spark.cluster import execute
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy
from parquetry.runtime.timeline.sidecars import sample_path
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import SORTED, apply_clustering, table_in_debt
from tests.support.small_table import FAST, view_rows

CURVE = ClusteringSpec(execution=ExecutionPolicy(strategy="zorder", columns=("v", "id")))


@pytest.fixture
def table(tmp_path):
    return table_in_debt(tmp_path / "table", CURVE)


def test_rows_are_ranked_by_the_sample_of_the_plan(table, tmp_path, monkeypatch):
    before = view_rows(tmp_path / "table")
    instant = schedule_clustering(table.handle, timing=FAST).instant
    assert table.store.stat(sample_path(instant)) is not None
    monkeypatch.setattr(task, "_sample_in", lambda *_: pytest.fail("another sample was drawn"))
    result = execute(OneProcessSpark(), table.handle, instant, timing=FAST)
    assert result.instants == (instant,)
    assert view_rows(tmp_path / "table") == before


def test_without_its_sample_a_plan_can_be_carried_out(table, tmp_path):
    before = view_rows(tmp_path / "table")
    instant = schedule_clustering(table.handle, timing=FAST).instant
    table.store.delete(sample_path(instant))
    assert execute(OneProcessSpark(), table.handle, instant, timing=FAST).instants == (instant,)
    assert view_rows(tmp_path / "table") == before


def test_a_plan_that_ranks_nothing_keeps_no_sample(table):
    apply_clustering(table, SORTED)
    instant = schedule_clustering(table.handle, timing=FAST).instant
    (plan,) = [request.plan for request in table.handle.timeline().pending_clusterings.values()]
    assert SAMPLE_KEY not in plan.extra
    assert table.store.stat(sample_path(instant)) is None


def test_a_write_that_undoes_the_plan_takes_its_sample_along(table):
    instant = schedule_clustering(table.handle, timing=FAST).instant
    table.upsert({"k0": (100, "a"), "k1": (100, "b")})
    assert not table.handle.timeline().pending_clusterings
    assert table.store.stat(sample_path(instant)) is None
