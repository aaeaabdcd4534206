"""Whoever can write to a table exchanges its folders for links while others work there."""

from __future__ import annotations

import pytest

from parquetry.runtime.errors import StorageError
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.exchanged_names import SWAPS, swapping
from tests.support.small_table import make_table, view_rows


def put_all(store: LocalStore) -> None:
    for name in ("f", "q/g"):
        store.put(f"p/{name}", b"mine")


def create(store: LocalStore) -> None:
    with store.create_file("p/f") as sink:
        sink.write(b"mine")


ACTIONS = {
    "delete": lambda store: (put_all(store), store.delete("p/f")),
    "delete_all": lambda store: (put_all(store), store.delete_all(["p/f", "p/q/g"])),
    "delete_folder": lambda store: (put_all(store), store.delete_folder("p/q")),
    "put": lambda store: store.put("p/new", b"mine"),
    "put_if_absent": lambda store: (store.delete("p/new"), store.put_if_absent("p/new", b"mine")),
    "create_file": create,
    "read": lambda store: [
        store.read("p/f"),
        store.read_range("p/q/g", 0, 6),
        store.open_input("p/f").read(),
    ],
    "list": lambda store: [info.path for info in store.list("p", recursive=True)],
    "list_all": lambda store: [info.path for info in store.list(recursive=True)],
    "list_folders": lambda store: store.list_folders("p"),
    "stat": lambda store: [store.stat("p/theirs"), store.stat("p/q/theirs")],
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("exchanged", ["t/p", "t"])
@pytest.mark.parametrize("action", ACTIONS)
def test_nothing_outside_is_changed_or_seen(tmp_path, exchanged, action):
    """The victim has files of the same names, and others; whoever works here could read and write them."""
    victim = tmp_path / "victim"
    top = victim / "p" if exchanged == "t" else victim
    for name in ("f", "theirs", "q/g", "q/theirs"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("secret")
    before = {str(path): path.stat() for path in [victim, *victim.rglob("*")]}
    store = LocalStore(str(tmp_path / "t"))
    put_all(store)
    (tmp_path / "link").symlink_to(victim)
    done = refused = 0
    with swapping(tmp_path / exchanged, tmp_path / "link") as swaps:
        while int(swaps) < SWAPS or min(done, refused) < 50:
            try:
                seen = ACTIONS[action](store)
                done += 1
            except StorageError:
                refused += 1
                continue
            assert "secret" not in str(seen)
            assert "theirs" not in str(seen)
    now = {str(path): path.stat() for path in [victim, *victim.rglob("*")]}
    assert {path: status.st_ctime_ns for path, status in now.items()} == {
        path: status.st_ctime_ns for path, status in before.items()
    }


@pytest.fixture
def table(tmp_path):
    made = make_table(tmp_path / "t")
    made.upsert({"k1": (1, "a"), "k2": (2, "b")})
    assert view_rows(tmp_path / "t") == {"k1": (1, "a"), "k2": (2, "b")}
    return tmp_path / "t"


@pytest.mark.parametrize(
    "pattern",
    [
        "p=a/*.parquet",
        "p=a",
        ".hoodie",
        ".hoodie/hoodie.properties",
        ".hoodie/*.commit",
        ".hoodie/.parquetry",
        ".hoodie/.parquetry/applied/*.json",
    ],
)
@pytest.mark.parametrize("where", ["outside", "t"])
def test_a_link_in_a_table_is_refused_with_its_place_and_a_remedy(table, tmp_path, pattern, where):
    """A link to a copy, elsewhere or in the table: nothing would be wrong with the rows."""
    place = max(table.glob(pattern))
    (tmp_path / "outside").mkdir()
    place.rename(tmp_path / where / "moved")
    place.symlink_to(tmp_path / where / "moved")
    name = place.relative_to(table)
    with pytest.raises(
        StorageError,
        match=rf"{name}' is a link, and parquetry follows no links .*; replace it by what it points",
    ):
        view_rows(table) if "applied" not in pattern else open_table(open_store(table)).applied()


def test_a_table_is_wherever_the_link_leads_that_it_is_opened_by(table, tmp_path):
    (tmp_path / "mounted").symlink_to(table)
    assert view_rows(tmp_path / "mounted") == view_rows(table) != {}
