"""A clean on a disk that has no block left: it frees space, so it has to find room for its own files."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.message import Value
from parquetry.runtime.errors import StorageError
from parquetry.runtime.services.clean import clean
from parquetry.runtime.storage.model import Objects, ObjectStore, PutOutcome
from parquetry.runtime.storage.os_errors import storage_error
from tests.support.orphans import leftovers
from tests.support.small_table import FAST, Rows, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import FaultyStore, Stopped, WrappedStore

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
BLOCK = 4096


class FullDisk(WrappedStore):
    """``free`` blocks are left: what is put takes some, what is deleted gives them back. It may fail ``raw``."""

    def __init__(self, inner: ObjectStore, free: int = 0, *, raw: bool = False) -> None:
        super().__init__(inner)
        self.free = free
        self.raw = raw

    def put(self, path: str, data: bytes) -> None:
        self._take(path, data)
        self.inner.put(path, data)

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        self._take(path, data)
        return self.inner.put_if_absent(path, data, nonce=nonce)

    def delete(self, path: str) -> None:
        self._give_back([path])
        self.inner.delete(path)

    def delete_all(self, paths: Iterable[str]) -> None:
        listed = [*paths]
        self._give_back(listed)
        self.inner.delete_all(listed)

    def delete_folder(self, prefix: str, *, objects: Iterable[str] | None = None) -> None:
        self._give_back(info.path for info in self.inner.list(prefix, recursive=True))
        self.inner.delete_folder(prefix, objects=objects)

    def _take(self, path: str, data: bytes) -> None:
        needed = 0 if self.inner.stat(path) else max(1, -(-len(data) // BLOCK))
        if needed > self.free:
            error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise error if self.raw else storage_error("write", Value.uri(f"{self.uri}/{path}"), error)
        self.free -= needed

    def _give_back(self, paths: Iterable[str]) -> None:
        found = (self.inner.stat(path) for path in paths)
        self.free += sum(max(1, -(-info.size_bytes // BLOCK)) for info in found if info)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def table(path: Path) -> SmallTable:
    """Twenty versions of a file of which two are to stay."""
    table = make_table(path, keep_commits=2)
    for number in range(20):
        table.upsert({"k": (number, "a")})
    return table


def on_a_full_disk(table: SmallTable, *, raw: bool = False) -> tuple[SmallTable, FullDisk]:
    disk = FullDisk(table.store, raw=raw)
    return replace(table, store=disk), disk


def check(path: Path, expected: Rows) -> None:
    assert rows_of(path) == view_rows(path) == expected


@pytest.mark.parametrize("raw", [False, True])
def test_a_clean_frees_what_has_expired(table: SmallTable, path: Path, raw: bool) -> None:
    full, disk = on_a_full_disk(table, raw=raw)
    with pytest.raises((StorageError, OSError)):
        full.upsert({"k": (99, "a")})
    assert clean(full.handle, timing=FAST).files_deleted == 17
    assert disk.free > 17
    check(path, {"k": (19, "a")})
    full.upsert({"k": (20, "a"), "l": (1, "b")})
    check(path, {"k": (20, "a"), "l": (1, "b")})
    clean(full.handle, timing=AT_ONCE)
    assert leftovers(path) == []


def test_what_a_dead_writer_left_is_rolled_back(table: SmallTable, path: Path) -> None:
    doomed = FaultyStore(table.store, path.parent / "count")

    def die(_: object) -> None:
        doomed.stop_at = 1
        raise Stopped

    with pytest.raises(Stopped):
        replace(table, store=doomed, before_publish=die).upsert({"k": (99, "a")})
    full, _ = on_a_full_disk(table)
    assert clean(full.handle, timing=FAST).files_deleted >= 17
    assert full.handle.timeline().pending_writes == ()
    check(path, {"k": (19, "a")})
    clean(full.handle, timing=AT_ONCE)
    assert leftovers(path) == []


def test_no_statistics_go_where_there_is_room(table: SmallTable) -> None:
    full, disk = on_a_full_disk(table)
    disk.free = 20
    before = {info.path for info in table.store.list(".hoodie/.parquetry/stats")}
    clean(full.handle, timing=FAST)
    left = {info.path for info in table.store.list(".hoodie/.parquetry/stats")}
    named = {
        stat.path.rpartition("_")[2].split(".")[0]
        for stat in full.handle.view(full.handle.timeline()).all_slices()
    }
    assert all(any(time in path for path in left) for time in named)
    assert left < before


def test_where_nothing_can_go_the_error_says_so_and_nothing_has_changed(
    table: SmallTable, path: Path
) -> None:
    for info in table.store.list(".hoodie/.parquetry/stats"):
        table.store.delete(info.path)
    full, _ = on_a_full_disk(table)
    with pytest.raises(StorageError, match="No space left on device; free space"):
        clean(full.handle, timing=FAST)
    assert len(list(path.glob("p=a/*.parquet"))) == 20
    check(path, {"k": (19, "a")})
    assert clean(table.handle, timing=FAST).files_deleted == 17


def test_the_sweep_tells_no_personal_values_of_what_it_could_not_delete(
    table: SmallTable, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck(FullDisk):
        has_refused = False

        def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
            self.has_refused = True
            return super().put_if_absent(path, data, nonce=nonce)

        def list(self, prefix: str = "", *, recursive: bool = False) -> Objects:
            if self.has_refused and prefix == "p=a":
                raise storage_error("list", Value.uri(f"{self.uri}/p=a"), OSError(errno.EACCES, "denied"))
            return super().list(prefix, recursive=recursive)

    handle = replace(table, store=Stuck(table.store)).handle
    assert handle.spec is not None
    columns = tuple(replace(column, pii=column.name == "p") for column in handle.spec.columns)
    with pytest.raises(StorageError):
        clean(replace(handle, spec=replace(handle.spec, columns=columns)), timing=FAST)
    assert "some orphans are left until the disk has room" in caplog.text
    assert "p=a" not in caplog.text
    assert "p=***" in caplog.text
