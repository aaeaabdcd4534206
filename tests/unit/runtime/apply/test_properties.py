"""A time zone that Hudi 0.15 has dropped: inspect and doctor say so, and the remedy they name works."""

from __future__ import annotations

import json

import pytest

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.inspect import InspectView
from parquetry.compiler.reports.doctor import check_project
from parquetry.compiler.reports.inspection import inspect_table
from parquetry.runtime.apply.properties import property_warnings
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.properties import PROPERTIES_PATH
from tests.support.command_script import parquetry
from tests.support.handmade import HandmadeTable
from tests.support.project_folder import ProjectFolder

LINE = b"hoodie.table.timeline.timezone=UTC\n"


def drop_zone(store) -> None:
    content = store.read(PROPERTIES_PATH)
    assert LINE in content
    store.put(PROPERTIES_PATH, content.replace(LINE, b""))


@pytest.fixture
def table(tmp_path):
    made = HandmadeTable(tmp_path / "t")
    made.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    return made


def test_a_table_that_says_its_zone_has_no_warning(table):
    assert property_warnings(table.store) == ()
    assert inspect_table(table.store).warnings == ()


def test_inspect_shows_the_lost_zone(table):
    drop_zone(table.store)
    report = inspect_table(table.store)
    (warning,) = report.warnings
    assert "has lost hoodie.table.timeline.timezone=UTC" in warning
    assert f"warning: {warning}" in InspectView().text(report, Paint(enabled=False))
    assert json.loads(json.dumps(InspectView().json(report)))["warnings"] == [warning]


def test_the_remedies_work(table):
    before = table.store.read(PROPERTIES_PATH)
    drop_zone(table.store)
    table.store.put(PROPERTIES_PATH, table.store.read(PROPERTIES_PATH) + LINE)
    assert property_warnings(table.store) == ()
    table.store.put(PROPERTIES_PATH, before)
    drop_zone(table.store)
    table.open().config_under_lock()
    assert property_warnings(table.store) == ()


def test_a_table_of_another_maker_takes_local_time_as_it_always_did(table):
    drop_zone(table.store)
    table.store.delete_folder(".hoodie/.parquetry")
    assert property_warnings(table.store) == ()


def test_doctor_wants_the_lost_zone_mended(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    assert parquetry("apply", "--auto-approve", "-p", folder.root).returncode == 0
    store = open_store(str(folder.table))
    assert {c.name: c.ok for c in check_project(folder.workspace())}["table orders"]
    drop_zone(store)
    (found,) = [c for c in check_project(folder.workspace()) if c.name == "table orders"]
    assert not found.ok
    assert "has lost hoodie.table.timeline.timezone=UTC" in found.found
