"""W8: the same work on one machine and on standalone clusters of two workers, ours and Hudi's in turns."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench
from benchmarks.clustering import LAYOUTS, rewrite, scatter_small_files
from benchmarks.peers import CLUSTERS
from benchmarks.writing import BATCHES, TUNED

ALONE = "parquetry"
"""The peer on one machine that ours on a cluster is compared with."""


def clusters(bench: Bench) -> None:
    """Insert, upsert, delete, sort and z-order; each peer has a cluster of its own."""
    if ALONE not in bench.peers:
        raise SystemExit("W8 compares with parquetry on one machine; name it in PEERS")
    names = [name for name in CLUSTERS if name.partition("-")[0] in bench.peers]
    for name in names:
        bench.peers[name] = bench.start(name)
        bench.warm_up(name)
    try:
        _writes(bench, [ALONE, *names])
        for workload in ("W4b", "W4c"):
            layout, columns = LAYOUTS[workload]
            for _ in range(bench.long_reps):
                for name in (ALONE, *names):
                    scatter_small_files(bench, name, "small")
                    rewrite(bench, "W8", name, layout, columns)
    finally:
        for name in names:
            bench.peers.pop(name).close()


def _writes(bench: Bench, names: list[str]) -> None:
    base, batch, gone = (bench.counts[what] for what in ("base", "batch", "delete"))

    def step(name: str, operation: str, source: str, expect: int, **more: Any) -> None:
        kind = " of a frame that computes" if more.get("computes") else ""
        if name.startswith("hudi"):
            more["options"] = TUNED
        bench.write("W8", f"{name} {operation}{kind}", name, "t", source, operation, expect=expect, **more)

    for number in range(min(bench.long_reps, BATCHES)):
        for name in names:
            if not name.startswith("hudi"):
                step(name, "insert", "base.parquet", base, fresh=True, computes=True)
        for operation, source, expect in (
            ("insert", "base.parquet", base),
            ("upsert", f"upsert{number}.parquet", base + batch),
            ("delete", f"delete{number}.parquet", base + batch - gone),
        ):
            for name in names:
                step(name, operation, source, expect, fresh=operation == "insert")
