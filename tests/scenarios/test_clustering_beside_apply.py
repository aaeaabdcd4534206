"""A clustering and an apply at once: what is dropped stays dropped, what is added costs no run."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.spark import cluster
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.schema import live_columns
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import groups_owed, table_in_debt
from tests.support.small_table import COLUMNS, FAST, view_rows

PRUNING = ClusteringSpec(execution=ExecutionPolicy(strategy="sort", columns=("id",), then=("prune",)))
SECRET = Column(name="secret", type="struct<a:int,b:int>")


def apply_columns(table, columns):
    applied = read_applied(table.store)
    apply_change(
        table.store,
        TableChange(
            spec=applied.spec.with_columns(tuple(columns)),
            requirements=Requirements(
                exists=True, applied_number=applied.ref.number, applied_digest=applied.ref.digest
            ),
            alters_schema=True,
            project="tests",
        ),
        timing=FAST,
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table"


@pytest.fixture
def table(path):
    return table_in_debt(path, PRUNING)


def cluster_beside(table, monkeypatch, moment, body):
    """Cluster by a handle opened before, and run the body once at that moment of it."""
    opened, bodies = table.handle, [body]

    def run_once():
        if bodies:
            bodies.pop()()

    def behind(owner, name):
        real = getattr(owner, name)

        def done(*arguments):
            result = real(*arguments)
            run_once()
            return result

        monkeypatch.setattr(owner, name, done)

    match moment:
        case "before the plan":
            run_once()
        case "behind the spec":
            behind(TableHandle, "reopen")
        case "behind the tasks":
            behind(cluster, "_rewrite")
    result = cluster.cluster(OneProcessSpark(), opened, timing=FAST)
    monkeypatch.undo()
    assert not bodies
    return result


def columns_on_disk(table, path):
    handle = table.handle
    slices = handle.view(handle.timeline()).all_slices()
    return {name for part in slices for name in pq.read_schema(path / part.path).names[5:]}


def live_names(table):
    handle = table.handle
    return {column.name for column in live_columns(table.store, handle.timeline(), handle.config)}


MOMENTS = ["before the plan", "behind the spec", "behind the tasks"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_column_that_is_dropped_beside_a_clustering_is_pruned(table, path, monkeypatch, moment):
    kept = {column.name for column in COLUMNS} - {"v"}
    result = cluster_beside(
        table,
        monkeypatch,
        moment,
        lambda: apply_columns(table, (c for c in COLUMNS if c.name != "v")),
    )
    assert bool(result.instants) == (moment == "before the plan")
    assert live_names(table) == kept
    cluster.cluster(OneProcessSpark(), table.handle, timing=FAST)
    assert columns_on_disk(table, path) == kept
    assert groups_owed(table) == ()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_column_that_is_added_beside_a_clustering_does_not_undo_it(table, path, monkeypatch, moment):
    before = view_rows(path)
    result = cluster_beside(table, monkeypatch, moment, lambda: apply_columns(table, (*COLUMNS, SECRET)))
    assert len(result.instants) == 1
    assert live_names(table) == {*(column.name for column in COLUMNS), "secret"}
    assert view_rows(path) == before


def test_a_field_that_is_dropped_beside_a_clustering_undoes_it(table, monkeypatch):
    apply_columns(table, (*COLUMNS, SECRET))
    narrower = Column(name="secret", type="struct<a:int>")
    result = cluster_beside(
        table, monkeypatch, "behind the tasks", lambda: apply_columns(table, (*COLUMNS, narrower))
    )
    assert result.instants == ()
    assert "was applied meanwhile" in result.left_out[0].reason


@pytest.mark.parametrize("within", ["{}", "array<{}>", "map<string,{}>", "struct<deep:array<{}>>"])
def test_a_field_that_is_dropped_within_a_column_is_pruned(table, path, within):
    def secret(fields):
        return Column(name="secret", type=within.format(f"struct<{fields}>"))

    def kinds_on_disk():
        slices = table.handle.view(table.handle.timeline()).all_slices()
        return {str(pq.read_schema(path / part.path).field("secret").type) for part in slices}

    apply_columns(table, (*COLUMNS, secret("name:string,email:string")))
    cluster.cluster(OneProcessSpark(), table.handle, timing=FAST)
    (kind,) = kinds_on_disk()
    assert "email" in kind
    assert groups_owed(table) == ()
    apply_columns(table, (*COLUMNS, secret("name:string")))
    assert len(groups_owed(table)) == 2
    cluster.cluster(OneProcessSpark(), table.handle, timing=FAST)
    assert kinds_on_disk() == {kind.replace(", email: string", "")}
    assert groups_owed(table) == ()
