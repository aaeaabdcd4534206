"""Clustering whose executor or driver is killed: the rows stay, what was published stands, nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.clustering import (
    ClusteringScope,
    ClusteringSpec,
    ExecutionPolicy,
    PlanPolicy,
)
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.fault_store import Deed, Fault
from tests.support.orphans import leftovers
from tests.support.planned_clustering import apply_clustering, groups_owed
from tests.support.small_table import SmallTable, make_table, rows_of, view_rows
from tests.support.spark_crash import AT_ONCE, DATA_FILE
from tests.support.spark_writer import SparkWriter, WriterKilled
from tests.support.standalone_spark import CLUSTER

pytestmark = [pytest.mark.spark, pytest.mark.long]
"""The short suites have such a case in test_cluster_crashes.py."""


@pytest.fixture(scope="module")
def executors(standalone, tmp_path_factory) -> Iterator[SparkWriter]:
    """A driver with two executors of one core each."""
    conf = {"spark.master": standalone, **CLUSTER}
    with SparkWriter(tmp_path_factory.mktemp("writer"), conf=conf) as writer:
        yield writer


def in_debt(path: Path, scope: ClusteringScope) -> SmallTable:
    """Two partitions of four small files each; of a partition in one order two tasks write the files."""
    table = make_table(path)
    apply_clustering(
        table,
        ClusteringSpec(
            plan=PlanPolicy(target_file_size_bytes=500, small_file_limit_bytes=400),
            execution=ExecutionPolicy(strategy="sort", columns=("v",), scope=scope),
        )
        if scope is ClusteringScope.PARTITION
        else ClusteringSpec(execution=ExecutionPolicy(strategy="sort", columns=("v",), scope=scope)),
    )
    for number in range(4):
        table.insert({f"k{n}": (n, "ab"[n % 2]) for n in range(number * 20, number * 20 + 20)})
    return table


def kill(deed: Deed, when: str, *, skip: int = 0) -> dict[str, object]:
    return Fault(deed=deed, kind="create_file", path=DATA_FILE, when=when, skip=skip).to_json()


@pytest.mark.parametrize(
    ("scope", "when", "skip"),
    [
        (ClusteringScope.PARTITION, "after", 0),
        (ClusteringScope.PARTITION, "before", 1),
        (ClusteringScope.GROUP, "before", 0),
        (ClusteringScope.GROUP, "after", 1),
    ],
)
def test_an_executor_is_killed_while_it_clusters(scope, when, skip, executors, tmp_path) -> None:
    table = in_debt(tmp_path / "t", scope)
    rows = view_rows(tmp_path / "t")
    found = executors.ask(
        "cluster",
        path=str(tmp_path / "t"),
        scratch=str(tmp_path / "scratch"),
        fault=kill(Deed.KILL_EXECUTOR, when, skip=skip),
    )
    assert found["happened"] == 1
    assert (found["groups"], found["files_before"], found["left_out"]) == (2, 8, 0)
    stands(tmp_path / "t", table, rows)


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_driver_of_a_batch_is_killed(when, tmp_path) -> None:
    """What was not published is planned again, and the files of it are gone with the next write."""
    table = in_debt(tmp_path / "t", ClusteringScope.GROUP)
    rows = view_rows(tmp_path / "t")
    with SparkWriter(tmp_path / "writer") as writer, pytest.raises(WriterKilled):
        writer.ask(
            "cluster",
            path=str(tmp_path / "t"),
            scratch=str(tmp_path / "scratch"),
            fault=kill(Deed.KILL_WRITER_AND_ALL_IT_STARTED, when, skip=1),
        )
    assert view_rows(tmp_path / "t") == rows
    assert {group.partition for group in groups_owed(table)} == {"p=a", "p=b"}
    table.insert({"next": (1, "a")})
    assert {group.partition for group in groups_owed(table)} == {"p=a", "p=b"}
    stands(tmp_path / "t", table, {**rows, "next": (1, "a")})


def stands(path: Path, table: SmallTable, rows: object) -> None:
    """The rows are there for every reader, and a clean finds no more than unfinished files."""
    assert rows_of(path) == view_rows(path) == rows
    clean(open_table(open_store(path)), timing=AT_ONCE)
    assert [left for left in leftovers(path) if not left.endswith(".tmp")] == []
    assert rows_of(path) == view_rows(path) == rows
    assert table.insert({"after": (1, "b")}).retries == 0
