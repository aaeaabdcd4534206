"""A table whose clustering debt was paid owes nothing, and every byte in scope is of the applied layout."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from parquetry.runtime.clustering.plan.due import due_clustering
from parquetry.runtime.clustering.plan.survey import survey
from parquetry.runtime.layout.clustering.strategies import BUILT_IN
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.clustering import clustering_of, table_of_small_files
from tests.support.judges import HudiRs, assert_latest
from tests.support.our_table import OurReader
from tests.support.planned_clustering import apply_clustering

pytestmark = pytest.mark.spark


def cluster_until_nothing_is_due(ours):
    """The bytes rewritten by each run until nothing is due."""
    spent = []
    while due_clustering(handle_of(ours)).debt.groups:
        result = ours.table.cluster(ours.spark)
        for instant in result.instants:
            ours.model.unchanged(instant)
        spent.append(result.bytes_before)
        assert len(spent) < 5
    return spent


def picked_by(strategy, section):
    return replace(section, plan=replace(section.plan, strategy=strategy))


def handle_of(ours):
    return open_table(open_store(str(ours.path)))


def files_of(ours):
    handle = handle_of(ours)
    return survey(handle, handle.timeline())[1]


@pytest.mark.parametrize("strategy", BUILT_IN)
def test_other_columns_reach_every_byte_and_then_nothing_is_due(spark, tmp_path, strategy):
    first = picked_by(strategy, clustering_of("c_int"))
    ours = table_of_small_files(spark, tmp_path / "table", first)
    assert len(cluster_until_nothing_is_due(ours)) == 1
    assert {file.digest for file in files_of(ours)} == {first.execution.digest}

    second = picked_by(strategy, clustering_of("c_string", "c_int", strategy="hilbert"))
    apply_clustering(SimpleNamespace(store=handle_of(ours).store), second)
    total = sum(file.size_bytes for file in files_of(ours))
    assert cluster_until_nothing_is_due(ours) == [total]
    assert {file.digest for file in files_of(ours)} == {second.execution.digest}
    assert ours.table.cluster(spark).instants == ()

    # Rows that arrive late, in one partition: only their files are due, and the file they lie beside stays.
    before = {file.path for file in files_of(ours)}
    ours.insert(ours.rows(random.Random(3), range(901, 961, 4), 1))
    late = {file.path for file in files_of(ours)} - before
    due = {file.path for group in due_clustering(handle_of(ours)).debt.groups for file in group.files}
    assert late <= due
    assert (due == late) is (strategy != "size")
    cluster_until_nothing_is_due(ours)
    assert {file.digest for file in files_of(ours)} == {second.execution.digest}
    assert_latest([HudiRs(), OurReader(spark)], str(ours.path), ours.model)
