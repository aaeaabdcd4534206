"""`apply` killed by SIGKILL at every operation on the table: it is the old one or the new one, and again finishes it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.observation import observe
from parquetry.errors import ParquetryError
from parquetry.runtime.services.clean import clean
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import open_table
from tests.support.apply_process import Applier, applier
from tests.support.metadata_table import exists, switch_on
from tests.support.orphans import leftovers
from tests.support.project_folder import EVENTS, ORDERS, ProjectFolder
from tests.support.small_table import FAST, SmallTable, rows_of, view_rows
from tests.support.stores import Stop

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
SAMPLED = 29
"""Of so many moments one is tried in the short form."""

ROWS = {"a": (1, "x"), "b": (2, "y")}
CHANGES = ("create", "evolve", "policy", "forget", "restore", "upgrade", "downgrade", "drop")


@dataclass(frozen=True)
class Shop:
    """A project with one table; ``exists`` before what is tried."""

    root: Path
    exists: bool

    @property
    def table(self) -> Path:
        return self.root / "warehouse/events"

    def apply(self) -> None:
        """Plan and apply in this process; raises what `apply` ends with."""
        workspace = ProjectFolder(self.root).workspace()
        failure = apply_plan(plan_workspace(workspace, now_ms=0), workspace).failure
        if failure is not None:
            raise failure

    def is_done(self) -> bool:
        return plan_workspace(ProjectFolder(self.root).workspace(), now_ms=0).is_empty

    def applied(self) -> tuple[int, bool]:
        """Number of the applied record, and whether it ends the project's; 0 without any."""
        record = read_applied(open_store(self.table))
        return (0, False) if record is None else (record.ref.number, record.ref.forgotten)


def changed(root: Path, kind: str) -> Shop:
    """A project in which a change of this kind waits to be applied."""
    folder = ProjectFolder.create(root)
    (root / "tables/orders.yml").unlink()
    folder.write("tables/events.yml", EVENTS)
    shop = Shop(root, exists=kind != "create")
    if not shop.exists:
        return shop
    shop.apply()
    SmallTable(open_store(shop.table)).upsert(ROWS)
    if kind == "upgrade":
        folder.write("tables/events.yml", EVENTS | {"table_version": 9})
    elif kind == "downgrade":
        folder.write("tables/events.yml", EVENTS | {"table_version": 9})
        shop.apply()
        SmallTable(open_store(shop.table)).upsert(ROWS)
        folder.write("tables/events.yml", EVENTS)
    elif kind == "evolve":
        columns = [*EVENTS["columns"], {"name": "note", "type": "string"}]
        folder.write("tables/events.yml", EVENTS | {"columns": columns})
    elif kind == "policy":
        folder.write("tables/events.yml", EVENTS | {"sizing": ORDERS["sizing"]})
    elif kind == "forget":
        (root / "tables/events.yml").unlink()
    elif kind == "drop":
        switch_on(shop.table)
    else:
        properties = shop.table / ".hoodie/hoodie.properties"
        properties.write_text(f"{properties.read_text()}hoodie.table.precombine.field=v\n")
    return shop


@pytest.fixture(scope="module")
def forking() -> Iterator[Applier]:
    with applier() as started:
        yield started


@pytest.mark.parametrize("kind", CHANGES)
def test_killed_at_some_operations(kind: str, forking: Applier, tmp_path: Path) -> None:
    first = 1 + CHANGES.index(kind)
    kill_at_each(slice(first, None, SAMPLED), kind, forking, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", CHANGES)
def test_killed_at_each_operation(kind: str, forking: Applier, tmp_path: Path) -> None:
    kill_at_each(slice(None), kind, forking, tmp_path)


def kill_at_each(chosen: slice, kind: str, forking: Applier, tmp_path: Path) -> None:
    """Kill before, halfway through and after each operation, those ``chosen``, each on a table of its own."""
    template = changed(tmp_path / "template", kind)
    whole = Shop(copied(template.root, tmp_path / "whole"), template.exists)
    assert forking.apply(whole.root, tmp_path / "count") == 0
    assert whole.is_done()
    count = (tmp_path / "count").stat().st_size
    points = [(number, stop) for number in range(1, count + 1) for stop in Stop][chosen]
    assert len(points) > 1
    for number, stop in points:
        shop = Shop(copied(template.root, tmp_path / f"killed {stop} {number}"), template.exists)
        ended = forking.apply(shop.root, shop.root / "count", number=number, stop=stop)
        place = f"killed {stop} operation {number} of {count}"
        assert ended == -signal.SIGKILL, place
        check_recovery(shop, old=template.applied(), new=whole.applied(), place=place)
        shutil.rmtree(shop.root)


def check_recovery(shop: Shop, *, old: tuple[int, bool], new: tuple[int, bool], place: str) -> None:
    assert shop.applied() in (old, new), place
    check_readers(shop)
    try:
        shop.apply()
    except ParquetryError as error:
        pytest.fail(f"{place}: apply says {error}")
    assert shop.is_done(), place
    assert shop.applied() == new, place
    check_readers(shop)
    SmallTable(open_store(shop.table)).upsert({"c": (3, "x")})
    assert rows_of(shop.table)["c"] == (3, "x"), place
    clean(open_table(open_store(shop.table)), timing=AT_ONCE)
    assert not exists(shop.table), place
    assert leftovers(shop.table) == [], place
    check_one_layout(shop.table, place)


def check_one_layout(table: Path, place: str) -> None:
    """Nothing is left of the timeline layout that the table does not have."""
    is_version_9 = open_table(open_store(table)).config.version == 9
    other = [*(table / ".hoodie").glob("[0-9]*")] if is_version_9 else [*(table / ".hoodie").glob("timeline")]
    assert other == [], place


def copied(root: Path, target: Path) -> Path:
    shutil.copytree(root, target)
    return target


def check_readers(shop: Shop) -> None:
    """hudi-rs and our own view read the rows; a table that is not finished is none to hudi-rs and to plans."""
    if shop.exists or (shop.table / ".hoodie/hoodie.properties").exists():
        assert rows_of(shop.table) == view_rows(shop.table) == (ROWS if shop.exists else {})
        return
    assert observe(open_store(shop.table)) is None
    with pytest.raises(Exception, match=r"hoodie\.properties not found"):
        rows_of(shop.table)
