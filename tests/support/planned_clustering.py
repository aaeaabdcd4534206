"""Small tables that owe their clustering policy something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from parquetry.runtime.clustering.plan.survey import survey
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.model import PlannedGroup
from parquetry.runtime.layout.clustering.run_budget import NO_LIMIT, limited_to_budget
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy
from parquetry.runtime.spec.table_spec import Extra, Query
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.applied import read_applied, write_applied
from parquetry.runtime.table.handle import open_table
from tests.support.small_table import FAST, SmallTable, make_table

SORTED = ClusteringSpec(execution=ExecutionPolicy(strategy="sort", columns=("v",)))


def apply_again(table: SmallTable, **changes: Any) -> None:
    """Apply the spec that is applied with other values of its fields."""
    applied = read_applied(table.store)
    number = applied.ref.number + 1
    write_applied(table.store, replace(applied.spec, **changes), number=number)


def apply_clustering(table: SmallTable, section: ClusteringSpec) -> None:
    apply_again(table, extra=Extra(clustering=section))


def apply_queries(table: SmallTable, *queries: Query | dict[str, Any]) -> None:
    """Declare these queries and no others."""
    declared = tuple(query if isinstance(query, Query) else Query(**query) for query in queries)
    apply_again(table, extra=replace(read_applied(table.store).spec.extra, queries=declared))


def apply_key(table: SmallTable, key: str) -> None:
    """Have the files that are written from now on encrypted."""
    apply_again(table, files=replace(read_applied(table.store).spec.files, encryption_key=key))


def table_in_debt(
    path: Path | str | ObjectStore, section: ClusteringSpec = SORTED, *, inserts: int = 3, **options: int
) -> SmallTable:
    """Two partitions with ``inserts`` small files each: rows ``k<n>`` with value n."""
    table = make_table(path, **options)
    apply_clustering(table, section)
    for number in range(inserts):
        table.insert({f"k{n}": (n, "ab"[n % 2]) for n in range(number * 10, number * 10 + 10)})
    return table


def owed(table: SmallTable, store=None, *, timing=FAST):
    handle = table.handle if store is None else open_table(store)
    spec, files, situation = survey(handle, handle.timeline(), timing=timing)
    return limited_to_budget(compute_debt(spec, files, situation), NO_LIMIT, max_groups=spec.plan.max_groups)


def groups_owed(table: SmallTable) -> tuple[PlannedGroup, ...]:
    return owed(table).groups
