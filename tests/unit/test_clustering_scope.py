from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.runtime.layout.clustering import debt
from parquetry.runtime.layout.clustering_policy import Scope
from tests.support.clustering_model import MIB, file, policy, situation


@pytest.mark.parametrize(
    ("scope", "budget_bytes", "groups"),
    [
        (Scope.GROUP, None, [8, 8, 8, 8]),
        (Scope.AUTO, None, [8, 8, 8, 8]),
        (Scope.PARTITION, None, [16, 16]),
        (Scope.PARTITION, 480 * MIB, [8, 8, 8, 8]),
    ],
)
def test_a_partition_in_order_is_one_group(scope, budget_bytes, groups):
    spec = policy()
    spec = replace(
        spec,
        plan=replace(spec.plan, max_group_size_bytes=480 * MIB, target_file_size_bytes=120 * MIB),
        execution=replace(spec.execution, scope=scope),
    )
    files = [file(f"{partition}{n}", 60 * MIB, partition=partition) for partition in "ab" for n in range(16)]
    owed = debt(spec, files, situation(), budget_bytes=budget_bytes)
    assert [len(group.files) for group in owed.groups] == groups
