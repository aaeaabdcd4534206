"""A process of its own that clusters one group of many rows, and says what memory that took.

Run as ``python -m tests.support.clustering_memory FOLDER MIB BUDGET_MIB``: a group of so many MiB in memory,
a task with that budget. Prints one JSON object.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.clustering.rewrite import runs
from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.table_spec import Column
from tests.support.base_file_memory import peak_mib
from tests.support.base_files import FIRST, MIB, SECOND, bucket, context, slice_of

COLUMNS = (
    Column(name="n", type="bigint"),
    Column(name="m", type="double"),
    Column(name="words", type="string"),
)
FILES = 10
_WORD_BYTES = 1000
_BATCH_ROWS = 10_000


def rows_of(rng: np.random.Generator, words: pa.Array, rows: int) -> Any:
    """Rows in no order, a kilobyte of text each."""
    for first in range(0, rows, _BATCH_ROWS):
        count = min(_BATCH_ROWS, rows - first)
        yield pa.RecordBatch.from_pydict(
            {
                "_hoodie_record_key": pa.array(rng.integers(0, 2**62, count)).cast(pa.string()),
                "__position": pa.nulls(count, pa.int64()),
                "__delete": pa.array(np.zeros(count, bool)),
                "__hash": pa.array(np.ones(count, np.int64)),
                "n": pa.array(rng.integers(0, 10**9, count)),
                "m": pa.array(rng.normal(size=count)),
                "words": words.take(pa.array(rng.integers(0, len(words), count))),
            }
        )


@contextmanager
def spilled_files() -> Iterator[list[str]]:
    """The files that lay in folders for sorted runs, in a list that fills while rows are sorted."""
    found: list[str] = []

    class Watched(TemporaryDirectory[str]):
        def cleanup(self) -> None:
            found.extend(path.name for path in Path(self.name).iterdir())
            super().cleanup()

    before = runs.TemporaryDirectory
    runs.TemporaryDirectory = Watched  # type: ignore[misc]
    try:
        yield found
    finally:
        runs.TemporaryDirectory = before  # type: ignore[misc]


def make(folder: Path, group_mib: int) -> list[dict[str, Any]]:
    """The files of the group."""
    rng = np.random.default_rng(1)
    words = pa.array([rng.bytes(_WORD_BYTES // 2).hex() for _ in range(2000)])
    rows = group_mib * MIB // (_WORD_BYTES + 100) // FILES
    ctx = context(folder, COLUMNS, instant=FIRST)
    written = [write_bucket(ctx, bucket(ctx, number), rows_of(rng, words, rows)) for number in range(FILES)]
    return [asdict(slice_of(file)) for part in written for file in part.files]


def measure(folder: Path, group_mib: int, budget_mib: int) -> dict[str, float]:
    """The peak before and after the group was clustered along a curve."""
    command = [sys.executable, "-m", "tests.support.clustering_memory", str(folder), str(group_mib)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    slices = tuple(FileSlice(**fields) for fields in json.loads(done.stdout))
    before = peak_mib()
    ctx = replace(context(folder, COLUMNS, instant=SECOND), memory_budget_bytes=budget_mib * MIB)
    group = GroupWork(
        index=0,
        partition="p=1",
        slices=slices,
        target_bytes=sum(part.size_bytes for part in slices) // 8,
        order=RowOrder(strategy="zorder", columns=("n", "m")),
    )
    with spilled_files() as spilled:
        written = rewrite_group(ctx, group)
    return {
        "spilled_files": len(spilled),
        "rows": written.consumed_rows,
        "files": len(written.files),
        "before_mib": before,
        "peak_mib": peak_mib(),
        "pool_mib": (pa.default_memory_pool().max_memory() or 0) / MIB,
    }


if __name__ == "__main__":
    folder, group_mib, *budget = Path(sys.argv[1]), *map(int, sys.argv[2:])
    print(json.dumps(measure(folder, group_mib, budget[0]) if budget else make(folder, group_mib)))
