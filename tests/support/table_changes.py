"""What is done to a small table, from its state before to its state afterwards: for those who disturb it."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.clustering.plan.schedule import schedule
from parquetry.runtime.commit.lock_file import LockFile
from parquetry.runtime.commit.table_lock import unlock
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spark.cluster import cluster, execute
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.instant import Action
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import SORTED, apply_clustering, groups_owed
from tests.support.small_table import FAST, Rows, SmallTable, view_rows
from tests.support.stores import CountingStore, FaultyStore, Kind, Stopped

CHANGE: Rows = {"k1": (100, "b")}
BASE = {f"k{n}": (n, "ab"[n % 2]) for n in range(6)}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is done to a prepared table, and the states it may be seen in afterwards."""

    prepare: Callable[[SmallTable], Rows]
    act: Callable[[SmallTable], object]
    after: Callable[[Rows], Rows]
    between: Callable[[Path], list[Rows]] = lambda _: []
    stands: tuple[Kind, str] = (Kind.PUT_IF_ABSENT, r"\.(commit|replacecommit)$")
    """The operation, and a pattern of its path, with which it is done whatever comes behind."""
    leaves: bool = False
    """Whether it leaves something behind that is in order, or that the next clean removes."""


ESSENTIAL = ("upsert", "overwrite", "upsert after a dead write", "clean", "archive", "restore")
"""The cases that the short suites try on every version of a table."""


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


def _savepointed_with_rollbacks(table: SmallTable) -> Rows:
    """Rollbacks on both sides of the savepoint, of a completed write and of one that died."""
    table.upsert(BASE)
    table.upsert({"k1": (50, "b")})
    _roll_newest_back(table)
    create_savepoint(table.handle, timing=FAST)
    table.upsert({"k1": (60, "b"), "gone": (1, "d")})
    _roll_newest_back(table)
    _die_before_publishing(table)
    rows = {"k1": (100, "b"), "new": (1, "c")}
    table.upsert(rows)
    return BASE | rows


def _with_dead_write(table: SmallTable) -> Rows:
    table.upsert(BASE)
    _die_before_publishing(table)
    return BASE


def _with_dead_restore(table: SmallTable) -> Rows:
    """A restore whose process died at once: nothing is taken back yet."""
    rows = _savepointed(table)
    doomed = FaultyStore(table.store, _counter(table), stop_at=4)
    with pytest.raises(Stopped):
        _restore(replace(table, store=doomed))
    assert is_undoing(table)
    return rows


def _with_dead_lock(table: SmallTable) -> Rows:
    """The lock of a write that died over publishing."""
    table.upsert(BASE)
    doomed = FaultyStore(table.store, _counter(table), counted=frozenset({Kind.PUT_IF_ABSENT}))
    doomed.stop_at = next(
        number for number, (_, path) in enumerate(_puts_if_absent(table), start=1) if path.endswith(".commit")
    )
    with pytest.raises(Stopped):
        replace(table, store=doomed).upsert(CHANGE)
    assert LockFile().read(table.store) is not None
    return BASE


def _puts_if_absent(table: SmallTable) -> list[tuple[Kind, str]]:
    """What an upsert puts only where nothing is, on a copy of the table."""
    path = _counter(table).with_name("copy")
    shutil.copytree(_root(table), path)
    store = CountingStore(open_store(path), path.with_name("log"))
    replace(table, store=store).upsert(CHANGE)
    return [call for call in store.calls() if call[0] is Kind.PUT_IF_ABSENT]


def _die_before_publishing(table: SmallTable) -> None:
    doomed = FaultyStore(table.store, _counter(table), stop_at=0)
    with pytest.raises(Stopped):
        replace(table, store=doomed, before_publish=lambda txn: _kill(doomed)).upsert(
            {"k1": (7, "b"), "n": (7, "d")}
        )


def _in_debt(table: SmallTable) -> Rows:
    """Small files of several writes, unsorted."""
    apply_clustering(table, SORTED)
    table.upsert(BASE)
    more = {f"m{n}": (n, "ab"[n % 2]) for n in range(4)}
    table.insert(more)
    return BASE | more


def _schedule_and_carry_out(table: SmallTable) -> None:
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    assert plan is not None
    done = execute(OneProcessSpark(), table.handle, plan.instant, timing=FAST)
    assert done.instants == (plan.instant,)


def _apply(table: SmallTable, *, alters_schema: bool) -> object:
    """A column more, or only another policy."""
    observed = table.handle
    spec, applied = observed.spec, observed.applied
    if alters_schema:
        spec = replace(spec, columns=(*spec.columns, Column(name="note", type="string")))
    else:
        spec = replace(spec, retention=replace(spec.retention, keep_commits=3))
    change = TableChange(
        spec=spec,
        requirements=Requirements(exists=True, applied_number=applied.number, applied_digest=applied.digest),
        alters_schema=alters_schema,
        project="tests",
        plan_id="plan",
    )
    return apply_change(table.store, change, timing=FAST)


def _kill(store: FaultyStore) -> None:
    store.stop_at = 1
    raise Stopped


def _root(table: SmallTable) -> Path:
    return Path(table.store.uri.removeprefix("file://"))


def _counter(table: SmallTable) -> Path:
    return _root(table).parent / f"doomed {uuid.uuid4()}"


def _restore_states(path: Path) -> list[Rows]:
    """The table as of each write after the savepoint."""
    timeline = SmallTable(store=open_store(path)).handle.timeline()
    return [
        view_rows(path, write.time)
        for write in timeline.completed_writes
        if write.time >= timeline.savepoints[0]
    ]


def _restore(table: SmallTable) -> object:
    return restore(table.handle, table.handle.timeline().savepoints[0], timing=FAST)


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
        act=lambda table: table.upsert(CHANGE),
        after=lambda old: old | CHANGE,
    ),
    "unlock": Case(
        prepare=_with_dead_lock,
        act=lambda table: unlock(table.handle, timing=FAST),
        after=lambda old: old,
        stands=(Kind.DELETE, r"/lock$"),
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
    "scheduled clustering": Case(
        prepare=_in_debt,
        act=lambda table: schedule(table.handle, groups_owed(table), timing=FAST),
        after=lambda old: old,
        leaves=True,
        stands=(Kind.PUT_IF_ABSENT, r"\.(replacecommit|clustering)\.requested$"),
    ),
    "scheduled clustering executed": Case(
        prepare=_in_debt,
        act=_schedule_and_carry_out,
        after=lambda old: old,
    ),
    "schema change": Case(
        prepare=_base,
        act=lambda table: _apply(table, alters_schema=True),
        after=lambda old: old,
        stands=(Kind.PUT_IF_ABSENT, r"/applied/"),
    ),
    "policy change": Case(
        prepare=_base,
        act=lambda table: _apply(table, alters_schema=False),
        after=lambda old: old,
        stands=(Kind.PUT_IF_ABSENT, r"/applied/"),
    ),
    "clean": Case(
        prepare=_history,
        act=lambda table: clean(table.handle, timing=FAST),
        after=lambda old: old,
        leaves=True,
        stands=(Kind.PUT_IF_ABSENT, r"\.clean$"),
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
        stands=(Kind.PUT_IF_ABSENT, r"\.savepoint$"),
    ),
    "delete savepoint": Case(
        prepare=_savepointed,
        act=lambda table: delete_savepoint(table.handle, table.handle.timeline().savepoints[0], timing=FAST),
        after=lambda old: old,
        stands=(Kind.DELETE, r"\.savepoint$"),
    ),
    "restore": Case(
        prepare=_savepointed,
        act=_restore,
        after=lambda old: BASE,
        between=_restore_states,
        stands=(Kind.PUT_IF_ABSENT, r"\.restore$"),
    ),
    "restore over rollbacks": Case(
        prepare=_savepointed_with_rollbacks,
        act=_restore,
        after=lambda old: BASE,
        between=_restore_states,
        stands=(Kind.PUT_IF_ABSENT, r"\.restore$"),
    ),
    "upsert after a dead restore": Case(
        prepare=_with_dead_restore,
        act=lambda table: table.upsert(CHANGE),
        after=lambda old: BASE | CHANGE,
        between=lambda path: [BASE, *_restore_states(path)],
        leaves=True,
    ),
    "rollback": Case(
        prepare=lambda table: _base(table) and _upsert_more(table),
        act=_roll_newest_back,
        after=lambda old: BASE,
        stands=(Kind.PUT_IF_ABSENT, r"\.rollback$"),
    ),
}


def _upsert_more(table: SmallTable) -> Rows:
    table.upsert({"k1": (100, "b"), "new": (1, "c")})
    return BASE | {"k1": (100, "b"), "new": (1, "c")}


def is_undoing(table: SmallTable) -> bool:
    """Whether a rollback or a restore was begun, which the next writer finishes."""
    timeline = table.handle.timeline()
    undoings = (*timeline.of(Action.RESTORE), *timeline.of(Action.ROLLBACK))
    return any(not undoing.is_completed for undoing in undoings)
