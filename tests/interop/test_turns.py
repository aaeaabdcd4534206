"""Random histories in which real Hudi and we take turns, every service included.

On version 9, on Hudi 1.0's version 8, and on tables without meta columns.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.timeline.instant import Action
from tests.support.hudi_history import NO_ROW_WRITER
from tests.support.hudi_spark import NO_METADATA_TABLE, HudiSpark, HudiTable
from tests.support.judges import RealHudi
from tests.support.random_history import PARTITIONS, RandomHistory, overwriting, put, unchanged, without
from tests.support.small_table import Rows, SmallTable

pytestmark = pytest.mark.interop

ARCHIVE_SOON = {
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.clean.commits.retained": "2",
}
OURS = (
    *("upsert", "insert", "delete", "late_write", "interrupted", "overwrite", "delete_partition"),
    *("cluster", "clean", "archive", "savepoint", "delete_savepoint", "restore", "rollback"),
)
THEIRS = ("upsert", "insert", "delete", "overwrite", "cluster", "clean", "archive", "savepoint", "restore")


class Turns:
    """A random history of ours with a step of real Hudi after each of our steps."""

    def __init__(self, hudi: HudiSpark, history: RandomHistory) -> None:
        self.hudi = hudi
        self.ours = history
        self.table = hudi_table(history.path)
        if not history.meta_columns.has_keys:
            self.table = replace(self.table, options={"hoodie.populate.meta.fields": "false"})

    def run(self, turns: int) -> None:
        """Take the turns. Both judge each step, and real Hudi each of ours."""
        history = self.ours
        history.upsert(history.table)
        for _ in range(turns):
            step = history.rng.choice(OURS)
            history.perform(step)
            history.judge(step)
            history.equals(history.rows(), step, judges=[RealHudi(self.hudi)])
            theirs = history.rng.choice(THEIRS)
            history.done[f"{theirs} by Hudi"] += 1
            getattr(self, theirs)()
            history.judge(f"{theirs} by Hudi")
        history.end()
        history.equals(history.rows(), "at the end", judges=[RealHudi(self.hudi)])

    def upsert(self, options: dict[str, str] | None = None) -> None:
        rows = self.ours.some_rows()
        self.ours.writes[self._write("upsert", rows, options)] = put(rows)

    def insert(self) -> None:
        rows = self.ours.new_rows()
        self.ours.writes[self._write("insert", rows)] = put(rows)

    def delete(self) -> None:
        rows = self.ours.some_rows()
        self.ours.writes[self._write("delete", rows)] = without(lambda key, _: key in rows)

    def overwrite(self) -> None:
        rows = {key: row for key, row in {**self.ours.some_rows(), "k0": (1, "a")}.items() if row[1] == "a"}
        self.ours.writes[self._write("insert_overwrite", rows)] = overwriting(rows, "a")

    def cluster(self) -> None:
        ((name, value),) = NO_ROW_WRITER.items()
        self.hudi.call("run_clustering", self.table.path, options=f"{name}={value}")
        for write in self.ours.timeline().completed_writes:
            self.ours.writes.setdefault(write.time, unchanged)

    def clean(self) -> None:
        self.hudi.call("run_clean", self.table.path, retain_commits=2)

    def archive(self) -> None:
        self.upsert(ARCHIVE_SOON)

    def savepoint(self) -> None:
        newest = max(self.ours.writes)
        if newest not in self.ours.timeline().savepoints:
            self.hudi.call("create_savepoint", self.table.path, commit_time=newest)

    def restore(self) -> None:
        """Restore, unless a clustering came after the savepoint: Hudi then leaves it pending."""
        timeline = self.ours.timeline()
        replaced = timeline.of(Action.REPLACECOMMIT)
        if timeline.savepoints and all(write.time < timeline.savepoints[-1] for write in replaced):
            savepoint = timeline.savepoints[-1]
            self.hudi.call("rollback_to_savepoint", self.table.path, instant_time=savepoint)
            self.ours.restored(savepoint)

    def _write(self, operation: str, rows: Rows, options: dict[str, str] | None = None) -> str:
        instant = self.hudi.write(self.table, frame(rows), operation, options=options)
        self.ours.foreign.add(instant)
        return instant


def hudi_table(path: Path) -> HudiTable:
    return HudiTable(path=str(path), name="small", key=("id",), partition_by=("p",))


def frame(rows: Rows) -> pa.Table:
    values = [{"id": key, "v": row[0], "p": row[1]} for key, row in rows.items()]
    schema = pa.schema([("id", pa.string()), ("v", pa.int64()), ("p", pa.string())])
    return pa.Table.from_pylist(values, schema=schema)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 40))])
def test_everybody_reads_what_the_model_holds_after_each_turn(
    seed: int, hudi_12: HudiSpark, tmp_path: Path
) -> None:
    _take(Turns(hudi_12, RandomHistory(path=tmp_path / "t", seed=seed, table_version=9)))


@dataclass(slots=True)
class HistoryOfVersion8(RandomHistory):
    """A history of a table that Hudi 1.0 has made."""

    _: KW_ONLY
    hudi: HudiSpark

    def make(self, **retention: int) -> SmallTable:
        rows = {f"k{n}": (0, PARTITIONS[n % len(PARTITIONS)]) for n in range(9)}
        made = hudi_table(self.path)
        options = NO_METADATA_TABLE | {"hoodie.table.timeline.timezone": "UTC"}
        created = self.hudi.write(
            made, frame(rows), "insert", mode="overwrite", guarded=False, options=options
        )
        self.writes[created] = put(rows)
        table = SmallTable(open_store(self.path))
        spec = table.handle.effective_spec(table.handle.timeline())
        write_applied(table.store, replace(spec, retention=RetentionPolicy(**retention)), number=1)
        return table


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_everybody_reads_what_the_model_holds_on_a_table_of_hudi_1_0(
    seed: int, hudi_10: HudiSpark, tmp_path: Path
) -> None:
    history = HistoryOfVersion8(path=tmp_path / "t", seed=seed, table_version=8, hudi=hudi_10)
    _take(Turns(hudi_10, history))
    assert history.table.handle.config.version == 8


@pytest.mark.parametrize(
    ("meta_columns", "table_version", "seed"),
    [
        pytest.param(columns, version, seed, marks=[pytest.mark.long] if seed else [])
        for columns, version in ((MetaColumns.COMMIT_TIME, 9), (MetaColumns.NONE, 6))
        for seed in range(20)
    ],
)
def test_everybody_reads_what_the_model_holds_without_meta_columns(
    meta_columns: MetaColumns, table_version: int, seed: int, hudi_12: HudiSpark, tmp_path: Path
) -> None:
    history = RandomHistory(
        path=tmp_path / "t", seed=seed, table_version=table_version, meta_columns=meta_columns
    )
    _take(Turns(hudi_12, history))


def _take(turns: Turns) -> None:
    turns.run(4)
    print(f"seed {turns.ours.seed}: {dict(turns.ours.done)}, refused {dict(turns.ours.refused)}")
