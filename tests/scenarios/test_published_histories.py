"""Random histories of published tables, some steps of which die: delta-rs and pyiceberg read what the model holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.publish.delta import DeltaLog
from parquetry.runtime.publish.iceberg import IcebergMetadata
from parquetry.runtime.publish.iceberg_catalogs import HINT
from parquetry.runtime.publish.model import WRITES_KEY, PublishedFormat
from parquetry.runtime.publish.publishing import publish
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import Column, DeltaFormat, IcebergFormat, Publish
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.applied import read_applied
from tests.support import iceberg_readers
from tests.support.delta_readers import READERS
from tests.support.planned_clustering import apply_again
from tests.support.random_history import STEPS, RandomHistory, Stored, unchanged
from tests.support.small_table import FAST, SmallTable
from tests.support.stores import FaultyStore, Stop, Stopped

MAY_MISS_FILES = frozenset({"rollback", "restore", "interrupted"})
"""Steps that delete files which a published state may name."""

Reader = Callable[[Path], pa.Table]


@dataclass(slots=True)
class PublishedHistory(RandomHistory):
    """A history of a table that is published. In half of them each write is published as it ends."""

    publication: ClassVar[Publish] = Publish(delta=DeltaFormat())
    readers: ClassVar[Mapping[str, Reader]] = READERS
    judge_name: ClassVar[str] = "delta-rs"

    def __post_init__(self) -> None:
        RandomHistory.__post_init__(self)
        apply_again(self.table, publish=self.publication)
        self.table.services = self.seed % 2 == 0
        self.steps = (*STEPS, "evolve", *["interrupted_publishing"] * 3)

    def evolve(self, table: SmallTable) -> None:
        """Add a column, which files have not."""
        applied = read_applied(table.store)
        column = Column(name=f"c{self._next()}", type=self.rng.choice(["int", "string", "array<double>"]))
        change = TableChange(
            spec=replace(applied.spec, columns=(*applied.spec.columns, column)),
            requirements=Requirements(exists=True, applied_number=applied.ref.number),
            alters_schema=True,
            project="tests",
        )
        instant = apply_change(table.store, change, timing=FAST).instant
        assert instant is not None
        self.writes[instant] = unchanged

    def interrupted_publishing(self, table: SmallTable) -> None:
        """A write, and a process that dies at one of the storage operations of publishing it."""
        self.rng.choice([self.upsert, self.insert, self.delete])(replace(table, services=False))
        counter = self.path.with_name(f"{self.path.name} counter {self._next()}")
        store = FaultyStore(
            table.store, counter, stop_at=self.rng.randint(1, 4), stop=self.rng.choice([*Stop])
        )
        try:
            publish(replace(table, store=store).handle, [self.log(store)])
        except Stopped:
            self.done["publishing died"] += 1

    def judge(self, place: str) -> None:
        """Compare what a reader of the format reads before and after the metadata has caught up."""
        RandomHistory.judge(self, place)
        shown = self.shown_writes()
        if shown is not None and place not in MAY_MISS_FILES:
            first = min(shown)
            times = (time for time in self.writes if time in shown or time < first)
            self.reads(self.rows_of(times), f"{place}, before it caught up")
        publish(self.table.handle, [self.log(self.table.store)])
        self.reads(self.rows(), place)

    def end(self) -> None:
        """All readers return the rows in the end."""
        RandomHistory.end(self)
        publish(self.table.handle, [self.log(self.table.store)])
        self.reads(self.rows(), "at the end", self.readers.items())

    def log(self, store: ObjectStore) -> PublishedFormat:
        return DeltaLog(store, commits_per_checkpoint=4)

    def shown_writes(self) -> AbstractSet[str] | None:
        """The writes of the state that readers find, or None if they find no table."""
        shown = self.log(self.table.store).published()
        return None if shown is None else shown.writes

    def reads(
        self,
        rows: dict[str, Stored],
        place: str,
        readers: Iterable[tuple[str, Reader]] | None = None,
    ) -> None:
        expected = sorted((key, *row[:2]) for key, row in rows.items())
        for name, reader in readers or [(self.judge_name, self.readers[self.judge_name])]:
            found = reader(self.path)
            stored = sorted(zip(*(found.column(one).to_pylist() for one in ("id", "v", "p")), strict=True))
            assert stored == expected, f"seed {self.seed}, {name}, {place}"


class IcebergHistory(PublishedHistory):
    """A history of a table that is published as Iceberg."""

    publication = Publish(iceberg=IcebergFormat())
    readers = iceberg_readers.READERS
    judge_name = "pyiceberg"

    def log(self, store: ObjectStore) -> PublishedFormat:
        return IcebergMetadata(store, IcebergFormat())

    def shown_writes(self) -> AbstractSet[str] | None:
        """A process that dies before it puts the hint leaves readers at the state before."""
        versions = [int(file.name[1:].split(".")[0]) for file in self.path.glob("metadata/v*.metadata.json")]
        hint = self.path / HINT
        named = int(hint.read_text()) if hint.exists() else 0
        assert max(versions, default=0) - named in (0, 1), f"seed {self.seed}"
        if not named:
            return None
        snapshot = iceberg_readers.static_table(self.path).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return {*snapshot.summary[WRITES_KEY].split(",")}


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (0, *range(2, 300)))]
)
def test_pyiceberg_reads_after_each_step_what_the_model_holds(seed: int, tmp_path: Path) -> None:
    history = IcebergHistory(path=tmp_path / "t", seed=seed, table_version=9 if seed % 4 > 1 else 6)
    history.run(steps=14)
    print(f"seed {seed}: done {dict(history.done)}, refused {dict(history.refused)}")


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 300))]
)
def test_delta_rs_reads_after_each_step_what_the_model_holds(seed: int, tmp_path: Path) -> None:
    history = PublishedHistory(path=tmp_path / "t", seed=seed, table_version=9 if seed % 4 > 1 else 6)
    history.run(steps=14)
    print(f"seed {seed}: done {dict(history.done)}, refused {dict(history.refused)}")
