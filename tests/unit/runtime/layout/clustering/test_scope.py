from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.scope import tasks_of
from parquetry.runtime.layout.skipping.files import parse_where
from parquetry.runtime.spec.clustering import ClusteringScope
from tests.support.clustering_model import MIB, file, policy, situation

TYPES = {"a": "bigint", "b": "bigint"}


def spec_of(scope, **changes):
    spec = policy(**changes)
    return replace(
        spec,
        plan=replace(spec.plan, max_group_size_bytes=480 * MIB, target_file_size_bytes=120 * MIB),
        execution=replace(spec.execution, scope=scope),
    )


def asking(*conditions):
    queries = tuple(parse_where(condition, types=TYPES) for condition in conditions)
    return situation(queries=queries, types=TYPES)


@pytest.mark.parametrize(
    ("scope", "budget_bytes", "groups"),
    [
        (ClusteringScope.GROUP, None, [8, 8, 8, 8]),
        (ClusteringScope.AUTO, None, [8, 8, 8, 8]),
        (ClusteringScope.PARTITION, None, [16, 16]),
        (ClusteringScope.PARTITION, 480 * MIB, [8, 8, 8, 8]),
    ],
)
def test_a_partition_in_order_is_one_group(scope, budget_bytes, groups):
    files = [file(f"{partition}{n}", 60 * MIB, partition=partition) for partition in "ab" for n in range(16)]
    owed = compute_debt(spec_of(scope), files, situation(), budget_bytes=budget_bytes)
    assert [len(group.files) for group in owed.groups] == groups
    assert {group.scope for group in owed.groups} == {
        ClusteringScope.PARTITION if scope is ClusteringScope.PARTITION else ClusteringScope.GROUP
    }


def test_rows_that_are_not_arranged_have_no_order_to_share():
    files = [file(f"f{n}", 60 * MIB) for n in range(16)]
    owed = compute_debt(spec_of(ClusteringScope.PARTITION, columns=()), files, situation())
    assert [(len(group.files), group.scope) for group in owed.groups] == [(8, ClusteringScope.GROUP)] * 2


WIDE = {"a": (0, 1000), "b": (0, 1000)}


@pytest.mark.parametrize(
    ("conditions", "bounds", "settings", "chosen"),
    [
        (["a = 7"], lambda n: WIDE, {}, ClusteringScope.PARTITION),
        (["a = 7 AND b > 1"], lambda n: WIDE, {}, ClusteringScope.PARTITION),
        (["b = 7", "a < 10"], lambda n: WIDE, {}, ClusteringScope.PARTITION),
        ([], lambda n: WIDE, {}, ClusteringScope.GROUP),
        # Nothing of it is in the order, or the order does not help: it begins with another column.
        (["length(a) = 7"], lambda n: WIDE, {}, ClusteringScope.GROUP),
        (["b = 7"], lambda n: WIDE, {"columns": ("a", "b")}, ClusteringScope.GROUP),
        (["b = 7"], lambda n: WIDE, {"columns": ("a", "b"), "order": "zorder"}, ClusteringScope.PARTITION),
        # Files lie one behind the other: groups do not cover the same.
        (["a = 7"], lambda n: {"a": (100 * n, 100 * n + 99), "b": (0, 9)}, {}, ClusteringScope.GROUP),
        (["a < 1200"], lambda n: {"a": (100 * n, 100 * n + 99), "b": (0, 9)}, {}, ClusteringScope.GROUP),
        # No file has such rows.
        (["a = 5000"], lambda n: WIDE, {}, ClusteringScope.GROUP),
        # Nobody knows what the files cover.
        (["a = 7"], lambda n: {}, {}, ClusteringScope.PARTITION),
    ],
)
def test_auto_takes_the_partition_where_a_query_would_open_files_of_several_groups(
    conditions, bounds, settings, chosen
):
    files = [file(f"f{n:02}", 60 * MIB, **bounds(n)) for n in range(16)]
    owed = compute_debt(spec_of(ClusteringScope.AUTO, **settings), files, asking(*conditions))
    sizes = [16] if chosen is ClusteringScope.PARTITION else [8, 8]
    assert [(len(group.files), group.scope) for group in owed.groups] == [(size, chosen) for size in sizes]


def test_one_group_is_one_order_as_it_is():
    files = [file(f"f{n}", 60 * MIB, **WIDE) for n in range(8)]
    owed = compute_debt(spec_of(ClusteringScope.AUTO), files, asking("a = 7"))
    assert [group.scope for group in owed.groups] == [ClusteringScope.GROUP]


def test_a_task_has_about_eight_files():
    assert [tasks_of(targets * MIB, target_bytes=MIB) for targets in (1, 15, 16, 24, 31, 80)] == [
        1,
        1,
        2,
        3,
        3,
        10,
    ]
