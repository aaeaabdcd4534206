"""The floor of clustering: pyarrow reads the files of each partition, sorts them, and writes one file. No table format."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.workers.loop import serve

ARGUMENTS = json.loads(sys.argv[1])
pa.set_cpu_count(2)


def cluster(table: str, layout: str, columns: list[str], target: int) -> None:
    for folder in sorted(Path(table).glob("y=*")):
        files = sorted(folder.glob("*.parquet"))
        rows = pa.concat_tables([pq.ParquetFile(path).read() for path in files])
        if layout == "sort":
            rows = rows.sort_by([(column, "ascending") for column in columns])
        per_group = max(1, rows.num_rows * int(ARGUMENTS["row_group_size"]) // target)
        pq.write_table(
            rows,
            folder / "one.parquet",
            compression=ARGUMENTS["codec"],
            compression_level=int(ARGUMENTS["level"]),
            row_group_size=per_group,
        )
        for path in files:
            path.unlink()


def paths(table: str) -> dict[str, list[str]]:
    return {"paths": sorted(str(path) for path in Path(table).rglob("*.parquet"))}


def live(table: str) -> dict[str, list[int]]:
    return {"sizes": [Path(path).stat().st_size for path in paths(table)["paths"]]}


def count(table: str) -> dict[str, int]:
    return {"rows": sum(pq.read_metadata(path).num_rows for path in paths(table)["paths"])}


def fresh(table: str) -> None:
    shutil.rmtree(table, ignore_errors=True)


serve({"cluster": cluster, "paths": paths, "live": live, "count": count, "fresh": fresh})
