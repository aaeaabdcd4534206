"""What a plan costs in requests to the store, counted by kind."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.observation import observe
from parquetry.runtime.errors import StorageError
from parquetry.runtime.storage.open import open_store
from tests.support.project_folder import EVENTS, ORDERS, ProjectFolder, columns_with
from tests.support.small_table import FAST, SmallTable
from tests.support.stores import CountingStore, Kind, WrappedStore

NOW = 1_800_000_000_000


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    for name in ("returns", "stock"):
        folder.write(f"tables/{name}.yml", ORDERS | {"name": name, "sources": []})
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None
    return folder


def counted(folder):
    """A workspace whose stores write every request down, by table."""
    stores = {}

    def opened(location, options, allowed):
        name = location.rsplit("/", 1)[-1]
        stores[name] = CountingStore(open_store(location, options, allowed), folder.root / f"{name}.log")
        return stores[name]

    return dataclasses.replace(folder.workspace(), open=opened), stores


def test_an_unchanged_plan_costs_at_most_four_reads_and_two_listings_per_table(folder):
    workspace, stores = counted(folder)
    assert plan_workspace(workspace, now_ms=NOW).is_empty
    # The warehouse is listed once, for tables that are declared no more.
    assert stores.pop("warehouse").calls() == ((Kind.LIST_FOLDERS, ""),)
    assert set(stores) == {"orders", "returns", "stock"}
    for store in stores.values():
        # Identity, properties, applied record, newest commit; applied records and timeline.
        assert 0 < store.counts()["read"] <= 4, store.calls()
        assert 0 < store.counts()["list"] <= 2, store.calls()
        assert set(store.counts()) == {"read", "list"}


def test_a_table_without_rows_costs_five_requests_in_all(folder):
    workspace, stores = counted(folder)
    plan_workspace(workspace, now_ms=NOW)
    del stores["warehouse"]
    for store in stores.values():
        assert len(store.calls()) <= 5, store.calls()


def test_a_spec_that_is_still_the_one_the_table_was_made_with_is_read_once(folder):
    workspace = folder.workspace()
    observation = observe(workspace.store(workspace.table("orders")))
    assert observation.spec is not None
    assert observation.made_with is observation.spec


def test_five_requests_and_a_list_per_partition_are_not_exceeded(folder):
    """An unpartitioned table with rows is one partition: its plan makes six requests, however it was filled."""
    unpartitioned = {key: value for key, value in EVENTS.items() if key != "partition_by"}
    folder.write("tables/events.yml", unpartitioned)
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None
    table = SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)
    for n in range(3):
        table.insert({f"k{n}": (n, "")})
    workspace, stores = counted(folder)
    assert plan_workspace(workspace, now_ms=NOW).is_empty
    assert len(stores["events"].calls()) <= 5 + 1, stores["events"].calls()


def test_an_unchanged_plan_reads_no_data_file_and_writes_nothing(folder):
    workspace, stores = counted(folder)
    plan_workspace(workspace, now_ms=NOW)
    for store in stores.values():
        kinds = set(store.counts())
        assert kinds <= {"read", "list", "list_folders", "stat"}, store.calls()
        assert not any(".parquet" in path.removeprefix(".hoodie/.parquetry") for _, path in store.calls())


def test_a_changed_table_is_looked_at_and_the_others_are_not(folder):
    folder.orders(columns=columns_with(note={"type": "string"}))
    workspace, stores = counted(folder)
    assert [action.table for action in plan_workspace(workspace, now_ms=NOW).intent.actions] == ["orders"]
    assert sum(stores["orders"].counts().values()) > sum(stores["stock"].counts().values())
    assert set(stores["orders"].counts()) <= {"read", "list", "list_folders", "stat"}


@pytest.fixture
def changed(tmp_path):
    """Eight tables without partitions that are applied, and declared with another description since."""
    folder = ProjectFolder.create(tmp_path / "many")
    unpartitioned = {key: value for key, value in ORDERS.items() if key != "partition_by"} | {"sources": []}
    names = [f"t{number}" for number in range(8)]
    for name in names:
        folder.write(f"tables/{name}.yml", unpartitioned | {"name": name})
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None
    for name in names:
        folder.write(f"tables/{name}.yml", unpartitioned | {"name": name, "description": "Changed."})
    return folder


class MeetingStore(WrappedStore):
    """Lists the table's own folder when another table's is listed, too."""

    def __init__(self, inner, meeting):
        super().__init__(inner)
        self.meeting = meeting

    def before(self, kind, path):
        if kind is Kind.LIST and path == "":
            self.meeting.wait(timeout=20)


def test_tables_that_change_are_looked_at_side_by_side(changed):
    expected = plan_workspace(changed.workspace(), now_ms=NOW)
    meeting = threading.Barrier(8)
    workspace = dataclasses.replace(
        changed.workspace(),
        open=lambda place, options, allowed: MeetingStore(open_store(place, options, allowed), meeting),
    )
    plan = plan_workspace(workspace, now_ms=NOW)
    assert plan == expected
    assert [action.table for action in plan.intent.actions] == [f"t{number}" for number in range(8)]
    assert list(plan.evidence.figures) == [f"t{number}" for number in range(8)]


def test_every_table_that_cannot_be_looked_at_is_named(changed):
    for name in ("t2", "t6"):
        for file in (".hoodie_partition_metadata", "stray.parquet"):
            (changed.root / "warehouse" / name / file).write_bytes(b"")
    plan = plan_workspace(changed.workspace(), now_ms=NOW)
    assert [(blocked.table, blocked.code) for blocked in plan.intent.blocked] == [
        ("t2", "SC503"),
        ("t6", "SC503"),
    ]
    assert all("stray.parquet" in str(blocked.reason) for blocked in plan.intent.blocked)
    assert [action.table for action in plan.intent.actions] == ["t0", "t1", "t3", "t4", "t5", "t7"]


def test_a_failure_of_one_of_many_tables_ends_the_plan(changed):
    class Unreachable(WrappedStore):
        def before(self, kind, path):
            if kind is Kind.LIST and path == "" and self.uri.endswith("t5"):
                raise StorageError("t5 cannot be reached")

    workspace = dataclasses.replace(
        changed.workspace(),
        open=lambda place, options, allowed: Unreachable(open_store(place, options, allowed)),
    )
    with pytest.raises(StorageError, match="t5 cannot be reached"):
        plan_workspace(workspace, now_ms=NOW)


def test_a_change_of_limits_costs_at_most_a_read_for_each_of_its_newest_commits(folder):
    """What a plan of another change costs, and the commits that the replay reads; of other tables none."""
    folder.write("tables/events.yml", EVENTS)
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None
    table = SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)
    commits = 12
    for n in range(commits):
        table.insert({f"k{n}": (n, "a")})
    spent = []
    for change in ({"description": "Things that happened."}, {"sizing": {"small_file_limit": "1MiB"}}):
        folder.write("tables/events.yml", EVENTS | change)
        workspace, stores = counted(folder)
        assert not plan_workspace(workspace, now_ms=NOW).is_empty
        spent.append(stores["events"].counts())
        assert len(stores["orders"].calls()) <= 6, stores["orders"].calls()
        for store in stores.values():
            store.reset()
    other, sizing = spent
    assert sizing["read"] - other["read"] <= commits + 1
    assert {kind: sizing[kind] for kind in sizing if kind != "read"} == {
        kind: other[kind] for kind in other if kind != "read"
    }
