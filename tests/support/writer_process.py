"""A writer as a process of its own: random writes, and what it was told, line by line.

``python -m tests.support.writer_process '<json>'`` with ``path``, ``log``, ``name``, ``seed`` and either
``writes`` or ``seconds``; optionally ``signal``: where to send which signal to oneself.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from parquetry.runtime.errors import ConflictError
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timing import Timing
from tests.support.no_fsync import skip_fsync
from tests.support.repository import ROOT
from tests.support.small_table import FAST, Rows, SmallTable
from tests.support.stores import Kind, WrappedStore

SHARED_KEYS = 60
PARTITIONS = "abc"


@dataclass(frozen=True, kw_only=True)
class SignalAt:
    """At an operation of that kind whose path matches ``path`` (a regex), before or after it.

    The first ``skip`` such operations are let pass.
    """

    kind: str
    path: str
    when: str
    number: int = int(signal.SIGKILL)
    skip: int = 0


class SignalStore(WrappedStore):
    """Sends this process a signal at a named point."""

    def __init__(self, inner: ObjectStore, at: SignalAt) -> None:
        super().__init__(inner)
        self.at = at
        self.seen = 0

    def before(self, kind: Kind, path: str) -> None:
        if kind == self.at.kind and re.search(self.at.path, path) and self.at.when == "before":
            self._hit()

    def after(self, kind: Kind, path: str) -> None:
        if kind == self.at.kind and re.search(self.at.path, path) and self.at.when == "after":
            self._hit()

    def _hit(self) -> None:
        self.seen += 1
        if self.seen == self.at.skip + 1:
            os.kill(os.getpid(), self.at.number)


@contextmanager
def started(*tasks: Mapping[str, Any]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes, started; none of them outlives the block."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for task in tasks:
            command = [sys.executable, "-m", "tests.support.writer_process", json.dumps(task)]
            root = ROOT
            environment = {**os.environ, "PYTHONPATH": str(root)}
            processes.append(subprocess.Popen(command, cwd=root, env=environment))
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def stopped(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has been stopped by a signal (state T)."""
    status = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return status[0] == "T"


def told(*logs: Path) -> list[dict[str, Any]]:
    """What the writers were told had been committed, in the order of the instants."""
    found = [line for log in logs for line in lines(log) if line.get("instant")]
    return sorted(found, key=lambda line: str(line["instant"]))


def lines(log: Path) -> list[dict[str, Any]]:
    """What one writer was told about each of its writes."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def attempted(log: Path) -> dict[str, Any] | None:
    """The write that the process had begun and was told nothing about; None when there was none."""
    last = lines(log)[-1:]
    return last[0] if last and "instant" not in last[0] else None


def replay(commits: list[dict[str, Any]]) -> dict[str, tuple[int, str]]:
    """The rows after these commits."""
    rows: dict[str, tuple[int, str]] = {}
    for commit in commits:
        if commit["operation"] == "delete":
            for key in commit["keys"]:
                rows.pop(key, None)
        else:
            rows.update({key: (row[0], row[1]) for key, row in commit["rows"].items()})
    return rows


def main(task: Mapping[str, Any]) -> None:
    skip_fsync()
    rng = random.Random(task["seed"])
    store = open_store(task["path"])
    if task.get("signal"):
        store = SignalStore(store, SignalAt(**task["signal"]))
    timing = Timing(**{**{k: v for k, v in asdict(FAST).items() if k != "sleep"}, **task.get("timing", {})})
    table = SmallTable(store=store, timing=timing, small_file_rows=task.get("fill", 20), services=True)
    until = time.monotonic() + task.get("seconds", 3600)
    number = 0
    with Path(task["log"]).open("a") as log:
        while number < task.get("writes", 10**9) and time.monotonic() < until:
            number += 1
            plan = _plan(rng, task["name"], number)
            log.write(json.dumps(plan) + "\n")
            log.flush()
            began = time.monotonic()
            answer = _write(table, **plan)
            log.write(json.dumps({**answer, "seconds": time.monotonic() - began}) + "\n")
            log.flush()


def _plan(rng: random.Random, name: str, number: int) -> dict[str, Any]:
    operation = rng.choice(["upsert", "upsert", "upsert", "insert", "delete"])
    value = number * 10 + ord(name[0]) % 10
    if operation == "upsert":
        # A key stays in its partition: it is unique there, not in the table.
        picked = rng.sample(range(SHARED_KEYS), 5)
        rows = {f"k{n}": (value, PARTITIONS[n % len(PARTITIONS)]) for n in picked}
        return {"operation": operation, "rows": rows, "keys": []}
    if operation == "insert":
        rows = {f"{name}{number}-{n}": (value, rng.choice(PARTITIONS)) for n in range(3)}
        return {"operation": operation, "rows": rows, "keys": []}
    keys = [f"k{n}" for n in rng.sample(range(SHARED_KEYS), 4)]
    return {"operation": operation, "rows": {}, "keys": keys}


def _write(table: SmallTable, *, operation: str, rows: Rows, keys: list[str]) -> dict[str, Any]:
    try:
        if operation == "upsert":
            result = table.upsert(rows)
        elif operation == "insert":
            result = table.insert(rows)
        else:
            result = table.delete(keys)
            keys = table.deleted
    except ConflictError as error:
        return {"instant": None, "operation": operation, "error": str(error)}
    return {
        "instant": result.instant,
        "operation": operation,
        "rows": dict(rows),
        "keys": keys,
        "retries": result.retries,
        "reasons": [*map(str, result.retry_reasons)],
        "warnings": [*map(str, result.warnings)],
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
