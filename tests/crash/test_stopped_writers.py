"""A writer that ends at any storage operation leaves the old table or the new one.

Stopping before an operation leaves the same store as stopping after the one before it, so each
operation is tried done-but-unanswered, and half done.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spark.clustering import cluster
from parquetry.runtime.storage import open_store
from parquetry.runtime.timeline.instant import Action
from tests.support.one_process_spark import OneProcessSpark
from tests.support.orphans import leftovers
from tests.support.planned_clustering import SORTED, apply_clustering
from tests.support.small_table import FAST, Rows, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import FaultyStore, Stop, Stopped

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
"""For the clean at the end: unfinished files need no time of grace, as nobody writes."""

BASE = {f"k{n}": (n, "ab"[n % 2]) for n in range(6)}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is done to a prepared table, and the states it may be seen in afterwards."""

    prepare: Callable[[SmallTable], Rows]
    act: Callable[[SmallTable], object]
    after: Callable[[Rows], Rows]
    between: Callable[[Path], list[Rows]] = lambda _: []


def _base(table: SmallTable) -> Rows:
    table.upsert(BASE)
    return BASE


def _history(table: SmallTable) -> Rows:
    """Several versions of one file, a replaced group, and a dead write's file."""
    table.upsert(BASE)
    for n in range(3):
        table.upsert({"k1": (100 + n, "b")})
    table.overwrite({"z": (1, "a")})
    table.upsert({"k1": (200, "b")})
    table.upsert({"k1": (201, "b")})
    return {key: row for key, row in BASE.items() if row[1] == "b"} | {"k1": (201, "b"), "z": (1, "a")}


def _long_history(table: SmallTable) -> Rows:
    rows = _history(table)
    for n in range(6):
        table.upsert({"z": (n, "a")})
        clean(table.handle, timing=FAST)
    return {**rows, "z": (5, "a")}


def _busy(table: SmallTable) -> Rows:
    table.upsert(BASE)
    for n in range(16):
        table.upsert({"k1": (n, "b")})
    return {**BASE, "k1": (15, "b")}


def _savepointed(table: SmallTable) -> Rows:
    table.upsert(BASE)
    create_savepoint(table.handle, timing=FAST)
    table.upsert({"k1": (100, "b"), "new": (1, "c")})
    table.overwrite({"z": (1, "a")})
    return {k: r for k, r in BASE.items() if r[1] == "b"} | {"k1": (100, "b"), "new": (1, "c"), "z": (1, "a")}


def _with_dead_write(table: SmallTable) -> Rows:
    table.upsert(BASE)

    def die(_: object) -> None:
        raise Stopped

    doomed = FaultyStore(table.store, _counter(table), stop_at=0)
    with pytest.raises(Stopped):
        replace(table, store=doomed, before_publish=lambda txn: _kill(doomed)).upsert(
            {"k1": (7, "b"), "n": (7, "d")}
        )
    return BASE


def _in_debt(table: SmallTable) -> Rows:
    """Small files of several writes, unsorted."""
    apply_clustering(table, SORTED)
    table.upsert(BASE)
    more = {f"m{n}": (n, "ab"[n % 2]) for n in range(4)}
    table.insert(more)
    return BASE | more


def _kill(store: FaultyStore) -> None:
    store.stop_at = 1
    raise Stopped


def _counter(table: SmallTable) -> Path:
    return Path(table.store.uri.removeprefix("file://")).parent / "doomed"


def _restore_states(path: Path) -> list[Rows]:
    """The table as of each write after the savepoint."""
    timeline = SmallTable(store=open_store(path)).handle.timeline()
    return [
        view_rows(path, write.time)
        for write in timeline.completed_writes
        if write.time >= timeline.savepoints[0]
    ]


def _roll_newest_back(table: SmallTable) -> object:
    newest = table.handle.timeline().completed_writes[-1].time
    return rollback(table.handle, newest, timing=FAST)


CASES = {
    "upsert": Case(
        prepare=_base,
        act=lambda table: table.upsert({"k1": (100, "b"), "n": (1, "c"), "k2": (5, "a")}),
        after=lambda old: old | {"k1": (100, "b"), "n": (1, "c"), "k2": (5, "a")},
    ),
    "first write": Case(
        prepare=lambda table: {},
        act=lambda table: table.upsert(BASE),
        after=lambda old: BASE,
    ),
    "delete": Case(
        prepare=_base,
        act=lambda table: table.delete(["k1", "k2"]),
        after=lambda old: {k: r for k, r in old.items() if k not in ("k1", "k2")},
    ),
    "overwrite": Case(
        prepare=_base,
        act=lambda table: table.overwrite({"z": (1, "a"), "y": (2, "d")}),
        after=lambda old: {k: r for k, r in old.items() if r[1] != "a"} | {"z": (1, "a"), "y": (2, "d")},
    ),
    "delete partition": Case(
        prepare=_base,
        act=lambda table: table.delete_partition("p=a"),
        after=lambda old: {k: r for k, r in old.items() if r[1] != "a"},
    ),
    "upsert after a dead write": Case(
        prepare=_with_dead_write,
        act=lambda table: table.upsert({"k1": (100, "b")}),
        after=lambda old: old | {"k1": (100, "b")},
    ),
    "upsert with due services": Case(
        prepare=_busy,
        act=lambda table: replace(table, services=True).upsert({"k1": (100, "b"), "n": (1, "c")}),
        after=lambda old: {**old, "k1": (100, "b"), "n": (1, "c")},
    ),
    "clustering": Case(
        prepare=_in_debt,
        act=lambda table: cluster(OneProcessSpark(), table.handle, timing=FAST),
        after=lambda old: old,
    ),
    "clean": Case(
        prepare=_history,
        act=lambda table: clean(table.handle, timing=FAST),
        after=lambda old: old,
    ),
    "archive": Case(
        prepare=_long_history,
        act=lambda table: archive(table.handle, timing=FAST),
        after=lambda old: old,
    ),
    "savepoint": Case(
        prepare=_base,
        act=lambda table: create_savepoint(table.handle, timing=FAST),
        after=lambda old: old,
    ),
    "delete savepoint": Case(
        prepare=_savepointed,
        act=lambda table: delete_savepoint(table.handle, table.handle.timeline().savepoints[0], timing=FAST),
        after=lambda old: old,
    ),
    "restore": Case(
        prepare=_savepointed,
        act=lambda table: restore(table.handle, table.handle.timeline().savepoints[0], timing=FAST),
        after=lambda old: BASE,
        between=_restore_states,
    ),
    "rollback": Case(
        prepare=lambda table: _base(table) and _upsert_more(table),
        act=_roll_newest_back,
        after=lambda old: BASE,
    ),
}


def _upsert_more(table: SmallTable) -> Rows:
    table.upsert({"k1": (100, "b"), "new": (1, "c")})
    return BASE | {"k1": (100, "b"), "new": (1, "c")}


@pytest.mark.parametrize(
    ("stop", "every"),
    [
        (Stop.AFTER, 3),
        pytest.param(Stop.AFTER, 1, marks=pytest.mark.soak),
        pytest.param(Stop.HALFWAY, 1, marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_a_writer_stopped_anywhere_leaves_the_old_table_or_the_new_one(
    name: str, stop: Stop, every: int, tmp_path: Path
) -> None:
    case = CASES[name]
    template = tmp_path / "template"
    prepared = make_table(template, keep_commits=2, archive_keep_commits=4)
    old = dict(case.prepare(prepared))
    assert rows_of(template) == view_rows(template) == old
    new = dict(case.after(old))
    allowed = [old, new, *case.between(template)]

    seen = []
    for number in range(1, 1000, every):
        path = tmp_path / f"t{number}"
        shutil.copytree(template, path)
        store = FaultyStore(open_store(path), tmp_path / f"count{number}", stop_at=number, stop=stop)
        try:
            case.act(SmallTable(store=store))
        except Stopped:
            pass
        else:
            assert store.operations() < number
            assert rows_of(path) == view_rows(path) == new
            assert leftovers(path) == [] or name == "clean"
            break
        seen.append(_survives(path, allowed, new, number))
        shutil.rmtree(path)
    print(f"{name}: stopped at {number - 1} operations, new state in {sum(state == new for state in seen)}")
    assert len(seen) > 1
    assert seen[0] == old
    if stop is Stop.AFTER and every == 1:
        assert seen[-1] == new


def _is_undoing(table: SmallTable) -> bool:
    """Whether a rollback or a restore was begun, which the next writer finishes."""
    timeline = table.handle.timeline()
    undoings = (*timeline.of(Action.RESTORE), *timeline.of(Action.ROLLBACK))
    return any(not undoing.is_completed for undoing in undoings)


def _survives(path: Path, allowed: list[Rows], new: Rows, number: int) -> Rows:
    state = rows_of(path)
    assert view_rows(path) == state, f"operation {number}: hudi-rs and our view disagree"
    assert state in allowed, f"operation {number}: {state}"
    table = SmallTable(store=open_store(path))
    expected = new if _is_undoing(table) else state
    result = table.upsert({"k1": (999, "b"), "next": (1, "e")})
    assert result.retries == 0
    expected = {**expected, "k1": (999, "b"), "next": (1, "e")}
    assert rows_of(path) == view_rows(path) == expected, f"operation {number}: the next write"
    clean(table.handle, timing=AT_ONCE)
    assert rows_of(path) == view_rows(path) == expected
    assert leftovers(path) == [], f"operation {number}"
    return state
