"""Random histories of published tables, some steps of which die: delta-rs and pyiceberg read what the model holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

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
from tests.support import delta_readers, hudi_rs, iceberg_readers
from tests.support.planned_clustering import apply_again
from tests.support.random_history import STEPS, RandomHistory, Stored, unchanged
from tests.support.small_table import FAST, SmallTable
from tests.support.stores import FaultyStore, Stop, Stopped

MAY_MISS_FILES = frozenset({"rollback", "restore", "interrupted"})
"""Steps that delete files which a published state may name."""

Reader = Callable[[Path], pa.Table]


class Form(ABC):
    """A format with its readers. The first of them judges after each step."""

    readers: Mapping[str, Reader]

    @abstractmethod
    def log(self, store: ObjectStore) -> PublishedFormat:
        """The metadata of the table in a store."""

    @abstractmethod
    def shown_writes(self, table: SmallTable, path: Path) -> AbstractSet[str] | None:
        """The writes of the state that readers find, or None if they find no table."""


class Delta(Form):
    readers = delta_readers.READERS

    def log(self, store: ObjectStore) -> PublishedFormat:
        return DeltaLog(store, commits_per_checkpoint=4)

    def shown_writes(self, table: SmallTable, path: Path) -> AbstractSet[str] | None:
        shown = self.log(table.store).published()
        return None if shown is None else shown.writes


class Iceberg(Form):
    readers = iceberg_readers.READERS

    def log(self, store: ObjectStore) -> PublishedFormat:
        return IcebergMetadata(store, IcebergFormat())

    def shown_writes(self, table: SmallTable, path: Path) -> AbstractSet[str] | None:
        """A process that dies before it puts the hint leaves readers at the state before."""
        versions = [int(file.name[1:].split(".")[0]) for file in path.glob("metadata/v*.metadata.json")]
        hint = path / HINT
        named = int(hint.read_text()) if hint.exists() else 0
        assert max(versions, default=0) - named in (0, 1), path
        if not named:
            return None
        snapshot = iceberg_readers.static_table(path).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return {*snapshot.summary[WRITES_KEY].split(",")}


FORMS = (Delta(), Iceberg())


@dataclass(slots=True)
class PublishedHistory(RandomHistory):
    """A history of a table that is published. In half of them each write is published as it ends."""

    def __post_init__(self) -> None:
        RandomHistory.__post_init__(self)
        apply_again(self.table, publish=Publish(delta=DeltaFormat(), iceberg=IcebergFormat()))
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
        stop = self.rng.choice([*Stop])
        store = FaultyStore(table.store, counter, stop_at=self.rng.randint(1, 8), stop=stop)
        forms = self.rng.sample(FORMS, 2)
        try:
            publish(replace(table, store=store).handle, [form.log(store) for form in forms])
        except Stopped:
            self.done["publishing died"] += 1

    def judge(self, place: str) -> None:
        """Compare the rows with hudi-rs, and with a reader of each format before and after it has caught up."""
        self._is_sound(self.timeline(), place)
        self.equals(self.rows(), place, judges=[hudi_rs])
        for form in FORMS:
            shown = form.shown_writes(self.table, self.path)
            if shown is not None and place not in MAY_MISS_FILES:
                first = min(shown)
                times = (time for time in self.writes if time in shown or time < first)
                self.reads(form, self.rows_of(times), f"{place}, before it caught up")
        self.catch_up()
        for form in FORMS:
            self.reads(form, self.rows(), place)

    def end(self) -> None:
        """All readers return the rows in the end."""
        RandomHistory.end(self)
        self.catch_up()
        for form in FORMS:
            self.reads(form, self.rows(), "at the end", count=len(form.readers))

    def catch_up(self) -> None:
        """Publish what is not published yet."""
        publish(self.table.handle, [form.log(self.table.store) for form in FORMS])

    def reads(self, form: Form, rows: Mapping[str, Stored], place: str, *, count: int = 1) -> None:
        """Compare the rows with those of the first readers of a format."""
        expected = sorted((key, *row[:2]) for key, row in rows.items())
        for name, reader in [*form.readers.items()][:count]:
            found = reader(self.path)
            stored = sorted(zip(*(found.column(one).to_pylist() for one in ("id", "v", "p")), strict=True))
            assert stored == expected, f"seed {self.seed}, {name}, {place}"


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 300))]
)
def test_delta_rs_and_pyiceberg_read_after_each_step_what_the_model_holds(seed: int, tmp_path: Path) -> None:
    history = PublishedHistory(path=tmp_path / "t", seed=seed, table_version=9 if seed % 4 > 1 else 6)
    history.run(steps=14)
    print(f"seed {seed}: done {dict(history.done)}, refused {dict(history.refused)}")
