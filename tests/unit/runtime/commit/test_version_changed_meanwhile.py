"""A table gets another version while something is written to it: the write begins again, and leaves no file behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.runtime.apply.version_change import change_version
from parquetry.runtime.errors import ConflictError, StaleTimelineError
from parquetry.runtime.publish.delta import DeltaLog
from parquetry.runtime.publish.publishing import publish
from parquetry.runtime.read.files import files_to_read
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spark import cluster as clustering
from parquetry.runtime.storage.model import Objects
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.file_names import instant_of_file
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.timeline.sidecars import claim_path
from tests.support.one_process_spark import OneProcessSpark
from tests.support.orphans import leftovers
from tests.support.planned_clustering import table_in_debt
from tests.support.small_table import FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import WrappedStore

OTHER = {6: 9, 9: 6}


def change(path):
    version = open_table(open_store(path)).config.version
    assert change_version(open_store(path), OTHER[version], timing=FAST)


def instants_of_files(path):
    return {
        instant_of_file(file.name) for file in path.rglob("*.parquet") if file.parent.name.startswith("p=")
    }


@pytest.mark.parametrize("version", [6, 9])
def test_a_write_that_was_announced_in_the_old_timeline_deletes_its_files(tmp_path, version):
    path = tmp_path / "t"
    table = make_table(path, table_version=version)
    first = table.upsert({"k1": (1, "a"), "k2": (1, "b")}).instant
    attempts = []

    def announced_late(transaction):
        """The change sees nothing of the write, and does not wait for it."""
        attempts.append(transaction.instant)
        if len(attempts) == 1:
            files = [path / transaction.requested.path, path / transaction.requested.inflight.path]
            contents = [file.read_bytes() for file in files]
            for file in files:
                file.unlink()
            change(path)
            for file, content in zip(files, contents, strict=True):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)

    result = replace(table, before_publish=announced_late).upsert({"k1": (2, "a"), "n": (2, "c")})
    lost, committed = attempts
    assert (result.instant, result.retries) == (committed, 1)
    assert f"changed the table from version {version} to {OTHER[version]}" in str(result.retry_reasons[0])
    assert instants_of_files(path) == {first, committed}
    # The claim stays, and shows that the instant was rolled back.
    assert [*path.rglob(f"{lost}*")] == [path / claim_path(lost)]
    assert leftovers(path) == []
    assert rows_of(path) == view_rows(path) == {"k1": (2, "a"), "k2": (1, "b"), "n": (2, "c")}


@pytest.mark.parametrize("version", [6, 9])
def test_a_clustering_whose_plan_was_taken_over_rolls_that_back(tmp_path, monkeypatch, version):
    path = tmp_path / "t"
    table = table_in_debt(path)
    if version == 9:
        change(path)
    rows, instants = view_rows(path), instants_of_files(path)
    rewrite = clustering._rewrite

    def overtaken(*arguments):
        results = rewrite(*arguments)
        assert instants_of_files(path) > instants
        change(path)
        return results

    monkeypatch.setattr(clustering, "_rewrite", overtaken)
    result = clustering.cluster(OneProcessSpark(), table.handle, timing=FAST)
    assert result.instants == ()
    assert instants_of_files(path) == instants
    assert leftovers(path) == []
    assert rows_of(path) == view_rows(path) == rows
    SmallTable(open_store(path)).upsert({key: (9, p) for key, (_, p) in rows.items()})


@pytest.mark.parametrize("version", [6, 9])
def test_a_timeline_of_the_old_version_is_not_loaded_again_for_the_new_one(tmp_path, version):
    path = tmp_path / "t"
    known = make_table(path, table_version=version).handle.timeline()
    change(path)
    handle = open_table(open_store(path))
    assert handle.timeline(known).layout == handle.config.timeline_layout != known.layout


@pytest.mark.parametrize("version", [6, 9])
def test_a_read_that_was_begun_before_does_not_find_the_table_empty(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table = make_table(path, table_version=version)
    table.upsert({"k1": (1, "a")})
    opened = table.handle
    assert len(files_to_read(opened, time_zone=None).files) == 1
    change(path)
    with pytest.raises(StaleTimelineError, match=f"from version {version} to {OTHER[version]}"):
        files_to_read(opened, time_zone=None)
    assert len(files_to_read(opened.reopen(), time_zone=None).files) == 1


@pytest.mark.parametrize("version", [6, 9])
def test_a_clean_takes_no_file_for_an_orphan_while_the_old_timeline_is_deleted(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "t"
    table = make_table(path, table_version=version)
    instants = [table.insert({f"k{number}": (number, "a")}).instant for number in range(4)]
    rows = view_rows(path)
    opened = table.handle
    former = {file: file.read_bytes() for file in state_files(path, opened)}
    pending = [instants[2]]

    class Deleting(WrappedStore):
        """A bucket deletes objects in any order: one write is gone before the clean lists the timeline again."""

        def list_each(self, prefixes: Iterable[str]) -> dict[str, Objects]:
            found = super().list_each(prefixes)
            if pending and found:
                change(path)
                gone = pending.pop()
                for file, content in former.items():
                    if not file.name.startswith(str(gone)):
                        file.parent.mkdir(parents=True, exist_ok=True)
                        file.write_bytes(content)
            return found

    with pytest.raises(StaleTimelineError, match=f"from version {version} to {OTHER[version]}"):
        clean(replace(opened, store=Deleting(opened.store)), timing=FAST)
    assert pending == []
    assert view_rows(path) == rows


@pytest.mark.parametrize("version", [6, 9])
def test_a_publication_takes_no_file_away_while_the_old_timeline_is_deleted(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "t"
    table = make_table(path, table_version=version)
    log = DeltaLog(table.store)
    instants = [table.insert({f"k{number}": (number, "a")}).instant for number in range(3)]
    publish(table.handle, [log])
    table.insert({"k3": (3, "a")})
    opened = table.handle
    former = {file: file.read_bytes() for file in state_files(path, opened)}
    change(path)
    for file, content in former.items():
        if not file.name.startswith(str(instants[1])):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    with pytest.raises(ConflictError, match="was changed 5 times"):
        publish(opened, [log])
    (shown,) = publish(opened.reopen(), [log])
    assert (shown.files_added, shown.files_removed) == (1, 0)


def state_files(path: Path, opened: TableHandle) -> list[Path]:
    """The state files of the timeline that the table has."""
    return [path / info.path for info in opened.timeline().files.values()]
