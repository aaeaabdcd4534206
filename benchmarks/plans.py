"""What looking and planning costs: ``python -m benchmarks.plans [--tables 1000] [--files 100000]``.

``--help`` beside a bare interpreter; many applied tables of which ten changed, and then all; one table of many
files and 500 instants that changes. CPU seconds and memory of the command as a process, and requests to the
store; nothing starts a JVM. Writes benchmarks/PLANS.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.opened import Workspace, open_workspace
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.statistics import encode_statistics
from parquetry.runtime.timeline.commit import CommitMetadata, WriteStat
from parquetry.runtime.timeline.instant import Action, Timezone, next_instant
from parquetry.runtime.timeline.sidecars import statistics_path

HERE = Path(__file__).parent
SCRIPT = Path(sys.executable).parent / "parquetry"
MIB = 1024 * 1024
STARTS = 10
MOST_ABOVE_BARE = 0.15
"""CPU seconds that ``--help`` may take longer than an interpreter that does nothing."""
MOST_OF_GUARDRAILS = 2.0
"""CPU seconds that the guardrails of the examples may take beside the plan of many tables."""

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
PAGE = """# Validate and plan

These commands start no JVM. Figures are CPU seconds (user and system) and the largest resident memory of the whole
process, on a machine of {cores} cores. The first two are the cheapest of ten starts, the others the cheapest of three.

The tables have 22 columns and one declared query. The files of the large table are sparse. Their statistics are
recorded beside the timeline, as writes record them. `python -m benchmarks.plans` writes this page.

| command | CPU s | MiB | |
|---|---|---|---|
{rows}
"""
CLUSTERING = {"trigger": "async", "execution": {"strategy": "sort", "columns": ["id"]}}


_MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


class Counted:
    """A store that counts what is asked of it."""

    def __init__(self, inner: Any, calls: Counter[str]) -> None:
        self.inner, self.calls, self.lock = inner, calls, threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if name in {"list", "list_folders", "read", "open_input", "stat"}:
            with self.lock:
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


def cost(*command: object, times: int = 3) -> tuple[float, float]:
    """Return the CPU seconds and the MiB of the cheapest of some runs of a command."""
    return min(_cost(*command) for _ in range(times))


def _cost(*command: object) -> tuple[float, float]:
    # A process begins with the memory of the one that starts it, so it is a small one that does.
    words = [sys.executable, "-c", _MEASURED, *map(str, command)]
    seconds, mib = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(mib)


def row(name: str, spent: tuple[float, float], remark: str = "") -> str:
    line = f"| {name} | {spent[0]:.2f} | {spent[1]:.0f} | {remark} |"
    print(line, flush=True)
    return line


def requests(made: Workspace) -> tuple[Any, str]:
    """Return the plan, and what the store was asked for it."""
    calls: Counter[str] = Counter()
    counted = replace(
        made, open=lambda place, options, allowed: Counted(open_store(place, options, allowed), calls)
    )
    plan = plan_workspace(counted, now_ms=0)
    return plan, "requests: " + ", ".join(f"{number:,} {name}" for name, number in sorted(calls.items()))


def starts() -> Iterator[str]:
    """The cheapest of some starts, each: that is what a start costs on a machine that does other things too."""
    bare, shown = (
        cost(*command, times=STARTS) for command in ((sys.executable, "-c", "pass"), (SCRIPT, "--help"))
    )
    yield row("a bare interpreter", bare)
    above = shown[0] - bare[0]
    verdict = "reached" if above <= MOST_ABOVE_BARE else "**not reached**"
    yield row("`parquetry --help`", shown, f"{above:.2f} s more; goal at most {MOST_ABOVE_BARE}: {verdict}")


def many_tables(root: Path, count: int) -> Iterator[str]:
    for n in range(count):
        declare(root, f"t{n:05d}")
    apply(root)
    for n in range(CHANGED):
        declare(root, f"t{n:05d}", description="Changed.")
    yield row(f"`validate`, {count:,} tables", cost(SCRIPT, "validate", "-p", root))
    spent = cost(SCRIPT, "plan", "-p", root)
    plan, asked = requests(workspace(root))
    assert len(plan.intent.actions) == CHANGED
    yield row(f"`plan`, {count:,} tables, {count - CHANGED:,} of them unchanged", spent, asked)
    for n in range(CHANGED, count):
        declare(root, f"t{n:05d}", description="Changed.")
    spent = cost(SCRIPT, "plan", "-p", root)
    plan, asked = requests(workspace(root))
    assert len(plan.intent.actions) == count
    yield row(f"`plan`, {count:,} tables, all of them changed", spent, asked)
    rules = guard(root)
    guarded = cost(SCRIPT, "plan", "-p", root)
    above = guarded[0] - spent[0]
    verdict = "reached" if above <= MOST_OF_GUARDRAILS else "**not reached**"
    remark = f"{above:.2f} s more; goal at most {MOST_OF_GUARDRAILS}: {verdict}"
    yield row(f"the same with {rules} guardrails, one of which warns of every table", guarded, remark)


def guard(root: Path) -> int:
    """Put the guardrails of the examples into the project; return how many. The tables keep no three versions."""
    shutil.copytree(HERE.parent / "examples" / "guardrails" / "guardrails", root / "guardrails")
    file = root / "guardrails" / "three_versions.yml"
    file.write_text(file.read_text().replace("message:", "severity: warn\nmessage:").split("examples:")[0])
    return len(list((root / "guardrails").glob("*.yml")))


def many_files(root: Path, count: int) -> Iterator[str]:
    declare(root, "big")
    apply(root)
    add_files(root / "warehouse/big", count)
    declare(root, "big", clustering=CLUSTERING)
    spent = cost(SCRIPT, "plan", "-p", root)
    plan, asked = requests(workspace(root))
    assert plan.evidence.figures["big"].files == count
    yield row(f"`plan`, a table of {count:,} files and {INSTANTS} instants", spent, asked)


def add_files(path: Path, count: int, *, names_files: bool = False) -> None:
    """Write what so many inserts leave: their files, statistics and instants, whose commits may name the files."""
    store = open_store(path)
    handle = open_table(store)
    timeline, layout = handle.timeline(), handle.config.timeline_layout
    schema = timeline.commit_metadata(timeline.completed_writes[-1].time).schema
    instant = timeline.last_instant
    for partition in range(PARTITIONS):
        folder = path / f"p={partition}"
        folder.mkdir()
        (folder / ".hoodie_partition_metadata").write_text(f"commitTime={instant}\npartitionDepth=1\n")
    for commit in range(INSTANTS):
        instant = next_instant(instant, 0, Timezone.UTC)
        known = [make_file(path, number, instant, count) for number in range(commit, count, INSTANTS)]
        store.put(statistics_path(instant), encode_statistics(known))
        stats = stats_of(known) if names_files else {}
        commit_metadata = CommitMetadata(operation="INSERT", extra={"schema": schema}, stats=stats)
        requested = layout.requested(instant, Action.COMMIT)
        completed = layout.completion_of(requested, after=instant, now_ms=0)
        for pending in requested.pending_states:
            store.put(pending.path, b"")
        store.put(completed.path, layout.encode_commit(commit_metadata))
        instant = completed.position


def stats_of(files: Iterable[FileStatistics]) -> dict[str, tuple[WriteStat, ...]]:
    """What the commit of an insert says of new files, by partition."""
    found: dict[str, tuple[WriteStat, ...]] = {}
    for file in files:
        partition, _, name = file.path.partition("/")
        stat = WriteStat(
            file_id=name.partition("_")[0],
            path=file.path,
            partition_path=partition,
            num_writes=file.rows,
            num_inserts=file.rows,
            file_size_bytes=file.size_bytes,
        )
        found[partition] = (*found.get(partition, ()), stat)
    return found


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
        rows = [
            *starts(),
            *many_tables(Path(folder) / "tables", arguments.tables),
            *many_files(Path(folder) / "files", arguments.files),
        ]
    (HERE / "PLANS.md").write_text(PAGE.format(rows="\n".join(rows), cores=os.cpu_count()), encoding="utf-8")


if __name__ == "__main__":
    main()
