"""Measure reads in Python: `Table.to_arrow` and others against pyarrow.dataset, hudi-rs and Spark.

A full read and a point query of TPC-H's lineitem, each reader in a process of its own, all in one run. Writes
benchmarks/READS.md, below ``BENCH_OUT`` where that is set.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import parquetry
from benchmarks.data import lineitem
from benchmarks.measure import measured, tree
from parquetry.compiler.reports.inspection import live_files
from parquetry.runtime.storage.open import open_store
from tests.support.local_spark import local_spark
from tools.wrap_markdown import wrapped

HERE = Path(__file__).parent
RUNS = 3
MIB = 1024 * 1024
MOST_OF_PYARROW = 1.2
KEY = "l_orderkey"
QUERIES = {"full": "all rows", "point": "one order"}

PAGE = """# Reads in Python

A full read of TPC-H's lineitem at scale {scale:g} ({rows:,} rows, {columns} columns, {mib:,.0f} MiB in {files} files of a
table in {partitions} partitions), and a point query: the {found} rows of one order, by a column that is no key. Each
reader runs in a process of its own, once before it is measured, and then {runs} times. The figures are the CPU seconds
(user and system, with Spark's JVM) of the cheapest run, the bytes that it read from files, and the largest resident
memory of its processes with imports and results. Results are tables of pyarrow in memory, or a DataFrame of pandas.
The bytes of Spark contain what its processes send each other. pyarrow.dataset, pyarrow {pyarrow}, gets the list of live files. `python -m benchmarks.reads` writes this page.

| query | reader | CPU s | of pyarrow's | MiB read | peak MiB |
|---|---|---|---|---|---|
{lines}

The goal is at most {goal} times the CPU of pyarrow.dataset: {verdict}.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cheapest run of a reader."""

    cpu_seconds: float
    read_bytes: int
    peak_bytes: int
    rows: int


def make(folder: Path, scale: float) -> Path:
    """Make the table of lineitem once, in which orders lie together."""
    table = folder / "table"
    if table.exists():
        return table
    source = lineitem(folder / "data", scale=scale)
    spark = local_spark("reads", {"spark.driver.memory": "3g"})
    rows = spark.read.parquet(str(source)).selectExpr(
        "concat(l_orderkey, '-', l_linenumber) AS k", "*", "year(l_shipdate) AS y"
    )
    spec = parquetry.TableSpec(
        name="lineitem",
        columns=tuple(
            parquetry.Column(name=field.name, type=field.dataType.simpleString()) for field in rows.schema
        ),
        record_key=("k",),
        partition_by=("y",),
        sizing=parquetry.SizingPolicy(small_file_limit_bytes=0, max_file_size_bytes=32 * MIB),
    )
    parquetry.create(table, spec).bulk_insert(rows)
    spark.stop()
    return table


def readers(table: Path, query: str, value: int) -> Mapping[str, Callable[[], Any]]:
    """Return each reader as a function that returns the rows."""
    is_point = query == "point"
    where = f"{KEY} = {value}" if is_point else None
    ours = parquetry.open(table)
    names = [column.name for column in ours.spec.columns]
    files = [file.path for file in live_files(open_store(table)).files]

    def with_pyarrow() -> Any:
        condition = ds.field(KEY) == value if is_point else None
        return ds.dataset(files).to_table(columns=names, filter=condition)

    def with_hudi_rs() -> Any:
        from hudi import HudiReadOptions, HudiTableBuilder

        options = HudiReadOptions().with_projection(names)
        if is_point:
            options = options.with_filters([(KEY, "=", str(value))])
        batches = HudiTableBuilder.from_base_uri(str(table)).build().read(options)
        found = pa.Table.from_batches(map(pa.record_batch, batches))
        return found.filter(ds.field(KEY) == value) if is_point else found

    def with_spark() -> Any:
        rows = ours.read(spark_session(), where=where)
        return (rows if where is None else rows.where(where)).toArrow()

    return {
        "pyarrow.dataset": with_pyarrow,
        "to_arrow": lambda: ours.to_arrow(where=where),
        "pyarrow.dataset, to pandas": lambda: with_pyarrow().to_pandas(),
        "to_pandas": lambda: ours.to_pandas(where=where),
        "hudi-rs": with_hudi_rs,
        "Table.read on Spark": with_spark,
    }


def spark_session() -> Any:
    return local_spark("reads", {"spark.driver.memory": "3g", "spark.driver.maxResultSize": "3g"})


def measure(read: Callable[[], Any], *, on_spark: bool) -> Cost:
    """Return the cost of the cheapest of some reads in this process and its children."""
    rows = len(read())
    spent, bytes_read = [], []
    for _ in range(RUNS):
        before = _read_bytes()
        if on_spark:
            with measured(os.getpid()) as result:
                read()
            spent.append(result.cpu_seconds)
        else:
            begun = time.process_time()
            read()
            spent.append(time.process_time() - begun)
        bytes_read.append(_read_bytes() - before)
    peak = sum(_status(pid, "status", "VmHWM") * 1024 for pid in tree(os.getpid()))
    return Cost(cpu_seconds=min(spent), read_bytes=min(bytes_read), peak_bytes=peak, rows=rows)


def _read_bytes() -> int:
    return sum(_status(pid, "io", "rchar") for pid in tree(os.getpid()))


def _status(pid: int, file: str, key: str) -> int:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def separately(table: Path, query: str, value: int, reader: str) -> Cost:
    command = [sys.executable, "-m", "benchmarks.reads", "--table", str(table), "--query", query]
    done = subprocess.run(
        [*command, "--value", str(value), "--reader", reader], check=True, capture_output=True, text=True
    )
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=0.5)
    options.add_argument("--folder", type=Path)
    options.add_argument("--table", type=Path)
    options.add_argument("--query")
    options.add_argument("--value", type=int)
    options.add_argument("--reader")
    given = options.parse_args()
    if given.reader:
        read = readers(given.table, given.query, given.value)[given.reader]
        print(json.dumps(asdict(measure(read, on_spark="Spark" in given.reader))))
        return 0
    with tempfile.TemporaryDirectory(prefix="reads-") as scratch:
        folder = given.folder or Path(scratch)
        table = make(folder, given.scale)
        source = pq.read_table(folder / "data" / "lineitem.parquet", columns=[KEY])
        value = source.column(KEY)[source.num_rows // 2].as_py()
        write(table, value, scale=given.scale)
    return 0


def write(table: Path, value: int, *, scale: float) -> None:
    """Measure every reader and write the page."""
    found: dict[str, dict[str, Cost]] = {}
    lines, missed = [], []
    for query, title in QUERIES.items():
        found[query] = {name: separately(table, query, value, name) for name in readers(table, query, value)}
        assert len({cost.rows for cost in found[query].values()}) == 1, found[query]
        for name, cost in found[query].items():
            base = found[query]["pyarrow.dataset, to pandas" if "pandas" in name else "pyarrow.dataset"]
            ratio = cost.cpu_seconds / base.cpu_seconds
            if name.startswith("to_") and ratio > MOST_OF_PYARROW:
                missed.append(f"`{name}` of {title} takes {ratio:.2f} times")
            lines.append(
                f"| {title} | {name} | {cost.cpu_seconds:.3f} | {ratio:.2f} | "
                f"{cost.read_bytes / MIB:,.1f} | {cost.peak_bytes / MIB:,.0f} |"
            )
            print(lines[-1], flush=True)
    live = live_files(open_store(table)).files
    page = PAGE.format(
        scale=scale,
        rows=found["full"]["to_arrow"].rows,
        found=found["point"]["to_arrow"].rows,
        columns=len(parquetry.open(table).spec.columns),
        mib=sum(file.size_bytes for file in live) / MIB,
        files=len(live),
        partitions=len({Path(file.path).parent for file in live}),
        runs=RUNS,
        pyarrow=pa.__version__,
        lines="\n".join(lines),
        goal=MOST_OF_PYARROW,
        verdict=f"**missed** ({'; '.join(missed)})" if missed else "reached",
    )
    (Path(os.environ.get("BENCH_OUT", HERE)) / "READS.md").write_text(wrapped(page), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
