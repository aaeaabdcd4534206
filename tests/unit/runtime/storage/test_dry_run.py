"""A dry run shows its own changes and leaves the store as it was; the contract of stores holds for it too."""

from __future__ import annotations

import pytest

from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.storage.dry_run import DryRunStore
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.open import open_store
from tests.support.stores import ReadOnlyStore


@pytest.fixture
def files(tmp_path):
    store = open_store(tmp_path / "t")
    for path in ("a/1", "a/2", "b/c/3", "4"):
        store.put(path, path.encode())
    return store


def test_changes_are_seen_in_the_dry_run_and_by_nobody_else(files):
    dry_run = DryRunStore(ReadOnlyStore(files))
    dry_run.put("a/1", b"new")
    dry_run.put("d/5", b"five")
    dry_run.delete_all(["a/2", "nothing"])
    dry_run.delete_folder("b", objects=())
    assert dry_run.put_if_absent("4", b"") is PutOutcome.LOST
    assert dry_run.put_if_absent("a/2", b"again") is PutOutcome.WON
    dry_run.delete("a/2")
    with pytest.raises(NotFoundError):
        dry_run.read("a/2")
    assert dry_run.stat("a/2") is None
    assert dry_run.list_folders() == ["a", "d"]
    assert [info.path for info in dry_run.list(recursive=True)] == ["4", "a/1", "d/5"]
    assert {path: len(found) for path, found in dry_run.list_each(["a", "b/c", "d"]).items()} == {
        "a": 1,
        "b/c": 0,
        "d": 1,
    }
    assert (dry_run.read("a/1"), dry_run.read("4"), dry_run.read_range("d/5", 1, 3)) == (b"new", b"4", b"iv")
    assert [info.path for info in files.list(recursive=True)] == ["4", "a/1", "a/2", "b/c/3"]
    assert files.read("a/1") == b"a/1"


def test_only_objects_of_the_other_store_count_as_deleted_and_each_with_its_size(files):
    dry_run = DryRunStore(files)
    dry_run.put("own", b"x")
    dry_run.delete_all(["own", "a/1", "a/1", "b/c/3"])
    dry_run.put("a/1", b"back")
    assert [(info.path, info.size_bytes) for info in dry_run.deleted] == [("b/c/3", 5)]


def test_hidden_objects_are_absent_and_do_not_count_as_deleted(files):
    dry_run = DryRunStore(files, hidden=["a/1"])
    assert dry_run.put_if_absent("a/1", b"lock") is PutOutcome.WON
    dry_run.delete("a/1")
    assert dry_run.deleted == ()


def test_no_method_of_the_port_reaches_the_other_store_by_inheritance():
    public = {name for name in vars(ObjectStore) if not name.startswith("_")}
    assert public <= set(vars(DryRunStore))
