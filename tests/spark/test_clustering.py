"""Clustering on Spark: what readers see stays, and writers always win."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

import parquetry
from parquetry.errors import ParquetryError
from parquetry.runtime.clustering.plan.survey import RUN_KEY
from parquetry.runtime.clustering.rewrite.task import group_rewriter
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark import cluster as clustering
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, Trigger
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.clustering import clustering_of, files_of, table_of_small_files
from tests.support.judges import HudiRs, assert_history
from tests.support.our_table import OurReader
from tests.support.rows import TYPES
from tests.support.soundness import unsound

pytestmark = pytest.mark.spark


@pytest.fixture
def judges(spark):
    return [HudiRs(), OurReader(spark)]


def cluster(ours, **settings):
    """Cluster, and tell the model of commits that change no row; one before the newest is no news to it."""
    result = ours.table.cluster(ours.spark, **settings)
    for instant in result.instants:
        if instant > max(ours.model.instants()):
            ours.model.unchanged(instant)
    return result


def timeline(ours):
    return open_table(open_store(str(ours.path))).timeline()


@pytest.mark.parametrize(
    "section",
    [
        clustering_of(),
        pytest.param(clustering_of("c_int"), marks=pytest.mark.long),
        pytest.param(clustering_of("c_int", "c_string", strategy="zorder"), marks=pytest.mark.long),
        clustering_of("c_double", "c_string", "c_int", strategy="hilbert"),
    ],
    ids=lambda section: section.execution.strategy,
)
def test_every_reader_sees_the_same_rows_before_and_after(spark, tmp_path, judges, section):
    ours = table_of_small_files(spark, tmp_path / "table", section)
    assert set(files_of(ours).values()) == {3}
    result = cluster(ours)
    assert (result.groups, result.files_before, result.files_after) == (4, 12, 4)
    assert result.rows == 120
    assert set(files_of(ours).values()) == {1}
    rnd = random.Random(6)
    ours.upsert(ours.rows(rnd, range(50, 90), 3))
    ours.delete(ours.rows(rnd, range(0, 120, 11), 4))
    assert unsound(ours.path) == []
    # Readers know nothing of the order: what lies between two instants is asked of one strategy.
    assert_history(judges, str(ours.path), ours.model, thorough=section.execution.strategy == "hilbert")


def test_every_type_is_clustered(spark, tmp_path, judges):
    section = clustering_of("c_string", "c_int", strategy="zorder")
    ours = table_of_small_files(spark, tmp_path / "table", section, typed=list(TYPES))
    assert cluster(ours).files_after == 4
    assert_history(judges, str(ours.path), ours.model)


def test_a_run_after_a_run_writes_nothing(spark, tmp_path):
    ours = table_of_small_files(spark, tmp_path / "table", clustering_of("c_int"))
    cluster(ours)
    before = timeline(ours).instants
    again = cluster(ours)
    assert (again.groups, again.instants, again.excluded_files) == (0, (), 4)
    assert timeline(ours).instants == before


def test_the_replacecommit_says_what_was_done(spark, tmp_path):
    ours = table_of_small_files(spark, tmp_path / "table", clustering_of("c_int"))
    (instant,) = cluster(ours).instants
    metadata = timeline(ours).commit_metadata(instant)
    said = json.loads(metadata.extra[RUN_KEY])
    assert (said["strategy"], said["columns"], said["groups"]) == ("sort", ["c_int"], 4)
    assert said["files"] == {"before": 12, "after": 4}
    assert metadata.operation == "CLUSTER"
    assert sum(map(len, metadata.replaced.values())) == 12
    for stat in metadata.all_stats():
        values = pq.read_table(ours.path / stat.path, columns=["c_int"]).column(0).drop_null().to_pylist()
        assert values == sorted(values)


def interrupted_by(monkeypatch, action):
    """Let ``action`` happen while the groups are being rewritten."""
    rewrite = clustering._rewrite
    pending = [action]

    def rewritten(*arguments):
        results = rewrite(*arguments)
        if pending:
            pending.pop()()
        return results

    monkeypatch.setattr(clustering, "_rewrite", rewritten)


def test_an_upsert_wins_the_group_that_it_hits(spark, tmp_path, judges, monkeypatch):
    ours = table_of_small_files(spark, tmp_path / "table", clustering_of("c_int"))
    rnd = random.Random(7)
    interrupted_by(monkeypatch, lambda: ours.upsert(ours.rows(rnd, range(0, 40, 4), 5)))
    result = cluster(ours)
    assert result.groups == 3
    (lost,) = result.left_out
    assert (lost.partition, lost.files) == ("region=eu", 3)
    assert unsound(ours.path) == []
    assert_history(judges, str(ours.path), ours.model, thorough=True)
    assert cluster(ours).groups == 1
    assert set(files_of(ours).values()) == {1}
    assert_history(judges, str(ours.path), ours.model)


def test_a_run_that_loses_every_group_leaves_nothing(spark, tmp_path, judges, monkeypatch):
    ours = table_of_small_files(spark, tmp_path / "table", clustering_of("c_int"))
    rnd = random.Random(8)
    interrupted_by(monkeypatch, lambda: ours.upsert(ours.rows(rnd, range(40), 5)))
    result = cluster(ours)
    assert (result.groups, result.instants, len(result.left_out)) == (0, (), 4)
    assert timeline(ours).pending_writes == ()
    assert unsound(ours.path) == []
    assert_history(judges, str(ours.path), ours.model)


def test_overwritten_partitions_are_left_out(spark, tmp_path, judges, monkeypatch):
    ours = table_of_small_files(spark, tmp_path / "table", clustering_of("c_int"))
    interrupted_by(monkeypatch, lambda: ours.delete_partition(["region=us"]))
    result = cluster(ours)
    assert (result.groups, len(result.left_out)) == (3, 1)
    assert_history(judges, str(ours.path), ours.model)


def test_inserts_beside_it_do_not_matter(spark, tmp_path, judges, monkeypatch):
    ours = table_of_small_files(spark, tmp_path / "table", clustering_of("c_int"))
    rnd = random.Random(9)
    interrupted_by(monkeypatch, lambda: ours.insert(ours.rows(rnd, range(200, 220), 1)))
    assert cluster(ours).groups == 4
    assert_history(judges, str(ours.path), ours.model)


def test_a_column_added_meanwhile_stays(spark, tmp_path, judges, monkeypatch):
    ours = table_of_small_files(spark, tmp_path / "table", clustering_of("c_int"))
    wider = ours.schema.append(pa.field("c_new", pa.string()))
    interrupted_by(monkeypatch, lambda: ours.evolve(wider))
    assert cluster(ours).groups == 4
    rnd = random.Random(10)
    ours.upsert(ours.rows(rnd, range(10), 9, c_new="x"))
    assert_history(judges, str(ours.path), ours.model)


def spoiling(context, groups):
    """The tasks of a clustering in one of which the order loses a row of every group."""
    rewrite = group_rewriter(context, groups)

    def spoilt(numbers):
        from parquetry.runtime.clustering.rewrite import task

        sort_rows = task.sort_rows

        def loses_a_row(*arguments):
            return sort_rows(*arguments).slice(1)

        task.sort_rows = loses_a_row
        try:
            yield from rewrite(numbers)
        finally:
            task.sort_rows = sort_rows

    return spoilt


def test_rows_that_were_spoilt_are_not_published(spark, tmp_path, judges, monkeypatch):
    ours = table_of_small_files(spark, tmp_path / "table", clustering_of("c_int"))
    # Workers cannot import this module.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(clustering, "group_rewriter", spoiling)
    try:
        with pytest.raises(ParquetryError, match="not the same rows, so the group is not published"):
            cluster(ours)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert timeline(ours).pending_writes == ()
    assert unsound(ours.path) == []
    assert_history(judges, str(ours.path), ours.model)


def test_inline_clustering_follows_every_so_many_writes(spark, tmp_path, judges):
    section = replace(clustering_of("c_int"), trigger=Trigger.INLINE, every_commits=3)
    # The creation, an insert and an upsert are three: what follows is counted from the clustering behind.
    ours = table_of_small_files(spark, tmp_path / "table", section, inserts=1)
    rnd = random.Random(11)
    clustered = []
    for number in range(1, 4):
        rows = ours.rows(rnd, range(number * 40, number * 40 + 40), 1)
        result = ours.table.insert(ours.frame(rows))
        ours.model.insert(result.instant, rows)
        clustered.append(result.files_clustered)
    ours.model.unchanged(max(write.time for write in timeline(ours).completed_writes))
    assert clustered == [0, 0, 16]
    assert set(files_of(ours).values()) == {1}
    assert_history(judges, str(ours.path), ours.model)


def test_inline_clustering_fails_no_write(spark, tmp_path, monkeypatch):
    section = replace(clustering_of("c_int"), trigger=Trigger.INLINE, every_commits=1)

    def failing(*_):
        raise ParquetryError("the rows are not the same")

    monkeypatch.setattr(clustering, "_rewrite", failing)
    ours = table_of_small_files(spark, tmp_path / "table", section, inserts=1)
    result = ours.table.insert(ours.frame(ours.rows(random.Random(12), range(40, 80), 1)))
    assert result.instant is not None
    assert result.warnings == ("clustering: the rows are not the same",)
    assert timeline(ours).pending_writes == ()


def test_a_budget_leaves_the_rest_for_later(spark, tmp_path, judges):
    ours = table_of_small_files(spark, tmp_path / "table", clustering_of("c_int"))
    sizes = {p.parent.name: p.stat().st_size for p in ours.path.glob("region=*/*.parquet")}
    first = cluster(ours, budget_bytes=int(3.9 * max(sizes.values())))
    assert first.groups == 1
    assert first.excluded_files == 9
    assert cluster(ours).groups == 3
    assert_history(judges, str(ours.path), ours.model)


def test_an_execution_that_is_not_known_is_refused(spark, tmp_path):
    section = ClusteringSpec(
        plan=clustering_of().plan, execution=ExecutionPolicy(strategy="spiral", columns=("c_int",))
    )
    ours = table_of_small_files(spark, tmp_path / "table", section)
    with pytest.raises(
        InvalidDataError, match="'spiral' is a plug-in that the applied spec or the plan names"
    ):
        parquetry.open(ours.path).cluster(spark)
    with pytest.raises(InvalidDataError, match="no strategy 'spiral' is installed here, only stitch, sort"):
        parquetry.open(ours.path, strategies=["spiral"]).cluster(spark)
    assert timeline(ours).pending_writes == ()
