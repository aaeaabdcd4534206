from __future__ import annotations

import json

import pytest

from parquetry.compiler.reports.inspection import Share, inspect_table
from parquetry.runtime.clustering.forecast.queries import MEASURED_KEY, read_measured
from parquetry.runtime.clustering.plan.due import schedule_clustering
from parquetry.runtime.clustering.plan.measure import QueryMeasure
from parquetry.runtime.spark.cluster import cluster, execute
from parquetry.runtime.spec.codec import to_json_value
from parquetry.runtime.timeline.clustering_plan import ClusteringPlan
from parquetry.runtime.timeline.sidecars import statistics_path
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import apply_queries, table_in_debt
from tests.support.small_table import FAST

pytestmark = pytest.mark.usefixtures("on_each_version")

KINDS = ("files", "row_groups", "rows")


@pytest.fixture
def table(tmp_path):
    return table_in_debt(tmp_path / "table")


def test_a_replacecommit_says_what_declared_queries_read_before_and_after(table):
    """Three files a partition of ten values each become one; half of the rows are in either partition."""
    apply_queries(table, {"name": "few", "where": "v = 5"}, {"name": "none", "where": "v > 100"})
    (instant,) = cluster(OneProcessSpark(), table.handle, timing=FAST).instants
    said = json.loads(table.handle.timeline().commit_metadata(instant).extra[MEASURED_KEY])
    few, none = said
    assert {kind: few["before"][kind] for kind in KINDS} == {"files": 2, "row_groups": 2, "rows": 10}
    assert {kind: few["after"][kind] for kind in KINDS} == {"files": 2, "row_groups": 2, "rows": 30}
    assert few["before"]["data_bytes"] > few["after"]["data_bytes"] > 0
    nothing = {"files": 0, "row_groups": 0, "rows": 0, "data_bytes": 0}
    read = {**nothing, "paged_row_groups": 0}
    assert none == {
        "query": "none",
        "before": read,
        "expected": read,
        "after": read,
        "error": dict.fromkeys(nothing, 0.0),
    }


def test_what_was_foreseen_stands_beside_what_is_measured(table):
    """Of so small a table every row is in the sample; only the size of a row group is an estimate."""
    apply_queries(table, {"name": "few", "where": "v = 5"})
    result = cluster(OneProcessSpark(), table.handle, timing=FAST)
    (instant,) = result.instants
    extra = table.handle.timeline().commit_metadata(instant).extra
    ((said,),) = [json.loads(extra[MEASURED_KEY])]
    assert {kind: said["error"][kind] for kind in KINDS} == dict.fromkeys(KINDS, 0.0)
    expected, after = said["expected"]["data_bytes"], said["after"]["data_bytes"]
    assert said["error"]["data_bytes"] == pytest.approx((expected - after) / after, abs=1e-4)
    assert abs(said["error"]["data_bytes"]) < 0.2
    (query,) = read_measured(extra)
    assert result.queries == (query,)
    assert to_json_value(query) == said


def test_rows_and_bytes_are_those_of_pages_before_and_after(tmp_path):
    """In every file lie all values before, in one page of a thousand or more of one file after."""
    table = table_in_debt(tmp_path / "table", inserts=0)
    for number in range(2):
        table.insert({f"k{n}": (n, "a") for n in range(number, 6000, 2)})
    apply_queries(table, {"name": "few", "where": "v = 2500"})
    (instant,) = cluster(OneProcessSpark(), table.handle, timing=FAST).instants
    (query,) = read_measured(table.handle.timeline().commit_metadata(instant).extra)
    assert (query.before.rows, query.before.paged_row_groups) == (6000, 0), "their pages are not smaller"
    for figures in (query.expected, query.after):
        assert (figures.files, figures.row_groups, figures.rows) == (1, 1, 2048)
        assert figures.paged_row_groups == 1
    assert abs(query.error.data_bytes) < 0.2
    report = inspect_table(table.store)
    assert [one.rows for one in report.queries] == [Share(read=2048, total=6000)]


def test_a_query_that_changed_since_the_plan_was_made_has_no_expectation(table):
    apply_queries(table, {"name": "few", "where": "v = 5"})
    instant = schedule_clustering(table.handle, timing=FAST).instant
    apply_queries(table, {"name": "few", "where": "v = 6"})
    execute(OneProcessSpark(), table.handle, instant, timing=FAST)
    (said,) = json.loads(table.handle.timeline().commit_metadata(instant).extra[MEASURED_KEY])
    assert said.keys() == {"query", "before", "after"}


def test_without_queries_nothing_is_measured(table):
    (instant,) = cluster(OneProcessSpark(), table.handle, timing=FAST).instants
    assert MEASURED_KEY not in table.handle.timeline().commit_metadata(instant).extra


def test_only_columns_of_queries_are_looked_up_and_nothing_of_files_that_are_gone(table):
    apply_queries(table, {"name": "few", "where": "v = 5"})
    handle = table.handle
    slices = handle.view(handle.timeline()).all_slices()
    measure = QueryMeasure(handle.spec, ClusteringPlan(groups=()))
    measure.read_statistics_before(table.store, slices)
    assert {name for file in measure._before.values() for name in file.columns} == {"v"}
    (query,) = measure.measured(())
    assert query.query == "few"
    # Neither recorded nor there.
    table.store.delete(statistics_path(slices[0].instant))
    table.store.delete(slices[0].path)
    measure.read_statistics_before(table.store, slices)
    assert measure.measured(()) == ()


def test_a_group_that_was_left_out_does_not_count(table, monkeypatch):
    from parquetry.runtime.spark import cluster as clustering

    apply_queries(table, {"name": "few", "where": "v >= 0"})
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
