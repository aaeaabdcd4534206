"""Wall seconds, CPU seconds and peak memory of a process tree, and the files of a table."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOK_SECONDS = 0.2


@dataclass(slots=True)
class Measured:
    """One measured stretch of work."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    jvm_cpu_seconds: float = 0.0
    driver_cpu_seconds: float = 0.0
    """Those of the root itself: a driver in Python, or all that a peer without Spark is."""

    peak_rss_bytes: int = 0
    worker_rss_bytes: int = 0
    """The largest single process below the root that is no JVM: a Python worker."""


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None


def tree(root: int) -> list[int]:
    """Return the live processes below and including ``root``."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


class _Clock:
    """The CPU time of every process that was seen in a tree, those that have ended since included.

    Spark's daemon ignores how its workers end, so that the kernel adds their time to nobody's: what a
    process had used is what it had when it was last looked at.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._begun: dict[tuple[int, str], int] = {}
        self._used: dict[tuple[int, str], tuple[int, str]] = {}
        self.look()
        self._begun = {process: ticks for process, (ticks, _) in self._used.items()}

    def look(self) -> None:
        """Note what each process of the tree has used by now."""
        for pid in tree(self._root):
            if fields := _stat(pid):
                self._used[pid, fields[19]] = sum(int(value) for value in fields[11:13]), _name(pid)

    def seconds(self) -> tuple[float, float, float]:
        """User and system seconds since the beginning: of the tree, of its JVMs, and of the root alone."""
        total = jvm = driver = 0
        for process, (ticks, name) in self._used.items():
            own = ticks - self._begun.get(process, 0)
            total += own
            jvm += own * (name == "java")
            driver += own * (process[0] == self._root)
        return total / TICKS, jvm / TICKS, driver / TICKS


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def rss_bytes(root: int) -> int:
    """Return the resident bytes of the tree now; a fork in progress is not counted twice."""
    total, seen_java = 0, False
    for pid in tree(root):
        try:
            size = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
        except (OSError, IndexError):
            continue
        if _name(pid) == "java":
            if seen_java:
                continue
            seen_java = True
        total += size
    return total


def worker_rss_bytes(root: int) -> int:
    """Return the resident bytes of the largest process below ``root`` that is no JVM."""
    largest = 0
    for pid in tree(root):
        if pid != root and _name(pid) != "java":
            with suppress(OSError, IndexError):
                largest = max(largest, int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE)
    return largest


@contextmanager
def measured(root: int) -> Iterator[Measured]:
    """Measure the tree while the block runs."""
    result, done = Measured(), threading.Event()
    clock, wall = _Clock(root), time.perf_counter()

    def poll() -> None:
        while not done.wait(_LOOK_SECONDS):
            clock.look()
            result.peak_rss_bytes = max(result.peak_rss_bytes, rss_bytes(root))
            result.worker_rss_bytes = max(result.worker_rss_bytes, worker_rss_bytes(root))

    poller = threading.Thread(target=poll, daemon=True)
    poller.start()
    try:
        yield result
    finally:
        result.wall_seconds = time.perf_counter() - wall
        done.set()
        poller.join()
        clock.look()
        result.cpu_seconds, result.jvm_cpu_seconds, result.driver_cpu_seconds = clock.seconds()


def data_files(table: Path) -> dict[str, int]:
    """Return path and size of every data file under a table, old versions included."""
    return {
        str(path): path.stat().st_size
        for path in table.rglob("*.parquet")
        if ".hoodie" not in path.parts and not path.name.startswith(".")
    }
