"""Three ingesting processes with and without one that clusters beside them: what that costs and is good for.

Each write is an upsert of 5 of 60 shared keys (three of five times), an insert of 3 new keys into any of
three partitions, or a delete of 4 shared keys; inserts fill no small file.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

import pytest

from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support import writer_process
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import SORTED, apply_clustering
from tests.support.small_table import FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.writer_process import replay, told

MOST_RETRIES = 10
LONG = 45
"""Seconds; fewer do not tell."""


@pytest.mark.parametrize(
    ("seconds", "table_version"),
    [(4, 6), *(pytest.param(*one, marks=pytest.mark.long) for one in ((45, 6), (300, 6), (45, 9)))],
)
def test_writers_with_and_without_clustering(seconds: int, table_version: int, tmp_path: Path) -> None:
    trials = {"beside clustering": Trial(tmp_path / "beside", seconds, table_version)}
    if seconds >= LONG:  # without clustering test_writers_at_once.py shows the rest
        trials["alone"] = Trial(tmp_path / "alone", seconds, table_version)
    for name, trial in trials.items():
        trial.run(clusters=name != "alone")
        print(f"{name}: {trial.said()}")
        assert trial.failures == []
        assert max(trial.retries) <= MOST_RETRIES
        assert trial.readings > 0
    beside = trials["beside clustering"]
    assert beside.replacecommits >= (3 if seconds >= LONG else 1)
    if seconds >= LONG:
        assert beside.files <= trials["alone"].files / 2


class Trial:
    """A table, the processes that wrote it, and what they were told."""

    def __init__(self, folder: Path, seconds: int, table_version: int) -> None:
        self._folder = folder
        self._path = folder / "t"
        self._seconds = seconds
        self._table_version = table_version
        self._logs = [folder / f"log{n}" for n in range(3)]
        self.groups = self.lost = self.replacecommits = 0
        self.readings = 0

    def run(self, *, clusters: bool) -> None:
        """Let it happen, and hold what is there then against the model."""
        self._folder.mkdir()
        table = make_table(
            self._path, table_version=self._table_version, keep_commits=20, archive_keep_commits=30
        )
        apply_clustering(table, SORTED)
        tasks: list[dict[str, Any]] = [
            {
                "path": str(self._path),
                "log": str(log),
                "name": name,
                "seed": n,
                "seconds": self._seconds,
                "fill": 0,
            }
            for n, (log, name) in enumerate(zip(self._logs, "xyz", strict=True))
        ]
        with writer_process.started(*tasks) as processes, self._read_on() as readings:
            while any(process.poll() is None for process in processes):
                if clusters:
                    self._cluster(table)
                time.sleep(0.2)
            assert [process.wait() for process in processes] == [0, 0, 0]
        if clusters:
            self._cluster(table)
        commits = told(*self._logs)
        assert rows_of(self._path) == view_rows(self._path) == replay(commits)
        for completed, rows in readings:
            newest = max(completed)
            known = [c for c in commits if c["instant"] in completed or c["instant"] < min(completed)]
            assert rows == replay(known), f"a reader was wrong at {newest}"
        self.readings = len(readings)
        answers = [line for log in self._logs for line in writer_process.lines(log) if "instant" in line]
        self.failures = [line["error"] for line in answers if "error" in line]
        self.retries = [line.get("retries", 0) for line in answers]
        self.commit_seconds = [line["seconds"] for line in answers]
        handle = table.handle
        self.files = len(handle.view(handle.timeline()).all_slices())

    def said(self) -> str:
        """The figures in one line."""
        slow = quantiles(self.commit_seconds, n=20)[-1]
        return (
            f"{self._seconds} s, {len(self.commit_seconds)} writes, retries mean {mean(self.retries):.2f} max "
            f"{max(self.retries)}, {len(self.failures)} failed, {self.replacecommits} replacecommits of "
            f"{self.groups} groups, {self.lost} lost, {self.files} files at the end, p95 of a commit "
            f"{slow:.2f} s, {self.readings} readings"
        )

    def _cluster(self, table: SmallTable) -> None:
        result = cluster(OneProcessSpark(), table.handle, timing=FAST)
        self.groups += result.groups
        self.lost += len(result.left_out)
        self.replacecommits += len(result.instants)

    @contextmanager
    def _read_on(self) -> Iterator[list[tuple[set[str], Any]]]:
        """Read again and again; what was found is kept where no write was completed meanwhile."""
        found: list[tuple[set[str], Any]] = []
        errors: list[BaseException] = []
        ended = threading.Event()

        def completed() -> set[str]:
            timeline = open_table(open_store(self._path)).timeline()
            return {write.time for write in timeline.completed_writes}

        def read() -> None:
            while not ended.wait(0.05):
                try:
                    before = completed()
                    rows = view_rows(self._path)
                    if before and before == completed():
                        found.append((before, rows))
                except BaseException as error:
                    errors.append(error)
                    return

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield found
        finally:
            ended.set()
            reader.join()
        assert errors == []
