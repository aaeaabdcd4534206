"""Tables that real Hudi made by itself, with every action of the timeline, and the model of each."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.hudi_spark import HudiSpark, HudiTable, newest_write
from tests.support.model import Row, TableModel
from tests.support.rows import arrow_schema, make_row, to_arrow

KEYS = {"id": pa.string(), "region": pa.string(), "version": pa.int64()}
REGIONS = ("eu", "us", "Ωmega", "a b")
# Hudi 0.15.0 merges the files of its own row writer wrongly: lists become null, decimals other numbers.
NO_ROW_WRITER = {"hoodie.datasource.write.row.writer.enable": "false"}


@dataclass(slots=True)
class HudiMade:
    """A table, the model of what it holds and the writer that made it."""

    hudi: HudiSpark
    table: HudiTable
    schema: pa.Schema
    model: TableModel

    def rows(self, rnd: random.Random, ids: Sequence[int], version: int) -> list[dict[str, Any]]:
        """Rows for the ids; an id stays in its region."""
        typed = [name for name in self.schema.names if name not in KEYS]
        return [
            {"id": f"k{i}", "region": REGIONS[i % 4], "version": version, **make_row(rnd, typed)} for i in ids
        ]

    def upsert(self, rows: Sequence[Row], **settings: Any) -> str:
        """Upsert by real Hudi, and in the model as that version does it."""
        return self._do(
            "upsert",
            rows,
            lambda t: self.model.upsert(t, rows, compares_ordering=self.hudi.compares_ordering),
            **settings,
        )

    def insert(self, rows: Sequence[Row], operation: str = "insert", **settings: Any) -> str:
        """Insert or bulk_insert."""
        return self._do(operation, rows, lambda t: self.model.insert(t, rows), **settings)

    def delete(self, rows: Sequence[Row], **settings: Any) -> str:
        """Delete by keys."""
        return self._do("delete", rows, lambda t: self.model.delete(t, rows), **settings)

    def insert_overwrite(self, rows: Sequence[Row]) -> str:
        """Overwrite the partitions of the rows."""
        return self._do("insert_overwrite", rows, lambda t: self.model.insert_overwrite(t, rows))

    def cluster(self) -> str:
        """Cluster by the procedure."""
        ((name, value),) = NO_ROW_WRITER.items()
        self.hudi.call("run_clustering", self.table.path, options=f"{name}={value}")
        self.model.unchanged(instant := newest_write(self.table.path))
        return instant

    def _do(self, operation: str, rows: Sequence[Row], note: Callable[[str], None], **settings: Any) -> str:
        instant = self.hudi.write(self.table, to_arrow(rows, self.schema), operation, **settings)
        note(instant)
        return instant


def start(
    hudi: HudiSpark,
    path: Path,
    *,
    partition_by: tuple[str, ...],
    columns: Sequence[str] | None = None,
    table_version: int = 6,
) -> HudiMade:
    """A table of real Hudi that has no rows yet in the model."""
    schema = arrow_schema(KEYS, columns)
    table = HudiTable(
        path=str(path),
        name="made",
        key=("id",),
        ordering="version",
        partition_by=partition_by,
        options={} if table_version == 6 else {"hoodie.write.table.version": str(table_version)},
    )
    model = TableModel(
        key=("id",), columns=tuple(schema.names), ordering="version", partition_by=partition_by
    )
    return HudiMade(hudi=hudi, table=table, schema=schema, model=model)


def all_operations(hudi: HudiSpark, path: Path) -> HudiMade:
    """Partitioned, all column types: every write operation, savepoint, clustering, rollback, clean."""
    rnd = random.Random(7)
    made = start(hudi, path, partition_by=("region",))
    made.insert(made.rows(rnd, range(40), 1), mode="overwrite")
    made.upsert(made.rows(rnd, range(20, 60), 2))
    made.upsert(made.rows(rnd, range(10), 0), index="BLOOM")
    savepoint = made.delete(made.rows(rnd, range(5, 9), 9))
    hudi.call("create_savepoint", made.table.path, commit_time=savepoint)
    made.insert(made.rows(rnd, range(60, 70), 3), "bulk_insert", options=NO_ROW_WRITER)
    made.insert_overwrite(made.rows(rnd, range(0, 8, 4), 4))
    made.cluster()
    dead_write(path, "region=eu")
    made.upsert(made.rows(rnd, range(25, 35), 5))
    hudi.call("run_clean", made.table.path, retain_commits=3)
    made.upsert(made.rows(rnd, range(30, 40), 6))
    return made


def archived(hudi: HudiSpark, path: Path) -> HudiMade:
    """Unpartitioned: restored to a savepoint, then archived by its own writes."""
    rnd = random.Random(8)
    made = start(hudi, path, partition_by=(), columns=["c_int", "c_string", "c_price"])
    made.insert(made.rows(rnd, range(10), 1), mode="overwrite")
    savepoint = made.upsert(made.rows(rnd, range(5, 15), 2))
    hudi.call("create_savepoint", made.table.path, commit_time=savepoint)
    made.upsert(made.rows(rnd, range(8), 3))
    hudi.call("rollback_to_savepoint", made.table.path, instant_time=savepoint)
    made.model.restore(savepoint)
    hudi.call("delete_savepoint", made.table.path, instant_time=savepoint)
    eager = {
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "5",
        "hoodie.cleaner.commits.retained": "2",
        "hoodie.clean.commits.retained": "2",
    }
    for number in range(6):
        made.upsert(made.rows(rnd, range(number, number + 3), 10 + number), options=eager)
    return made


def dead_write(path: Path, partition: str) -> str:
    """Leave a pending commit with one base file and its marker, as a writer that died; the instant."""
    instant = str(int(newest_write(str(path))) + 1)
    timeline = path / ".hoodie"
    (timeline / f"{instant}.commit.requested").touch()
    (timeline / f"{instant}.inflight").touch()
    alive = next((path / partition).glob("*.parquet"))
    dead = f"00000000-0000-4000-8000-000000000000-0_0-0-0_{instant}.parquet"
    markers = timeline / ".temp" / instant / partition
    markers.mkdir(parents=True)
    (markers / f"{dead}.marker.CREATE").touch()
    shutil.copy(alive, path / partition / dead)
    return instant
