"""What planning the clustering of many files costs: ``python -m benchmarks.clustering_plans``.

The files are sparse, so that they take no room; their statistics are recorded beside the timeline as
writes record them. Nothing starts a JVM. Writes CLUSTERING_PLANS.md, below ``BENCH_OUT`` where that is set.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.tables import table, verdict
from parquetry.runtime.clustering.plan.avro import avro_plan
from parquetry.runtime.clustering.plan.survey import survey
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.run_budget import NO_LIMIT, limited_to_budget
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, PlanPolicy
from parquetry.runtime.spec.table_spec import Column, Extra, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.table.handle import create_table, open_table
from parquetry.runtime.table.statistics import encode_statistics
from parquetry.runtime.timeline.clustering_plan import RequestedReplace
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.instant import Action, State, Timezone, next_instant
from parquetry.runtime.timeline.sidecars import statistics_path
from tests.support.timelines import instant_of
from tools.wrap_markdown import wrapped

HERE = Path(__file__).resolve().parent
MIB = 1024 * 1024
MOST_MIB = 4
"""The largest plan file."""

LINEAR = 1.1
"""Cost per file may grow by so much from the fewest files to the most."""

PARTITIONS, COMMITS = 100, 20
EXECUTIONS = {
    "stitch": ExecutionPolicy(),
    "sort": ExecutionPolicy(strategy="sort", columns=("a",)),
    "zorder": ExecutionPolicy(strategy="zorder", columns=("a", "b")),
}


class Counted:
    """A store that counts what is asked of it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if callable(value) and name in {"list", "list_folders", "read", "open_input", "stat"}:
            self.calls[name] += 1
        return value


def make_table(path: Path, files: int) -> Any:
    store = open_store(path)
    spec = TableSpec(
        name="many",
        columns=(
            Column(name="id", type="string", nullable=False),
            Column(name="a", type="bigint"),
            Column(name="b", type="bigint"),
            Column(name="p", type="int"),
        ),
        record_key=("id",),
        partition_by=("p",),
    )
    create_table(store, spec, project="benchmarks")
    handle = open_table(store)
    timeline = handle.timeline()
    schema, instant = handle.schema_json(timeline, spec.columns), timeline.last_instant
    rng = random.Random(files)
    for partition in range(PARTITIONS):
        folder = path / f"p={partition}"
        folder.mkdir()
        (folder / ".hoodie_partition_metadata").write_text(f"commitTime={instant}\npartitionDepth=1\n")
    for commit in range(COMMITS):
        instant = next_instant(instant, 0, Timezone.UTC)
        known = [make_file(path, rng, number, instant) for number in range(commit, files, COMMITS)]
        store.put(statistics_path(instant), encode_statistics(known))
        metadata = CommitMetadata(operation="INSERT", stats={}, extra={"schema": schema})
        store.put(instant_of(instant, Action.COMMIT, State.COMPLETED).path, metadata.to_json())
    return store, spec


def make_file(path: Path, rng: random.Random, number: int, instant: str) -> FileStatistics:
    name = f"p={number % PARTITIONS}/{uuid.UUID(int=rng.getrandbits(128))}-0_0-0-0_{instant}.parquet"
    size = rng.randrange(1, 60 * MIB)
    with (path / name).open("wb") as file:
        file.truncate(size)
    columns = {column: ends(rng) for column in ("a", "b")}
    return FileStatistics(
        path=name,
        size_bytes=size,
        row_groups=(RowGroupStatistics(rows=1000, data_bytes=size, columns=columns),),
    )


def ends(rng: random.Random) -> ColumnStatistics:
    low = rng.randrange(10**6)
    return ColumnStatistics(type="bigint", minimum=low, maximum=low + rng.randrange(10**4), nulls=0)


def measure(store: Any, spec: TableSpec, execution: ExecutionPolicy, number: int) -> dict[str, Any]:
    section = ClusteringSpec(execution=execution, plan=PlanPolicy(max_groups=100_000))
    applied = replace(spec, extra=Extra(clustering=section))
    write_applied(store, applied, number=number)
    counted: Any = Counted(store)
    begun = time.process_time()
    handle = open_table(counted)
    policy, files, situation = survey(handle, handle.timeline())
    seen = time.process_time()
    due = compute_debt(policy, files, situation)
    plan = limited_to_budget(due, NO_LIMIT, max_groups=policy.plan.max_groups)
    planned = time.process_time()
    content = RequestedReplace(operation="CLUSTER", plan=avro_plan(store, plan.groups, policy)).encode()
    return {
        "files": len(files),
        "execution": execution.strategy,
        "planned": plan.files_before,
        "calls": sum(counted.calls.values()),
        "survey": seen - begun,
        "plan": planned - seen,
        "bytes": len(content),
    }


def page(rows: list[dict[str, Any]]) -> str:
    """What it cost by layout, and whether that is linear in the files."""
    head = ["files", "layout", "files planned", "storage calls", "survey, CPU s", "plan, CPU s", "plan file"]
    cells = [
        [
            f"{row['files']:,}",
            row["execution"],
            f"{row['planned']:,}",
            row["calls"],
            f"{row['survey']:.1f}",
            f"{row['plan']:.1f}",
            f"{row['bytes'] / MIB:.2f} MiB",
        ]
        for row in rows
    ]
    largest = max(row["bytes"] for row in rows) / MIB
    lines = [
        "# Planning the clustering of many files",
        "",
        f"Each table has {PARTITIONS} partitions, {COMMITS} commits and files of 0 to 60 MiB. Its statistics are recorded beside the timeline. *Survey* lists and reads files. *Plan* makes the plan and its Avro file. No JVM starts.",
        "",
        f"Figures are CPU seconds of one process on a machine of {os.cpu_count()} cores. `python -m benchmarks.clustering_plans` writes this page.",
        "",
        *table(head, cells),
        f"- The largest plan file takes {largest:.2f} MiB (goal less than {MOST_MIB}: {verdict(reached=largest < MOST_MIB)}).",
    ]
    for layout in EXECUTIONS:
        mine = [row for row in rows if row["execution"] == layout]
        first, last = mine[0], mine[-1]
        times = last["files"] / first["files"]
        cost = (last["survey"] + last["plan"]) / (first["survey"] + first["plan"])
        lines.append(
            f"- {layout}: {times:g} times the files cost {cost:.2f} times the CPU (linear: {verdict(reached=cost <= LINEAR * times)})."
        )
    return wrapped("\n".join([*lines, ""]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[25_000, 50_000, 100_000])
    rows = []
    for files in sorted(parser.parse_args().files):
        with tempfile.TemporaryDirectory() as folder:
            store, spec = make_table(Path(folder) / "table", files)
            for number, execution in enumerate(EXECUTIONS.values(), start=1):
                rows.append(measure(store, spec, execution, number))
                print(rows[-1], flush=True)
    shown = page(rows)
    (Path(os.environ.get("BENCH_OUT", HERE)) / "CLUSTERING_PLANS.md").write_text(shown)
    print(shown)


if __name__ == "__main__":
    main()
