from __future__ import annotations

import shutil

import pytest

from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.config import METADATA_TABLE_KEYS
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.metadata_table import (
    check_no_metadata_table,
    drop_metadata_table,
    finish_drop,
)
from parquetry.runtime.table.properties import read_table_properties
from parquetry.runtime.timeline.sidecars import METADATA_DROP_PATH
from tests.support.handmade import HandmadeTable
from tests.support.metadata_table import exists, is_declared, switch_on
from tests.support.stores import FaultyStore, Stop, Stopped


@pytest.fixture
def path(tmp_path):
    table = HandmadeTable(tmp_path / "t")
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    return tmp_path / "t"


@pytest.mark.parametrize("key", METADATA_TABLE_KEYS)
def test_a_drop_removes_both_properties_and_the_folder_and_nothing_else(path, key):
    before = read_table_properties(open_store(path))
    switch_on(path, "column_stats,files", key=key)
    files = {file for file in path.rglob("*") if ".hoodie/metadata" not in str(file)}
    drop_metadata_table(open_store(path))
    assert read_table_properties(open_store(path)) == before
    assert not exists(path)
    left = {file for file in path.rglob("*") if file.name != ".parquetry"}
    assert left == {file for file in files if file.name != ".parquetry"}
    assert (path / ".hoodie/.index_defs/index.json").exists()


def test_a_table_without_a_metadata_table_stays_as_it_is(path):
    before = sorted(path.rglob("*"))
    drop_metadata_table(open_store(path))
    assert not finish_drop(open_store(path))
    assert sorted(path.rglob("*")) == before


@pytest.mark.parametrize("stop", Stop)
def test_stopped_anywhere_a_folder_is_left_that_no_reader_uses_and_doing_it_again_finishes_it(
    path, tmp_path, stop
):
    switch_on(path)
    whole = tmp_path / "whole"
    shutil.copytree(path, whole)
    counting = FaultyStore(open_store(whole), tmp_path / "count")
    drop_metadata_table(counting)
    assert counting.operations() > 4
    for number in range(1, counting.operations() + 1):
        for finish in (drop_metadata_table, finish_drop):
            stopped = tmp_path / f"{number} {finish.__name__}"
            shutil.copytree(path, stopped)
            faulty = FaultyStore(
                open_store(stopped), tmp_path / f"{stopped.name} count", stop_at=number, stop=stop
            )
            with pytest.raises(Stopped):
                drop_metadata_table(faulty)
            store = open_store(stopped)
            if is_declared(stopped):
                assert len(store.list(".hoodie/metadata", recursive=True)) == 4
                with pytest.raises(UnsupportedTableError, match="drops it"):
                    check_no_metadata_table(open_table(store).config, uri=store.uri)
            elif exists(stopped):
                assert store.stat(METADATA_DROP_PATH) is not None
            was_declared = is_declared(stopped)
            finish(store)
            assert store.stat(METADATA_DROP_PATH) is None
            assert is_declared(stopped) is exists(stopped) is (was_declared and finish is finish_drop)


def test_a_folder_of_which_no_drop_was_begun_stays_as_hudi_may_be_building_it(path):
    switch_on(path, "")
    drop_metadata_table(open_store(path))
    assert not finish_drop(open_store(path))
    assert exists(path)


def test_a_metadata_table_that_hudi_built_again_after_an_interrupted_drop_stays(path):
    switch_on(path)
    open_store(path).put(METADATA_DROP_PATH, b"files\n")
    assert finish_drop(open_store(path))
    assert is_declared(path)
    assert exists(path)
    assert open_store(path).stat(METADATA_DROP_PATH) is None
