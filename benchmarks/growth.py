"""W7: what an upsert and a sort cost at one, two and four times the data; parquetry alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from benchmarks.run import Bench

FACTORS = (1, 2, 4)
MIB = 1 << 20


def growth(bench: Bench) -> None:
    """The base rows so many times over, with other keys; the same share of them upserted, all of them sorted."""
    peer = bench.peers["parquetry"]
    for factor in FACTORS:
        base, batch = (multiplied(bench, name, factor) for name in ("base", "upsert0"))
        rows = factor * (bench.counts["base"] + bench.counts["batch"])
        table = str(bench.tables / "parquetry" / f"growth-{factor}")
        peer.do("write", table=table, source=base, operation="insert", fresh=True)
        for number in range(bench.clustering_reps + 1):
            _, cost = peer.do("write", table=table, source=batch, operation="upsert")
            answer, _ = peer.do("count", table=table)
            if answer["rows"] != rows:
                raise SystemExit(f"W7: {answer['rows']} rows, {rows} expected")
            live, _ = peer.do("live", table=table)
            figures = {
                "live_sizes_bytes": sorted(live["sizes"]),
                "rows": rows,
                "factor": factor,
            }
            if number:  # the first finds no update of its own to merge with, and warms up
                bench.add("W7", f"upsert, {factor} x", "parquetry", cost, **figures)
        _, cost = peer.do(
            "cluster", table=table, layout="sort", columns=["l_partkey"], target=2 * bench.maximum
        )
        answer, _ = peer.do("count", table=table)
        if answer["rows"] != rows:
            raise SystemExit(f"W7: {answer['rows']} rows after the sort, {rows} expected")
        live, _ = peer.do("live", table=table)
        figures |= {"live_sizes_bytes": sorted(live["sizes"])}
        bench.add("W7", f"sort, {factor} x", "parquetry", cost, **figures)


def multiplied(bench: Bench, name: str, factor: int) -> str:
    """An input ``factor`` times, each copy with keys of its own."""
    path = bench.inputs / f"{name}-x{factor}.parquet"
    if not path.exists():
        table = pq.read_table(bench.inputs / f"{name}.parquet")
        at = table.schema.get_field_index("k")
        with pq.ParquetWriter(path, table.schema, compression="snappy") as writer:
            for number in range(factor):
                keys = pa.compute.binary_join_element_wise(table["k"], str(number), "-")
                writer.write_table(table.set_column(at, "k", keys), row_group_size=200_000)
    return str(path)
