"""W7: what an upsert and a sort cost at one, two and four times the data; parquetry alone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from benchmarks.measure import data_files

if TYPE_CHECKING:
    from benchmarks.bench import Bench

FACTORS = (1, 2, 4)


def growth(bench: Bench) -> None:
    """The base rows so many times over, with other keys; the same share of them upserted, all of them sorted."""
    if "parquetry" not in bench.peers:
        raise SystemExit("W7 measures parquetry alone; name it in PEERS")
    peer = bench.peers["parquetry"]
    for factor in FACTORS:
        base, batch = (multiplied(bench, name, factor) for name in ("base", "upsert0"))
        rows = factor * (bench.counts["base"] + bench.counts["batch"])
        name = f"growth-{factor}"
        table = bench.table("parquetry", name)
        peer.do("write", table=table, source=base, operation="insert", fresh=True)
        peer.do(
            "write", table=table, source=batch, operation="upsert"
        )  # it finds no update of its own to merge
        for _ in range(bench.long_reps):
            before = data_files(bench.data("parquetry", name))
            _, cost = peer.do("write", table=table, source=batch, operation="upsert")
            bench.left(
                "W7", f"upsert, {factor} x", "parquetry", name, cost, before, expect=rows, factor=factor
            )
        for _ in range(bench.long_reps):
            bench.copy("parquetry", name, "sorted")
            before = data_files(bench.data("parquetry", "sorted"))
            _, cost = peer.do(
                "cluster",
                table=bench.table("parquetry", "sorted"),
                layout="sort",
                columns=["l_partkey"],
                target=2 * bench.maximum,
            )
            bench.left(
                "W7", f"sort, {factor} x", "parquetry", "sorted", cost, before, expect=rows, factor=factor
            )
        for done in (name, "sorted"):
            shutil.rmtree(bench.data("parquetry", done))


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
