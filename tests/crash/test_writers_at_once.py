"""Several processes on one table: what they were told is what the table holds."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parquetry.runtime.services.clean import clean
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.storage.open import open_store
from tests.support import writer_process
from tests.support.one_process_spark import OneProcessSpark
from tests.support.orphans import leftovers
from tests.support.planned_clustering import SORTED, apply_clustering
from tests.support.small_table import FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.writer_process import replay, told

LEASE = {"heartbeat_seconds": 0.1, "dead_after_seconds": 0.8}


@pytest.mark.parametrize(
    ("writes", "table_version"),
    [(6, 6), *(pytest.param(150, version, marks=pytest.mark.long) for version in (6, 9))],
)
def test_three_processes_end_in_the_model_of_what_they_were_told(
    writes: int, table_version: int, tmp_path: Path
) -> None:
    make_table(tmp_path / "t", table_version=table_version, keep_commits=6, archive_keep_commits=10)
    with writer_process.started(*_three(tmp_path, writes=writes)) as processes:
        assert [process.wait() for process in processes] == [0, 0, 0]
    commits = _equals_what_was_told(tmp_path)
    assert len(commits) >= 2 * writes


@pytest.mark.parametrize(
    ("seconds", "table_version"),
    [(6, 6), *(pytest.param(180, version, marks=pytest.mark.long) for version in (6, 9))],
)
def test_three_processes_of_which_one_sleeps_for_longer_than_its_lease(
    seconds: int, table_version: int, tmp_path: Path
) -> None:
    make_table(tmp_path / "t", table_version=table_version, keep_commits=6, archive_keep_commits=10)
    rng = random.Random(seconds)
    naps = 0
    with writer_process.started(*_three(tmp_path, seconds=seconds, timing=LEASE)) as processes:
        while all(process.poll() is None for process in processes):
            time.sleep(rng.uniform(0.3, 1.0))
            sleeper = processes[0]
            if sleeper.poll() is None and writer_process.lines(_logs(tmp_path)[0]):
                sleeper.send_signal(signal.SIGSTOP)
                time.sleep(2 * LEASE["dead_after_seconds"])
                sleeper.send_signal(signal.SIGCONT)
                naps += 1
        assert [process.wait() for process in processes] == [0, 0, 0]
    print(f"{naps} naps")
    _equals_what_was_told(tmp_path)
    assert naps > 0


@pytest.mark.long  # a short one is in test_clustering_beside_writers.py
@pytest.mark.parametrize(("writes", "table_version"), [(8, 6), (100, 6), (8, 9), (100, 9)])
def test_three_processes_beside_one_that_clusters(writes: int, table_version: int, tmp_path: Path) -> None:
    """Clustering costs no write its commit, and gets its own done where nobody is."""
    table = make_table(tmp_path / "t", table_version=table_version, keep_commits=6, archive_keep_commits=10)
    apply_clustering(table, SORTED)
    rounds = []
    with writer_process.started(*_three(tmp_path, writes=writes)) as processes:
        while any(process.poll() is None for process in processes):
            rounds.append(cluster(OneProcessSpark(), table.handle, timing=FAST))
        assert [process.wait() for process in processes] == [0, 0, 0]
    rounds.append(cluster(OneProcessSpark(), table.handle, timing=FAST))
    lost = sum(len(result.left_out) for result in rounds)
    print(f"{len(rounds)} rounds, {sum(result.groups for result in rounds)} groups, {lost} lost to writers")
    assert sum(result.groups for result in rounds) > 0
    assert [
        line["error"] for log in _logs(tmp_path) for line in writer_process.lines(log) if "error" in line
    ] == []
    _equals_what_was_told(tmp_path)


def _logs(tmp_path: Path) -> list[Path]:
    return [tmp_path / f"log{n}" for n in range(3)]


def _three(tmp_path: Path, **settings: Any) -> list[dict[str, Any]]:
    return [
        {"path": str(tmp_path / "t"), "log": str(log), "name": name, "seed": n, **settings}
        for n, (log, name) in enumerate(zip(_logs(tmp_path), "xyz", strict=True))
    ]


def _equals_what_was_told(tmp_path: Path) -> list[dict[str, Any]]:
    """The commits, after the table was compared with the model that they make."""
    path, logs = tmp_path / "t", _logs(tmp_path)
    commits = told(*logs)
    answers = [line for log in logs for line in writer_process.lines(log) if "instant" in line]
    retries = Counter(line.get("retries", 0) for line in answers)
    gave_up = [line["error"] for line in answers if "error" in line]
    print(f"{len(commits)} commits, retries {sorted(retries.items())}, {len(gave_up)} gave up {gave_up[:1]}")
    assert len({commit["instant"] for commit in commits}) == len(commits)
    assert [warning for line in answers for warning in line.get("warnings", ())] == []
    assert rows_of(path) == view_rows(path) == replay(commits)
    table = SmallTable(store=open_store(path))
    clean(table.handle, timing=replace(FAST, dead_after_seconds=0.0))
    assert rows_of(path) == view_rows(path) == replay(commits)
    assert leftovers(path) == []
    return commits
