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


def cpu_seconds(root: int) -> tuple[float, float, float]:
    """Return user and system seconds of the tree, ended children included, those of its JVMs, and of the root alone."""
    total = jvm = driver = 0
    for pid in tree(root):
        if fields := _stat(pid):
            own = sum(int(value) for value in fields[11:13])
            total += own + sum(int(value) for value in fields[13:15])
            jvm += own * (_name(pid) == "java")
            driver += own * (pid == root)
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

    def poll() -> None:
        while not done.wait(0.3):
            result.peak_rss_bytes = max(result.peak_rss_bytes, rss_bytes(root))
            result.worker_rss_bytes = max(result.worker_rss_bytes, worker_rss_bytes(root))

    poller = threading.Thread(target=poll, daemon=True)
    begun, wall = cpu_seconds(root), time.perf_counter()
    poller.start()
    try:
        yield result
    finally:
        result.wall_seconds = time.perf_counter() - wall
        result.cpu_seconds, result.jvm_cpu_seconds, result.driver_cpu_seconds = (
            after - before for before, after in zip(begun, cpu_seconds(root), strict=True)
        )
        done.set()
        poller.join()


def data_files(table: Path) -> dict[str, int]:
    """Return path and size of every data file under a table, old versions included."""
    return {
        str(path): path.stat().st_size
        for path in table.rglob("*.parquet")
        if ".hoodie" not in path.parts and not path.name.startswith(".")
    }
