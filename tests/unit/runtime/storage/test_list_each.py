"""Several folders of a bucket listed together: the same as one by one, with at most as many requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.storage.bucket import BucketStore, ListingPage
from parquetry.runtime.storage.model import ObjectInfo

FOLDERS = [
    "p=a",
    "p=a/q=1",
    "p=a/q=2",
    "p=ab",
    "p=b",
    "p=c",
    "p=c-",
    "p=c0",
    *(f"r={n:02}" for n in range(20)),
]
"""Some are below others, and some names begin with others."""


class PagedStore(BucketStore):
    """A bucket in memory, with few keys on a page. ``requests`` counts the pages."""

    scheme = "s3"
    spark_scheme = "s3a"

    def __init__(self, prefix: str, keys: list[str], page_keys: int) -> None:
        super().__init__("lake", prefix, {})
        self.keys = sorted(keys)
        self.page_keys = page_keys
        self.requests = 0

    def _client_errors(self) -> tuple[type[Exception], ...]:
        return (OSError,)

    def _pages(self, prefix: str, *, recursive: bool, after: str | None = None) -> Iterator[ListingPage]:
        found = [
            key
            for key in self.keys
            if key.startswith(prefix) and (after is None or key > after)
            if recursive or "/" not in key[len(prefix) :]
        ]
        pages = [found[at : at + self.page_keys] for at in range(0, len(found), self.page_keys)] or [[]]
        for number, page in enumerate(pages, start=1):
            self.requests += 1
            objects = [ObjectInfo(path=key, size_bytes=1, modified_ms=0) for key in page]
            yield ListingPage(objects=objects, folders=[], is_last=number == len(pages))

    def _unused(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    _answer = _connect = _copy = _date = _delete = _delete_all = _get = _get_part = _get_version = _unused
    _head = _put = _send_put_if = _unused


@given(
    prefix=st.sampled_from(["", "t"]),
    files=st.dictionaries(st.sampled_from([*FOLDERS, ".hoodie", "z"]), st.integers(0, 9)),
    beside=st.integers(0, 9),
    wanted=st.lists(st.sampled_from([*FOLDERS, "absent"]), unique=True),
    page_keys=st.integers(1, 30),
)
def test_folders_listed_together(
    prefix: str, files: dict[str, int], beside: int, wanted: list[str], page_keys: int
) -> None:
    root = f"{prefix}/" if prefix else ""
    keys = [f"{root}{folder}/{n}" for folder, count in files.items() for n in range(count)]
    keys += [f"{root}{folder}/" for folder in list(files)[::2]]
    keys += [f"u/{n}" for n in range(beside)] if prefix else []
    store = PagedStore(prefix, keys, page_keys)
    expected = {folder: store.list(folder) for folder in wanted}
    one_by_one, store.requests = store.requests, 0
    assert store.list_each(iter(wanted)) == expected
    assert store.requests <= one_by_one


def test_small_folders_share_one_request() -> None:
    folders = [f"p={n}" for n in range(40)]
    store = PagedStore("t", [f"t/{folder}/{n}" for folder in folders for n in range(25)], 1000)
    assert [len(objects) for objects in store.list_each(folders).values()] == [25] * 40
    assert store.requests == 1


def test_the_root_is_listed_alone() -> None:
    store = PagedStore("t", ["t/f", "t/p/g"], 1000)
    listed = store.list_each(["", "p"])
    assert {folder: [info.path for info in objects] for folder, objects in listed.items()} == {
        "": ["f"],
        "p": ["p/g"],
    }


def test_a_folder_below_another_may_end_first() -> None:
    folders = ["p=a", "p=a/q=1", "p=a/q=2"]
    store = PagedStore("t", [f"t/{folder}/{n}" for folder in folders for n in range(3)], 7)
    assert [len(objects) for objects in store.list_each(folders).values()] == [3, 3, 3]


def test_a_store_that_does_not_sort_keys() -> None:
    folders = [f"p={n}" for n in range(10)]
    store = PagedStore("t", [f"t/{folder}/{n}" for folder in folders for n in range(5)], 20)
    store.keys.reverse()
    assert {folder: len(objects) for folder, objects in store.list_each(folders).items()} == dict.fromkeys(
        folders, 5
    )
