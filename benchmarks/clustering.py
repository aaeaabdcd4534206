"""The clustering workloads: W4a to W4c rewrite small files, W5 and W5b ask what that is worth."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.measure import data_files
from benchmarks.skipping import covering, row_groups, stored_bytes

if TYPE_CHECKING:
    from benchmarks.run import Bench

MIB = 1 << 20
LAYOUTS = {
    "W4a": ("stitch", []),
    "W4b": ("sort", ["l_partkey"]),
    "W4c": ("zorder", ["l_partkey", "l_suppkey"]),
}
FORMATS = ("parquetry", "hudi", "delta", "iceberg", "delta-rs")
INPUT_FILES = 57
"""So many files of each of the 7 partitions at scale 1: 399 in all."""

VALUES = 20


def scattered(bench: Bench) -> tuple[Path, int]:
    """The base rows in files of equal size, in random order; the folder, and how many they are."""
    files = max(4, round(INPUT_FILES * min(bench.scale, 1)))
    folder = bench.inputs / f"small-{files}"
    if not folder.exists():
        table = pq.read_table(bench.inputs / "base.parquet")
        order = np.random.default_rng(7).permutation(table.num_rows)
        bounds = np.linspace(0, table.num_rows, files + 1).astype(int)
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for number in range(files):
            part = table.take(order[bounds[number] : bounds[number + 1]])
            pq.write_table(part, partial / f"{number:03d}.parquet")
        partial.rename(folder)
    return folder, files


def curve_alone(bench: Bench) -> None:
    """W4c, and W5 on what it left."""
    clustering(bench, "W4c")


def clustering(bench: Bench, *workloads: str) -> None:
    """W4a, W4b, W4c on the same small files; W5 on what W4c left, W5b on what W4b left."""
    source, files = scattered(bench)
    rows = bench.counts["base"]
    formats = [name for name in FORMATS if name in bench.peers]
    per_file = -(-rows // (files * 7))
    floor = "arrow" in bench.peers and "plain" in bench.peers
    for name in [*formats, *(["plain"] if floor else [])]:
        for table in ("small", "w4") if name == "iceberg" else ("small",):
            path = str(bench.tables / name / table)
            bench.peers[name].do("scatter", table=path, source=str(source), rows_per_file=per_file)
    target = 2 * bench.maximum
    for workload in workloads or LAYOUTS:
        layout, columns = LAYOUTS[workload]
        for _ in range(bench.clustering_reps):
            for name in formats:
                rewrite(bench, workload, name, layout, columns, target)
            if floor and layout != "zorder":
                rewrite(bench, workload, "arrow", layout, columns, target)
        if workload == "W4b":
            point_queries(bench, formats)
        if workload == "W4c":
            rows_to_scan(bench, formats)


def rewrite(bench: Bench, workload: str, name: str, layout: str, columns: list[str], target: int) -> None:
    """Let a format cluster a copy of its small files; record the cost, check the rows."""
    path = bench.tables / name / "w4"
    if name == "iceberg":
        bench.peers[name].do("reset", table=str(path))
    else:
        source = bench.tables / ("plain" if name == "arrow" else name) / "small"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(source, path)
    data = bench.tables / "iceberg" / "db" / "w4" if name == "iceberg" else path
    before = data_files(data)
    _, cost = bench.peers[name].do("cluster", table=str(path), layout=layout, columns=columns, target=target)
    new = {path: size for path, size in data_files(data).items() if path not in before}
    answer, _ = bench.peers[name].do("count", table=str(path))
    if answer["rows"] != bench.counts["base"]:
        raise SystemExit(f"{workload} {name}: {answer['rows']} rows, {bench.counts['base']} expected")
    live, _ = bench.peers[name].do("paths", table=str(path))
    bench.add(
        workload,
        f"{name} {layout}",
        name,
        cost,
        bytes_written=sum(new.values()),
        files_written=len(new),
        live_sizes_bytes=sorted(Path(each).stat().st_size for each in live["paths"]),
        stored_bytes=stored_bytes(live["paths"]),
        rows=answer["rows"],
    )


def values_of(bench: Bench, column: str) -> list[int]:
    """Values that occur, each as likely as its rows are many."""
    known = pq.read_table(bench.inputs / "base.parquet", columns=[column])[column].to_numpy()
    return [int(value) for value in np.random.default_rng(11).choice(known, VALUES, replace=False)]


def point_queries(bench: Bench, formats: list[str]) -> None:
    """W5b: a point query through the format's own reader, before and after the sort, in turns."""
    values = values_of(bench, "l_partkey")
    for number in range(bench.reps + 1):  # the first is for warming up
        found = set()
        for name in formats:
            for state, table in (("before", "small"), ("after", "w4")):
                answer, cost = bench.peers[name].do(
                    "query", table=str(bench.tables / name / table), where=f"l_partkey = {values[number]}"
                )
                found.add(answer["rows"])
                if number:
                    row: dict[str, Any] = {
                        "workload": "W5b", "peer": name, "state": state, "rows": answer["rows"], "scanned": answer.get("scanned"),
                        "wall_seconds": round(cost.wall_seconds, 4), "cpu_seconds": round(cost.cpu_seconds, 3),
                    }  # fmt: skip
                    bench.rows.append(row)
        if len(found) != 1:
            raise SystemExit(f"W5b, l_partkey = {values[number]}: the tables do not agree: {found} rows")


def rows_to_scan(bench: Bench, formats: list[str]) -> None:
    """W5: the share of rows in row groups, and in pages, that may hold a value of either column."""
    for name in formats:
        live, _ = bench.peers[name].do("paths", table=str(bench.tables / name / "w4"))
        for column in ("l_partkey", "l_suppkey"):
            files = [row_groups(path, column) for path in live["paths"]]
            each = [covering(files, value) for value in values_of(bench, column)]
            share = 1 / len(each) / bench.counts["base"]
            bench.rows.append(
                {
                    "workload": "W5",
                    "peer": name,
                    "column": column,
                    "row_group_share": sum(c.row_group_rows for c in each) * share,
                    "page_share": sum(c.page_rows for c in each) * share,
                    "has_pages": all(group.pages for groups in files for group in groups),
                }
            )
