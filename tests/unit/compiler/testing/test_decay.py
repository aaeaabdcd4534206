"""Each way in which a layout decays is caught by the test that is for it, and healthy ones pass them all."""

from __future__ import annotations

import shutil

import pytest

from parquetry.compiler.testing.execution import execute_tests
from parquetry.compiler.testing.model import Status
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.properties import PROPERTIES_PATH
from tests.support.effort import in_full
from tests.support.small_table import SmallTable
from tests.support.stores import ShiftedStore
from tests.support.tested_layouts import (
    by_status,
    fill,
    foreign_appends,
    healthy_history,
    healthy_table,
    many_files,
    one_large_partition,
    orphan,
    outcomes,
    shuffled_values,
    single_deletes,
    single_updates,
    under_test,
    upsert_storm,
)


def other_property(table):
    path = f"{table.store.uri.removeprefix('file://')}/{PROPERTIES_PATH}"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("hive_style_partitioning=true", "hive_style_partitioning=false"))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    path = tmp_path_factory.mktemp("healthy") / "t"
    table = healthy_table(path)
    for number in range(3):
        fill(table, number)
    assert by_status(outcomes(table)) == {}
    return path


@pytest.fixture
def table(base, tmp_path):
    shutil.copytree(base, tmp_path / "t")
    return SmallTable(store=open_store(tmp_path / "t"))


@pytest.mark.parametrize(
    ("decay", "test"),
    [
        (foreign_appends, "max_small_files"),
        (foreign_appends, "file_size"),
        (many_files, "max_partition_files"),
        (one_large_partition, "max_skew"),
        (shuffled_values, "query_first"),
        (shuffled_values, "clustering_debt"),
        (upsert_storm, "max_overlap_depth_v"),
        (single_updates, "write_amplification"),
        (single_deletes, "write_amplification"),
        (single_updates, "max_file_versions"),
        (orphan, "max_orphans"),
        (other_property, "max_drift"),
    ],
)
def test_a_decay_is_caught_by_the_test_that_is_for_it(table, decay, test):
    decay(table)
    assert test in by_status(outcomes(table)).get(Status.FAILED, [])


def test_a_partition_that_is_late_is_caught(table):
    expected = [{"row_count": {"min": 1}, "where": "p = 'c'"}]
    found = by_status(outcomes(table, expected))
    assert found == {Status.UNMEASURED: ["row_count"]}, "nothing to measure fails the command as well"
    fill(table, 3, "c")
    assert by_status(outcomes(table, expected)) == {}


def test_a_table_that_nobody_wrote_to_is_stale(table):
    later = under_test(table, store=ShiftedStore(table.store, days=2))
    found = execute_tests([later], run_id=None, target=None)
    assert by_status(found.outcomes) == {Status.FAILED: ["max_commit_age"]}


@pytest.mark.parametrize("seed", range(200 if in_full() else 4))
def test_no_test_fails_on_a_healthy_history(tmp_path, seed):
    table = healthy_table(tmp_path / "t")
    healthy_history(table, seed)
    assert by_status(outcomes(table)) == {}
