"""Tables that jobs write to as their policies declare have no health line, after each job of random histories."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from parquetry.compiler.reports.health import health_lines
from parquetry.compiler.reports.lake import read_table
from parquetry.message import in_full as text_of
from parquetry.runtime.clustering.plan.due import is_clustering_due
from parquetry.runtime.services.clean import clean_if_due
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, PlanPolicy, Trigger
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import DeltaFormat, Extra, Publish, Query, RetentionPolicy
from parquetry.runtime.table.applied import read_applied, write_applied
from tests.support.effort import in_full
from tests.support.one_process_spark import OneProcessSpark
from tests.support.small_table import FAST, SmallTable, make_table
from tests.support.stores import FaultyStore, ShiftedStore, Stopped

FULL = 400
"""So many rows make a file of three quarters of the largest size, sorted or not."""
RANGE = 10**9
"""The values of a load, which compress badly, are within a range of this size."""
SIZING = SizingPolicy(max_file_size_bytes=16_000, small_file_limit_bytes=5_000)


@dataclass(slots=True)
class HealthyHistory:
    """Jobs of a table under a random policy: each writes once, and then the services follow that are due.

    ``numbers`` are the ranges of values that were loaded, and ``thinned`` those with deleted rows.
    """

    path: Path
    seed: int
    rng: random.Random = field(init=False)
    store: ShiftedStore = field(init=False)
    table: SmallTable = field(init=False)
    numbers: list[int] = field(default_factory=list)
    thinned: set[int] = field(default_factory=set)
    savepoints: dict[str, float] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    _next: int = 0

    def __post_init__(self) -> None:
        self.rng = rng = random.Random(self.seed)
        made = make_table(self.path)
        kept = rng.randint(1, 4)
        retention = RetentionPolicy(keep_commits=kept, archive_keep_commits=kept + rng.randint(1, 6))
        if rng.random() < 0.2:
            retention = RetentionPolicy(keep_commits=None, keep_versions=kept)
        clustering = ClusteringSpec(
            trigger=Trigger.ASYNC,
            every_commits=rng.randint(1, 6),
            plan=PlanPolicy(
                strategy=rng.choice(["size", "overlap", "commits"]),
                small_file_limit_bytes=5_000,
                target_file_size_bytes=16_000,
            ),
            execution=ExecutionPolicy(strategy="sort", columns=("v",)),
        )
        spec = replace(
            read_applied(made.store).spec,
            sizing=SIZING,
            retention=retention,
            extra=Extra(clustering=clustering, queries=(Query(name="first", where=f"v < {RANGE}"),)),
            publish=Publish(delta=DeltaFormat()) if rng.random() < 0.3 else None,
        )
        write_applied(made.store, spec, number=2)
        self.store = ShiftedStore(made.store)
        self.table = SmallTable(self.store, services=True, small_file_rows=rng.choice([0, 150]))

    def run(self, jobs: int) -> None:
        self.load()
        for _ in range(jobs):
            self.store.days += self.rng.choice([0, 1 / 24, 1, 1])
            job = self.rng.choice(JOBS)
            self.done.append(job)
            getattr(self, job)()
            self.services()
            lines = [f"{line.check}: {text_of(line.reason)}" for line in self.lines()]
            assert lines == [], f"seed {self.seed}, after {self.done} under {self.table.handle.spec}"

    def lines(self):
        return health_lines(read_table(self.table.handle, table="t"))

    def services(self) -> None:
        """Cluster and clean as `run` does."""
        while is_clustering_due(self.table.handle, Trigger.ASYNC):
            if not cluster(OneProcessSpark(), self.table.handle, timing=FAST).instants:
                break
        clean_if_due(self.table.handle, timing=FAST)

    # -- jobs

    def load(self) -> None:
        self.table.insert(self.rows(self.number()))

    def change(self) -> None:
        self.table.upsert(self.rows(self.rng.choice(self.numbers), step=2))

    def correct(self) -> None:
        number = self.rng.choice(self.numbers)
        if number not in self.thinned:
            self.thinned.add(number)
            self.table.delete(self.rows(number, step=6))

    def reload(self) -> None:
        self.numbers.clear()
        self.table.overwrite(self.rows(self.number()))

    def killed(self) -> None:
        """A writer that is killed before its commit, and the next one."""
        counter = self.path.with_name(f"{self.path.name} killed {len(self.done)}")
        store = FaultyStore(self.store, counter)

        def end(_) -> None:
            store.stop_at = store.operations()

        with pytest.raises(Stopped):
            replace(self.table, store=store, before_publish=end).insert(self.rows(self._next))
        self.load()

    def savepoint(self) -> None:
        """A savepoint before a load, which a job deletes once it is older than some days."""
        for instant, days in [*self.savepoints.items()]:
            if days < self.store.days - 5:
                delete_savepoint(self.table.handle, instant)
                del self.savepoints[instant]
        made = create_savepoint(self.table.handle, timing=FAST)
        self.savepoints[made.instant] = self.store.days
        self.load()

    # -- how

    def number(self) -> int:
        self.numbers.append(self._next)
        self._next += 1
        return self.numbers[-1]

    def rows(self, number: int, *, step: int = 1) -> dict[str, tuple[int, str]]:
        """The rows of a full file for each partition, or every so many of them."""
        return {
            f"{p}{number:03}{n:03}": (number * RANGE + n * 2_654_435_761 % RANGE, p)
            for p in "ab"
            for n in range(0, FULL, step)
        }


JOBS = (*("load", "change") * 3, "correct", "reload", "killed", "savepoint")


@pytest.mark.parametrize("seed", range(200 if in_full() else 5))
def test_no_job_of_a_healthy_table_leaves_a_line(tmp_path, seed):
    HealthyHistory(path=tmp_path / "t", seed=seed).run(8)
