"""A change to fewer meta columns that is stopped at each of its operations, and changes that are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.runtime.apply.properties import property_drift
from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.errors import InvalidDataError, UnsupportedTableError
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.table_spec import FilesPolicy, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.config import META_COLUMNS_KEY, POPULATE_META_FIELDS_KEY
from parquetry.runtime.table.creation import check_spec
from parquetry.runtime.table.handle import create_table, open_table
from parquetry.runtime.table.properties import update_table_properties
from tests.support.small_table import COLUMNS, FAST, make_table, view_rows
from tests.support.stores import FaultyStore, Stop, Stopped

TIMING = replace(FAST, heartbeat_seconds=0.05, dead_after_seconds=0.2)


def change_to(store, meta, *, restores=False):
    handle = open_table(store)
    spec = replace(handle.spec, files=FilesPolicy(meta_columns=meta))
    requirements = Requirements(
        exists=True, applied_number=handle.applied.number, applied_digest=handle.applied.digest
    )
    return TableChange(
        spec=spec, requirements=requirements, alters_schema=False, project="tests", restores=restores
    )


def drifts(store):
    handle = open_table(store)
    return [drift.key for drift in property_drift(handle, handle.spec)]


@pytest.mark.parametrize("meta", MetaColumns)
def test_properties_of_a_new_table_name_its_meta_columns(tmp_path, meta):
    spec = TableSpec(name="t", columns=COLUMNS, record_key=("id",), files=FilesPolicy(meta_columns=meta))
    config = create_table(open_store(tmp_path / "t"), spec, project="tests").config
    assert config.meta_columns is meta
    assert config.raw.get(POPULATE_META_FIELDS_KEY) == (None if meta is MetaColumns.ALL else "false")
    assert config.raw.get(META_COLUMNS_KEY) == ("commit_time" if meta is MetaColumns.COMMIT_TIME else None)


def test_rows_without_a_key_have_the_stored_one():
    spec = TableSpec(name="t", columns=COLUMNS, files=FilesPolicy(meta_columns=MetaColumns.NONE))
    with pytest.raises(InvalidDataError, match="declare a record_key, or meta_columns: all"):
        check_spec(spec)


def test_meta_columns_become_fewer_and_never_more(tmp_path):
    table = make_table(tmp_path / "t")
    table.upsert({"a": (1, "x")})
    for meta in (MetaColumns.COMMIT_TIME, MetaColumns.NONE):
        apply_change(table.store, change_to(table.store, meta), timing=FAST)
        handle = table.handle
        assert handle.config.meta_columns is handle.spec.files.meta_columns is meta
        assert handle.effective_spec(handle.timeline()).files.meta_columns is meta
        assert drifts(table.store) == []
    for meta in (MetaColumns.COMMIT_TIME, MetaColumns.ALL):
        with pytest.raises(UnsupportedTableError, match="declare none, or fill a new table from this one"):
            apply_change(table.store, change_to(table.store, meta), timing=FAST)
    assert table.handle.config.meta_columns is MetaColumns.NONE
    assert view_rows(tmp_path / "t") == {"a": (1, "x")}


@pytest.mark.parametrize("stop", [Stop.HALFWAY, Stop.AFTER])
def test_a_change_that_is_stopped_anywhere_is_finished_by_the_next(tmp_path, stop):
    def made(name):
        table = make_table(tmp_path / name)
        table.upsert({"a": (1, "x")})
        return table

    table = made("whole")
    counting = FaultyStore(table.store, tmp_path / "count")
    apply_change(counting, change_to(table.store, MetaColumns.NONE), timing=TIMING)
    count = counting.operations()
    assert count > 5
    for number in range(1, count + 1):
        table = made(f"stopped{number}")
        faulty = FaultyStore(table.store, tmp_path / f"counter{number}", stop_at=number, stop=stop)
        with pytest.raises(Stopped):
            apply_change(faulty, change_to(table.store, MetaColumns.NONE), timing=TIMING)
        handle = table.handle
        if handle.spec.files.meta_columns is MetaColumns.NONE:
            assert handle.config.meta_columns is MetaColumns.NONE
        restores = bool(drifts(table.store))
        apply_change(table.store, change_to(table.store, MetaColumns.NONE, restores=restores), timing=TIMING)
        handle = table.handle
        assert handle.config.meta_columns is handle.spec.files.meta_columns is MetaColumns.NONE
        assert drifts(table.store) == []
        assert view_rows(table.store) == {"a": (1, "x")}


@pytest.mark.parametrize(
    ("applied", "live", "is_restored"),
    [("none", "true", True), ("all", "false", False), ("commit_time", "true", True)],
)
def test_another_program_changes_what_is_stored(tmp_path, applied, live, is_restored):
    """Rows that it wrote with keys cost nothing; those without have none to find them by."""
    table = make_table(tmp_path / "t")
    meta = MetaColumns(applied)
    if meta is not MetaColumns.ALL:
        apply_change(table.store, change_to(table.store, meta), timing=FAST)
    update_table_properties(table.store, {POPULATE_META_FIELDS_KEY: live}, comment="another program")
    assert drifts(table.store)
    change = change_to(table.store, meta, restores=True)
    if is_restored:
        apply_change(table.store, change, timing=FAST)
        assert drifts(table.store) == []
        assert table.handle.config.meta_columns is meta
    else:
        with pytest.raises(UnsupportedTableError, match="declare none"):
            apply_change(table.store, change, timing=FAST)
        apply_change(table.store, change_to(table.store, MetaColumns.NONE, restores=True), timing=FAST)
        assert drifts(table.store) == []
