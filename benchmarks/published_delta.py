"""Measure a commit of ten files to the Delta log of a table of many files: `python -m benchmarks.published_delta`.

Each line is one commit, with the reading of the state before it: CPU milliseconds, requests, bytes of the log that
it read and wrote, and the memory that it took more than the process before. A checkpoint is due in each tenth.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.publish.delta import DeltaLog
from parquetry.runtime.publish.model import PublishedFile, Snapshot
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.open import open_store
from tests.support.stores import CountingStore

COLUMNS = (
    *(Column(name=f"c{number}", type="bigint") for number in range(10)),
    Column(name="day", type="string"),
)
PARTITIONS = 1_000
CHANGED = 10


def published_file(number: int, version: int) -> PublishedFile:
    """A file of ten columns with bounds."""
    instant = f"20260101{version:09}"
    bounds = {
        column.name: ColumnStatistics(
            type="bigint", minimum=number * 1_000, maximum=number * 1_000 + 999, nulls=0
        )
        for column in COLUMNS[:-1]
    }
    day = f"d{number % PARTITIONS:04}"
    path = f"day={day}/{number:08x}-0000-4000-8000-000000000000-0_0-0-0_{instant}.parquet"
    group = RowGroupStatistics(rows=1_000, data_bytes=1 << 20, columns=bounds)
    statistics = FileStatistics(path=path, size_bytes=1 << 20, row_groups=(group,))
    return PublishedFile(
        path=path,
        size_bytes=1 << 20,
        instant=instant,
        modified_ms=version,
        partition=(day,),
        statistics=statistics,
    )


def snapshot(version: int) -> Snapshot:
    """The state after a write."""
    instant = f"20260101{version:09}"
    return Snapshot(
        instant=instant,
        completed_ms=version,
        operation="UPSERT",
        writes=frozenset({instant}),
        settled=instant,
        columns=COLUMNS,
        partition_by=("day",),
    )


def peak_mib() -> float:
    """Return the largest resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print a line for each commit."""
    options = argparse.ArgumentParser()
    options.add_argument("--files", type=int, default=100_000)
    options.add_argument("--commits", type=int, default=22)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = CountingStore(open_store(Path(folder) / "t"), Path(folder) / "calls")
        log = DeltaLog(store)
        begin = time.process_time()
        files = sorted((published_file(n, 0) for n in range(chosen.files)), key=lambda file: file.path)
        log.publish(snapshot(0), files, (), before=None)
        del files
        print(f"{chosen.files} files in the first version: {time.process_time() - begin:.1f} CPU s")
        for version in range(1, chosen.commits + 1):
            numbers = range(version * CHANGED, (version + 1) * CHANGED)
            added = [published_file(number, version) for number in numbers]
            removed = [published_file(number, 0).path for number in numbers]
            store.reset()
            before_mib, begin = peak_mib(), time.process_time()
            before = log.published()
            assert before is not None
            named = log.paths(before, {f"day={file.partition[0]}": file.partition for file in added})
            log.publish(snapshot(version), added, sorted(named & {*removed}), before=before)
            used, calls = time.process_time() - begin, len(store.calls())
            print(
                f"{version:3}  {used * 1000:7.0f} ms  {calls:3} requests  +{peak_mib() - before_mib:.0f} MiB"
            )


if __name__ == "__main__":
    main()
