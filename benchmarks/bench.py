"""What the workloads of a run share: peers, inputs, the folder of tables, the results so far."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import Measured, data_files
from benchmarks.peer import Peer
from benchmarks.tables import Row

MIB = 1 << 20


@dataclass(slots=True)
class Bench:
    """A run: each step checks the rows of the table and keeps what it cost."""

    inputs: Path
    tables: Path
    reps: int
    counts: dict[str, int]
    scale: float
    maximum: int
    start: Callable[[str], Peer]
    """Starts a peer that is not among those of the run."""

    peers: dict[str, Peer] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    held: int = 0
    """How many rows the tables of W1 hold by now; none before they are written."""

    def table(self, peer: str, table: str) -> str:
        """How a peer calls a table."""
        return str(self.tables / peer / table)

    def data(self, peer: str, table: str) -> Path:
        """Where a peer's files lie: Iceberg's in the warehouse of its catalogue."""
        return self.tables / peer / "db" / table if peer == "iceberg" else self.tables / peer / table

    def warm_up(self, name: str) -> None:
        """A first write and a merge load the classes of a peer's JVM."""
        for operation in {"plain": ("insert",), "arrow": ()}.get(name, ("insert", "upsert")):
            self.peers[name].do(
                "write",
                table=self.table(name, "warm"),
                source=str(self.inputs / "delete0.parquet"),
                operation=operation,
                fresh=operation == "insert",
            )

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
        """Let a peer that takes part write one input into a table; record its cost, bytes and files."""
        if peer not in self.peers:
            return
        if options.get("fresh"):
            self.peers[peer].do("fresh", table=self.table(peer, table))
        before = data_files(self.data(peer, table))
        _, cost = self.peers[peer].do(
            "write",
            table=self.table(peer, table),
            source=str(self.inputs / source),
            operation=operation,
            **options,
        )
        self.left(workload, case, peer, table, cost, before, expect=expect)

    def left(
        self,
        workload: str,
        case: str,
        peer: str,
        table: str,
        cost: Measured,
        before: dict[str, int],
        *,
        expect: int,
        **figures: Any,
    ) -> None:
        """Check the rows of the table, and record what the step cost and wrote besides the files ``before``."""
        after = data_files(self.data(peer, table))
        answer, _ = self.peers[peer].do("count", table=self.table(peer, table))
        if answer["rows"] != expect:
            raise SystemExit(f"{workload} {case}: {answer['rows']} rows in the table, {expect} expected")
        new = {name: size for name, size in after.items() if name not in before}
        live, _ = self.peers[peer].do("live", table=self.table(peer, table))
        row = {
            "workload": workload, "case": case, "peer": peer,
            "wall_seconds": round(cost.wall_seconds, 2), "cpu_seconds": round(cost.cpu_seconds, 2),
            "jvm_cpu_seconds": round(cost.jvm_cpu_seconds, 2),
            "driver_cpu_seconds": round(cost.driver_cpu_seconds, 2),
            "peak_rss_bytes": cost.peak_rss_bytes, "worker_rss_bytes": cost.worker_rss_bytes,
            "bytes_written": sum(new.values()), "files_written": len(new),
            "live_sizes_bytes": sorted(live["sizes"]), "rows": answer["rows"], **figures,
        }  # fmt: skip
        self.rows.append(row)
        print(
            f"{workload:4} {case:34} wall {row['wall_seconds']:7.1f} s  cpu {row['cpu_seconds']:7.1f} s  files {len(live['sizes'])}",
            flush=True,
        )

    @property
    def long_reps(self) -> int:
        """Runs of a minute and more are repeated at most three times."""
        return min(self.reps, 3)

    def copy(self, peer: str, table: str, to: str) -> None:
        """Copy a peer's table, so that each case starts from the same state."""
        if peer not in self.peers:
            return
        shutil.rmtree(self.tables / peer / to, ignore_errors=True)
        shutil.copytree(self.tables / peer / table, self.tables / peer / to)
