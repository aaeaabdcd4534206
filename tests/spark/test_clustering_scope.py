"""Partitions put in one order by Spark's shuffle: rows stay, files follow each other, writers win."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from parquetry.runtime.spark import cluster
from parquetry.runtime.spec.clustering import ClusteringScope
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.clustering import clustering_of, table_of_small_files
from tests.support.judges import HudiRs, assert_history
from tests.support.our_table import OurReader
from tests.support.soundness import unsound

pytestmark = pytest.mark.spark


def test_partitions_in_one_order_beside_an_upsert(spark, tmp_path, monkeypatch):
    section = clustering_of("c_string", target_file_size_bytes=1000, small_file_limit_bytes=900)
    section = replace(section, execution=replace(section.execution, scope=ClusteringScope.PARTITION))
    ours = table_of_small_files(spark, tmp_path / "table", section, inserts=4, rows=48)
    tasks = []
    shuffled = cluster.rewrite_by_ranges

    def rewrite(spark, context, work):
        tasks.append(work.tasks)
        results = shuffled(spark, context, work)
        if len(tasks) == 1:
            ours.upsert(ours.rows(random.Random(7), range(0, 48, 4), 5))
        return results

    monkeypatch.setattr(cluster, "rewrite_by_ranges", rewrite)
    result = ours.table.cluster(spark)
    assert tasks == [2, 2, 2, 2]
    assert (result.groups, [(lost.partition, lost.files) for lost in result.left_out]) == (
        3,
        [("region=eu", 4)],
    )
    assert unsound(ours.path) == []
    (instant,) = result.instants
    # The clustering began before the upsert: to the model it is no news.
    assert instant < max(ours.model.instants())
    assert_history([HudiRs(), OurReader(spark)], str(ours.path), ours.model, thorough=True)
    handle = open_table(open_store(str(ours.path)))
    stats = handle.timeline().commit_metadata(instant).stats
    for files in stats.values():
        values = [
            pq.read_table(ours.path / stat.path, columns=["c_string"]).column(0).to_pylist() for stat in files
        ]
        bounds = [(min(v), max(v)) for v in ([x for x in f if x is not None] for f in values) if v]
        assert len(bounds) > 2
        ordered = sorted(bounds)
        assert all(one[1] <= other[0] for one, other in zip(ordered, ordered[1:], strict=False))
