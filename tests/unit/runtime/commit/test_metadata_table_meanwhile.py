"""A Hudi job with its defaults creates a metadata table while something is done to a small table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.runtime.commit.lock_file import DEFAULT_LOCK_PATH
from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.services.clean import clean
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.instant import Action
from tests.support.metadata_table import switch_on
from tests.support.small_table import FAST, make_table, view_rows
from tests.support.stores import Kind, WrappedStore
from tests.support.table_changes import CASES

HARMLESS = {"delete savepoint", "policy change", "unlock"}
"""What changes no file that a metadata table lists, and no state of a write."""


class SwitchedOn(WrappedStore):
    """Creates a metadata table in the moment before the table is locked for the ``number``-th time."""

    def __init__(self, path, number=1):
        super().__init__(open_store(path))
        self.path, self.number = path, number

    def before(self, kind, path):
        if (kind, path) == (Kind.PUT_IF_ABSENT, DEFAULT_LOCK_PATH):
            self.number -= 1
            if self.number == 0:
                switch_on(self.path)


def data_files(path):
    return {file.relative_to(path) for file in path.rglob("*.parquet")}


@pytest.mark.parametrize("name", sorted(CASES.keys() - HARMLESS - {"clean"}))
def test_nothing_is_published_deleted_or_rolled_back_once_it_exists(tmp_path, name):
    table = make_table(tmp_path / "t")
    path, rows = tmp_path / "t", CASES[name].prepare(table)
    files = data_files(path)
    assert view_rows(path) == rows
    with pytest.raises(UnsupportedTableError, match="metadata table would miss rows"):
        CASES[name].act(replace(table, store=SwitchedOn(path)))
    assert view_rows(path) == rows
    assert files <= data_files(path)


def test_a_clean_deletes_no_expired_version_once_it_exists(tmp_path):
    table = make_table(tmp_path / "t", keep_versions=1, keep_commits=None)
    path, rows = tmp_path / "t", CASES["clean"].prepare(table)
    files = data_files(path)
    with pytest.raises(UnsupportedTableError, match="metadata table would miss rows"):
        clean(replace(table, store=SwitchedOn(path)).handle, timing=FAST)
    assert data_files(path) == files
    assert view_rows(path) == rows
    assert table.handle.timeline().of(Action.CLEAN) == ()


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_what_changes_no_file_that_it_lists_is_done_beside_it(tmp_path, name):
    table = make_table(tmp_path / "t")
    path, rows = tmp_path / "t", CASES[name].prepare(table)
    CASES[name].act(replace(table, store=SwitchedOn(path)))
    assert view_rows(path) == CASES[name].after(rows)
