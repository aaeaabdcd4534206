"""Tasks that come late with files of a group that was left to writers, when the others are published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.runtime.clustering.rewrite.task import rewrite_group
from parquetry.runtime.commit.abandoned_buckets import is_abandoned
from parquetry.runtime.commit.transaction import TaskGuard
from parquetry.runtime.errors import ConflictError, CorruptTableError
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean, clean_if_due
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.spark import cluster
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.table.file_names import files_of_instant
from parquetry.runtime.timeline.sidecars import ABANDONED_FOLDER
from tests.support.one_process_spark import OneProcessSpark
from tests.support.orphans import leftovers
from tests.support.planned_clustering import table_in_debt
from tests.support.small_table import FAST, rows_of, view_rows

pytestmark = pytest.mark.usefixtures("on_each_version")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table"


@pytest.fixture
def table(path):
    return table_in_debt(path)


def overtaken(table, monkeypatch, *, by_clean=False):
    """The instant of a clustering that lost ``p=a`` alone, and how to rewrite a partition's group again."""
    rewrite, seen = cluster._rewrite, []

    def rewritten(spark, context, works, *time):
        results = rewrite(spark, context, works, *time)
        seen.append((context, {work.partition: work for work in works}))
        if not by_clean:
            table.upsert({"k0": (99, "a")})
            return results
        gone = seen[0][1]["p=a"].index
        kept = {number: bucket for number, bucket in results.buckets.items() if number != gone}
        return replace(results, buckets=kept, files=tuple(f for f in results.files if f.bucket != gone))

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "_rewrite", rewritten)
        result = cluster.cluster(OneProcessSpark(), table.handle, timing=FAST)
    assert [lost.partition for lost in result.left_out] == ["p=a"]
    (instant,), ((context, works),) = result.instants, seen
    return instant, lambda partition: rewrite_group(context, works[partition])


def before_the_note(monkeypatch, asked):
    """Of a late task's questions so many are answered as before the clustering gave anything up."""
    answers, ask = [False] * asked, TaskGuard.is_abandoned

    def is_abandoned(guard, store, bucket):
        return answers.pop() if answers else ask(guard, store, bucket)

    monkeypatch.setattr(TaskGuard, "is_abandoned", is_abandoned)


@pytest.mark.parametrize("asked", [0, 1])
@pytest.mark.parametrize("by_clean", [False, True])
def test_a_late_task_of_a_lost_group_leaves_no_file(table, path, monkeypatch, by_clean, asked):
    instant, again = overtaken(table, monkeypatch, by_clean=by_clean)
    expected = view_rows(path)
    before_the_note(monkeypatch, asked)
    with pytest.raises(ConflictError, match=f"{instant} gave up files of partition 'p=a'"):
        again("p=a")
    assert files_of_instant(table.store, "p=a", instant) == []
    assert rows_of(path) == view_rows(path) == expected
    clean(table.handle)
    assert leftovers(path) == []


def test_a_late_task_of_a_published_group_leaves_its_file_as_it_is(table, path, monkeypatch):
    instant, again = overtaken(table, monkeypatch)
    expected = view_rows(path)
    published = files_of_instant(table.store, "p=b", instant)
    (file,) = again("p=b").files
    assert [file.stat.path] == published == files_of_instant(table.store, "p=b", instant)
    assert rows_of(path) == view_rows(path) == expected


@pytest.mark.parametrize("cleaned", [clean, clean_if_due])
def test_what_a_late_task_leaves_that_dies_before_it_asks_again_goes_with_a_clean(
    table, path, monkeypatch, cleaned
):
    instant, again = overtaken(table, monkeypatch)
    expected = rows_of(path)
    before_the_note(monkeypatch, 2)
    (file,) = again("p=a").files
    assert files_of_instant(table.store, "p=a", instant) == [file.stat.path]
    keep_one = RetentionPolicy(keep_commits=1, archive_keep_commits=2)
    for number in range(4):
        table.insert({f"new{number}": (number, "b")})
        expected[f"new{number}"] = (number, "b")
    archive(table.handle, policy=keep_one)
    assert table.handle.timeline().is_completed(instant)
    assert cleaned(table.handle, policy=keep_one).orphans_deleted == 1
    assert files_of_instant(table.store, "p=a", instant) == []
    assert rows_of(path) == view_rows(path) == expected


def test_the_note_stays_as_long_as_the_clustering(table, path, monkeypatch):
    instant, _ = overtaken(table, monkeypatch, by_clean=True)
    (note,) = (path / ABANDONED_FOLDER).iterdir()
    clean(table.handle)
    assert note.is_file()
    rollback(table.handle, instant, timing=FAST)
    clean(table.handle)
    assert not note.exists()
    assert leftovers(path) == []


def test_a_clustering_that_loses_nothing_leaves_no_note(table, path):
    assert cluster.cluster(OneProcessSpark(), table.handle, timing=FAST).groups == 2
    assert not (path / ABANDONED_FOLDER).exists()


def test_a_note_that_is_none_is_named(table, path, monkeypatch):
    instant, _ = overtaken(table, monkeypatch)
    (note,) = (path / ABANDONED_FOLDER).iterdir()
    note.write_text("[1]")
    with pytest.raises(CorruptTableError, match=rf"abandoned/{instant}\.json: .*remove the file"):
        is_abandoned(table.store, instant, 0)
