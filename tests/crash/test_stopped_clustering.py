"""A process that ends at any storage operation of a clustering plan leaves the table as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.runtime.clustering.plan.schedule import begin_clustering, begin_scheduled, schedule
from parquetry.runtime.services.clean import clean
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.orphans import leftovers
from tests.support.planned_clustering import groups_owed, table_in_debt
from tests.support.small_table import FAST, SmallTable, rows_of, view_rows
from tests.support.stores import FaultyStore, Stop, Stopped
from tests.support.timelines import timeline_of

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
EXPIRED = replace(FAST, plan_expires_seconds=-1.0)


def _schedule(store, table: SmallTable) -> None:
    schedule(open_table(store), groups_owed(table), timing=FAST)


def _begin(store, table: SmallTable) -> None:
    with begin_clustering(open_table(store), groups_owed(table), timing=FAST) as transaction:
        transaction.ensure_inflight()
        transaction.roll_back()


def _take_up(store, table: SmallTable) -> None:
    plan = min(timeline_of(table.store).pending_clusterings)
    with begin_scheduled(open_table(store), plan, timing=FAST) as transaction:
        transaction.ensure_inflight()
        transaction.roll_back()


def _nothing(table: SmallTable) -> None:
    pass


def _scheduled(table: SmallTable) -> None:
    schedule(table.handle, groups_owed(table), timing=FAST)


CASES: dict[str, tuple[Callable[[SmallTable], None], Callable[..., None]]] = {
    "schedule": (_nothing, _schedule),
    "begin": (_nothing, _begin),
    "take up": (_scheduled, _take_up),
}


@pytest.mark.parametrize("table_version", [6, 9])
@pytest.mark.parametrize("stop", [Stop.AFTER, pytest.param(Stop.HALFWAY, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_there_or_it_is_not_and_no_file_stays(
    name: str, stop: Stop, table_version: int, tmp_path: Path
) -> None:
    prepare, act = CASES[name]
    template = tmp_path / "template"
    prepared = table_in_debt(template, inserts=2, table_version=table_version)
    prepare(prepared)
    old = view_rows(template)
    for number in range(1, 1000):
        path = tmp_path / f"t{number}"
        shutil.copytree(template, path)
        table = SmallTable(store=open_store(path))
        store = FaultyStore(open_store(path), tmp_path / f"count{number}", stop_at=number, stop=stop)
        try:
            act(store, table)
        except Stopped:
            _survives(path, old, number)
            shutil.rmtree(path)
        else:
            assert store.operations() < number
            break
    assert number > 4


def _survives(path: Path, old: object, number: int) -> None:
    assert rows_of(path) == view_rows(path) == old, f"operation {number}"
    table = SmallTable(store=open_store(path))
    for request in timeline_of(table.store).pending_clusterings.values():
        assert request.plan is not None
        assert request.plan.groups
    assert table.insert({"next": (1, "e")}).retries == 0
    # A plan that was scheduled stands until it expires.
    table.timing = EXPIRED
    assert table.insert({"last": (1, "e")}).retries == 0
    assert rows_of(path) == view_rows(path) == {**old, "next": (1, "e"), "last": (1, "e")}
    assert {group.partition for group in groups_owed(table)} >= {"p=a", "p=b"}, f"operation {number}"
    clean(table.handle, timing=AT_ONCE)
    assert leftovers(path) == [], f"operation {number}"
