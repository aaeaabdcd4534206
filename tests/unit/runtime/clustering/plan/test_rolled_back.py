"""Clustering that is taken back, and its files that are cleaned and archived; Spark is not needed for that."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import pytest

from parquetry.runtime.clustering.plan.history import unpublished_rounds
from parquetry.runtime.clustering.plan.schedule import schedule
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.spark import cluster as clustering
from parquetry.runtime.spark.cluster import cluster, execute
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.timeline.sidecars import UNPUBLISHED_FOLDER
from tests.support.one_process_spark import OneProcessSpark
from tests.support.orphans import leftovers
from tests.support.planned_clustering import SORTED, groups_owed, owed, table_in_debt
from tests.support.small_table import FAST, rows_of, view_rows

pytestmark = pytest.mark.usefixtures("on_each_version")

KEEP_ONE = RetentionPolicy(keep_commits=1, archive_keep_commits=2)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table"


@pytest.fixture
def table(path):
    return table_in_debt(path)


def clustered(table):
    return cluster(OneProcessSpark(), table.handle, timing=FAST)


def files(table):
    handle = table.handle
    return len(handle.view(handle.timeline()).all_slices())


def same(path, rows):
    return rows_of(path) == view_rows(path) == rows


def test_a_clustering_is_rolled_back(table, path):
    rows = rows_of(path)
    (instant,) = clustered(table).instants
    assert files(table) == 2
    rollback(table.handle, instant, timing=FAST)
    assert files(table) == 6
    assert same(path, rows)
    assert leftovers(path) == []
    assert clustered(table).groups == 2
    assert same(path, rows)


def test_a_table_is_restored_to_before_a_clustering(table, path):
    rows = rows_of(path)
    savepoint = create_savepoint(table.handle, timing=FAST)
    clustered(table)
    table.upsert({"k3": (99, "b"), "later": (1, "a")})
    restore(table.handle, savepoint.instant, timing=FAST)
    assert files(table) == 6
    assert same(path, rows)


def test_a_clustering_gives_way_to_a_savepoint_behind_it(table, path, monkeypatch):
    """Published before the savepoint, its files would be the rows as of it, and nothing would protect them."""
    rewrite = clustering._rewrite
    saved = []

    def overtaken(*arguments):
        results = rewrite(*arguments)
        table.insert({"x": (1, "c")})
        saved.append(create_savepoint(table.handle, timing=FAST).instant)
        return results

    rows = {**rows_of(path), "x": (1, "c")}
    monkeypatch.setattr(clustering, "_rewrite", overtaken)
    lost = clustered(table)
    assert lost.instants == ()
    monkeypatch.undo()
    clustered_now = clustered(table)
    assert clustered_now.groups == 3
    assert 0 < lost.attempted_bytes < clustered_now.attempted_bytes == clustered_now.bytes_before
    for number in range(3):
        table.upsert({"k3": (number, "b")})
    clean(table.handle, policy=KEEP_ONE, timing=FAST)
    assert view_rows(path, saved[0]) == rows
    restore(table.handle, saved[0], timing=FAST)
    assert same(path, rows)


def test_a_plan_that_waits_is_withdrawn_by_a_savepoint_behind_it(table, path):
    schedule(table.handle, groups_owed(table), timing=FAST)
    table.insert({"x": (1, "c")})
    (plan,) = table.handle.timeline().pending_clusterings
    create_savepoint(
        table.handle, plan_free := table.handle.timeline().completed_writes[-2].time, timing=FAST
    )
    assert plan_free < plan
    assert plan in table.handle.timeline().pending_clusterings
    create_savepoint(table.handle, timing=FAST)
    assert table.handle.timeline().pending_writes == ()


def test_replaced_files_are_cleaned_and_the_replacecommit_is_archived(table, path):
    (instant,) = clustered(table).instants
    before = table.handle.timeline()
    for number in range(4):
        table.upsert({"k3": (number, "b")})
    rows = rows_of(path)
    assert clean(table.handle, policy=KEEP_ONE, timing=FAST).files_deleted >= 6
    assert instant in archive(table.handle, policy=KEEP_ONE, timing=FAST).instants
    assert before.is_completed(instant)
    assert not table.handle.timeline().contains(instant)
    assert same(path, rows)
    assert leftovers(path) == []


def test_the_table_as_of_before_and_what_changed_since(table, path):
    rows = rows_of(path)
    last = table.handle.timeline().completed_writes[-1].time
    (instant,) = clustered(table).instants
    table.upsert({"k3": (99, "b")})
    assert view_rows(path, last) == view_rows(path, instant) == rows
    handle = table.handle
    assert handle.view(handle.timeline()).changed_between(last).end > instant


def test_a_plan_is_carried_out_by_another_process(table, path):
    rows = rows_of(path)
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    result = execute(OneProcessSpark(), table.handle, plan.instant, timing=FAST)
    assert result.instants == (plan.instant,)
    assert (result.files_before, result.files_after) == (6, 2)
    assert same(path, rows)
    assert leftovers(path) == []


def executed_after(table, monkeypatch, change):
    """Execute a plan whose requested file is changed after it was begun; return its instant and a call."""
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    begin = clustering.begin_scheduled

    @contextmanager
    def begin_and_change(*arguments, **options):
        with begin(*arguments, **options) as transaction:
            change(table.store, transaction.requested.path)
            yield transaction

    monkeypatch.setattr(clustering, "begin_scheduled", begin_and_change)
    return plan.instant, lambda: execute(OneProcessSpark(), table.handle, plan.instant, timing=FAST)


def test_a_plan_that_cannot_be_read_is_rolled_back_by_the_run_itself(table, path, monkeypatch):
    rows = rows_of(path)
    instant, run = executed_after(table, monkeypatch, lambda store, file: store.put(file, b"no plan"))
    with pytest.raises(CorruptTableError, match=rf"{instant}\.\w+\.requested"):
        run()
    assert table.handle.timeline().pending_writes == ()
    assert same(path, rows)
    assert len(groups_owed(table)) == 2


def test_a_plan_that_another_writer_withdrew_before_it_was_read_is_not_an_error(table, path, monkeypatch):
    rows = rows_of(path)
    _, run = executed_after(table, monkeypatch, lambda store, file: store.delete(file))
    assert run().instants == ()
    assert same(path, rows)
    assert len(groups_owed(table)) == 2


def test_a_run_that_loses_every_group_counts_towards_the_rounds_after_which_they_wait(path, monkeypatch):
    section = replace(SORTED, every_commits=3)
    table = table_in_debt(path, section)
    rewrite = clustering._rewrite
    values = count(100)

    def overtaken(*arguments):
        results = rewrite(*arguments)
        value = next(values)
        table.upsert({"k2": (value, "a"), "k3": (value, "b")})
        return results

    monkeypatch.setattr(clustering, "_rewrite", overtaken)
    for _ in range(3):
        result = clustered(table)
        assert (result.instants, len(result.left_out)) == ((), 2)
    assert groups_owed(table) == ()
    waiting = {entry.text for entry in owed(table).excluded}
    assert waiting == {"left out 3 times; waits for 2 more commits"}
    monkeypatch.undo()
    table.insert({"x": (1, "a")})
    table.insert({"y": (1, "a")})
    assert clustered(table).groups == 2
    assert leftovers(path) == []


def test_rounds_that_were_lost_are_forgotten_with_the_timeline(table, path, monkeypatch):
    rewrite = clustering._rewrite

    def overtaken(*arguments):
        results = rewrite(*arguments)
        table.upsert({"k2": (7, "a"), "k3": (7, "b")})
        return results

    monkeypatch.setattr(clustering, "_rewrite", overtaken)
    old = path / UNPUBLISHED_FOLDER / "20200101000000000.json"
    old.parent.mkdir(parents=True)
    old.write_text('[["p=a","f"]]')
    assert [*unpublished_rounds(table.handle.timeline())] == []
    clustered(table)
    (kept,) = (path / UNPUBLISHED_FOLDER).iterdir()
    assert kept != old
    ((time, groups),) = unpublished_rounds(table.handle.timeline())
    assert (time, len(groups)) == (kept.stem, 6)
