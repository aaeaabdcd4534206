"""What a service would delete, against what it then deletes: over random histories, some steps of which die."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from parquetry.runtime.services.archive import ArchiveResult, archive, archive_if_due
from parquetry.runtime.services.clean import CleanResult, clean, clean_if_due
from parquetry.runtime.services.deletions import (
    DeletionReason,
    Deletions,
    archive_deletions,
    clean_deletions,
    due_deletions,
)
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timing import Timing
from tests.support.random_history import AT_ONCE, RandomHistory
from tests.support.small_table import SmallTable
from tests.support.stores import FaultyStore, ReadOnlyStore, Stop, Stopped

WRITES = ("upsert", "interrupted", "delete_partition", "cluster", "savepoint", "delete")


@dataclass(slots=True)
class PredictedHistory(RandomHistory):
    """A history whose cleans and archivals are predicted; some of them die and are made again."""

    predictions: int = 0
    files: int = 0
    died: int = 0

    def clean(self, table: SmallTable) -> None:
        self._compare(table, clean_deletions, clean)

    def archive(self, table: SmallTable) -> None:
        self._compare(table, archive_deletions, archive)

    def due(self, table: SmallTable) -> None:
        self._compare(table, due_deletions, _run_due)

    def _compare(
        self, table: SmallTable, predict: Callable[..., Deletions], service: Callable[..., Any]
    ) -> None:
        if table.store is not self.table.store:  # a step that dies, and is not predicted
            service(table.handle, timing=AT_ONCE)
            return
        before = self._files()
        handle = table.handle
        predicted = predict(replace(handle, store=ReadOnlyStore(handle.store)), timing=AT_ONCE)
        assert self._files() == before, f"seed {self.seed}: a prediction writes"
        # A service that is due may be due no longer after it has died.
        is_repeated = service is not _run_due and self.rng.random() < 0.5
        if is_repeated:
            counter = self.path.with_name(f"{self.path.name} predicted {self._next()}")
            faulty = FaultyStore(
                table.store, counter, stop_at=self.rng.randint(1, 12), stop=self.rng.choice([*Stop])
            )
            try:
                service(replace(handle, store=faulty), timing=AT_ONCE)
            except Stopped:
                self.died += 1
        result = service(handle, timing=AT_ONCE)
        after = self._files()
        deleted = {path: size for path, size in before.items() if path not in after}
        found = {file.path: file.size_bytes for file in predicted.files}
        if is_repeated and service is archive:
            # An archival that dies after its last instant leaves statistics behind, for the next clean.
            statistics = {file.path for file in predicted.by_reason.get(DeletionReason.STATISTICS, ())}
            deleted |= {path: size for path, size in found.items() if path in statistics}
        assert found == deleted, f"seed {self.seed}: {predicted}"
        assert sum(len(files) for files in predicted.by_reason.values()) == len(predicted.files)
        if not is_repeated:
            self._confirm_reasons(predicted, result)
        self.predictions += 1
        self.files += len(found)

    def _confirm_reasons(self, predicted: Deletions, result: object) -> None:
        """Compare the files of a reason with what the service reports of it."""
        files = {reason: len(predicted.by_reason.get(reason, ())) for reason in DeletionReason}
        if isinstance(result, CleanResult):
            expired = files[DeletionReason.SUPERSEDED] + files[DeletionReason.REPLACED]
            orphans = files[DeletionReason.ROLLED_BACK] + files[DeletionReason.ABANDONED]
            assert (expired, orphans) == (result.files_deleted, result.orphans_deleted), f"seed {self.seed}"
        if isinstance(result, ArchiveResult):
            archived = {file.instant for file in predicted.by_reason.get(DeletionReason.ARCHIVED, ())}
            assert archived == set(result.instants), f"seed {self.seed}"

    def _files(self) -> dict[str, int]:
        """The size of each file of the table, without Hadoop's checksums."""
        return {
            file.relative_to(self.path).as_posix(): file.stat().st_size
            for file in self.path.rglob("*")
            if file.is_file() and file.suffix != ".crc"
        }


def _run_due(handle: TableHandle, *, timing: Timing) -> None:
    clean_if_due(handle, timing=timing)
    archive_if_due(handle, timing=timing)


@pytest.mark.parametrize(
    ("seed", "table_version"),
    [
        (seed, version) if seed < 1 else pytest.param(seed, version, marks=pytest.mark.long)
        for seed in range(100)
        for version in (6, 9)
    ],
)
def test_a_service_deletes_the_files_that_were_listed(seed: int, table_version: int, tmp_path: Path) -> None:
    history = PredictedHistory(path=tmp_path / "t", seed=seed, table_version=table_version)
    history.upsert(history.table)
    for _ in range(8):
        history.upsert(history.table)
        history.perform(history.rng.choice(WRITES))
        history.perform(history.rng.choice(["clean", "archive", "due"]))
    history.judge("at the end")
    print(f"seed {seed}: {history.predictions} predictions of {history.files} files, {history.died} died")
    assert history.predictions
