"""The batches of a clustering, and the time at which a run stops: which groups begin, by their order and by the attempts of their tasks."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pyarrow as pa
import pytest

from parquetry.message import in_full
from parquetry.runtime.base_file.result import WriteResults
from parquetry.runtime.clustering.rewrite.task import GroupWork
from parquetry.runtime.interruption import Interruption
from parquetry.runtime.spark import cluster
from tests.support.one_process_spark import OneProcessSpark

STOPS_AT_MS = 1_000_000


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(seconds=0)
    monkeypatch.setattr(cluster, "time", SimpleNamespace(time=lambda: clock.seconds))
    return clock


def work(index, *, tasks=1):
    return GroupWork(index=index, partition="", slices=(), target_bytes=1, tasks=tasks)


def test_the_time_is_read_before_each_group_that_uses_all_cores(monkeypatch, clock):
    begun = []

    def rewrite(spark, context, group):
        begun.append(group.index)
        clock.seconds += 600
        return WriteResults(files=(), buckets=dict.fromkeys(group.numbers))

    monkeypatch.setattr(cluster, "_rewrite_by_ranges", rewrite)
    works = [work(0, tasks=2), work(2, tasks=2), work(4, tasks=2), work(6)]
    results = cluster._rewrite(None, None, works, STOPS_AT_MS)
    assert begun == [0, 2]
    assert set(results.buckets) == {0, 1, 2, 3}
    assert results.deferred == {4, 5, 6}


@pytest.mark.parametrize(
    ("seconds", "attempt", "begins"), [(999, 0, True), (1000, 0, False), (1000, 1, True), (1000, None, False)]
)
def test_a_task_begins_in_time_and_goes_on_if_it_is_repeated(monkeypatch, clock, seconds, attempt, begins):
    context = None if attempt is None else SimpleNamespace(attemptNumber=lambda: attempt)
    monkeypatch.setattr(cluster, "TaskContext", SimpleNamespace(get=lambda: context))
    clock.seconds = seconds
    task = cluster._begun_before(STOPS_AT_MS, iter)
    assert len(list(task([pa.record_batch({"id": [1]})]))) == begins


@pytest.mark.parametrize(("most_executors", "sizes"), [("1", [4, 4, 4, 4]), ("50", [16])])
def test_a_batch_has_groups_for_all_cores_that_dynamic_allocation_can_add(monkeypatch, most_executors, sizes):
    settings = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": most_executors,
    }
    spark = OneProcessSpark()
    spark.conf = SimpleNamespace(get=lambda key, default=None: settings.get(key, default))
    spark.sparkContext.master = "yarn"
    groups = [SimpleNamespace(size_bytes=1, files=("f",)) for _ in range(16)]
    debt = SimpleNamespace(groups=groups, excluded=())
    due = SimpleNamespace(debt=debt, timeline=None, predicted=None)
    begun = []

    def begin(_table, batch, **_):
        begun.append(len(batch))
        return nullcontext()

    monkeypatch.setattr(cluster, "due_clustering", lambda *_, **__: due)
    monkeypatch.setattr(cluster, "begin_clustering", begin)
    monkeypatch.setattr(cluster, "has_personal_columns", lambda _: False)
    cluster.cluster(spark, SimpleNamespace(spec=None), stops_at_ms=2**62)
    assert begun == sizes


def test_an_interruption_lets_no_further_group_begin(monkeypatch):
    interruption, begun = Interruption(), []

    def rewrite(spark, context, group):
        begun.append(group.index)
        interruption.request()
        return WriteResults(files=(), buckets=dict.fromkeys(group.numbers))

    monkeypatch.setattr(cluster, "_rewrite_by_ranges", rewrite)
    results = []
    works = [work(0, tasks=2), work(2, tasks=2), work(4)]
    interruption.run(lambda: results.append(cluster._rewrite(None, None, works)))
    assert begun == [0]
    assert results[0].deferred == {2, 3, 4}
    interruption.run(lambda: results.append(in_full(cluster._stopped(7))))
    assert results[1].startswith("the run was interrupted with 7 due files left")
