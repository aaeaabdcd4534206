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
    from benchmarks.bench import Bench

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


def stitched(bench: Bench) -> None:
    """W4a."""
    clustering(bench, "W4a")


def sorted_(bench: Bench) -> None:
    """W4b, and W5b on what it left."""
    clustering(bench, "W4b")
    point_queries(bench, formats(bench))


def curve(bench: Bench) -> None:
    """W4c, and W5 on what it left."""
    clustering(bench, "W4c")
    rows_to_scan(bench, formats(bench))


def formats(bench: Bench) -> list[str]:
    return [name for name in FORMATS if name in bench.peers]


def small_files(bench: Bench) -> None:
    """Let each format write the same small files, once in a run; the floor takes those of plain Spark."""
    for name in [*formats(bench), *(["plain"] if "plain" in bench.peers else [])]:
        for table in ("small", "w4") if name == "iceberg" else ("small",):
            scatter_small_files(bench, name, table)


def scatter_small_files(bench: Bench, name: str, table: str) -> None:
    """Let a peer write the small files, unless it has them."""
    source, files = scattered(bench)
    per_file = -(-bench.counts["base"] // (files * 7))
    if not bench.data(name, table).exists():
        bench.peers[name].do(
            "scatter", table=bench.table(name, table), source=str(source), rows_per_file=per_file
        )


def clustering(bench: Bench, workload: str) -> None:
    """Let the formats cluster the same small files, in turns; pyarrow shows what no format can be below."""
    small_files(bench)
    layout, columns = LAYOUTS[workload]
    floor = ["arrow"] if {"arrow", "plain"} <= bench.peers.keys() and layout != "zorder" else []
    for _ in range(bench.long_reps):
        for name in [*formats(bench), *floor]:
            rewrite(bench, workload, name, layout, columns)


def rewrite(bench: Bench, workload: str, name: str, layout: str, columns: list[str]) -> None:
    """Let a format cluster a copy of its small files; record the cost, check the rows."""
    peer, table = bench.peers[name], bench.table(name, "w4")
    if name == "iceberg":  # a catalogue knows its tables by place
        peer.do("reset", table=table)
    else:
        source = bench.data("plain" if name == "arrow" else name, "small")
        shutil.rmtree(table, ignore_errors=True)
        shutil.copytree(source, table)
    before = data_files(bench.data(name, "w4"))
    _, cost = peer.do("cluster", table=table, layout=layout, columns=columns, target=2 * bench.maximum)
    live, _ = peer.do("paths", table=table)
    bench.left(
        workload,
        f"{name} {layout}",
        name,
        "w4",
        cost,
        before,
        expect=bench.counts["base"],
        stored_bytes=stored_bytes(live["paths"]),
    )


def values_of(bench: Bench, column: str) -> list[int]:
    """Values that occur, each as likely as its rows are many."""
    known = pq.read_table(bench.inputs / "base.parquet", columns=[column])[column].to_numpy()
    return [int(value) for value in np.random.default_rng(11).choice(known, VALUES, replace=False)]


def point_queries(bench: Bench, names: list[str]) -> None:
    """W5b: a point query through the format's own reader, before and after the sort, in turns."""
    values = values_of(bench, "l_partkey")
    for number in range(bench.reps + 1):  # the first is for warming up
        found = set()
        for name in names:
            for state, table in (("before", "small"), ("after", "w4")):
                answer, cost = bench.peers[name].do(
                    "query", table=bench.table(name, table), where=f"l_partkey = {values[number]}"
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


def rows_to_scan(bench: Bench, names: list[str]) -> None:
    """W5: the share of rows in row groups, and in pages, that may hold a value of either column."""
    for name in names:
        live, _ = bench.peers[name].do("paths", table=bench.table(name, "w4"))
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
