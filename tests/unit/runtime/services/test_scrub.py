"""What a scrub removes, and what it leaves, at whichever operation of the storage it ends."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.runtime.commit.outcome import KeyRange
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean, clean_groups, clean_if_due
from parquetry.runtime.services.clean_progress import read_progress
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.services.scrub import ScrubResult, scrub
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.sidecars import sample_path
from tests.support.archives import read_archive
from tests.support.small_table import FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import FaultyStore, Stop, Stopped

pytestmark = pytest.mark.usefixtures("on_each_version")

SECRET = "anna@example.com"
KEEP_ONE = RetentionPolicy(keep_commits=1, archive_keep_commits=1)


def holding(path: Path, value: str) -> list[str]:
    """The files in whose bytes the value stands."""
    files = [file for file in path.rglob("*") if file.is_file()]
    return sorted(str(f.relative_to(path)) for f in files if value.encode() in f.read_bytes())


def prepared(path: Path) -> SmallTable:
    """A table whose timeline, archive, statistics and samples hold a key that was deleted and cleaned."""
    table = make_table(path, keep_commits=1)
    announcing = replace(table, inserted_keys={"p=a": KeyRange(smallest="a", largest=SECRET)})
    announcing.upsert({SECRET: (1, "a"), "b": (1, "a"), "c": (1, "b")})
    for number in range(3):
        table.upsert({"b": (number, "a")})
    announcing.upsert({"d": (1, "a")})
    table.delete([SECRET])
    table.upsert({"b": (9, "a")})
    first, *_, newest = (write.time for write in table.handle.timeline().completed_writes)
    table.store.put(sample_path(newest), SECRET.encode())
    clean(table.handle, policy=KEEP_ONE, timing=FAST)
    archive(table.handle, policy=RetentionPolicy(keep_commits=1, archive_keep_commits=3), timing=FAST)
    assert not table.handle.timeline().contains(first)
    return table


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


def test_nothing_beside_the_data_holds_the_key(path: Path) -> None:
    table = prepared(path)
    rows = view_rows(path)
    # The archive of layout 2 keeps no inflight files.
    logs = {1: {"1_1-0-1"}, 2: set[str]()}[table.handle.config.timeline_layout.NUMBER]
    found = {file.rpartition(".")[2] for file in holding(path, SECRET)}
    assert found == {"inflight", "sample", "statistics", *logs}

    result = scrub(table.handle, timing=FAST)

    assert holding(path, SECRET) == []
    assert SECRET not in str(read_archive(table.store, table.handle.config.timeline_layout))
    assert (result.timeline_files, result.archive_files, result.samples) == (1, len(logs), 1)
    assert result.statistics_files > 0
    assert rows_of(path) == view_rows(path) == rows
    assert scrub(table.handle, timing=FAST) == ScrubResult()


@pytest.mark.parametrize("stop", [Stop.AFTER, Stop.HALFWAY])
def test_a_scrub_that_ends_anywhere_leaves_a_table_that_is_read_and_scrubbed_again(
    stop: Stop, tmp_path: Path
) -> None:
    template = tmp_path / "template"
    prepared(template)
    rows = view_rows(template)
    for number in range(1, 1000):
        path = tmp_path / f"t{number}"
        shutil.copytree(template, path)
        store = FaultyStore(open_store(path), tmp_path / f"count{number}", stop_at=number, stop=stop)
        try:
            scrub(open_table(store), timing=FAST)
        except Stopped:
            assert rows_of(path) == view_rows(path) == rows
            scrub(open_table(open_store(path)), timing=replace(FAST, dead_after_seconds=0.0))
            assert (holding(path, SECRET), rows_of(path)) == ([], rows)
            SmallTable(store=open_store(path)).upsert({"next": (1, "a")})
            assert rows_of(path) == view_rows(path) == {**rows, "next": (1, "a")}
            shutil.rmtree(path)
        else:
            break
    assert number > 4


def test_a_pending_write_keeps_its_profile(path: Path) -> None:
    table = make_table(path)
    found: list[ScrubResult] = []
    announcing = replace(
        table,
        inserted_keys={"p=a": KeyRange(smallest="a", largest="z")},
        before_publish=lambda _: found.append(scrub(table.handle, timing=FAST)),
    )
    announcing.upsert({"a": (1, "a")})
    assert found == [ScrubResult()]
    assert scrub(table.handle, timing=FAST).timeline_files == 1


class TestCleanGroups:
    def groups(self, table: SmallTable, partition: str) -> frozenset[tuple[str, str]]:
        handle = table.handle
        found = handle.view(handle.timeline()).file_groups(partition)
        return frozenset((partition, group.file_id) for group in found)

    def changed(self, path: Path) -> SmallTable:
        table = make_table(path, keep_commits=5)
        for number in range(3):
            table.upsert({"a": (number, "a"), "b": (number, "b")})
        return table

    def test_only_old_versions_of_the_groups_go(self, path: Path) -> None:
        table = self.changed(path)
        result = clean_groups(table.handle, self.groups(table, "p=a"), timing=FAST)
        assert result.files_deleted == 2
        files = {folder: len(list((path / folder).glob("*.parquet"))) for folder in ("p=a", "p=b")}
        assert files == {"p=a": 1, "p=b": 3}
        assert rows_of(path) == view_rows(path) == {"a": (2, "a"), "b": (2, "b")}

    def test_the_next_clean_does_not_take_it_for_one_of_the_whole_table(self, path: Path) -> None:
        table = self.changed(path)
        clean_groups(table.handle, self.groups(table, "p=a"), timing=FAST)
        assert read_progress(table.handle.timeline()) is None
        by_number = RetentionPolicy(keep_commits=None, keep_versions=1)
        done = clean_if_due(table.handle, policy=by_number, timing=FAST)
        assert done is not None
        assert done.files_deleted == 2

    def test_files_of_a_savepoint_stay(self, path: Path) -> None:
        table = self.changed(path)
        create_savepoint(table.handle, timing=FAST)
        table.upsert({"a": (9, "a")})
        assert clean_groups(table.handle, self.groups(table, "p=a"), timing=FAST).files_deleted == 2
        assert len(list((path / "p=a").glob("*.parquet"))) == 2
