"""What a source of format hudi has that its table has not taken in yet."""

from __future__ import annotations

import pytest

from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.due import find_due
from parquetry.runtime.spec.table_spec import Operation, Source
from parquetry.runtime.storage.open import open_store
from tests.support.handmade import HandmadeTable, at
from tests.support.timelines import completed

pytestmark = pytest.mark.usefixtures("on_each_version")

ROWS = {"p=a": {"f-0": [("k", 1)]}}


@pytest.fixture
def other(tmp_path):
    made = HandmadeTable(tmp_path / "other")
    made.commit("1", ROWS)
    return made


@pytest.fixture
def mine(tmp_path):
    return HandmadeTable(tmp_path / "mine")


def position(table, time):
    """Where a read that has seen this write continues: the time at which it completed, in layout 2."""
    return completed(table.store, at(time)).position


def due(mine, other):
    source = Source(name="s", format="hudi", path=str(other.folder), operation=Operation.UPSERT)
    return find_due(mine.open(), source, directory="/", storage={})


def test_all_of_it_at_first(mine, other):
    batch = due(mine, other)
    assert (batch.since, batch.until) == (None, position(other, "1"))


def test_what_came_after_what_was_taken(mine, other):
    mine.commit("1", ROWS)
    ledger.record(open_store(mine.folder), at("1"), due(mine, other).consumption)
    assert due(mine, other) is None
    other.commit("2", ROWS)
    batch = due(mine, other)
    assert (batch.since, batch.until) == (position(other, "1"), position(other, "2"))


def test_a_pending_write_holds_up_what_came_after_it_unless_it_completes_behind(mine, other, on_each_version):
    other.request("2")
    other.commit("3", ROWS)
    assert due(mine, other).until == position(other, "1" if on_each_version == 6 else "3")


def test_a_pending_clustering_holds_nothing_up(mine, other):
    other.plan_clustering("2", {"p=a": ["f-0"]})
    other.commit("3", {"p=a": {"f-1": [("m", 1)]}})
    assert due(mine, other).until == position(other, "3")
