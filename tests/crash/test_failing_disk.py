"""A store that fails behind a commit fails no command: what is done is told as done, once, with a warning at most."""

from __future__ import annotations

import errno
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.runtime.commit.lock_file import DEFAULT_LOCK_PATH, LockFile
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.errors import StorageError
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spark.cluster_inline import cluster_inline
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.instant import Action
from tests.support.one_process_spark import OneProcessSpark
from tests.support.orphans import leftovers
from tests.support.planned_clustering import SORTED, table_in_debt
from tests.support.small_table import FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import Kind, WrappedStore
from tests.support.table_changes import CASES, ESSENTIAL, is_undoing

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
CHANGES = tuple(name for name in CASES if name != "archive")


def _raw() -> Exception:
    """As a store that is not ours, or a library below it, would fail."""
    return OSError(errno.EIO, os.strerror(errno.EIO))


def _ours() -> Exception:
    return StorageError("cannot reach it: Input/output error; check the disk, then run again")


class FailsBehindCommit(WrappedStore):
    """Fails at operation number ``fail_at`` behind the one that ``stands``, or from there on."""

    def __init__(self, inner: ObjectStore, stands: tuple[Kind, str], fail_at: int) -> None:
        super().__init__(inner)
        self.stands = stands
        self.fail_at = fail_at
        self.error = _raw
        self.done_first = False
        self.lasts = False
        self.count: int | None = None

    def before(self, kind: Kind, path: str) -> None:
        # The thread that beats comes by the clock.
        if self.count is not None and (kind, path.rpartition("/")[0]) != (Kind.PUT, ".hoodie/.heartbeat"):
            self.count += 1
            if self._fails() and not self.done_first:
                raise self.error()

    def after(self, kind: Kind, path: str) -> None:
        if self.count is None and kind is self.stands[0] and re.search(self.stands[1], path):
            self.count = 0
        elif self.count and self._fails() and self.done_first:
            raise self.error()

    def _fails(self) -> bool:
        assert self.count is not None
        return self.count == self.fail_at or (self.lasts and self.count > self.fail_at)


FAULTS: tuple[dict[str, object], ...] = (
    {"error": _raw},
    {"error": _raw, "done_first": True},
    {"error": _ours},
    {"error": _ours, "lasts": True},
)


@pytest.mark.parametrize(
    ("name", "table_version", "fault", "every"),
    [
        *((name, 6, {"error": _raw}, 16) for name in CHANGES),
        *((name, 6, {"error": _ours, "done_first": True, "lasts": True}, 1000) for name in CHANGES),
        *((name, 9, {"error": _raw}, 24) for name in CHANGES if name in ESSENTIAL),
        *(
            pytest.param(name, table_version, fault, 1, marks=pytest.mark.long)
            for name in CHANGES
            for table_version in (6, 9)
            for fault in FAULTS
        ),
    ],
)
def test_nothing_fails_behind_the_commit(
    name: str, table_version: int, fault: dict[str, object], every: int, tmp_path: Path
) -> None:
    case = CASES[name]
    template = tmp_path / "template"
    prepared = make_table(template, table_version=table_version, keep_commits=2, archive_keep_commits=4)
    new = dict(case.after(dict(case.prepare(prepared))))
    for number in range(1, 1000, every):
        path = tmp_path / f"t{number}"
        shutil.copytree(template, path)
        store = FailsBehindCommit(open_store(path), case.stands, number)
        for attribute, value in fault.items():
            setattr(store, attribute, value)
        case.act(SmallTable(store=store))
        assert store.count is not None
        place = f"operation {number} of {store.count}"
        assert store.lasts or LockFile().read(store.inner) is None, place
        _check(path, new, place)
        shutil.rmtree(path)
        if store.count < number:
            break
    assert store.count > 0


@pytest.mark.parametrize("table_version", [6, 9])
@pytest.mark.parametrize("error", [_raw, _ours])
def test_a_commit_that_the_store_reports_as_failed_stands_once(
    error: object, table_version: int, tmp_path: Path
) -> None:
    class Denies(WrappedStore):
        def after(self, kind: Kind, path: str) -> None:
            if kind is Kind.PUT_IF_ABSENT and path.endswith(".commit"):
                raise error()

    table = make_table(tmp_path / "t", table_version=table_version)
    result = replace(table, store=Denies(table.store)).insert({"k1": (1, "a")})
    assert result.instant is not None
    assert "is complete" in result.warnings[0]
    assert rows_of(tmp_path / "t") == view_rows(tmp_path / "t") == {"k1": (1, "a")}
    assert LockFile().read(table.store) is None


@pytest.mark.parametrize("error", [_raw, _ours])
def test_a_lock_whose_put_the_store_reports_as_failed_is_released(error: object, tmp_path: Path) -> None:
    class Denies(WrappedStore):
        def after(self, kind: Kind, path: str) -> None:
            if kind is Kind.PUT_IF_ABSENT and path == DEFAULT_LOCK_PATH:
                raise error()

    table = make_table(tmp_path / "t")
    with pytest.raises((StorageError, OSError)):
        replace(table, store=Denies(table.store)).insert({"k1": (1, "a")})
    assert LockFile().read(table.store) is None
    assert table.insert({"k1": (1, "a")}).retries == 0
    assert rows_of(tmp_path / "t") == view_rows(tmp_path / "t") == {"k1": (1, "a")}


@pytest.mark.parametrize("error", [_raw, _ours])
def test_an_inline_clustering_that_cannot_even_look_is_a_warning(error: object, tmp_path: Path) -> None:
    class Dead(WrappedStore):
        def before(self, kind: Kind, path: str) -> None:
            raise error()

    table = table_in_debt(tmp_path / "t", replace(SORTED, trigger=Trigger.INLINE))
    handle = replace(table.handle, store=Dead(table.store))
    written = CommitResult(instant="1", action=Action.COMMIT, operation="UPSERT")
    result = cluster_inline(OneProcessSpark(), handle, written, timing=FAST)
    assert result.instant == "1"
    assert "clustering: " in result.warnings[0]


def _check(path: Path, new: dict[str, tuple[int, str]], place: str) -> None:
    assert rows_of(path) == view_rows(path) == new, place
    table = SmallTable(store=open_store(path))
    rolls_back = is_undoing(table)
    assert table.upsert({"k1": (999, "b"), "next": (1, "e")}).retries == 0, place
    expected = {**new, "k1": (999, "b"), "next": (1, "e")}
    assert rows_of(path) == view_rows(path) == expected, place
    assert not rolls_back or not is_undoing(table)
    clean(table.handle, timing=AT_ONCE)
    assert leftovers(path) == [], place
