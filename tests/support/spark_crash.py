"""What crashed Spark writes are tried on, and what must hold after each of them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from parquetry.runtime.services.clean import clean
from parquetry.runtime.spark.read.table import read_table
from parquetry.runtime.spec.table_spec import DEFAULT_TABLE_VERSION, Operation
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.storage.paths import finished_name
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.sidecars import CLAIMS_FOLDER
from tests.support.fault_store import Deed
from tests.support.orphans import leftovers
from tests.support.small_table import FAST, Rows, SmallTable, make_table, rows_of, view_rows
from tests.support.spark_writes import SparkWrite

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
"""For the clean at the end: unfinished files need no time of grace, as nobody writes."""

BASE: Rows = {f"k{n}": (n, "abc"[n % 3]) for n in range(12)}
OLD: Rows = {**BASE, "k0": (50, "a"), "k1": (50, "b")}
"""What the prepared table holds."""

_CHANGES: Rows = {"k0": (100, "a"), "k4": (101, "b"), "n0": (102, "b"), "n1": (103, "d")}
_FRESH: Rows = {"n0": (200, "a"), "n1": (201, "d"), "n2": (202, "d")}
WRITES = {
    "upsert": SparkWrite(operation=Operation.UPSERT, rows=_CHANGES),
    "insert": SparkWrite(operation=Operation.INSERT, rows=_FRESH),
    "insert_overwrite": SparkWrite(operation=Operation.INSERT_OVERWRITE, rows=_FRESH),
    "delete": SparkWrite(operation=Operation.DELETE, rows={"k0": (0, "a"), "k4": (0, "b"), "k9": (0, "a")}),
    "delete_partition": SparkWrite(operation=Operation.DELETE_PARTITION, rows={"": (0, "a")}),
    "upsert on a cluster": SparkWrite(operation=Operation.UPSERT, rows=_CHANGES, on_cluster=True),
    "insert on a cluster": SparkWrite(operation=Operation.INSERT, rows=_FRESH, on_cluster=True),
}
DATA_FILE = r"^p=.*\.parquet$"
POINTS = {
    "after requested": ("put_if_absent", r"commit\.requested$", "after"),
    "after in-flight": ("put_if_absent", r"\.inflight$", "after"),
    "while files are written": ("create_file", DATA_FILE, "before"),
    "between two files": ("create_file", DATA_FILE, "after"),
    "holding the lock before the commit": ("put_if_absent", r"\.aux/lock$", "after"),
    "holding the lock after the commit": ("put_if_absent", r"/[0-9_]+\.(replace)?commit$", "after"),
    "before the markers are gone": ("delete_folder", r"\.temp/", "before"),
}
"""Where writers are killed: kind and path of a storage operation, and before or after it."""

NEXT: Rows = {"k1": (999, "b"), "next": (1, "e")}


def prepare(spark: Any, path: Path, *, table_version: int = DEFAULT_TABLE_VERSION, **retention: int) -> None:
    """A table written by Spark whose rows are ``OLD``, with two versions of some files."""
    make_table(path, table_version=table_version, **(retention or {"keep_commits": 50}))
    store = open_store(path)
    SparkWrite(operation=Operation.UPSERT, rows=BASE).perform(spark, store)
    SparkWrite(operation=Operation.UPSERT, rows={"k0": OLD["k0"], "k1": OLD["k1"]}).perform(spark, store)
    assert rows_of(path) == view_rows(path) == OLD


def spark_rows(spark: Any, path: Path) -> Rows:
    """The table's rows as our reader on Spark gives them; a key that occurs twice fails."""
    rows = read_table(spark, open_table(open_store(path))).select("id", "v", "p").collect()
    found = {row.id: (row.v, row.p) for row in rows}
    assert len(found) == len(rows), "a key occurs twice"
    return found


def fault_at(point: str, deed: Deed) -> dict[str, str]:
    """The deed at one of ``POINTS``, as a writer process is told of it."""
    kind, path, when = POINTS[point]
    return {"deed": deed.value, "kind": kind, "path": path, "when": when}


def is_committed(point: str) -> bool:
    """Whether a write stands that ended at this one of ``POINTS``."""
    return [*POINTS].index(point) >= [*POINTS].index("holding the lock after the commit")


def survives(path: Path, allowed: Iterable[Rows], *, spark: Any = None, patience: Any = None) -> Rows:
    """The state in which the crash left the table, one of ``allowed``, after all was found to be well.

    The next write goes through ``spark``, or without one through the writer that needs none.
    ``patience`` is called before the final clean: whoever outlived the crash may come to an end.
    """
    state = rows_of(path)
    assert view_rows(path) == state, "hudi-rs and our view disagree"
    assert state in [*allowed], f"neither old nor new: {state}"
    store = open_store(path)
    if spark is None:
        result = SmallTable(store=store).upsert(NEXT)
    else:
        assert spark_rows(spark, path) == state
        result = SparkWrite(operation=Operation.UPSERT, rows=NEXT).perform(spark, store)
    assert result.retries == 0
    assert result.warnings == ()
    expected = {**state, **NEXT}
    assert rows_of(path) == view_rows(path) == expected, "after the next write"
    if patience is not None:
        patience()
    _end_process(store)
    cleaned = clean(open_table(store), timing=AT_ONCE)
    assert rows_of(path) == view_rows(path) == expected, "after the clean"
    left = leftovers(path)
    assert left == [], f"after the clean {cleaned}: {left}"
    return state


def _end_process(store: Any) -> None:
    """Let claims of this process be those of one that has died, for which a stopped writer stands.

    A clean spares the stage of a process that lives: it may be between two attempts.
    """
    for info in store.list(CLAIMS_FOLDER):
        if finished_name(info.path) is not None:
            continue  # a claim that was being written
        document = json.loads(store.read(info.path))
        owner = document.get("owner", document)
        if owner.get("pid") == os.getpid():
            owner["process_start"] = "another"
            store.put(info.path, json.dumps(document).encode())


def wait_until_idle(spark: Any) -> None:
    """Return when no job runs in the JVM, those of writers that were killed included."""
    tracker = spark.sparkContext.statusTracker()
    while tracker.getActiveJobsIds():
        time.sleep(0.05)
