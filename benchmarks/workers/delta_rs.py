"""delta-rs: Delta Lake tables without a JVM; same codec and row groups of about as many bytes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, WriterProperties, write_deltalake

from benchmarks.workers.loop import serve

ARGUMENTS = json.loads(sys.argv[1])
PARTITION = ARGUMENTS.get("partition_by", "y")
MAXIMUM = int(ARGUMENTS["max_file_size"])
ROW_GROUP_ROWS = int(ARGUMENTS["row_group_rows"])
PROPERTIES = WriterProperties(
    compression=ARGUMENTS["codec"].upper(),
    compression_level=int(ARGUMENTS["level"]),
    max_row_group_size=ROW_GROUP_ROWS,
)


STORAGE = json.loads(ARGUMENTS.get("storage", "{}"))
"""The options of a table's object store."""


def reader(path: Path) -> pa.RecordBatchReader:
    file = pq.ParquetFile(path)
    schema = file.schema_arrow.remove_metadata()
    return pa.RecordBatchReader.from_batches(schema, file.iter_batches())


def inputs(source: str) -> Iterator[Path]:
    path = Path(source)
    yield from sorted(path.glob("*.parquet")) if path.is_dir() else [path]


def append(table: str, source: str) -> None:
    for path in inputs(source):
        write_deltalake(
            table,
            reader(path),
            mode="append",
            partition_by=[PARTITION] if PARTITION else None,
            target_file_size=MAXIMUM,
            writer_properties=PROPERTIES,
            storage_options=STORAGE,
        )


def write(
    table: str, source: str, operation: str, options: dict[str, str] | None = None, *, fresh: bool = False
) -> None:
    if fresh:
        clear(table)
    if operation in {"insert", "bulk_insert"}:
        append(table, source)
        return
    merge = DeltaTable(table, storage_options=STORAGE).merge(
        pq.read_table(source).replace_schema_metadata(None),
        predicate="t.k = s.k AND t.y = s.y",
        source_alias="s",
        target_alias="t",
        writer_properties=PROPERTIES,
    )
    if operation == "delete":
        merge.when_matched_delete().execute()
    else:
        merge.when_matched_update_all(predicate="s.ts >= t.ts").when_not_matched_insert_all().execute()


def scatter(table: str, source: str, rows_per_file: int) -> None:
    clear(table)
    append(table, source)


def cluster(table: str, layout: str, columns: list[str], target: int) -> None:
    optimize = DeltaTable(table, storage_options=STORAGE).optimize
    if layout == "stitch":
        optimize.compact(target_size=target, writer_properties=PROPERTIES)
    else:
        optimize.z_order(columns, target_size=target, writer_properties=PROPERTIES)


def paths(table: str) -> dict[str, list[str]]:
    return {
        "paths": sorted(
            unquote(urlparse(each).path) for each in DeltaTable(table, storage_options=STORAGE).file_uris()
        )
    }


def live(table: str) -> dict[str, list[int]]:
    return {"sizes": [Path(path).stat().st_size for path in paths(table)["paths"]]}


def count(table: str) -> dict[str, int]:
    return {"rows": DeltaTable(table, storage_options=STORAGE).count()}


def query(table: str, where: str) -> dict[str, Any]:
    answer = (
        QueryBuilder()
        .register("t", DeltaTable(table, storage_options=STORAGE))
        .execute(f"SELECT * FROM t WHERE {where}")
    )
    return {"rows": pa.table(answer.read_all()).num_rows}


def clear(table: str) -> None:
    shutil.rmtree(table, ignore_errors=True)


serve(
    {
        "write": write, "count": count, "live": live, "fresh": clear, "scatter": scatter,
        "cluster": cluster, "paths": paths, "query": query,
    }
)  # fmt: skip
