"""A table gets another version while something is written to it: the write begins again, and leaves no file behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.runtime.apply.version_change import change_version
from parquetry.runtime.spark import cluster as clustering
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.file_names import instant_of_file
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.sidecars import claim_path
from tests.support.one_process_spark import OneProcessSpark
from tests.support.orphans import leftovers
from tests.support.planned_clustering import table_in_debt
from tests.support.small_table import FAST, SmallTable, make_table, rows_of, view_rows

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
