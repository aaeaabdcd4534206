"""Clustering of which a part fails: the rest is published and told, and what fails every time waits."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.base_file.result import failure_row, read_independent_results
from parquetry.runtime.clustering.plan.execution import PartlyClusteredError
from parquetry.runtime.clustering.rewrite import task
from parquetry.runtime.clustering.rewrite.order import OrderKeys, RowOrder
from parquetry.runtime.clustering.rewrite.task import GroupWork
from parquetry.runtime.errors import (
    CorruptTableError,
    InvalidDataError,
    LockHeldError,
    NotFoundError,
    StorageError,
    UnknownOutcomeError,
)
from parquetry.runtime.spark import cluster
from parquetry.runtime.spark import cluster_inline as clustering_inline
from parquetry.runtime.spark.cluster_inline import cluster_inline
from parquetry.runtime.spec import plug_ins
from parquetry.runtime.spec.clustering import PlanPolicy, Trigger
from parquetry.runtime.storage.open import open_store
from tests.support.base_files import context
from tests.support.one_process_spark import OneProcessSpark
from tests.support.orphans import leftovers
from tests.support.planned_clustering import SORTED, apply_clustering, groups_owed, owed
from tests.support.small_table import FAST, make_table, view_rows
from tests.support.timelines import change_commit

pytestmark = pytest.mark.usefixtures("on_each_version")

INLINE = replace(SORTED, trigger=Trigger.INLINE, every_commits=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table"


@pytest.fixture
def table(path):
    """Four partitions with two small files each."""
    table = make_table(path)
    apply_clustering(table, INLINE)
    for number in range(2):
        table.insert({f"k{number}{p}": (number, p) for p in "abcd"})
    return table


def poison(path, partition):
    """Give a file of the partition texts where the table has numbers, as the commit of a stranger's."""
    file = next((path / partition).glob("*.parquet"))
    rows = pq.read_table(file, partitioning=None)
    texts = pa.array(["?"] * rows.num_rows)
    pq.write_table(rows.set_column(rows.column_names.index("v"), "v", texts), file)
    size = file.stat().st_size
    change_commit(
        open_store(path),
        file.stem.rpartition("_")[2],
        lambda stat: replace(stat, file_size_bytes=size) if stat.path.endswith(file.name) else stat,
    )
    return file


def clustered(table):
    handle = table.handle
    with handle.failures_masked():
        return handle.cleared(cluster.cluster(OneProcessSpark(), handle, timing=FAST))


def test_partition_metadata_that_is_lost_during_a_clustering_is_put_with_its_commit(table, path, monkeypatch):
    rewrite, lost = cluster._rewrite, path / "p=a" / ".hoodie_partition_metadata"
    expected = view_rows(path)

    def rewritten(spark, context, works, *time):
        if "p=a" in {work.partition for work in works}:
            lost.unlink()
        return rewrite(spark, context, works, *time)

    monkeypatch.setattr(cluster, "_rewrite", rewritten)
    assert clustered(table).files_after == 4
    assert lost.exists()
    assert view_rows(path) == expected


def failing_at(monkeypatch, call):
    """Let the rewrite of that batch fail as a store does."""
    rewrite, calls = cluster._rewrite, []

    def rewritten(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise StorageError("no space left on device")
        return rewrite(*arguments)

    monkeypatch.setattr(cluster, "_rewrite", rewritten)


def test_a_group_that_cannot_be_rewritten_is_left_out_told_and_waits(table, path):
    file = poison(path, "p=a")
    with pytest.raises(PartlyClusteredError, match="of type string cannot be stored") as told:
        clustered(table)
    done = told.value.result
    assert told.value.exit_code == 6
    assert all(instant in str(told.value) for instant in done.instants)
    assert done.instants
    assert (done.groups, done.files_before, done.files_after) == (3, 6, 3)
    assert done.attempted_bytes > done.bytes_before > 0
    (left,) = done.left_out
    assert (left.partition, left.files) == ("p=a", 2)
    assert file.name in left.reason
    assert leftovers(path) == []
    # Alone it fails the run, until it has to wait.
    for _ in range(2):
        with pytest.raises(InvalidDataError, match="of type string cannot be stored"):
            clustered(table)
    assert groups_owed(table) == ()
    assert {entry.text for entry in owed(table).excluded} >= {"left out 3 times; waits for 1 more commits"}
    assert clustered(table).groups == 0


@pytest.mark.parametrize("failure", [InvalidDataError("odd rows"), StorageError("no space left on device")])
def test_a_group_of_several_tasks_fails_alone_unless_the_store_does(tmp_path, monkeypatch, failure):
    def fail(*_):
        raise failure

    monkeypatch.setattr(cluster, "rewrite_by_ranges", fail)
    work = GroupWork(index=3, partition="", slices=(), target_bytes=1, order=None, tasks=2)
    if isinstance(failure, StorageError):
        with pytest.raises(StorageError):
            cluster._rewrite(OneProcessSpark(), context(tmp_path, ()), [work])
    else:
        results = cluster._rewrite(OneProcessSpark(), context(tmp_path, ()), [work])
        assert results.failures == {3: failure, 4: failure}
        assert not results.buckets


@pytest.mark.parametrize(
    ("failure", "of_the_group"),
    [
        (StorageError("503 slow down"), False),
        (UnknownOutcomeError("no answer"), False),
        (LockHeldError("held"), False),
        (NotFoundError("no such file"), True),
        (CorruptTableError("no footer"), True),
    ],
)
def test_a_store_that_breaks_in_a_task_is_no_fault_of_its_group(failure, of_the_group):
    rows = failure_row(4, failure).to_pylist()
    if of_the_group:
        assert [(n, type(f), str(f)) for n, f in read_independent_results(rows).failures.items()] == [
            (4, type(failure), str(failure))
        ]
    else:
        with pytest.raises(type(failure), match=str(failure)):
            read_independent_results(rows)


def test_outages_of_the_store_make_no_group_wait(table, monkeypatch):
    def outage(*_):
        raise StorageError("503 slow down")

    due = groups_owed(table)
    with monkeypatch.context() as patched:
        patched.setattr(task, "rewrite_group", outage)
        for _ in range(4):
            with pytest.raises(StorageError, match="503 slow down"):
                clustered(table)
    assert groups_owed(table) == due
    assert clustered(table).groups == 4


def test_a_batch_that_fails_does_not_hide_what_was_published(table, path, monkeypatch):
    rows = view_rows(path)
    services, run = [], cluster.run_due_services
    monkeypatch.setattr(
        cluster, "run_due_services", lambda *a, **k: services.append(a[1].instant) or run(*a, **k)
    )
    failing_at(monkeypatch, 2)
    with pytest.raises(PartlyClusteredError, match="no space left on device") as told:
        clustered(table)
    done = told.value.result
    assert services == list(done.instants)
    assert (len(services), told.value.exit_code) == (1, 6)
    assert 0 < done.groups < 4
    assert table.handle.timeline().completed_writes[-1].time == services[0]
    assert view_rows(path) == rows
    assert leftovers(path) == []
    monkeypatch.undo()
    assert clustered(table).groups == 4 - done.groups


def test_a_first_batch_that_fails_is_the_failure_itself(table, monkeypatch):
    failing_at(monkeypatch, 1)
    with pytest.raises(StorageError, match="no space left on device"):
        clustered(table)


def test_a_write_tells_what_inline_clustering_did_before_it_failed(table, monkeypatch):
    written = table.insert({"new": (9, "a")})
    failing_at(monkeypatch, 2)
    result = cluster_inline(OneProcessSpark(), table.handle, written, timing=FAST)
    assert result.instant == written.instant
    assert result.files_clustered > 0
    (warning,) = result.warnings
    assert "is committed, but a part of the run failed: no space left on device" in warning


@pytest.mark.parametrize("fails", [False, True])
def test_writes_look_only_every_so_often_when_nothing_can_be_done(table, monkeypatch, fails):
    def fail(*_, **__):
        raise StorageError("no space left on device")

    apply_clustering(table, replace(INLINE, every_commits=3))
    looks, real = [], fail if fails else clustering_inline.cluster

    def looked(*arguments, **options):
        looks.append(number)
        return real(*arguments, **options)

    monkeypatch.setattr(clustering_inline, "cluster", looked)

    def write():
        written = table.insert({f"new{number}": (number, "a")})
        cluster_inline(OneProcessSpark(), table.handle, written, budget_bytes=0, timing=FAST)

    for number in range(1, 9):  # noqa: B007 - read by the functions above
        write()
    assert looks == [1, 4, 7]
    apply_clustering(table, replace(INLINE, every_commits=3, plan=PlanPolicy(max_groups=7)))
    number = 9
    write()
    assert looks == [1, 4, 7, 9]


def test_more_commits_than_the_timeline_keeps_are_waited_for_to_no_end(tmp_path, monkeypatch):
    """Those behind the last clustering are counted on the timeline, which has at most a dozen of them."""
    table = make_table(tmp_path / "table", keep_commits=1, archive_keep_commits=3)
    apply_clustering(table, replace(INLINE, every_commits=20))
    table.services = True
    looks = []
    real = clustering_inline.cluster
    monkeypatch.setattr(
        clustering_inline, "cluster", lambda *a, **k: (looks.append(number), real(*a, **k))[1]
    )
    for number in range(1, 21):
        written = table.insert({f"k{number}": (number, "a")})
        # One byte in the first rounds: less than any file.
        budget_bytes = 1 if len(looks) < 2 else None
        cluster_inline(OneProcessSpark(), table.handle, written, budget_bytes=budget_bytes, timing=FAST)
    assert looks == [*range(2, 21, 3)]


class _Answer(dict):
    def items(self):
        raise KeyError("lazy")


@pytest.mark.parametrize("answer", [_Answer(), lambda: 1])
def test_a_plan_strategy_of_somebody_else_fails_no_write(table, monkeypatch, answer):
    class Point:
        name = "mine"

        def load(self):
            return lambda _files, _context: answer

    monkeypatch.setattr(plug_ins, "entry_points", lambda **_: [Point()])
    apply_clustering(table, replace(INLINE, plan=PlanPolicy(strategy="mine")))
    written = table.insert({"new": (9, "a")})
    result = cluster_inline(OneProcessSpark(), table.handle, written, timing=FAST)
    (warning,) = result.warnings
    assert str(warning).startswith("clustering: clustering.plan.strategy: 'mine' ")


def test_a_bug_in_clustering_fails_no_write(table, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("of nobody's making")

    written = table.insert({"new": (9, "a")})
    monkeypatch.setattr("parquetry.runtime.spark.cluster_inline.cluster", fail)
    result = cluster_inline(OneProcessSpark(), table.handle, written, timing=FAST)
    assert table.handle.cleared(result).warnings == ("clustering: ZeroDivisionError: of nobody's making",)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (
            lambda rows: [pa.array([[1]] * rows.num_rows)],
            "a sort key of type list<.*int64>, which has no order",
        ),
        (lambda rows: [pa.array([{"a": 1}] * rows.num_rows)], "a sort key of type struct<a: int64>"),
        (
            lambda rows: [pa.array([1] * rows.num_rows if rows.num_rows < 3 else ["x"] * rows.num_rows)],
            "sort keys of types string, but int64 for other rows",
        ),
    ],
)
def test_keys_of_somebody_else_that_cannot_be_sorted_are_named(monkeypatch, keys, told):
    class Point:
        name = "mine"

        def load(self):
            return lambda _columns, _sample: keys

    monkeypatch.setattr(plug_ins, "entry_points", lambda **_: [Point()])
    rows = pa.table({"n": [3, 1, 2]})
    found = OrderKeys(RowOrder(strategy="mine", columns=("n",)), rows)
    with pytest.raises(
        InvalidDataError, match=rf"strategy: 'mine' failed: TypeError: it returned {told}.*; correct the"
    ):
        [found.of(part) for part in (rows.slice(0, 2), rows)]
