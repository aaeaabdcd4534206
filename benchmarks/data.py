"""Seeded inputs from TPC-H lineitem: base rows, upserts, deletes, appends.

``k`` is orderkey-linenumber, ``y`` the year of the ship date (7 partitions), ``ts`` the ordering.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BASE_SHARE, APPENDS = 0.8, 40


def _write(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.combine_chunks(), path, compression="snappy", row_group_size=200_000)


def _bump(table: pa.Table, version: int, *, mark: bool) -> pa.Table:
    at = table.schema.get_field_index("ts")
    table = table.set_column(at, "ts", pa.array(np.full(table.num_rows, version, "int64")))
    if mark:
        at = table.schema.get_field_index("l_comment")
        changed = pc.binary_join_element_wise(pa.scalar(f"u{version} "), table["l_comment"], "")
        table = table.set_column(at, "l_comment", changed)
    return table


def lineitem(folder: Path, *, scale: float) -> Path:
    """Make the table below ``folder`` as one file, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    tool = Path(sys.executable).parent / "tpchgen-cli"
    command = [str(tool), "parquet", "-s", str(scale), "--tables", "lineitem", "--output-dir", str(folder)]
    subprocess.run(command, check=True)
    return folder / "lineitem.parquet"


def prepare(folder: Path, *, scale: float) -> dict[str, int]:
    """Make the inputs below ``folder`` once and return how many rows each holds."""
    done = folder / "prepared.json"
    if done.exists():
        return json.loads(done.read_text())
    table = pq.read_table(lineitem(folder, scale=scale))
    for at, field in enumerate(table.schema):
        if not pa.types.is_string(field.type) and "string" in str(field.type):
            table = table.set_column(at, field.name, table[field.name].cast(pa.string()))
    key = pc.binary_join_element_wise(
        table["l_orderkey"].cast(pa.string()), table["l_linenumber"].cast(pa.string()), "-"
    )
    table = table.add_column(0, "k", key)
    table = table.add_column(1, "ts", pa.array(np.ones(table.num_rows, "int64")))
    table = table.append_column("y", pc.year(table["l_shipdate"]).cast(pa.int32()))
    random = np.random.default_rng(20240601)
    order = random.permutation(table.num_rows)
    split = int(table.num_rows * BASE_SHARE)
    base, rest = np.sort(order[:split]), order[split:]
    _write(table.take(pa.array(base)), folder / "base.parquet")
    batch = max(100, int(30_000 * scale))
    for number in range(5):
        new = np.sort(rest[number * batch : (number + 1) * batch])
        updated = np.sort(random.choice(base, batch, replace=False))
        version = 1001 + number
        upsert = pa.concat_tables(
            [
                _bump(table.take(pa.array(new)), version, mark=False),
                _bump(table.take(pa.array(updated)), version, mark=True),
            ]
        )
        _write(upsert.take(pa.array(random.permutation(upsert.num_rows))), folder / f"upsert{number}.parquet")
        gone = np.sort(random.choice(base, batch // 3, replace=False))
        _write(_bump(table.take(pa.array(gone)), 2000, mark=False), folder / f"delete{number}.parquet")
    append = max(100, int(20_000 * scale))
    for number in range(APPENDS):
        start = 5 * batch + number * append
        _write(table.take(pa.array(rest[start : start + append])), folder / f"append{number:02d}.parquet")
    counts = {"base": split, "batch": batch, "delete": batch // 3, "append": append}
    done.write_text(json.dumps(counts))
    return counts
