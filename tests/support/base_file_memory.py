"""A process of its own that merges an update of every row into a wide file, and says what it took.

Run as ``python -m tests.support.base_file_memory FOLDER MIB``; prints one JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.table_spec import Column
from tests.support.base_files import FIRST, MIB, SECOND, bucket, context, merging, slice_of

COLUMNS = tuple(
    Column(name=f"c{number:02}", type=("double", "string", "bigint")[number % 3]) for number in range(50)
)
_BATCH_ROWS = 10_000


def rows_of(seed: int, rows: int, *, positions: bool) -> Iterator[pa.RecordBatch]:
    """Rows of 50 columns that compress about five to one: values repeat in most, in no order."""
    schema = arrow_schema(COLUMNS)
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 2**62, 3000)
    words = pa.array([f"{number:x}" * 2 for number in numbers.tolist()])
    for first in range(0, rows, _BATCH_ROWS):
        count = min(_BATCH_ROWS, rows - first)
        values: dict[str, Any] = {}
        for field in schema:
            chosen = rng.integers(0, len(numbers), count)
            if int(field.name[1:]) % 6 == 0:
                values[field.name] = pa.array(rng.normal(size=count))
            elif field.type == pa.string():
                values[field.name] = words.take(pa.array(chosen))
            else:
                values[field.name] = pa.array(numbers[chosen].astype(field.type.to_pandas_dtype()))
        places = np.arange(first, first + count)
        values["_hoodie_record_key"] = pa.array(places).cast(pa.string())
        values["__position"] = pa.array(places) if positions else pa.nulls(count, pa.int64())
        values["__delete"] = pa.array(np.zeros(count, bool))
        values["__hash"] = pa.array(places)
        yield pa.RecordBatch.from_pydict(values)


def peak_mib() -> float:
    """The largest resident set of this process so far."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def measure(folder: Path, file_mib: int) -> dict[str, float]:
    """The peak before and after a merge that updates every row of a file of this size."""
    made = json.loads(
        subprocess.run(
            [sys.executable, "-m", "tests.support.base_file_memory", str(folder), str(file_mib), "make"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    before = peak_mib()
    base = FileSlice(
        partition="p=1",
        file_id=made["file_id"],
        instant=FIRST,
        path=made["path"],
        size_bytes=made["size_bytes"],
        rows=made["rows"],
    )
    ctx = context(folder, COLUMNS, instant=SECOND, max_file_size_bytes=file_mib * MIB)
    written = write_bucket(
        ctx, merging(base, expected_updates=made["rows"]), rows_of(2, made["rows"], positions=True)
    )
    assert sum(file.stat.num_update_writes for file in written.files) == made["rows"]
    pool_mib = pa.default_memory_pool().max_memory() / MIB
    return made | {"before_mib": before, "peak_mib": peak_mib(), "pool_mib": pool_mib}


def make(folder: Path, file_mib: int) -> dict[str, Any]:
    """A new file that is about full."""
    ctx = context(folder, COLUMNS, max_file_size_bytes=file_mib * MIB)
    rows = file_mib * MIB // 160
    arrow_bytes = sum(batch.nbytes for batch in rows_of(1, _BATCH_ROWS, positions=False)) / _BATCH_ROWS * rows
    written = write_bucket(ctx, bucket(ctx, expected_inserts=rows), rows_of(1, rows, positions=False))
    first = slice_of(written.files[0])
    return {
        "path": first.path,
        "file_id": first.file_id,
        "size_bytes": first.size_bytes,
        "rows": first.rows,
        "compression": arrow_bytes / sum(file.stat.file_size_bytes for file in written.files),
    }


if __name__ == "__main__":
    act = make if sys.argv[3:] == ["make"] else measure
    print(json.dumps(act(Path(sys.argv[1]), int(sys.argv[2]))))
