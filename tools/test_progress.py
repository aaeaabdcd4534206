"""A pytest plug-in that appends each collected and each ended test to a file, for tools/run_tests.py.

The file has one JSON list per line: ``["collected", number]`` once, then ``[outcome, seconds, id]`` for each test.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

FILE, UNTIL = "PARQUETRY_TEST_PROGRESS", "PARQUETRY_TESTS_UNTIL"
_OUTCOMES = ("failed", "skipped", "passed")


def pytest_configure(config: pytest.Config) -> None:
    """Register the writer in the process that reports, which with xdist is not the one that runs the tests."""
    if hasattr(config, "workerinput"):
        return
    writer = _Writer(Path(os.environ[FILE]))
    config.pluginmanager.register(writer)
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_CollectedByWorkers(writer))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that would begin after the end of the time for all, which is in seconds since the epoch."""
    if time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip(f"the time for all tests is over: {item.nodeid} did not begin")


class _Writer:
    """The file of one pytest process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reports: dict[str, list[tuple[str, float]]] = {}

    def write(self, *values: object) -> None:
        """Append a line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write how many tests there are, if this process runs them."""
        if session.items:
            self.write("collected", len(session.items))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of the setup, the call or the teardown of a test."""
        self._reports.setdefault(report.nodeid, []).append((report.outcome, report.duration))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write the worst outcome of the three and their seconds."""
        reports = self._reports.pop(nodeid, [])
        outcomes = {outcome for outcome, _ in reports}
        worst = next((outcome for outcome in _OUTCOMES if outcome in outcomes), "passed")
        self.write(worst, round(sum(seconds for _, seconds in reports), 2), nodeid)


class _CollectedByWorkers:
    """The hook of xdist, which pytest refuses where xdist is off."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer
        self._written = False

    @pytest.hookimpl
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Iterable[str]) -> None:  # noqa: ARG002
        """Write how many tests the first worker has collected: all workers collect the same."""
        if not self._written:
            self._written = True
            self._writer.write("collected", len(list(ids)))
