"""Random histories of small tables: every operation and service in any order, some interrupted, judged after each.

A history is made from a seed. The model is the list of the completed writes, replayed in the order of their instants.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.clustering.plan.schedule import schedule
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import ConflictError, InvalidDataError
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spark.cluster import cluster, execute
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import WRITE_ACTIONS, Action, Instant
from tests.support import hudi_rs
from tests.support.one_process_spark import OneProcessSpark
from tests.support.orphans import leftovers
from tests.support.planned_clustering import SORTED, apply_clustering, groups_owed
from tests.support.small_table import FAST, Rows, SmallTable, make_table
from tests.support.stores import FaultyStore, Stop, Stopped
from tests.support.view_reader import ViewReader

KEYS = 30
PARTITIONS = "abc"
AT_ONCE = replace(FAST, dead_after_seconds=0.0)
EXPIRED = replace(FAST, plan_expires_seconds=-1.0)

Stored = tuple[int, str, str]
"""The value of a row, its partition, and the instant that wrote it."""

Change = Callable[[dict[str, Stored], str], None]
"""Changes the rows by key. It gets the instant of its write."""


@dataclass(slots=True)
class RandomHistory:
    """A table with its model. ``done`` counts what was done by name, ``refused`` what was refused.

    ``foreign`` are the instants of writes by others, whose rows lack what ``meta_columns`` fill. After half of
    the steps, files fill only those of ``fewer``, if it is given.
    """

    path: Path
    seed: int
    table_version: int
    meta_columns: MetaColumns = MetaColumns.ALL
    fewer: MetaColumns | None = None
    rng: random.Random = field(init=False)
    table: SmallTable = field(init=False)
    writes: dict[str, Change] = field(default_factory=dict)
    readable: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    steps: tuple[str, ...] = field(init=False)
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    _attempted: Change | None = None
    _number: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.steps = STEPS
        keep = self.rng.randint(1, 4)
        retention = {"keep_commits": keep, "archive_keep_commits": keep + self.rng.randint(1, 3)}
        self.table = self.make(**retention)
        self.table.small_file_rows = self.rng.choice([0, 6])
        apply_clustering(self.table, SORTED)
        for write in self.timeline().completed_writes:
            self.writes.setdefault(write.time, unchanged)

    def make(self, **retention: int) -> SmallTable:
        """Make the table. A history of a table that another program made enters its writes."""
        return make_table(
            self.path, table_version=self.table_version, meta_columns=self.meta_columns, **retention
        )

    def run(self, steps: int) -> None:
        """Write once, then take random steps, each judged; at the end nothing superfluous is left."""
        self.upsert(self.table)
        for number in range(steps):
            if self.fewer is not None and number == steps // 2:
                self.fill_fewer(self.fewer)
            step = self.rng.choice(self.steps)
            self.perform(step)
            self.judge(step)
        self.end()

    def perform(self, step: str) -> None:
        """Take one step; a refusal changes nothing."""
        self.done[step] += 1
        try:
            getattr(self, step)(self.table)
        except (InvalidDataError, ConflictError):
            self.refused[step] += 1

    def fill_fewer(self, wanted: MetaColumns) -> None:
        """Apply a spec with fewer meta columns."""
        handle = self.table.handle
        spec, applied = handle.spec, handle.applied
        assert spec is not None
        assert applied is not None
        change = TableChange(
            spec=replace(spec, files=replace(spec.files, meta_columns=wanted)),
            requirements=Requirements(
                exists=True, applied_number=applied.number, applied_digest=applied.digest
            ),
            alters_schema=False,
            project="tests",
        )
        apply_change(self.table.store, change, timing=FAST)
        self.meta_columns = wanted

    # -- steps

    def upsert(self, table: SmallTable) -> None:
        rows = self.some_rows()
        self._write(put(rows), lambda: table.upsert(rows))

    def insert(self, table: SmallTable) -> None:
        rows = self.new_rows()
        self._write(put(rows), lambda: table.insert(rows))

    def delete(self, table: SmallTable) -> None:
        keys = self.rng.sample([f"k{n}" for n in range(KEYS)], 5)
        self._write(without(lambda key, _: key in keys), lambda: table.delete(keys))

    def overwrite(self, table: SmallTable) -> None:
        rows = {f"k{n}": row for n in range(0, KEYS, 3) for row in [(self._next(), "a")]}
        self._write(overwriting(rows, "a"), lambda: table.overwrite(rows))

    def delete_partition(self, table: SmallTable) -> None:
        gone = self.rng.choice(PARTITIONS)
        change = without(lambda _, partition: partition == gone)
        self._write(change, lambda: table.delete_partition(f"p={gone}"))

    def late_write(self, table: SmallTable) -> None:
        """A write that is requested first and completed last; the other one inserts into new files."""
        inside = [replace(self.table, small_file_rows=0)]

        def interleave(_: Transaction) -> None:
            if inside:
                self.insert(inside.pop())

        self.rng.choice([self.upsert, self.insert, self.delete])(replace(table, before_publish=interleave))

    def cluster(self, table: SmallTable) -> None:
        self._attempted = unchanged
        for instant in cluster(OneProcessSpark(), table.handle, timing=FAST).instants:
            self.writes[instant] = unchanged

    def schedule_clustering(self, table: SmallTable) -> None:
        if groups := groups_owed(table):
            schedule(table.handle, groups, timing=FAST)

    def execute_clustering(self, table: SmallTable) -> None:
        for plan in table.handle.timeline().pending_clusterings:
            for instant in execute(OneProcessSpark(), table.handle, plan, timing=FAST).instants:
                self.writes[instant] = unchanged

    def clean(self, table: SmallTable) -> None:
        clean(table.handle, timing=FAST)

    def archive(self, table: SmallTable) -> None:
        archive(table.handle, timing=FAST)

    def savepoint(self, table: SmallTable) -> None:
        instant = self.rng.choice([None, self.rng.choice([*self.writes])])
        create_savepoint(table.handle, instant, timing=FAST)

    def delete_savepoint(self, table: SmallTable) -> None:
        if savepoints := self.timeline().savepoints:
            delete_savepoint(table.handle, self.rng.choice(savepoints), timing=FAST)

    def restore(self, table: SmallTable) -> None:
        if savepoints := self.timeline().savepoints:
            restore(table.handle, savepoints[-1], timing=FAST)
            self.restored(savepoints[-1])

    def rollback(self, table: SmallTable) -> None:
        newest = max(self.writes)
        if len(self.writes) > 1:
            rollback(table.handle, newest, timing=FAST)
            del self.writes[newest]

    def interrupted(self, table: SmallTable) -> None:
        """A step whose process dies at one of its storage operations, and a write after it."""
        step = self.rng.choice(INTERRUPTED)
        before = self.timeline()
        counter = self.path.with_name(f"{self.path.name} counter {self._next()}")
        stop_at, stop = self.rng.randint(1, 24), self.rng.choice([*Stop])
        self._attempted = None
        died = False
        try:
            getattr(self, step)(
                replace(table, store=FaultyStore(table.store, counter, stop_at=stop_at, stop=stop))
            )
        except Stopped:
            died = True
        except (InvalidDataError, ConflictError):
            pass
        attempted = self._attempted
        self.done[f"{step} died" if died else f"{step} did not die"] += 1
        rows = self.some_rows()
        next_write = table.upsert(rows).instant
        assert next_write is not None
        if died:
            after = self.timeline()
            if after.of(Action.RESTORE) != before.of(Action.RESTORE):
                self.restored(before.savepoints[-1])
            if step == "rollback" and not after.is_completed(newest := max(self.writes)):
                del self.writes[newest]
            for write in after.completed_writes:
                if write.time not in self.writes and write.time != next_write:
                    assert attempted is not None
                    self.writes[write.time] = attempted
        self.writes[next_write] = put(rows)

    # -- the model

    def restored(self, savepoint: str) -> None:
        """Forget the writes after the savepoint."""
        self.writes = {time: change for time, change in self.writes.items() if time <= savepoint}
        self.readable = set()

    def rows(self, until: str | None = None) -> dict[str, Stored]:
        """The rows after all writes, or after those up to an instant."""
        return self.rows_of(time for time in self.writes if until is None or time <= until)

    def rows_of(self, times: Iterable[str]) -> dict[str, Stored]:
        """The rows after some of the writes."""
        rows: dict[str, Stored] = {}
        for instant in sorted(times):
            self.writes[instant](rows, instant)
        return rows

    def timeline(self) -> Timeline:
        """The timeline as it is now."""
        return self.table.handle.timeline()

    # -- judges

    def judge(self, place: str) -> None:
        """Compare the latest rows, those of a past instant and those since one with hudi-rs and with our view."""
        timeline = self.timeline()
        positions = {write.time: write.position for write in timeline.completed_writes}
        self._is_sound(timeline, place)
        limit = max((_limit(timeline, clean) for clean in timeline.of(Action.CLEAN)), default="")
        kept = {time for time in self.readable if time >= limit}
        self.readable = (kept | {max(self.writes)}) & positions.keys() & self.writes.keys()
        self.equals(self.rows(), place)
        past = self.rng.choice(sorted(self.readable))
        self.equals(self.rows(past), f"{place}, as of {past}", as_of=past)
        if self.meta_columns.has_commit_times:
            since = positions[past]
            changed = {key: row for key, row in self.rows().items() if positions.get(row[2], "") > since}
            # hudi-rs finds no row without a commit time.
            judges = (hudi_rs, ViewReader()) if self.meta_columns.has_keys else (ViewReader(),)
            self.equals(changed, f"{place}, since {since}", judges=judges, since=since)

    def equals(
        self,
        expected: Mapping[str, Stored],
        place: str,
        *,
        judges: Iterable[Any] = (hudi_rs, ViewReader()),
        **question: str,
    ) -> None:
        """Compare the answers of the judges to a question with the rows that are expected."""
        for judge in judges:
            found = judge.read(str(self.path), **question)
            rows = found.to_pylist()
            stored = {row["id"]: (row["v"], row["p"], row.get("_hoodie_commit_time")) for row in rows}
            judged = f"seed {self.seed}, {getattr(judge, 'name', 'hudi-rs')}, {place}"
            assert len(stored) == len(rows), f"{judged}: keys occur twice"
            if "since" in question and not self.meta_columns.has_keys:
                expected = {**self._of_changed_files(stored), **expected}
            wrong = {k: (expected.get(k), stored.get(k)) for k in expected.keys() | stored.keys()}
            wrong = {key: pair for key, pair in wrong.items() if not self._agree(*pair)}
            assert not wrong, f"{judged}: expected and found {dict([*wrong.items()][:4])}"

    def _of_changed_files(self, found: Mapping[str, Stored]) -> dict[str, Stored]:
        """A row without a commit time may come with its whole file, of which another row changed."""
        return {key: row for key, row in self.rows().items() if key in found and row[2] in self.foreign}

    def _agree(self, expected: Stored | None, found: Stored | None) -> bool:
        """Rows agree if they are equal, except for commit times that nobody stored."""
        if expected is None or found is None or self.meta_columns.has_keys:
            return expected == found
        if expected[:2] != found[:2] or not self.meta_columns.has_commit_times or not found[2]:
            return expected[:2] == found[:2]
        return found[2] >= expected[2] if expected[2] in self.foreign else found[2] == expected[2]

    def _is_sound(self, timeline: Timeline, place: str) -> None:
        """Each write is completed once, at a position of its own, and no write is lost or archived too early."""
        writes = timeline.completed_writes
        files = [one.file_name for write in writes for one in timeline.states_of(write) if one.is_completed]
        assert len(files) == len(writes), f"seed {self.seed}, {place}: completed twice: {files}"
        assert len({write.position for write in writes}) == len(writes)
        archived = {
            instant.time
            for _, instants in timeline.layout.archived(timeline.store)
            for instant in instants or ()
            if instant.action in WRITE_ACTIONS
        }
        active = {write.time for write in writes}
        unknown = sorted(active - self.writes.keys())
        assert unknown == [], f"seed {self.seed}, {place}: a write that nobody made"
        assert self.writes.keys() <= active | archived, f"seed {self.seed}, {place}: a write is lost"

    def end(self) -> None:
        """Write and clean once more: no file is left that nothing in the history needs."""
        rows = self.new_rows()
        self.table.timing = EXPIRED
        self._write(put(rows), lambda: self.table.insert(rows))
        clean(self.table.handle, timing=AT_ONCE)
        self.equals(self.rows(), "at the end")
        # Hadoop's checksums of local files are no part of the table.
        left = [path for path in leftovers(self.path) if not path.endswith(".crc")]
        assert left == [], f"seed {self.seed}"

    # -- how

    def _write(self, change: Change, act: Callable[[], CommitResult]) -> None:
        self._attempted = change
        instant = act().instant
        if instant is not None:
            self.writes[instant] = change

    def some_rows(self) -> dict[str, tuple[int, str]]:
        return {f"k{n}": (self._next(), PARTITIONS[n % 3]) for n in self.rng.sample(range(KEYS), 5)}

    def new_rows(self) -> dict[str, tuple[int, str]]:
        return {f"n{self._next()}": (self._number, self.rng.choice(PARTITIONS)) for _ in range(3)}

    def _next(self) -> int:
        self._number += 1
        return self._number


def _limit(timeline: Timeline, clean: Instant) -> str:
    """The first write that can be read as of its instant after the clean."""
    record = timeline.clean_metadata(clean.time) if clean.is_completed else timeline.cleaner_plan(clean.time)
    return record.earliest_commit_to_retain or ""


def put(new: Rows) -> Change:
    return lambda rows, instant: rows.update({key: (*row, instant) for key, row in new.items()})


def without(is_gone: Callable[[str, str], bool]) -> Change:
    def change(rows: dict[str, Stored], instant: str) -> None:
        for key in [key for key, row in rows.items() if is_gone(key, row[1])]:
            del rows[key]

    return change


def overwriting(new: Rows, partition: str) -> Change:
    def change(rows: dict[str, Stored], instant: str) -> None:
        without(lambda _, stored: stored == partition)(rows, instant)
        put(new)(rows, instant)

    return change


def unchanged(rows: dict[str, Stored], instant: str) -> None:
    pass


STEPS = (
    *("upsert", "insert", "delete", "late_write", "interrupted") * 2,
    *("overwrite", "delete_partition", "cluster", "schedule_clustering", "execute_clustering"),
    *("clean", "archive", "savepoint", "delete_savepoint", "restore", "rollback"),
)
INTERRUPTED = (
    "upsert",
    "insert",
    "overwrite",
    "delete",
    "cluster",
    "clean",
    "archive",
    "restore",
    "rollback",
)
