"""Tables without a spec: which are looked for, where, and at what cost."""

from __future__ import annotations

import dataclasses

import pytest

from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.opened import open_workspace
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.sidecars import IDENTITY_PATH
from tests.support.project_folder import ORDERS, ProjectFolder
from tests.support.stores import CountingStore

NOW = 1_800_000_000_000
OTHER = ORDERS | {"name": "other", "sources": []}
LISTINGS = 200


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def workspace(folder, target, **environment):
    return open_workspace(folder.root, target=target, variables={}, environment=environment)


def apply(opened):
    result = apply_plan(plan_workspace(opened, now_ms=NOW), opened)
    assert result.failure is None, result.failure


def forgotten(opened):
    actions = plan_workspace(opened, now_ms=NOW).intent.actions
    return [(action.table, action.location) for action in actions if action.code == "SC002"]


def undeclare(folder):
    """No spec of `orders` any more, and nothing remembered of where it was."""
    folder.write("tables/other.yml", OTHER)
    (folder.root / "tables/orders.yml").unlink()
    (folder.root / "target/locations.json").unlink()


def nest(folder, warehouse):
    """Targets one within the other, as three people write them."""
    folder.project(
        targets={"dev": {"warehouse": "./wh"}, "prod": {"warehouse": warehouse}, "shared": {"warehouse": "."}}
    )


@pytest.mark.parametrize("inner", ["wh/prod", "wh/lake/prod"])
def test_a_target_forgets_no_tables_of_another_whose_warehouse_is_within_its_own(folder, inner):
    nest(folder, f"./{inner}")
    apply(workspace(folder, "prod"))
    apply(workspace(folder, "dev"))
    undeclare(folder)
    assert forgotten(workspace(folder, "dev")) == [("orders", "wh/orders")]
    assert forgotten(workspace(folder, "prod")) == [("orders", f"{inner}/orders")]


@pytest.mark.parametrize("set_in", ["prod and dev", "prod"])
def test_nor_where_the_environment_says_which_that_is(folder, set_in):
    nest(folder, "{{ env_var('PARQUETRY_HOME_OF_PROD') }}/prod")
    variables = {"PARQUETRY_HOME_OF_PROD": str(folder.root / "wh/lake")}
    apply(workspace(folder, "prod", **variables))
    apply(workspace(folder, "dev"))
    undeclare(folder)
    dev = workspace(folder, "dev", **(variables if set_in == "prod and dev" else {}))
    assert forgotten(dev) == [("orders", "wh/orders")]


def test_a_warehouse_around_this_one_hides_nothing(folder):
    nest(folder, "./prod")
    folder.orders(location="deep/down/orders")
    apply(workspace(folder, "dev"))
    undeclare(folder)
    assert forgotten(workspace(folder, "dev")) == [("orders", "wh/deep/down/orders")]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (IDENTITY_PATH, b'{"id": "'),
        (IDENTITY_PATH, b'{"id": "1", "project": "shop", "spec": {"name": 7}}'),
        (".hoodie/hoodie.properties", b"\xff\xfe nothing"),
    ],
)
def test_a_damaged_table_that_nobody_declares_stops_no_plan(folder, path, content):
    apply(folder.workspace())
    undeclare(folder)
    open_store(folder.table).put(path, content)
    assert forgotten(folder.workspace()) == []
    apply(folder.workspace())


@pytest.mark.parametrize("levels", ["1", "2"])
def test_the_folders_that_are_looked_at_are_counted(folder, levels):
    apply(folder.workspace())
    undeclare(folder)
    below = folder.root / "warehouse" / ("" if levels == "1" else "plain")
    for number in range(2 * LISTINGS):
        (below / f"folder_{number:03}").mkdir(parents=True)
    stores = []

    def opened(location, options, allowed):
        store = CountingStore(open_store(location, options, allowed), folder.root / f"{len(stores)}.log")
        stores.append(store)
        return store

    counted = dataclasses.replace(folder.workspace(), open=opened)
    plan_workspace(counted, now_ms=NOW)
    requests = [call for store in stores for call in store.calls()]
    # The warehouse itself; what else there is belongs to the table that is forgotten and the declared one.
    listed = [path for kind, path in requests if kind == "list_folders" and not path.startswith(".hoodie")]
    assert len(listed) == LISTINGS + 1
    assert len(requests) < LISTINGS + 40
