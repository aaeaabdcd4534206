"""A process of its own that upserts every row of a table through Spark, and says what memory that took.

``python -m tests.support.spark_memory driver FOLDER ROWS...`` looks at the driver, ``... workers FOLDER MIB`` at
the Python workers that write wide files; each prints on its last lines a JSON object for each number.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from itertools import cycle
from pathlib import Path
from typing import Any, Self
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import parquetry
from parquetry.runtime.spark.attempt import upsert
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, TableSpec
from tests.support.base_file_memory import COLUMNS, peak_mib, rows_of
from tests.support.base_files import MIB
from tests.support.local_spark import local_spark
from tests.support.processes import descendants, peak_of

_FILES = 8
_STABLE_ROUNDS = 5
_WIDE_ROW_BYTES = 150
_DISTINCT_ROWS = 200_000
_PARTS = 4


def driver(folder: Path, rows: int) -> dict[str, float]:
    """What the driver holds when all files of an upsert of ``rows`` rows are written, and afterwards.

    The peak of Python is that of the process so far.
    """
    spark = local_spark("memory of the driver")
    spec = TableSpec(
        name="t",
        columns=(Column(name="id", type="string", nullable=False), Column(name="v", type="bigint")),
        record_key=("id",),
        ordering="v",
        sizing=SizingPolicy(
            max_file_size_bytes=1024 * MIB,
            small_file_limit_bytes=0,
            insert_split_size=rows // _FILES,
            record_size_bytes=100,
        ),
    )
    table = parquetry.create(folder / str(rows), spec)
    frame = spark.range(0, rows, 1, _PARTS).selectExpr(
        "cast(id * 7919 % 1000003 * 10000 + id AS string) AS id", "id AS v"
    )
    inserted = table.insert(frame)
    inside: dict[str, float] = {}
    honest = upsert.check_results

    def looked_at(*arguments: Any) -> None:
        inside["heap_inside_mib"] = heap_mib(spark)
        honest(*arguments)

    with mock.patch.object(upsert, "check_results", looked_at):
        updated = table.upsert(frame.selectExpr("id", "v + 1 AS v"))
    assert updated.updated_rows == rows
    return {
        "rows": rows,
        "files": inserted.files_added,
        "rewritten": updated.files_rewritten,
        "python_mib": peak_mib(),
        **inside,
        "heap_mib": heap_mib(spark),
    }


def heap_mib(spark: Any) -> float:
    """What is in use of the JVM's heap when its garbage is gone, of which Spark frees some only after a GC."""
    gc.collect()
    jvm = spark._jvm
    memory = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    least, unchanged = float("inf"), 0
    while unchanged < _STABLE_ROUNDS:
        jvm.java.lang.System.gc()
        used = memory.getHeapMemoryUsage().getUsed() / MIB
        unchanged = 0 if used < least - 1 else unchanged + 1
        least = min(least, used)
        time.sleep(0.3)
    return least


def workers(folder: Path, file_mib: int) -> dict[str, Any]:
    """The peaks of the Python workers that update every row of two wide, compressible files."""
    spark = local_spark("memory of the workers")
    rows = file_mib * MIB // _WIDE_ROW_BYTES
    for number in range(4):
        write_wide(folder / f"source{number}.parquet", seed=number + 1, rows=rows, first=number % 2 * rows)
    spec = TableSpec(
        name="t",
        columns=(Column(name="id", type="bigint", nullable=False), *COLUMNS),
        record_key=("id",),
        sizing=SizingPolicy(
            max_file_size_bytes=file_mib * MIB, insert_split_size=rows, record_size_bytes=_WIDE_ROW_BYTES
        ),
    )
    table = parquetry.create(folder / "t", spec)
    first, second = ([str(folder / f"source{n}.parquet") for n in numbers] for numbers in ((0, 1), (2, 3)))
    inserted = table.insert(spark.read.parquet(*first))
    sizes = table.inspect().partitions[0].file_sizes_bytes
    with Peaks() as peaks:
        updated = table.upsert(spark.read.parquet(*second))
    assert updated.updated_rows == 2 * rows
    arrow_bytes = sum(batch.nbytes for batch in rows_of(1, 10_000, positions=False)) / 10_000 * 2 * rows
    return {
        "rows": 2 * rows,
        "files": inserted.files_added,
        "file_mib": [size / MIB for size in sizes],
        "compression": arrow_bytes / inserted.bytes_written,
        "rewritten": updated.files_rewritten,
        "peaks_mib": sorted(peaks.mib.values(), reverse=True),
    }


def write_wide(path: Path, *, seed: int, rows: int, first: int) -> None:
    """A source file of the 50 columns and a key."""
    names = ["id", *(column.name for column in COLUMNS)]
    writer: pq.ParquetWriter | None = None
    written = 0
    # Rows recur only where no encoder still remembers them.
    distinct = list(rows_of(seed, min(rows, _DISTINCT_ROWS), positions=False))
    for batch in cycle(distinct):
        count = min(batch.num_rows, rows - written)
        ids = pa.array(np.arange(first + written, first + written + count))
        wide = [ids, *(batch.column(name).slice(0, count) for name in names[1:])]
        rows_batch = pa.RecordBatch.from_arrays(wide, names=names)
        writer = writer or pq.ParquetWriter(path, rows_batch.schema, compression="snappy", store_schema=False)
        writer.write_batch(rows_batch)
        written += count
        if written == rows:
            writer.close()
            return


class Peaks:
    """The largest resident sets of all Python processes below this one, seen again and again until the end."""

    def __init__(self) -> None:
        self.mib: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self._look()

    def _look(self) -> None:
        for pid in descendants():
            peak = peak_of(pid, command="python")
            if peak is not None:
                self.mib[pid] = peak


if __name__ == "__main__":
    act = {"driver": driver, "workers": workers}[sys.argv[1]]
    for size in sys.argv[3:]:
        print(json.dumps(act(Path(sys.argv[2]), int(size))))
