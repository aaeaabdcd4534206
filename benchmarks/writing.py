"""The writing workloads: W1 and W1b insert, W2, W2b and W2c change what is there, W3 appends."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.bench import MIB, Bench

OTHERS = ("delta", "iceberg", "delta-rs")
TUNED = {"hoodie.copyonwrite.record.size.estimate": "45"}
"""The record size for Hudi, which estimates it without this option."""

PLAIN = "plain Spark write"
BATCHES = 5
"""So many batches of upserts and of deletes there are."""


def first_insert(bench: Bench) -> None:
    """W1, W1b: the base rows into an empty table, sized and as bulk insert."""
    cases: list[tuple[str, str, str, str, str, dict[str, Any]]] = [
        ("W1", "parquetry insert", "parquetry", "t", "insert", {}),
        ("W1", PLAIN, "plain", "t", "insert", {}),
        ("W1", "hudi insert, defaults", "hudi", "d", "insert", {}),
        ("W1", "hudi insert, record size set", "hudi", "t", "insert", {"options": TUNED}),
        *(("W1", f"{name} append", name, "t", "insert", {}) for name in OTHERS),
        ("W1b", "parquetry bulk_insert", "parquetry", "b", "bulk_insert", {}),
        ("W1b", "hudi bulk_insert", "hudi", "b", "bulk_insert", {}),
    ]
    base = bench.counts["base"]
    for _ in range(bench.reps):
        for workload, case, peer, table, operation, more in cases:
            bench.write(
                workload, case, peer, table, "base.parquet", operation, expect=base, fresh=True, **more
            )
    # A bulk insert is compared with the same write of plain Spark.
    bench.rows += [row | {"workload": "W1b"} for row in bench.rows if row["case"] == PLAIN]
    bench.copy("hudi", "t", "bloom")
    bench.held = base


def computed_insert(bench: Bench) -> None:
    """W1c: the base rows with a column computed, against the same rows copied and Spark's own write of them."""
    base = bench.counts["base"]
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("parquetry insert, computed", "parquetry", {"computes": True}),
        ("parquetry insert, copied", "parquetry", {}),
        (f"{PLAIN}, computed", "plain", {"computes": True}),
    ]
    for _ in range(bench.reps):
        for case, peer, more in cases:
            bench.write("W1c", case, peer, "c", "base.parquet", "insert", expect=base, fresh=True, **more)


def based(bench: Bench) -> int:
    """See to the tables that W1 leaves, for Hudi one for each index; how many rows they hold."""
    if not bench.held:
        for name in bench.peers:
            if name in {"parquetry", "hudi", *OTHERS}:
                more = {"options": TUNED} if name == "hudi" else {}
                bench.peers[name].do("fresh", table=bench.table(name, "t"))
                bench.peers[name].do(
                    "write",
                    table=bench.table(name, "t"),
                    source=str(bench.inputs / "base.parquet"),
                    operation="insert",
                    fresh=True,
                    **more,
                )
        bench.copy("hudi", "t", "bloom")
        bench.held = bench.counts["base"]
    return bench.held


def upserts(bench: Bench) -> None:
    """W2: random updates and inserts, half each, on the table of W1."""
    rows = based(bench)
    for number in range(min(bench.reps, BATCHES)):
        rows += bench.counts["batch"]
        source = f"upsert{number}.parquet"
        for case, peer, table, more in changes("upsert", "merge"):
            bench.write("W2", case, peer, table, source, "upsert", expect=rows, **more)
    bench.held = rows


def deletes(bench: Bench) -> None:
    """W2b: random keys deleted from that table."""
    rows = based(bench)
    gone: set[str] = set()
    for number in range(min(bench.reps, BATCHES)):
        source = f"delete{number}.parquet"
        gone |= set(pq.read_table(bench.inputs / source, columns=["k"])["k"].to_pylist())
        for case, peer, table, more in changes("delete", "delete"):
            bench.write("W2b", case, peer, table, source, "delete", expect=rows - len(gone), **more)
    bench.held = 0


def changes(ours: str, theirs: str) -> list[tuple[str, str, str, dict[str, Any]]]:
    """The case, peer, table and options of each way to change rows."""
    indexes = (("SIMPLE", "t"), ("BLOOM", "bloom"))
    return [
        (f"parquetry {ours}", "parquetry", "t", {}),
        *(
            (f"hudi {ours}, {index}", "hudi", table, {"options": {"hoodie.index.type": index}})
            for index, table in indexes
        ),
        *((f"{name} {theirs}", name, "t", {}) for name in OTHERS),
    ]


def local_upsert(bench: Bench) -> None:
    """W2c: at 8 MiB files, the cost of an upsert follows the files its keys lie in."""
    rows = bench.counts["base"]
    table = pq.read_table(bench.inputs / "base.parquet", filters=[("y", "=", 1995)])
    near = table.slice(0, 2 * bench.counts["batch"])
    pq.write_table(near, bench.inputs / "near.parquet")
    pq.write_table(table.slice(0, 1), bench.inputs / "one.parquet")
    assert pc.count_distinct(near["k"]).as_py() == near.num_rows
    small = {"max_file_size": 8 * MIB, "small_file_limit": 6 * MIB}

    def step(case: str, source: str, operation: str, **more: Any) -> None:
        bench.write("W2c", f"parquetry {case}", "parquetry", "c", source, operation, expect=rows, **more)

    step("insert, 8 MiB", "base.parquet", "insert", fresh=True, limits=small)
    for number in range(min(bench.reps, BATCHES)):
        rows += bench.counts["batch"]
        step("upsert of random keys", f"upsert{number}.parquet", "upsert")
        step("upsert within 5 % of files", "near.parquet", "upsert")
        step("upsert of one row", "one.parquet", "upsert")


def appends(bench: Bench) -> None:
    """W3: forty small appends to an empty table; Hudi with sizing, and without."""
    cases: list[tuple[str, str, str, dict[str, Any], dict[str, Any]]] = [
        ("parquetry, sized", "parquetry", "a", {}, {}),
        ("parquetry, min_fill 0.25", "parquetry", "m", {"limits": {"min_fill": 0.25}}, {}),
        ("hudi, sized", "hudi", "a", {}, {"options": TUNED}),
        ("hudi, no sizing", "hudi", "n", {}, {"options": {"hoodie.parquet.small.file.limit": "0"}}),
        ("plain Spark append", "plain", "a", {}, {}),
        *((f"{name} append of a batch", name, "a", {}, {}) for name in OTHERS),
    ]
    for number in [*range(data.APPENDS)] * bench.long_reps:
        source, rows = f"append{number:02d}.parquet", bench.counts["append"] * (number + 1)
        for case, peer, table, first, each in cases:
            more = {"fresh": True, **first, **each} if number == 0 else each
            bench.write("W3", case, peer, table, source, "insert", expect=rows, **more)
