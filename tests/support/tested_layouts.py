"""Small tables with healthy layouts and tests of them, and the ways in which layouts decay."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parquetry.compiler.testing.execution import execute_tests
from parquetry.compiler.testing.model import Outcome, Status
from parquetry.compiler.testing.tables import TableUnderTest, declared_tests
from parquetry.project.model.table_tests import table_test
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, PlanPolicy, Trigger
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Extra, Query, RetentionPolicy, TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.applied import read_applied, write_applied
from parquetry.runtime.timeline.instant import format_instant, parse_instant_ms
from tests.support.small_table import FAST, SmallTable, make_table

FULL = 400
"""So many rows make a file that is not small."""

SIZING = SizingPolicy(max_file_size_bytes=40_000, small_file_limit_bytes=5_000)
DAY_MS = 86_400_000

DECLARED: Sequence[Mapping[str, object]] = (
    {"max_small_files": 0},
    {"max_partition_files": 12},
    {"max_skew": 1.5},
    {"file_size": {"percentile": 50, "min": "5KB", "max": "40KB"}},
    {"max_overlap_depth": {"column": "v", "value": 2}},
    {"query": {"name": "first", "max_files": 2, "max_row_groups": 2, "max_rows": 900, "max_bytes": "100KB"}},
    {"clustering_debt": {"max_bytes": 0, "max_age": "1d"}},
    {"max_commit_age": "1d"},
    {"write_amplification": {"commits": 8, "max": 8}},
    {"max_file_versions": 4},
    {"max_orphans": 0},
    {"max_drift": 0},
)
"""One test of each kind, with limits that a healthy table is far from."""


def healthy_table(path: Path) -> SmallTable:
    """An empty table, partitioned by ``p``, that is to be ordered by ``v``, with a query for its first rows."""
    table = make_table(path, keep_commits=2)
    applied = read_applied(table.store)
    policy = ClusteringSpec(
        trigger=Trigger.ASYNC,
        plan=PlanPolicy(strategy="overlap", small_file_limit_bytes=5_000, target_file_size_bytes=40_000),
        execution=ExecutionPolicy(strategy="sort", columns=("v",)),
    )
    spec = replace(
        applied.spec,
        sizing=SIZING,
        extra=Extra(clustering=policy, queries=(Query(name="first", where=f"v < {FULL}"),)),
        retention=RetentionPolicy(keep_commits=2),
    )
    write_applied(table.store, spec, number=2)
    return table


def fill(table: SmallTable, number: int, partitions: str = "ab") -> None:
    """A full file for each partition: the rows of ``number``, whose values no other number has."""
    values = range(number * FULL, (number + 1) * FULL)
    table.insert({f"{p}{value:06}": (value, p) for p in partitions for value in values})


def healthy_history(table: SmallTable, seed: int) -> None:
    """Some writes as jobs make them: full files of ever larger values, changes of many rows, cleans."""
    chance = random.Random(seed)
    for number in range(chance.randint(2, 5)):
        fill(table, number)
        if chance.random() < 0.4:
            changed = range(number * FULL, (number + 1) * FULL, 2)
            table.upsert({f"{p}{value:06}": (value, p) for p in "ab" for value in changed})
            clean(table.handle, timing=FAST)


def foreign_appends(table: SmallTable, number: int = 8) -> None:
    for value in range(number):
        table.insert({f"x{value}": (value, "a")})


def one_large_partition(table: SmallTable) -> None:
    for number in range(10, 20):
        fill(table, number, "a")


def many_files(table: SmallTable) -> None:
    for number in range(10, 23):
        fill(table, number)


def shuffled_values(table: SmallTable) -> None:
    """What a clustering had put in order comes again in no order."""
    for number in range(3):
        values = range(number, 3 * FULL, 3)
        table.insert({f"{p}again{value}": (value, p) for p in "ab" for value in values})


def upsert_storm(table: SmallTable) -> None:
    """One row of each file gets a value far away."""
    for number, value in ((0, 10**6), (1, -(10**6)), (2, 10**6)):
        table.upsert({f"a{number * FULL:06}": (value, "a"), f"a{number * FULL + 9:06}": (-value, "a")})


def single_updates(table: SmallTable) -> None:
    for number in range(10):
        table.upsert({f"a{number:06}": (number, "a")})


def single_deletes(table: SmallTable) -> None:
    for number in range(10):
        table.delete([f"a{number:06}"])


def orphan(table: SmallTable) -> None:
    handle = table.handle
    timeline = handle.timeline()
    part = handle.view(timeline).all_slices()[0]
    last = timeline.completed_writes[-1].time
    dead = format_instant(parse_instant_ms(last, handle.config.timezone) + 1, handle.config.timezone)
    folder = table.store.uri.removeprefix("file://")
    shutil.copy(f"{folder}/{part.path}", f"{folder}/{part.path.replace(part.instant, dead)}")


def outcomes(table: SmallTable, tests: Sequence[Mapping[str, object]] = DECLARED, **options) -> list[Outcome]:
    """What tests of the table come to, against its applied spec."""
    return list(execute_tests([under_test(table, tests)], run_id=None, target=None, **options).outcomes)


def under_test(
    table: SmallTable,
    tests: Sequence[Mapping[str, object]] = DECLARED,
    *,
    store: ObjectStore | None = None,
    spec: Callable[[TableSpec], TableSpec] = lambda spec: spec,
) -> TableUnderTest:
    applied = read_applied(table.store).spec
    found = tuple(test for entry in tests if (test := table_test(entry)) is not None)
    declared = spec(replace(applied, extra=replace(applied.extra, tests=found)))
    return TableUnderTest(
        name=declared.name,
        store=lambda: store or table.store,
        tests=declared_tests(found, lambda path: f"tables/small.yml:{path}"),
        declared=declared,
        extra=declared.extra,
    )


def by_status(found: Sequence[Outcome]) -> dict[str, list[str]]:
    """The names of the tests that did not pass, by how they ended."""
    names: dict[str, list[str]] = {}
    for outcome in found:
        if outcome.status is not Status.PASSED:
            names.setdefault(outcome.status, []).append(outcome.test)
    return names
