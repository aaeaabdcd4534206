"""Services of tables with a quarantine delete and move aside what their dry runs list.

The judge is a walk over the folder of the table before and after. The clock advances, writers and services are
killed, orphans come, partitions pass out of retention.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from parquetry.runtime.services.archive import archive, archive_if_due
from parquetry.runtime.services.clean import CleanResult, clean, clean_if_due
from parquetry.runtime.services.deletions import (
    DeletionReason,
    Deletions,
    archive_deletions,
    clean_deletions,
    due_deletions,
)
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spec.table_spec import PartitionRetention
from parquetry.runtime.storage.paths import temporary_path
from parquetry.runtime.table.applied import read_applied, write_applied
from parquetry.runtime.table.file_names import instant_of_file
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timing import Timing
from parquetry.runtime.write.partition_retention import delete_expired_partitions, expired_partitions
from tests.support.random_history import AT_ONCE
from tests.support.small_table import SmallTable, make_table, view_rows
from tests.support.stores import WRITES, FaultyStore, Kind, ReadOnlyStore, ShiftedStore, Stop, Stopped

QUARANTINE = ".hoodie/.parquetry/quarantine/"
HOUR = 3600
DAY_MS = 86_400_000
KEPT_DAYS = 3


class AgedStore(ShiftedStore):
    """A store whose files have the times of its clock, as if the days had passed."""

    def after(self, kind: Kind, path: str) -> None:
        file = Path(self.uri.removeprefix("file://"), path.rpartition("\n")[2])
        if kind in WRITES and file.exists():
            os.utime(file, (self.now_ms() / 1000,) * 2)


@dataclass(frozen=True)
class Found:
    """A file as the walk found it."""

    size_bytes: int
    digest: str
    modified_ms: int


def walked(path: Path) -> dict[str, Found]:
    """Each file of the table by its path, without Hadoop's checksums."""
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            if name.endswith(".crc"):
                continue
            file = Path(folder, name)
            info = file.stat()
            found[file.relative_to(path).as_posix()] = Found(
                size_bytes=info.st_size,
                digest=hashlib.sha256(file.read_bytes()).hexdigest(),
                modified_ms=info.st_mtime_ns // 1_000_000,
            )
    return found


def aside(path: str) -> str:
    """The path in the quarantine of a file of a partition."""
    folder, _, name = path.rpartition("/")
    return f"{QUARANTINE}{folder}/{name.replace('.', '%2E')}.orphan"


@dataclass(slots=True)
class QuarantinedHistory:
    """A table with a quarantine, its rows as a dictionary, and counts of what happened.

    Partitions are ``days``, and stay when all of their rows are deleted. The first ones have passed out of
    retention when the newest ones come.
    """

    path: Path
    seed: int
    table_version: int
    rng: random.Random = field(init=False)
    table: SmallTable = field(init=False)
    store: AgedStore = field(init=False)
    quarantine_seconds: int | None = field(init=False)
    rows: dict[str, tuple[int, str]] = field(default_factory=dict)
    days: set[dt.date] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    _number: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        kept = self.rng.randint(1, 3)
        self.quarantine_seconds = self.rng.choice([HOUR, 12 * HOUR, 48 * HOUR])
        made = make_table(
            self.path,
            table_version=self.table_version,
            keep_commits=kept,
            archive_keep_commits=kept + self.rng.randint(1, 3),
            quarantine_seconds=self.quarantine_seconds,
            partitions=PartitionRetention(column="p", keep_days=KEPT_DAYS, at_most=0.5),
        )
        self.store = AgedStore(made.store)
        self.table = SmallTable(self.store, timing=AT_ONCE)

    def run(self, rounds: int) -> None:
        """Write, let something happen, and execute a service that is predicted; the rows are right at the end."""
        self.write()
        for _ in range(rounds):
            self.store.days += self.rng.choice([0, 0, 1 / 24, 0.5, 1, 2])
            for event in self.rng.choices(EVENTS, k=2):
                self.counts[event] += 1
                getattr(self, event)()
            getattr(self, self.rng.choice(SERVICES))()
        assert view_rows(self.path) == self.rows, f"seed {self.seed}"

    # -- events

    def write(self) -> None:
        day = self._day() - dt.timedelta(days=self.rng.choice([0, 0, 0, 1]))
        new = {f"k{self._next()}": (self._number, day.isoformat()) for _ in range(3)}
        self.rows |= new
        self.days.add(day)
        self.table.upsert(new)

    def change(self) -> None:
        keys = self.rng.sample(sorted(self.rows), min(3, len(self.rows)))
        new = {key: (self._next(), self.rows[key][1]) for key in keys}
        self.rows |= new
        self.table.upsert(new)

    def delete(self) -> None:
        keys = self.rng.sample(sorted(self.rows), min(2, len(self.rows)))
        self.table.delete(keys)
        self.rows = {key: row for key, row in self.rows.items() if key not in keys}

    def killed(self) -> None:
        """A writer that is killed before its commit and that nobody has rolled back yet."""
        counter = self.path.with_name(f"{self.path.name} killed {self._next()}")
        store = FaultyStore(self.store, counter)

        def end(_: object) -> None:
            store.stop_at = store.operations()

        rows = {f"dead{self._next()}": (0, self._day().isoformat())}
        with pytest.raises(Stopped):
            replace(self.table, store=store, before_publish=end).upsert(rows)

    def late_task(self) -> None:
        """A task of a writer that was rolled back writes a file, or a part of one."""
        timeline = self.table.handle.timeline()
        victims = [
            victim.time
            for rollback in timeline.of(Action.ROLLBACK)
            for victim in timeline.rollback_metadata(rollback.time).instants
            if victim.time > self._first_write()
        ]
        live = self.table.handle.view(timeline).all_slices()
        if victims and live:
            part = self.rng.choice(live)
            name = f"{uuid.UUID(int=self.rng.getrandbits(128))}-0_0-0-0_{self.rng.choice(victims)}.parquet"
            path = f"{part.partition}/{name}"
            if self.rng.random() < 0.3:
                path = temporary_path(path)
            self.store.put(path, self.store.read(part.path))

    def late_again(self) -> None:
        """A task writes a file again that is in the quarantine."""
        inside = {
            path.removeprefix(QUARANTINE).removesuffix(".orphan").replace("%2E", "."): path
            for path in walked(self.path)
            if path.startswith(QUARANTINE)
        }
        newer = [path for path in inside if (instant_of_file(path) or "") > self._first_write()]
        if newer:
            path = self.rng.choice(sorted(newer))
            self.store.put(path, self.store.read(inside[path]) + b"again")

    def savepoint(self) -> None:
        create_savepoint(self.table.handle, timing=AT_ONCE)

    def delete_savepoint(self) -> None:
        if savepoints := self.table.handle.timeline().savepoints:
            delete_savepoint(self.table.handle, self.rng.choice(savepoints), timing=AT_ONCE)

    def other_rule(self) -> None:
        """A spec with another time in the quarantine, or without one, is applied."""
        applied = read_applied(self.store)
        assert applied is not None
        self.quarantine_seconds = self.rng.choice([None, HOUR, 12 * HOUR, 48 * HOUR])
        retention = replace(applied.spec.retention, quarantine_seconds=self.quarantine_seconds)
        write_applied(self.store, replace(applied.spec, retention=retention), number=applied.ref.number + 1)

    # -- services

    def clean(self) -> None:
        self._compare(clean_deletions, clean)

    def archive(self) -> None:
        self._compare(archive_deletions, archive)

    def due(self) -> None:
        self._compare(due_deletions, _run_due)

    def expire(self) -> None:
        """Delete the partitions that retention no longer keeps, as a run does before it cleans."""
        handle = self.table.handle
        before = walked(self.path)
        predicted = expired_partitions(replace(handle, store=ReadOnlyStore(handle.store)))
        newest = max(self.days)
        old = {day for day in self.days if day < newest - dt.timedelta(days=KEPT_DAYS)}
        assert {one.partition for one in predicted.partitions} == {f"p={day}" for day in old}, self.seed
        if len(old) > max(1, len(self.days) / 2):
            old = set()
        assert {one.partition for one in predicted.deleted} == {f"p={day}" for day in old}
        live = {part.path: part.partition for part in handle.view(handle.timeline()).all_slices()}
        assert delete_expired_partitions(handle, timing=AT_ONCE) == predicted
        after = {part.path for part in self.table.handle.view(self.table.handle.timeline()).all_slices()}
        gone = {path: partition for path, partition in live.items() if path not in after}
        sizes: Counter[str] = Counter()
        for path, partition in gone.items():
            sizes[partition] += before[path].size_bytes
        assert {one.partition: one.size_bytes for one in predicted.deleted} == sizes, f"seed {self.seed}"
        assert {one.partition: one.files for one in predicted.deleted} == Counter(gone.values())
        self.rows = {key: row for key, row in self.rows.items() if dt.date.fromisoformat(row[1]) not in old}
        self.days -= old
        self.counts["partitions expired"] += len(old)

    def _compare(self, predict: Callable[..., Deletions], service: Callable[..., Any]) -> None:
        handle = self.table.handle
        before = walked(self.path)
        predicted = predict(replace(handle, store=ReadOnlyStore(handle.store)), timing=AT_ONCE)
        assert walked(self.path) == before, f"seed {self.seed}: a prediction writes"
        # A service that is due may be due no longer after it has died.
        is_repeated = service is not _run_due and self.rng.random() < 0.4
        if is_repeated:
            self._die(service)
        result = service(self.table.handle, timing=AT_ONCE)
        after = walked(self.path)
        gone = {path: found for path, found in before.items() if path not in after}
        listed = {file.path: file.size_bytes for file in predicted.files}
        entering = {file.path: file.size_bytes for file in predicted.quarantine if file.is_new}
        deleted = {path: found.size_bytes for path, found in gone.items()}
        if is_repeated and service is archive:
            # An archival that dies after its last instant leaves statistics behind, for the next clean.
            statistics = {file.path for file in predicted.by_reason.get(DeletionReason.STATISTICS, ())}
            deleted |= {path: size for path, size in listed.items() if path in statistics}
        place = f"seed {self.seed}, {service.__name__}, repeated: {is_repeated}"
        assert listed.keys().isdisjoint(entering), place
        assert listed | entering == deleted, place
        assert predicted.size_bytes == sum(size for path, size in deleted.items() if path not in entering)
        self._confirm_quarantine(predicted, before, after, place, service)
        if isinstance(result, CleanResult) and not is_repeated:
            self._confirm_counts(predicted, result, place)
        self.counts["predictions"] += 1
        self.counts["files"] += len(listed)
        self.counts["enter"] += len(entering)
        self.counts["leave"] += len(predicted.by_reason.get(DeletionReason.QUARANTINE, ()))
        self.counts["stay"] += len(predicted.quarantine) - len(entering)

    def _die(self, service: Callable[..., Any]) -> None:
        counter = self.path.with_name(f"{self.path.name} service {self._next()}")
        stop_at, stop = self.rng.randint(1, 10), self.rng.choice([*Stop])
        faulty = FaultyStore(self.store, counter, stop_at=stop_at, stop=stop)
        try:
            service(replace(self.table.handle, store=faulty), timing=AT_ONCE)
        except Stopped:
            self.counts["services died"] += 1

    def _confirm_quarantine(
        self,
        predicted: Deletions,
        before: dict[str, Found],
        after: dict[str, Found],
        place: str,
        service: Callable[..., Any],
    ) -> None:
        """Compare the listed orphans with the files that are in the quarantine, and the ends of their time."""
        inside = {path: found for path, found in after.items() if path.startswith(QUARANTINE)}
        if self.quarantine_seconds is None:
            assert predicted.quarantine == (), place
            assert service is not clean or not inside, place
            return
        if service is archive:  # what was there before stays, and is not listed
            inside = {path: found for path, found in inside.items() if before.get(path) != found}
        assert {aside(one.path): one.size_bytes for one in predicted.quarantine} == {
            path: found.size_bytes for path, found in inside.items()
        }, place
        for one in predicted.quarantine:
            found = inside[aside(one.path)]
            source = before[one.path if one.is_new else aside(one.path)]
            assert found.digest == source.digest, place
            until_ms = found.modified_ms + self.quarantine_seconds * 1000
            assert abs(one.until_ms - until_ms) < 120_000, place
            # A clean that is not due empties nothing.
            assert service is _run_due or until_ms > self.store.now_ms() - 120_000, place

    def _confirm_counts(self, predicted: Deletions, result: CleanResult, place: str) -> None:
        """Compare the numbers of files with those that the clean reports."""
        files = {reason: len(predicted.by_reason.get(reason, ())) for reason in DeletionReason}
        assert files[DeletionReason.SUPERSEDED] + files[DeletionReason.REPLACED] == result.files_deleted, (
            place
        )
        assert result.orphans_moved <= sum(one.is_new for one in predicted.quarantine), place

    # -- how

    def _day(self) -> dt.date:
        return dt.datetime.fromtimestamp(self.store.now_ms() / 1000, dt.UTC).date()

    def _first_write(self) -> str:
        """Every file that is older than the timeline counts as that of an archived write, as for Hudi's readers."""
        return self.table.handle.timeline().completed_writes[0].time

    def _next(self) -> int:
        self._number += 1
        return self._number


def _run_due(handle: TableHandle, *, timing: Timing) -> None:
    clean_if_due(handle, timing=timing)
    archive_if_due(handle, timing=timing)


EVENTS = (
    *("write", "change", "killed", "late_task") * 3,
    *("delete", "late_again", "savepoint", "delete_savepoint", "other_rule"),
)
SERVICES = (*("clean",) * 3, "due", "due", "archive", "expire", "expire")


@pytest.mark.parametrize(
    ("seed", "table_version"),
    [
        (seed, version) if seed < 1 else pytest.param(seed, version, marks=pytest.mark.long)
        for seed in range(100)
        for version in (6, 9)
    ],
)
def test_a_service_deletes_and_moves_the_files_that_were_listed(
    seed: int, table_version: int, tmp_path: Path
) -> None:
    history = QuarantinedHistory(path=tmp_path / "t", seed=seed, table_version=table_version)
    history.run(12)
    print(f"seed {seed}: {dict(history.counts)}")
    assert history.counts["predictions"]
