"""Tables of many files whose rows nobody reads: a commit and its recorded statistics name files of a few bytes."""

from __future__ import annotations

import random
from pathlib import Path

from parquetry.runtime.commit.outcome import Footprint, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.table.file_names import BaseFileName
from parquetry.runtime.table.handle import TableHandle, create_table, open_table
from parquetry.runtime.table.statistics import encode_statistics
from parquetry.runtime.timeline.commit import WriteStat
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.sidecars import statistics_path
from tests.support.small_table import FAST

CONTENT = b"PAR1" + b"\0" * 12 + b"PAR1"
ROWS = 1_000


def table_of_many_files(path: Path, files: int, *, columns: int = 64, partitions: int = 50) -> TableHandle:
    """A table whose first write made ``files``, with random bounds of ``columns`` columns each."""
    spec = TableSpec(
        name="many",
        columns=(
            Column(name="p", type="string"),
            *(Column(name=f"column_{n}", type="bigint") for n in range(columns)),
        ),
        record_key=("column_0",),
        partition_by=("p",),
    )
    store = open_store(path)
    create_table(store, spec, project="tests")
    write_applied(store, spec, number=1)
    add_files(path, range(files), partitions=partitions)
    return open_table(store)


def add_files(path: Path, numbers: range, *, partitions: int = 50) -> None:
    """A write of the files of these numbers, in that many partitions."""
    store, rng = open_store(path), random.Random(numbers.start)
    table = open_table(store)
    assert table.spec is not None
    names = [column.name for column in table.spec.columns if column.name != "p"]

    def statistics(path: str) -> FileStatistics:
        low = {name: rng.randrange(10**9, 10**12) for name in names}
        bounds = {
            name: ColumnStatistics(
                type="bigint", minimum=low[name], maximum=low[name] + rng.randrange(10**9), nulls=0
            )
            for name in names
        }
        group = RowGroupStatistics(rows=ROWS, data_bytes=len(CONTENT), columns=bounds)
        return FileStatistics(path=path, size_bytes=len(CONTENT), row_groups=(group,))

    def body(txn: Transaction) -> WriteOutcome:
        made: dict[str, list[WriteStat]] = {}
        for number in numbers:
            name = BaseFileName(
                partition=f"p={number % partitions:03}",
                file_id=f"{number:08x}-0000-4000-8000-000000000000-0",
                instant=txn.instant,
            )
            (path / name.partition).mkdir(exist_ok=True)
            (path / name.path).write_bytes(CONTENT)
            made.setdefault(name.partition, []).append(
                WriteStat(
                    file_id=name.file_id,
                    path=name.path,
                    partition_path=name.partition,
                    num_writes=ROWS,
                    num_inserts=ROWS,
                    file_size_bytes=len(CONTENT),
                )
            )
        recorded = encode_statistics(statistics(stat.path) for stats in made.values() for stat in stats)
        return WriteOutcome(
            operation=txn.operation,
            schema_json=txn.table.schema_json(txn.timeline, table.spec.columns),
            stats={partition: tuple(stats) for partition, stats in made.items()},
            footprint=Footprint(),
            sidecars=((statistics_path(txn.instant), recorded),),
        )

    run_write(table, action=Action.COMMIT, operation="BULK_INSERT", body=body, timing=FAST)
