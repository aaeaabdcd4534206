"""Run the workloads against other table formats and plain Spark and write benchmarks/RESULTS.md.

``SCALE`` (1 is TPC-H scale factor 1, 4.8 million base rows) and ``REPS`` shrink the run, ``PEERS`` names
those that take part, with commas, ``BENCH_OUT`` another folder for what is written, ``BENCH_TMP`` where the
tables lie meanwhile, ``BENCH_HEAP`` the memory of each JVM (4g). Peers take turns
within each repetition; every step ends with a check of the row count, which is not timed.
Each workload stands alone and its results are written when it ends, so that a run may have a few
workloads, and a few peers beside ``parquetry``: the page compares within runs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import cluster, clustering, data, growth, peers, report, results, writing
from benchmarks.bench import MIB, Bench
from benchmarks.peer import PeerFailedError
from parquetry.runtime.base_file.encoding import ZSTD_LEVEL
from tests.interop.environment import cache_folder

HERE = Path(__file__).resolve().parent
CODEC, ROW_GROUP = "zstd", 8 * MIB

WORKLOADS: dict[str, Callable[[Bench], None]] = {
    "W1": writing.first_insert,
    "W1c": writing.computed_insert,
    "W2": writing.upserts,
    "W2b": writing.deletes,
    "W2c": writing.local_upsert,
    "W3": writing.appends,
    "W4a": clustering.stitched,
    "W4b": clustering.sorted_,
    "W4c": clustering.curve,
    "W7": growth.growth,
    "W8": cluster.clusters,
}


def main() -> None:
    """Run the workloads named on the command line (all without one) and write the results."""
    scale, reps = float(os.environ.get("SCALE", "1")), int(os.environ.get("REPS", "5"))
    chosen = sys.argv[1:] or list(WORKLOADS)
    if unknown := set(chosen) - set(WORKLOADS):
        raise SystemExit(f"{', '.join(sorted(unknown))}: no workload; there are {', '.join(WORKLOADS)}")
    out = Path(os.environ.get("BENCH_OUT", HERE))
    inputs = cache_folder() / "bench" / f"scale-{scale:g}"
    counts = data.prepare(inputs, scale=scale)
    named = [name for name in os.environ.get("PEERS", ",".join(peers.VERSIONS)).split(",") if name]
    maximum = max(2 * MIB, int(32 * MIB * min(scale, 1)))
    logs = out / "results"
    logs.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="parquetry-bench-", dir=os.environ.get("BENCH_TMP")) as folder:
        settings = {
            "max_file_size": str(maximum),
            "small_file_limit": str(maximum * 25 // 32),
            "codec": CODEC,
            "level": str(ZSTD_LEVEL),
            "row_group_size": str(ROW_GROUP),
            "row_group_rows": str(ROW_GROUP // 40),
            "heap": os.environ.get("BENCH_HEAP", "4g"),
        }
        bench = Bench(
            inputs=inputs,
            tables=Path(folder),
            reps=reps,
            counts=counts,
            scale=scale,
            maximum=maximum,
            start=partial(peers.start, folder=Path(folder), settings=settings),
        )
        for name in named:
            bench.peers[name] = bench.start(name)
        for name in named:
            bench.warm_up(name)
        for name in chosen:
            machine = peers.machine(scale, reps, named, max_file_size=maximum)
            try:
                WORKLOADS[name](bench)
            except PeerFailedError as error:  # the others' results are hours of work
                failed.append(f"{name}: {error}")
                print(failed[-1], flush=True)
                bench.rows.clear()
                bench.held = 0
                continue
            for workload in dict.fromkeys(row["workload"] for row in bench.rows):
                mine = [row for row in bench.rows if row["workload"] == workload]
                results.save(logs, workload, machine, mine)
            bench.rows.clear()
            report.write(logs, out / "RESULTS.md")
        for peer in bench.peers.values():
            peer.close()
    if failed:
        raise SystemExit("\n".join(["without results:", *failed]))


if __name__ == "__main__":
    main()
