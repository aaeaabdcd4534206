"""Rows that are others every time that they are computed, and a table for them.

What a write has materialised of them is kept beside the table, so that it can be compared.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.spark import write as spark_write
from parquetry.runtime.spark.prepare import staging
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, KeyScope, Operation, TableSpec
from parquetry.runtime.stage.reader import StageReader
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.table.handle import create_table, open_table
from parquetry.runtime.write.request import WriteRequest
from tests.support import hudi_rs
from tests.support.small_table import FAST

COLUMNS = {
    "id": "bigint",
    "noise": "bigint",
    "r": "double",
    "t": "timestamp",
    "u": "string",
    "p": "string",
    "filler": "binary",
}
SPEC = TableSpec(
    name="random",
    columns=tuple(Column(name=name, type=kind, nullable=name != "id") for name, kind in COLUMNS.items()),
    record_key=("id",),
    key_scope=KeyScope.TABLE,
    partition_by=("p",),
    sizing=SizingPolicy(max_file_size_bytes=32 * 1024, small_file_limit_bytes=25 * 1024),
)

RandomRow = tuple[Any, ...]


def make_random_table(path: Path) -> None:
    """A new table with files of 32 KiB, a key that is unique in it, and rows that move."""
    store = open_store(path)
    create_table(store, SPEC, project="tests")
    write_applied(store, SPEC, number=1)


def random_frame(spark: Any, first: int, count: int) -> Any:
    """Rows with ids from ``first`` on; adaptive execution may read them by other partitions each time."""
    from pyspark.sql import functions as F  # noqa: N812

    ids = spark.range(first, first + count, 1, 4).groupBy("id").agg(F.count("*").alias("n"))
    noisy = ids.mapInArrow(_noise, "id bigint, noise bigint, filler binary")
    return noisy.selectExpr(
        "id",
        "noise",
        "rand() AS r",
        "current_timestamp() AS t",
        "uuid() AS u",
        "concat('p', int(rand() * 2) * 2 + pmod(noise, 2)) AS p",
        "filler",
    )


def _noise(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        count = batch.num_rows
        noise = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(os.urandom(8 * count))])
        filler = pa.array([os.urandom(60) for _ in range(count)], pa.binary())
        yield pa.RecordBatch.from_arrays([batch.column(0), noise, filler], names=["id", "noise", "filler"])


def write_random_rows(
    spark: Any, store: ObjectStore, kept: Path, *, operation: str, first: int, count: int
) -> CommitResult:
    """Write such rows; what was materialised of them lies in the folder ``kept`` afterwards."""
    kept.mkdir(parents=True)
    materialise = staging.materialise

    def and_keep(*arguments: Any, **options: Any) -> StagedRows:
        staged = materialise(*arguments, **options)
        with StageReader(staged.spec, staged.index, instant="") as reader:
            for number, partition in enumerate(staged.totals):
                rows = pa.Table.from_batches(reader.rows(partition, 0, staged.rows))
                with pa.ipc.new_file(kept / f"{number}.arrow", rows.schema) as file:
                    file.write_table(rows)
        return staged

    with mock.patch.object(staging, "materialise", and_keep):
        return spark_write.write(
            spark,
            open_table(store),
            random_frame(spark, first, count),
            WriteRequest(operation=Operation(operation)),
            timing=FAST,
        )


def kept_rows(kept: Path) -> dict[int, RandomRow]:
    """What a write has materialised, by id; an id that occurs twice fails."""
    tables = [_read(file).select([*COLUMNS]) for file in kept.iterdir()]
    rows = [row for table in tables for row in _rows(table)]
    found = {row[0]: row for row in rows}
    assert len(found) == len(rows)
    return found


def stored_rows(path: Path) -> Counter[RandomRow]:
    """The table's rows as hudi-rs sees them, each checked to lie where its values say."""
    table = hudi_rs.read(str(path))
    places = zip(
        table.column("_hoodie_partition_path").to_pylist(),
        table.column("_hoodie_record_key").to_pylist(),
        table.column("p").to_pylist(),
        table.column("id").to_pylist(),
        strict=True,
    )
    for partition, key, p, number in places:
        assert (partition, key) == (f"p={p}", str(number)), "misplaced"
    return Counter(_rows(table.select([*COLUMNS])))


def _read(file: Path) -> pa.Table:
    with pa.ipc.open_file(file) as reader:
        return reader.read_all()


def _rows(table: pa.Table) -> list[RandomRow]:
    table = table.set_column(
        table.schema.get_field_index("t"),
        "t",
        table.column("t").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()),
    )
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
