"""The stores of the tests do what the crash and cost tests take them to do."""

from __future__ import annotations

import pickle

import pytest

from parquetry.runtime.errors import StorageError
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.storage.paths import finished_name
from tests.support.stores import CountingStore, FaultyStore, Kind, ReadOnlyStore, Stop, Stopped


@pytest.fixture
def local(tmp_path) -> LocalStore:
    return LocalStore(str(tmp_path / "t"))


def writes(store):
    def create():
        with store.create_file("p/c") as sink:
            sink.write(b"c")

    return [
        lambda: store.put("p/a", b"a"),
        lambda: store.put_if_absent("p/b", b"b"),
        create,
        lambda: store.delete("p/a"),
        lambda: store.delete_all(["p/b", "p/c"]),
        lambda: store.delete_folder("p"),
    ]


def state(store):
    return {
        info.path: store.read(info.path)
        for info in store.list(recursive=True)
        if finished_name(info.path) is None
    }


def states(store):
    seen = [state(store)]
    for write in writes(store):
        write()
        seen.append(state(store))
    return seen


def test_counting_counts_what_copies_in_other_places_do_too(local, tmp_path):
    store = CountingStore(local, tmp_path / "log")
    store.put("p/ä\n", b"")
    pickle.loads(pickle.dumps(store)).read("p/ä\n")
    store.list("p")
    assert store.calls() == ((Kind.PUT, "p/ä\n"), (Kind.READ, "p/ä\n"), (Kind.LIST, "p"))
    assert store.counts() == {Kind.PUT: 1, Kind.READ: 1, Kind.LIST: 1}
    store.reset()
    assert store.counts() == {}


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("at", range(1, 7))
def test_a_faulty_store_stops_at_each_operation(local, tmp_path, at, stop):
    expected = states(LocalStore(str(tmp_path / "other")))
    store = FaultyStore(local, tmp_path / "count", stop_at=at, stop=stop)
    actions = writes(store)
    for action in actions[: at - 1]:
        action()
    with pytest.raises(Stopped):
        actions[at - 1]()
    reached = state(local)
    if stop is Stop.HALFWAY and at <= 3:
        assert any(finished_name(info.path) for info in local.list("p"))
    if stop is not Stop.HALFWAY or at <= 4:
        assert reached == expected[at if stop is Stop.AFTER else at - 1]
    for again in (*writes(store), lambda: store.read("p/a"), store.list, lambda: store.stat("x")):
        with pytest.raises(Stopped):
            again()
    with pytest.raises(StorageError, match="stopped"):
        store.put(".hoodie/.heartbeat/1", b"")
    assert state(local) == reached


def test_half_a_deletion_of_several_deletes_some(local, tmp_path):
    store = FaultyStore(local, tmp_path / "count", stop_at=1, stop=Stop.HALFWAY)
    for name in "abcd":
        local.put(f"p/{name}", b"")
    with pytest.raises(Stopped):
        store.delete_folder("p")
    assert sorted(state(local)) == ["p/c", "p/d"]


def test_copies_of_a_faulty_store_share_the_count(local, tmp_path):
    store = FaultyStore(local, tmp_path / "count", stop_at=3)
    store.put(".hoodie/.heartbeat/1", b"")
    store.put("a", b"")
    pickle.loads(pickle.dumps(store)).put("b", b"")
    assert store.operations() == 2
    with pytest.raises(Stopped):
        store.put("c", b"")
    with pytest.raises(Stopped):
        pickle.loads(pickle.dumps(store)).read("a")


def test_a_read_only_store_reads_and_refuses_every_write(local):
    local.put("p/a", b"a")
    store = ReadOnlyStore(local)
    for write in writes(store):
        with pytest.raises(StorageError, match="Read-only file system"):
            write()
    assert state(store) == {"p/a": b"a"}
