"""Plans and drift of the meta columns that files fill."""

from __future__ import annotations

import pytest

from parquetry.compiler.plan.drift import drift_of_workspace
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.config import POPULATE_META_FIELDS_KEY
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.properties import update_table_properties
from tests.support.planning import apply, plan
from tests.support.project_folder import ProjectFolder


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path)
    folder.orders()
    apply(folder)
    return folder


def test_a_change_to_fewer_is_planned_with_what_is_lost_and_applied(folder):
    folder.orders(files={"meta_columns": "none"})
    (action,) = plan(folder).intent.actions
    assert (action.code, action.change_class) == ("SC263", "format")
    assert "since and until" in action.changes[0].note
    apply(folder)
    assert open_table(open_store(folder.table)).config.meta_columns is MetaColumns.NONE
    assert plan(folder).is_empty
    folder.orders(files={"meta_columns": "all"})
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC317"
    assert blocked.recipe


def test_rows_of_another_program_without_keys_are_not_taken_for_rows_with_keys(folder):
    """Its change cannot be restored: the declaration follows it."""
    store = open_store(folder.table)
    update_table_properties(store, {POPULATE_META_FIELDS_KEY: "false"}, comment="another program")
    ((drift,),) = (table.drifts for table in drift_of_workspace(folder.workspace()))
    assert (drift.code, drift.restorable) == ("DR101", False)
    assert "meta_columns: none" in drift.remedy
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC317"
    assert "declare files: {meta_columns: none}" in blocked.remedy
    folder.orders(files={"meta_columns": "none"})
    apply(folder)
    assert plan(folder).is_empty
    assert drift_of_workspace(folder.workspace())[0].drifts == ()


def test_a_program_that_fills_more_is_restored(folder):
    folder.orders(files={"meta_columns": "none"})
    apply(folder)
    store = open_store(folder.table)
    update_table_properties(store, {POPULATE_META_FIELDS_KEY: "true"}, comment="another program")
    (action,) = plan(folder).intent.actions
    assert action.code == "SC102"
    apply(folder)
    assert open_table(store).config.meta_columns is MetaColumns.NONE
