"""Files that somebody deleted or cut: inspect and doctor name them, with the commit that wrote them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from parquetry.cli.inspect_view import InspectView
from parquetry.compiler.checkup import check_project
from parquetry.compiler.inspection import inspect_table
from parquetry.runtime.damaged_files import damaged_files
from parquetry.runtime.personal_data import MASK
from parquetry.runtime.services.clean import clean
from parquetry.runtime.storage import open_store
from tests.support.command_script import parquetry
from tests.support.project_folder import ProjectFolder
from tests.support.small_table import COLUMNS, FAST, SmallTable, make_table


@pytest.fixture
def table(tmp_path):
    made = make_table(tmp_path / "t", keep_commits=1)
    made.upsert({"k1": (1, "a"), "k2": (2, "b")})
    made.upsert({"k1": (3, "a")})
    return made


def newest(table, partition):
    (part,) = table.handle.view(table.handle.timeline()).slices(partition)
    return part


def test_a_whole_table_has_none_whatever_was_cleaned_or_replaced(table):
    assert damaged_files(table.handle) == ()
    table.overwrite({"k1": (4, "a")})
    table.delete_partition("p=b")
    table.upsert({"k1": (5, "a")})
    assert clean(table.handle, timing=FAST).files_deleted
    assert damaged_files(table.handle) == ()


def test_a_file_that_was_deleted_is_named_with_its_commit(table):
    lost = newest(table, "p=a")
    table.store.delete(lost.path)
    (found,) = damaged_files(table.handle)
    assert (found.path, found.instant, found.size_bytes) == (lost.path, lost.instant, None)
    report = inspect_table(table.store)
    (warning,) = report.warnings
    assert lost.path in warning
    assert f"is gone, which {lost.instant} wrote" in warning
    assert json.loads(json.dumps(InspectView().json(report)))["warnings"] == [warning]


def test_a_partition_that_was_deleted_is_named(table):
    table.store.delete_folder("p=b")
    assert [file.partition for file in damaged_files(table.handle)] == ["p=b"]


def test_a_file_that_was_cut_is_named_with_both_sizes(table):
    whole = newest(table, "p=a")
    table.store.put(whole.path, table.store.read(whole.path)[:100])
    (found,) = damaged_files(table.handle)
    assert (found.size_bytes, found.written_bytes) == (100, whole.size_bytes)


def test_many_are_counted_and_personal_partitions_are_masked(tmp_path):
    table = make_table(tmp_path / "t")
    table.upsert({f"k{n}": (n, f"secret{n}") for n in range(12)})
    for n in range(12):
        table.store.delete_folder(f"p=secret{n}")
    spec = table.handle.spec
    columns = tuple(replace(column, pii=column.name == "p") for column in spec.columns)
    warnings = inspect_table(table.store, declared=spec.with_columns(columns)).warnings
    assert len(warnings) == 11
    assert warnings[-1].startswith("2 more files")
    assert not any("secret" in warning for warning in warnings)
    assert all(MASK in warning for warning in warnings[:-1])


def test_doctor_wants_a_lost_file_mended(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    columns = [{"name": column.name, "type": column.type, "nullable": column.nullable} for column in COLUMNS]
    spec = {"columns": columns, "record_key": ["id"], "partition_by": ["p"], "ordering": "v"}
    folder.orders(**spec)
    assert parquetry("apply", "--auto-approve", "-p", folder.root).returncode == 0
    table = SmallTable(store=open_store(folder.table))
    table.upsert({"k1": (1, "a")})
    assert all(check.ok for check in check_project(folder.workspace()))
    table.store.delete(newest(table, "p=a").path)
    (found,) = [check for check in check_project(folder.workspace()) if check.name == "table orders"]
    assert not found.ok
    assert "is gone" in found.found
