"""Writers killed and stopped by signals, as processes of their own."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parquetry.runtime.services.clean import clean
from tests.support import writer_process
from tests.support.orphans import leftovers
from tests.support.small_table import FAST, Rows, SmallTable, make_table, rows_of, view_rows
from tests.support.writer_process import attempted, replay, told

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
LEASE = {"heartbeat_seconds": 0.1, "dead_after_seconds": 0.7}

POINTS = {
    "after requested": ("put_if_absent", r"\.commit\.requested$", "after"),
    "after in-flight": ("put_if_absent", r"\.inflight$", "after"),
    "while files are written": ("create_file", r"\.parquet$", "before"),
    "between two files": ("create_file", r"\.parquet$", "after"),
    "holding the lock before the commit": ("put_if_absent", r"\.aux/lock$", "after"),
    "holding the lock after the commit": ("put_if_absent", r"\.commit$", "after"),
    "before the markers are gone": ("delete_folder", r"\.temp/", "before"),
    "before the heartbeat is gone": ("delete_all", r"\.heartbeat/", "before"),
}

PATIENCE = 300
"""Seconds after which a process hangs; it has ended long before, however busy the machine is."""


@pytest.fixture
def table_version() -> int:
    """The version of the table where a test has no other."""
    return 6


@pytest.fixture
def table(table_version: int, tmp_path: Path) -> SmallTable:
    table = make_table(tmp_path / "t", table_version=table_version, keep_commits=4, archive_keep_commits=8)
    table.upsert({f"k{n}": (-1, writer_process.PARTITIONS[n % 3]) for n in range(0, 60, 2)})
    return table


@pytest.mark.parametrize(
    ("point", "table_version", "skip"),
    [
        *((point, 6, 1) for point in POINTS),
        *((point, 9, 1) for point in POINTS if point.startswith("holding the lock")),
        *(
            pytest.param(point, table_version, skip, marks=pytest.mark.long)
            for point in POINTS
            for table_version in (6, 9)
            for skip in (0, 1, 2, 3, 5)
            if (table_version, skip) != (6, 1)
        ),
    ],
)
def test_killed_at_a_named_point(point: str, skip: int, table: SmallTable, tmp_path: Path) -> None:
    kind, path, when = POINTS[point]
    task = _task(tmp_path, seed=3, signal={"kind": kind, "path": path, "when": when, "skip": skip})
    with writer_process.started(task) as (process,):
        assert process.wait(timeout=PATIENCE) == -signal.SIGKILL
    _is_old_or_new(tmp_path, table)


@pytest.mark.parametrize(
    ("seed", "table_version"),
    [
        (1, 6),
        *(pytest.param(seed, 6, marks=pytest.mark.long) for seed in range(2, 26)),
        *(pytest.param(seed, 9, marks=pytest.mark.long) for seed in range(1, 26)),
    ],
)
def test_killed_at_random(seed: int, table: SmallTable, tmp_path: Path) -> None:
    with writer_process.started(_task(tmp_path, seed=seed)) as (process,):
        _wait_for_log(tmp_path)
        time.sleep(random.Random(seed).uniform(0.0, 0.6))
        process.kill()
        process.wait()
    _is_old_or_new(tmp_path, table)


@pytest.mark.parametrize("table_version", [6, 9])
@pytest.mark.parametrize(
    "point",
    [
        ("create_file", r"\.parquet$", "after"),
        ("put_if_absent", r"\.aux/lock$", "after"),
        ("put_if_absent", r"\.commit$", "before"),
        ("put_if_absent", r"\.commit$", "after"),
    ],
    ids=["outside the lock", "with the lock", "about to commit", "committed"],
)
def test_stopped_for_longer_than_the_lease(
    point: tuple[str, str, str], table: SmallTable, tmp_path: Path
) -> None:
    kind, path, when = point
    at = {"kind": kind, "path": path, "when": when, "skip": 1, "number": int(signal.SIGSTOP)}
    task = _task(tmp_path, seed=5, writes=6, signal=at, timing=LEASE)
    with writer_process.started(task) as (process,):
        deadline = time.monotonic() + PATIENCE
        while not writer_process.stopped(process):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        before = told(tmp_path / "log")
        doing = attempted(tmp_path / "log")
        assert doing is not None
        mine = replace(table, timing=replace(FAST, **LEASE, foreign_lock_seconds=30.0))
        everything = {f"k{n}": (-7, writer_process.PARTITIONS[n % 3]) for n in range(60)}
        result = mine.upsert(everything)
        line = {"instant": result.instant, "operation": "upsert", "rows": everything, "keys": []}
        process.send_signal(signal.SIGCONT)
        assert process.wait(timeout=PATIENCE) == 0
        after = told(tmp_path / "log")
    stopped_one = after[len(before)]
    print(f"retries of the one that was stopped: {stopped_one['retries']} {stopped_one['reasons']}")
    expected = replay([_first_write(table), *sorted([*after, line], key=lambda commit: commit["instant"])])
    assert rows_of(tmp_path / "t") == view_rows(tmp_path / "t") == expected
    if point[2] == "after" and point[1].endswith("commit$"):
        assert stopped_one["retries"] == 0
    else:
        assert stopped_one["retries"] >= 1
    clean(table.handle, timing=AT_ONCE)
    assert leftovers(tmp_path / "t") == []


def _task(tmp_path: Path, **settings: Any) -> dict[str, Any]:
    return {"path": str(tmp_path / "t"), "log": str(tmp_path / "log"), "name": "x", **settings}


def _first_write(table: SmallTable) -> dict[str, Any]:
    rows = {f"k{n}": (-1, writer_process.PARTITIONS[n % 3]) for n in range(0, 60, 2)}
    return {"instant": "0", "operation": "upsert", "rows": rows, "keys": []}


def _wait_for_log(tmp_path: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not writer_process.lines(tmp_path / "log"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_old_or_new(tmp_path: Path, table: SmallTable) -> None:
    path = tmp_path / "t"
    commits = [_first_write(table), *told(tmp_path / "log")]
    doing = attempted(tmp_path / "log")
    assert doing is not None
    old, new = replay(commits), replay([*commits, doing])
    state: Rows = rows_of(path)
    assert view_rows(path) == state
    assert state in (old, new)
    result = table.upsert({"k1": (999, "b"), "next": (1, "a")})
    assert result.retries == 0
    assert rows_of(path) == view_rows(path) == {**state, "k1": (999, "b"), "next": (1, "a")}
    clean(table.handle, timing=AT_ONCE)
    assert rows_of(path) == view_rows(path)
    assert leftovers(path) == []
