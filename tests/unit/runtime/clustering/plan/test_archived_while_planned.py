"""A clustering is planned while another process takes commits off the timeline that it has listed."""

from __future__ import annotations

import shutil

import pytest

from parquetry.runtime.clustering.plan.due import (
    due_by_statistics,
    due_clustering,
    forecast_due,
    schedule_clustering,
)
from parquetry.runtime.clustering.plan.history import unpublished_rounds
from parquetry.runtime.clustering.plan.schedule import begin_clustering, schedule
from parquetry.runtime.commit.lock_file import DEFAULT_LOCK_PATH
from parquetry.runtime.errors import StaleTimelineError
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.instant import Action
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import SORTED, apply_clustering, apply_queries
from tests.support.small_table import FAST, SmallTable, make_table
from tests.support.stores import WrappedStore


class ListedBefore(WrappedStore):
    """Some listings of the timeline still have the commits that were archived.

    Those are the ones of the numbers ``old``, from 0 on. While the table is locked nobody archives.
    """

    def __init__(self, inner, before, old):
        super().__init__(inner)
        self.before_it, self.old, self.number = {info.path: info for info in before}, old, -1
        self.folder = before[0].path.rpartition("/")[0]

    def list(self, prefix="", *, recursive=False):
        if prefix == self.folder and self.inner.stat(DEFAULT_LOCK_PATH) is None:
            self.number += 1
            if self.number in self.old:
                now = {info.path: info for info in super().list(prefix)}
                return sorted({**self.before_it, **now}.values(), key=lambda info: info.path)
        return super().list(prefix, recursive=recursive)


@pytest.fixture(scope="module", params=[6, pytest.param(9, marks=pytest.mark.long)])
def template(tmp_path_factory, request):
    """The folder of a table that owes a clustering, and its timeline before replacecommits were archived."""
    path = tmp_path_factory.mktemp("archived") / "t"
    table = make_table(path, table_version=request.param, keep_commits=1, archive_keep_commits=2)
    apply_clustering(table, SORTED)
    apply_queries(table, {"name": "one", "where": "v = 1"})
    for number in range(4):
        table.insert({f"k{n}": (n, "ab"[n % 2]) for n in range(number * 10, number * 10 + 10)})
        table.insert({"c": (1, "c")})
        table.delete_partition("p=c")
    clean(table.handle, timing=FAST)
    timeline = table.handle.timeline()
    before = table.store.list(timeline.layout.NAMES.folder)
    gone = archive(table.handle, timing=FAST).instants
    assert {write.time for write in timeline.of(Action.REPLACECOMMIT)} & set(gone)
    return path, before


@pytest.fixture
def archived(template, tmp_path):
    """A copy of the table for one test, and that timeline."""
    path, before = template
    shutil.copytree(path, tmp_path / "t")
    return SmallTable(store=open_store(tmp_path / "t")), before


def begun(handle, groups):
    with begin_clustering(handle, groups, timing=FAST) as transaction:
        return transaction is not None


def rewritten_or_lost(handle):
    """The groups of a run; a plan that is overtaken after it was put is noted as lost, and due again."""
    return cluster(OneProcessSpark(), handle, timing=FAST).groups or list(
        unpublished_rounds(handle.timeline())
    )


WAYS = {
    "due": lambda handle, _: due_clustering(handle, timing=FAST).debt.groups,
    "due by statistics": lambda handle, _: due_by_statistics(handle, timing=FAST),
    "forecast": lambda handle, _: forecast_due(handle, due_clustering(handle, timing=FAST)).queries,
    "begin": begun,
    "schedule": lambda handle, groups: schedule(handle, groups, timing=FAST),
    "schedule what is due": lambda handle, _: schedule_clustering(handle, timing=FAST).forecast.queries,
    "cluster": lambda handle, _: rewritten_or_lost(handle),
}


@pytest.mark.parametrize(
    "old", [pytest.param(old, marks=() if old in {0, 2, 5} else pytest.mark.long) for old in range(9)]
)
@pytest.mark.parametrize("way", WAYS)
def test_what_was_archived_after_any_listing_is_read_anew(way, old, archived):
    table, before = archived
    groups = due_clustering(table.handle, timing=FAST).debt.groups
    assert WAYS[way](open_table(ListedBefore(table.store, before, old={old})), groups)


def test_who_is_overtaken_every_time_is_told(archived):
    table, before = archived
    with pytest.raises(StaleTimelineError):
        due_clustering(open_table(ListedBefore(table.store, before, old=range(100))), timing=FAST)
