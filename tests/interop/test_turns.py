"""Random histories on version 9 in which real Hudi and we take turns, every service included."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from parquetry.runtime.timeline.instant import Action
from tests.support.hudi_history import NO_ROW_WRITER
from tests.support.hudi_spark import HudiSpark, HudiTable
from tests.support.judges import RealHudi
from tests.support.random_history import RandomHistory, overwriting, put, unchanged, without
from tests.support.small_table import Rows

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

    def __init__(self, hudi: HudiSpark, path: Path, seed: int) -> None:
        self.hudi = hudi
        self.ours = RandomHistory(path=path, seed=seed, table_version=9)
        self.table = HudiTable(path=str(path), name="small", key=("id",), partition_by=("p",))

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
        values = [{"id": key, "v": row[0], "p": row[1]} for key, row in rows.items()]
        schema = pa.schema([("id", pa.string()), ("v", pa.int64()), ("p", pa.string())])
        return self.hudi.write(
            self.table, pa.Table.from_pylist(values, schema=schema), operation, options=options
        )


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 40))])
def test_everybody_reads_what_the_model_holds_after_each_turn(
    seed: int, hudi_12: HudiSpark, tmp_path: Path
) -> None:
    turns = Turns(hudi_12, tmp_path / "t", seed)
    turns.run(4)
    print(f"seed {seed}: {dict(turns.ours.done)}, refused {dict(turns.ours.refused)}")
