"""A change of the lock that is stopped at each of its operations: writers always agree on one lock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.runtime.apply.properties import change_lock
from parquetry.runtime.commit.storage_lock import StorageLock
from parquetry.runtime.commit.table_lock import lock_method_of
from parquetry.runtime.errors import LockHeldError, UnsupportedTableError
from parquetry.runtime.spec.table_spec import Locks
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.config import LOCK_METHOD_KEY
from tests.support.hudi_storage_lock import ModelledHudiLock
from tests.support.small_table import FAST, make_table, view_rows
from tests.support.stores import FaultyStore, Stop, Stopped
from tests.support.versioned_folder import VersionedFolder

TIMING = replace(FAST, live_lock_seconds=0.2)


@pytest.fixture
def store(tmp_path):
    return VersionedFolder(str(tmp_path / "t"))


def spec_with(table, locks):
    return replace(table.handle.spec, locks=locks)


def test_a_lock_is_changed_there_and_back(store):
    table = make_table(store)
    for locks in (Locks.STORAGE, Locks.FILE, Locks.STORAGE):
        change_lock(store, spec_with(table, locks), timing=FAST)
        assert table.handle.config.locks is locks
        assert lock_method_of(table.handle).read(store) is None
    change_lock(store, spec_with(table, Locks.FILE), timing=FAST)
    assert LOCK_METHOD_KEY not in table.handle.config.raw


def test_the_change_waits_for_a_hudi_job_that_holds_the_new_lock(store):
    table = make_table(store)
    theirs = ModelledHudiLock(store)
    theirs.take()
    with pytest.raises(LockHeldError):
        change_lock(store, spec_with(table, Locks.STORAGE), timing=TIMING)
    assert table.handle.config.locks is Locks.FILE
    theirs.release()
    change_lock(store, spec_with(table, Locks.STORAGE), timing=TIMING)
    assert table.handle.config.locks is Locks.STORAGE


def test_a_local_table_gets_no_storage_lock(tmp_path):
    table = make_table(tmp_path / "t")
    with pytest.raises(UnsupportedTableError, match="storage-based lock"):
        change_lock(open_store(tmp_path / "t"), spec_with(table, Locks.STORAGE), timing=FAST)
    table.upsert({"a": (1, "x")})


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("before", Locks)
def test_a_change_that_is_stopped_leaves_one_lock_for_all(tmp_path, before, stop):
    after = Locks.FILE if before is Locks.STORAGE else Locks.STORAGE
    number = 0
    while True:
        number += 1
        store = VersionedFolder(str(tmp_path / f"{number}" / "t"))
        table = make_table(store)
        change_lock(store, spec_with(table, before), timing=FAST)
        faulty = FaultyStore(store, tmp_path / f"{number}" / "count", stop_at=number, stop=stop)
        try:
            change_lock(faulty, spec_with(table, after), timing=FAST)
        except Stopped:
            pass
        else:
            break
        assert table.handle.config.locks in (before, after)
        table.upsert({"a": (number, "x")})
        assert view_rows(store) == {"a": (number, "x")}
        change_lock(store, spec_with(table, after), timing=FAST)
        assert table.handle.config.locks is after
        table.upsert({"b": (number, "x")})
        assert lock_method_of(table.handle).read(store) is None
    assert number > 8
    assert isinstance(lock_method_of(table.handle), StorageLock) == (after is Locks.STORAGE)
