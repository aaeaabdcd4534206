"""What planning costs: ``python -m benchmarks.plans [--tables 1000] [--files 100000]``.

Many applied tables of which ten changed, and one table of many files and 500 instants that changes. CPU
seconds of this process and requests to the store; nothing starts a JVM.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from parquetry.compiler.applying import apply_plan
from parquetry.compiler.planning import plan_workspace
from parquetry.compiler.workspace import Workspace, open_workspace
from parquetry.runtime.layout.file_statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.statistics import encode_statistics, sidecar_path
from parquetry.runtime.storage import open_store
from parquetry.runtime.table import open_table
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.instant import Action, Instant, State, Timezone, next_instant

MIB = 1024 * 1024
CHANGED, INSTANTS, PARTITIONS = 10, 500, 100
PROJECT = {
    "apiVersion": "parquetry/v1",
    "kind": "project",
    "name": "many",
    "default_target": "dev",
    "targets": {"dev": {"warehouse": "./warehouse"}},
}
TABLE = {
    "apiVersion": "parquetry/v1",
    "kind": "table",
    "columns": [
        {"name": "id", "type": "bigint", "nullable": False},
        *({"name": f"c{n}", "type": "string"} for n in range(20)),
        {"name": "p", "type": "int"},
    ],
    "record_key": ["id"],
    "partition_by": ["p"],
    "queries": [{"name": "some", "where": "id < 1000"}],
}
CLUSTERING = {"trigger": "async", "execution": {"strategy": "sort", "columns": ["id"]}}


class Counted:
    """A store that counts what is asked of it."""

    def __init__(self, inner: Any, calls: Counter[str]) -> None:
        self.inner, self.calls = inner, calls

    def __getattr__(self, name: str) -> Any:
        if name in {"list", "list_folders", "read", "open_input", "stat"}:
            self.calls[name] += 1
        return getattr(self.inner, name)


def declare(root: Path, name: str, **changes: Any) -> None:
    (root / "tables").mkdir(parents=True, exist_ok=True)
    (root / "parquetry.yml").write_text(yaml.safe_dump(PROJECT))
    (root / "tables" / f"{name}.yml").write_text(yaml.safe_dump(TABLE | {"name": name} | changes))


def workspace(root: Path) -> Workspace:
    return open_workspace(root, target=None, variables={}, environment={})


def apply(root: Path) -> None:
    made = workspace(root)
    result = apply_plan(plan_workspace(made, now_ms=0), made)
    if result.failure is not None:
        raise result.failure


def measured(name: str, work: Callable[[], Any]) -> Any:
    started, cpu = time.perf_counter(), time.process_time()
    result = work()
    spent, busy = time.perf_counter() - started, time.process_time() - cpu
    print(f"{name:<44} {busy:7.2f} s CPU  {spent:7.2f} s")
    return result


def many_tables(root: Path, count: int) -> None:
    for n in range(count):
        declare(root, f"t{n:05d}")
    apply(root)
    for n in range(CHANGED):
        declare(root, f"t{n:05d}", description="Changed.")
    made = measured(f"load {count} tables", lambda: workspace(root))
    calls: Counter[str] = Counter()
    counted = replace(made, open=lambda place, options: Counted(open_store(place, options), calls))
    plan = measured(f"plan {count} tables, {CHANGED} changed", lambda: plan_workspace(counted, now_ms=0))
    print(f"  {len(plan.intent.actions)} actions; requests {dict(calls)}")


def many_files(root: Path, count: int) -> None:
    declare(root, "big")
    apply(root)
    path = root / "warehouse/big"
    store = open_store(path)
    handle = open_table(store)
    timeline = handle.timeline()
    schema = timeline.commit_metadata(timeline.completed_writes[-1].time).schema
    instant = timeline.last_instant
    for partition in range(PARTITIONS):
        folder = path / f"p={partition}"
        folder.mkdir()
        (folder / ".hoodie_partition_metadata").write_text(f"commitTime={instant}\npartitionDepth=1\n")
    for commit in range(INSTANTS):
        instant = next_instant(instant, 0, Timezone.UTC)
        known = [make_file(path, number, instant, count) for number in range(commit, count, INSTANTS)]
        store.put(sidecar_path(instant), encode_statistics(known))
        content = CommitMetadata(operation="INSERT", extra={"schema": schema}).to_json()
        for state, text in ((State.REQUESTED, b""), (State.INFLIGHT, b""), (State.COMPLETED, content)):
            store.put(Instant(time=instant, action=Action.COMMIT, state=state).path, text)
    declare(root, "big", clustering=CLUSTERING)
    calls: Counter[str] = Counter()
    counted = replace(workspace(root), open=lambda place, options: Counted(open_store(place, options), calls))
    name = f"plan a table of {count} files, {INSTANTS} instants"
    plan = measured(name, lambda: plan_workspace(counted, now_ms=0))
    print(f"  {plan.evidence.figures['big'].debt}; requests {dict(calls)}")


def make_file(path: Path, number: int, instant: str, count: int) -> FileStatistics:
    """A sparse file of 40 MiB, and what a write records of it."""
    name = f"p={number % PARTITIONS}/{uuid.UUID(int=number + 1)}-0_{number}-0-0_{instant}.parquet"
    with (path / name).open("wb") as file:
        file.truncate(40 * MIB)
    low = number * 7919 % count
    bounds = ColumnStatistics(type="bigint", minimum=low, maximum=low + 1000, nulls=0)
    group = RowGroupStatistics(rows=100_000, data_bytes=40 * MIB, columns={"id": bounds})
    return FileStatistics(path=name, size_bytes=40 * MIB, row_groups=(group,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--files", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        many_tables(Path(folder) / "tables", arguments.tables)
        many_files(Path(folder) / "files", arguments.files)


if __name__ == "__main__":
    main()
