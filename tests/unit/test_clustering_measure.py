from __future__ import annotations

import json
from dataclasses import replace

import pytest

from parquetry.runtime.clustering_measure import MEASURED_KEY
from parquetry.runtime.spark.clustering import cluster
from parquetry.runtime.table import read_applied, write_applied
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import table_in_debt
from tests.support.small_table import FAST


def declare(table, *queries):
    applied = read_applied(table.store)
    spec = replace(applied.spec, extra={**applied.spec.extra, "queries": list(queries)})
    number = applied.ref.number + 1
    write_applied(table.store, spec, number=number, digest=f"sha256:{number}")


@pytest.fixture
def table(tmp_path):
    return table_in_debt(tmp_path / "table")


def test_a_replacecommit_says_what_declared_queries_read_before_and_after(table):
    """Three files a partition of ten values each become one; half of the rows are in either partition."""
    declare(table, {"name": "few", "where": "v = 5"}, {"name": "none", "where": "v > 100"})
    (instant,) = cluster(OneProcessSpark(), table.handle, timing=FAST).instants
    said = json.loads(table.handle.timeline().commit_metadata(instant).extra[MEASURED_KEY])
    nothing = {"files": 0, "row_groups": 0, "rows": 0}
    assert said == [
        {
            "query": "few",
            "before": {"files": 2, "row_groups": 2, "rows": 10},
            "after": {"files": 2, "row_groups": 2, "rows": 30},
        },
        {"query": "none", "before": nothing, "after": nothing},
    ]


def test_without_queries_nothing_is_measured(table):
    (instant,) = cluster(OneProcessSpark(), table.handle, timing=FAST).instants
    assert MEASURED_KEY not in table.handle.timeline().commit_metadata(instant).extra


def test_a_group_that_was_left_out_does_not_count(table, monkeypatch):
    from parquetry.runtime.spark import clustering

    declare(table, {"name": "few", "where": "v >= 0"})
    rewrite = clustering._rewrite

    def interrupted(*arguments):
        results = rewrite(*arguments)
        table.upsert({"k0": (50, "a")})
        return results

    monkeypatch.setattr(clustering, "_rewrite", interrupted)
    result = cluster(OneProcessSpark(), table.handle, timing=FAST)
    (lost,) = result.left_out
    assert lost.partition == "p=a"
    ((said,),) = [
        json.loads(table.handle.timeline().commit_metadata(instant).extra[MEASURED_KEY])
        for instant in result.instants
    ]
    assert (said["before"]["files"], said["after"]["files"]) == (3, 1)
