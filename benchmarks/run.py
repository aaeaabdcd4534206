"""Run the workloads against other table formats and plain Spark and write benchmarks/RESULTS.md.

``SCALE`` (1 is TPC-H scale factor 1, 4.8 million base rows) and ``REPS`` shrink the run, ``PEERS`` names
those that take part, with commas, ``BENCH_OUT`` another folder for what is written,
``BENCH_HEAP`` the memory of each JVM (4g). Peers take turns
within each repetition; every step ends with a check of the row count, which is not timed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import clustering, data, growth, peers, report
from benchmarks.measure import Measured, data_files
from benchmarks.peer import Peer
from tests.interop.environment import cache_folder

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
CODEC, ROW_GROUP = "zstd", 8 * MIB


@dataclass(slots=True)
class Bench:
    """What the workloads share: peers, inputs, the folder of tables, the results so far."""

    inputs: Path
    tables: Path
    reps: int
    counts: dict[str, int]
    scale: float
    maximum: int
    peers: dict[str, Peer] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def write(
        self,
        workload: str,
        case: str,
        peer: str,
        table: str,
        source: str,
        operation: str,
        *,
        expect: int,
        **options: Any,
    ) -> None:
        """Let a peer write one input into a table; record its cost, bytes and files, check the rows."""
        if peer not in self.peers:
            return
        path = self.tables / peer / table
        if options.get("fresh"):
            self.peers[peer].do("fresh", table=str(path))
        data = self.tables / "iceberg" / "db" / table if peer == "iceberg" else path
        before = data_files(data)
        _, cost = self.peers[peer].do(
            "write", table=str(path), source=str(self.inputs / source), operation=operation, **options
        )
        after = data_files(data)
        answer, _ = self.peers[peer].do("count", table=str(path))
        if answer["rows"] != expect:
            raise SystemExit(f"{workload} {case}: {answer['rows']} rows in the table, {expect} expected")
        new = {name: size for name, size in after.items() if name not in before}
        live, _ = self.peers[peer].do("live", table=str(path))
        self.add(
            workload,
            case,
            peer,
            cost,
            bytes_written=sum(new.values()),
            files_written=len(new),
            live_sizes_bytes=sorted(live["sizes"]),
            rows=answer["rows"],
        )

    def add(self, workload: str, case: str, peer: str, cost: Measured, **figures: Any) -> None:
        """Keep what a step cost and left, and print the gist."""
        row = {
            "workload": workload, "case": case, "peer": peer,
            "wall_seconds": round(cost.wall_seconds, 2), "cpu_seconds": round(cost.cpu_seconds, 2),
            "jvm_cpu_seconds": round(cost.jvm_cpu_seconds, 2), "peak_rss_bytes": cost.peak_rss_bytes,
            "worker_rss_bytes": cost.worker_rss_bytes, **figures,
        }  # fmt: skip
        self.rows.append(row)
        print(
            f"{workload:4} {case:34} wall {row['wall_seconds']:7.1f} s  cpu {row['cpu_seconds']:7.1f} s  files {len(row['live_sizes_bytes'])}",
            flush=True,
        )

    @property
    def clustering_reps(self) -> int:
        """Runs of a minute and more are repeated at most three times."""
        return min(self.reps, 3)

    def copy(self, peer: str, table: str, to: str) -> None:
        """Copy a peer's table, so that each case starts from the same state."""
        if peer not in self.peers:
            return
        shutil.rmtree(self.tables / peer / to, ignore_errors=True)
        shutil.copytree(self.tables / peer / table, self.tables / peer / to)


OTHERS = ("delta", "iceberg", "delta-rs")


def first_insert(bench: Bench) -> None:
    """W1, W1b: the base rows into an empty table, sized and as bulk insert."""
    base = bench.counts["base"]
    tuned = {"hoodie.copyonwrite.record.size.estimate": "45"}
    for _ in range(bench.reps):
        bench.write(
            "W1", "parquetry insert", "parquetry", "t", "base.parquet", "insert", expect=base, fresh=True
        )
        bench.write(
            "W1", "plain Spark write", "plain", "t", "base.parquet", "insert", expect=base, fresh=True
        )
        bench.write(
            "W1", "hudi insert, told nothing", "hudi", "d", "base.parquet", "insert", expect=base, fresh=True
        )
        bench.write(
            "W1",
            "hudi insert, record size told",
            "hudi",
            "t",
            "base.parquet",
            "insert",
            expect=base,
            fresh=True,
            options=tuned,
        )
        for name in OTHERS:
            bench.write("W1", f"{name} append", name, "t", "base.parquet", "insert", expect=base, fresh=True)
        bench.write(
            "W1b",
            "parquetry bulk_insert",
            "parquetry",
            "b",
            "base.parquet",
            "bulk_insert",
            expect=base,
            fresh=True,
        )
        bench.write(
            "W1b", "hudi bulk_insert", "hudi", "b", "base.parquet", "bulk_insert", expect=base, fresh=True
        )


def upsert_and_delete(bench: Bench) -> None:
    """W2, W2b: random updates and inserts, then random deletes, on the table of W1."""
    bench.copy("hudi", "t", "bloom")
    rows, batch = bench.counts["base"], bench.counts["batch"]
    for number in range(min(bench.reps, 5)):
        rows += batch
        source = f"upsert{number}.parquet"
        bench.write("W2", "parquetry upsert", "parquetry", "t", source, "upsert", expect=rows)
        bench.write(
            "W2",
            "hudi upsert, SIMPLE",
            "hudi",
            "t",
            source,
            "upsert",
            expect=rows,
            options={"hoodie.index.type": "SIMPLE"},
        )
        bench.write(
            "W2",
            "hudi upsert, BLOOM",
            "hudi",
            "bloom",
            source,
            "upsert",
            expect=rows,
            options={"hoodie.index.type": "BLOOM"},
        )
        for name in OTHERS:
            bench.write("W2", f"{name} merge", name, "t", source, "upsert", expect=rows)
    gone: set[str] = set()
    for number in range(min(bench.reps, 3)):
        source = f"delete{number}.parquet"
        gone |= set(pq.read_table(bench.inputs / source, columns=["k"])["k"].to_pylist())
        left = rows - len(gone)
        bench.write("W2b", "parquetry delete", "parquetry", "t", source, "delete", expect=left)
        bench.write(
            "W2b",
            "hudi delete, SIMPLE",
            "hudi",
            "t",
            source,
            "delete",
            expect=left,
            options={"hoodie.index.type": "SIMPLE"},
        )
        bench.write(
            "W2b",
            "hudi delete, BLOOM",
            "hudi",
            "bloom",
            source,
            "delete",
            expect=left,
            options={"hoodie.index.type": "BLOOM"},
        )
        for name in OTHERS:
            bench.write("W2b", f"{name} delete", name, "t", source, "delete", expect=left)


def local_upsert(bench: Bench) -> None:
    """W2c: at 8 MiB files, the cost of an upsert follows the files its keys lie in."""
    base = bench.counts["base"]
    table = pq.read_table(bench.inputs / "base.parquet", filters=[("y", "=", 1995)])
    near = table.slice(0, 2 * bench.counts["batch"])
    pq.write_table(near, bench.inputs / "near.parquet")
    pq.write_table(table.slice(0, 1), bench.inputs / "one.parquet")
    assert pc.count_distinct(near["k"]).as_py() == near.num_rows
    small = {"max_file_size": 8 * MIB, "small_file_limit": 6 * MIB}
    bench.write(
        "W2c",
        "parquetry insert, 8 MiB",
        "parquetry",
        "c",
        "base.parquet",
        "insert",
        expect=base,
        fresh=True,
        limits=small,
    )
    rows = base
    for number in range(min(bench.reps, 5)):
        rows += bench.counts["batch"]
        bench.write(
            "W2c",
            "parquetry upsert of random keys",
            "parquetry",
            "c",
            f"upsert{number}.parquet",
            "upsert",
            expect=rows,
        )
        bench.write(
            "W2c",
            "parquetry upsert within 5 % of files",
            "parquetry",
            "c",
            "near.parquet",
            "upsert",
            expect=rows,
        )
        bench.write(
            "W2c", "parquetry upsert of one row", "parquetry", "c", "one.parquet", "upsert", expect=rows
        )


def appends(bench: Bench) -> None:
    """W3: forty small appends; Hudi with sizing, and without."""
    step = bench.counts["append"]
    cases = [
        ("parquetry, sized", "parquetry", "a", {}, {}),
        ("parquetry, min_fill 0.25", "parquetry", "m", {"limits": {"min_fill": 0.25}}, {}),
        ("hudi, sized", "hudi", "a", {}, {"hoodie.copyonwrite.record.size.estimate": "45"}),
        ("hudi, no sizing", "hudi", "n", {}, {"hoodie.parquet.small.file.limit": "0"}),
        ("plain Spark append", "plain", "a", {}, {}),
        *((f"{name} append of a batch", name, "a", {}, {}) for name in OTHERS),
    ]
    for number in range(data.APPENDS):
        for case, peer, table, first, options in cases:
            extra: dict[str, Any] = {"fresh": True, **first} if number == 0 else {}
            if options:
                extra["options"] = options
            bench.write(
                "W3",
                case,
                peer,
                table,
                f"append{number:02d}.parquet",
                "insert",
                expect=step * (number + 1),
                **extra,
            )


WORKLOADS = {
    "W1": first_insert,
    "W2": upsert_and_delete,
    "W2c": local_upsert,
    "W3": appends,
    "W4": clustering.clustering,
    "W4c": clustering.curve_alone,
    "W7": growth.growth,
}


def main() -> None:
    """Run the workloads named on the command line (all without one) and write the results."""
    scale, reps = float(os.environ.get("SCALE", "1")), int(os.environ.get("REPS", "5"))
    chosen = sys.argv[1:] or [name for name in WORKLOADS if name != "W4c"]
    out = Path(os.environ.get("BENCH_OUT", HERE))
    inputs = cache_folder() / "bench" / f"scale-{scale:g}"
    counts = data.prepare(inputs, scale=scale)
    named = [name for name in os.environ.get("PEERS", ",".join(peers.VERSIONS)).split(",") if name]
    maximum = max(2 * MIB, int(32 * MIB * min(scale, 1)))
    machine = peers.machine(scale, reps, named, max_file_size=maximum)
    with tempfile.TemporaryDirectory(prefix="parquetry-bench-", dir=os.environ.get("BENCH_TMP")) as folder:
        bench = Bench(
            inputs=inputs, tables=Path(folder), reps=reps, counts=counts, scale=scale, maximum=maximum
        )
        limits = {
            "max_file_size": str(maximum),
            "small_file_limit": str(maximum * 25 // 32),
            "codec": CODEC,
            "row_group_size": str(ROW_GROUP),
            "row_group_rows": str(ROW_GROUP // 40),
            "heap": os.environ.get("BENCH_HEAP", "4g"),
        }
        logs = out / "results"
        logs.mkdir(parents=True, exist_ok=True)
        for name in named:
            bench.peers[name] = peers.start(name, Path(folder), limits)
        for name, peer in bench.peers.items():  # a first write and a merge warm the JVMs up
            once = {"plain": ("insert",), "arrow": ()}.get(name, ("insert", "upsert"))
            for operation in once:
                peer.do(
                    "write",
                    table=str(bench.tables / name / "warm"),
                    source=str(inputs / "delete0.parquet"),
                    operation=operation,
                    fresh=operation == "insert",
                )
        for name in chosen:
            WORKLOADS[name](bench)
        for peer in bench.peers.values():
            peer.close()
    for name in {row["workload"] for row in bench.rows}:
        result = {"machine": machine, "rows": [row for row in bench.rows if row["workload"] == name]}
        (logs / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    report.write(logs, out / "RESULTS.md")


if __name__ == "__main__":
    main()
