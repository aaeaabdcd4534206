"""``scope: auto`` goes by what declared queries are expected to read, and says so."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.reports.suggestion import simulate_layouts
from parquetry.runtime.clustering.forecast.by_sample import Forecaster
from parquetry.runtime.clustering.forecast.queries import read_prediction
from parquetry.runtime.clustering.forecast.sample import GroupSample, SampleLimits, regrouped
from parquetry.runtime.clustering.plan.due import (
    due_by_statistics,
    due_clustering,
    forecast_due,
    schedule_clustering,
)
from parquetry.runtime.layout.clustering.model import ChosenBy
from parquetry.runtime.layout.clustering.scope import better_scope
from parquetry.runtime.layout.skipping.statistics import FileStatistics, RowGroupStatistics
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.clustering import (
    ClusteringScope,
    ClusteringSpec,
    ExecutionPolicy,
    PlanPolicy,
)
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.table.handle import open_table
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import apply_clustering, apply_key, apply_queries
from tests.support.small_table import FAST, make_table
from tests.support.stores import CountingStore, Kind

PLAN = PlanPolicy(small_file_limit_bytes=30_000, target_file_size_bytes=40_000, max_group_size_bytes=80_000)
NARROW = {"name": "narrow", "where": "v >= 15000 AND v < 15200"}
WIDE = {"name": "wide", "where": "v >= 10"}


def declare(table, *queries, columns=("v",), scope=ClusteringScope.AUTO, plan=PLAN):
    execution = ExecutionPolicy(strategy="sort", columns=columns, scope=scope)
    apply_clustering(table, ClusteringSpec(plan=plan, execution=execution))
    apply_queries(table, *queries)


def arrived(path, values):
    """A table of eight files of one partition, in several groups."""
    small = make_table(path)
    for first in range(0, 20_000, 2500):
        small.insert({f"k{n * 7919 % 20_000:05d}": (values(n), "a") for n in range(first, first + 2500)})
    return small


@pytest.fixture
def table(tmp_path):
    """Each file has values of the whole range."""
    return arrived(tmp_path / "table", lambda n: n * 7919 % 20_000)


def due(table, store=None):
    return due_clustering(table.handle if store is None else open_table(store), timing=FAST)


def the_choice(table):
    (choice,) = due(table).debt.choices
    return choice


def test_a_query_that_reads_a_file_of_each_group_asks_for_one_order(table):
    declare(table, NARROW)
    choice = the_choice(table)
    assert (choice.partition, choice.scope, choice.chosen_by) == (
        "p=a",
        ClusteringScope.PARTITION,
        ChosenBy.SAMPLE,
    )
    group, whole = choice.group, choice.whole
    assert (whole.groups, whole.rewritten_files) == (1, 8)
    assert group.groups > 1
    assert (
        group.rewritten_bytes
        == whole.rewritten_bytes
        == sum(file.size_bytes for g in due(table).debt.groups for file in g.files)
    )
    assert group.queries["narrow"].files == group.groups
    assert whole.queries["narrow"].files == 1
    assert whole.expected_bytes < group.expected_bytes
    assert (group.shuffled_bytes, whole.shuffled_bytes) == (0, 0), "one task is enough"


def test_a_query_that_reads_everything_asks_for_nothing(table):
    declare(table, WIDE)
    choice = the_choice(table)
    assert (choice.scope, choice.chosen_by) == (ClusteringScope.GROUP, ChosenBy.SAMPLE)
    assert choice.whole.expected_bytes > 0.9 * choice.group.expected_bytes
    assert {group.scope for group in due(table).debt.groups} == {ClusteringScope.GROUP}


@pytest.mark.parametrize(("weights", "scope"), [((1.0, 0.001), "partition"), ((0.001, 1.0), "group")])
def test_queries_count_by_their_weight(table, weights, scope):
    declare(table, *(query | {"weight": w} for query, w in zip((NARROW, WIDE), weights, strict=True)))
    assert the_choice(table).scope == scope


def test_what_a_later_column_of_a_sort_is_good_for_only_a_sample_tells(tmp_path):
    table = arrived(tmp_path / "table", lambda n: n % 2)
    declare(table, {"name": "key", "where": "id = 'k00777'"}, columns=("v", "id"))
    assert the_choice(table).scope is ClusteringScope.PARTITION
    assert the_choice(table).chosen_by is ChosenBy.SAMPLE


def test_without_a_query_or_where_none_can_gain_no_row_is_read(table, tmp_path):
    store = CountingStore(LocalStore(str(tmp_path / "table")), tmp_path / "log")
    declare(table)
    (choice,) = due(table, store).debt.choices
    assert (choice.scope, choice.chosen_by, choice.whole) == (
        ClusteringScope.GROUP,
        ChosenBy.NO_QUERIES,
        None,
    )
    declare(table, {"name": "key", "where": "id = 'k1'"})
    (choice,) = due(table, store).debt.choices
    assert (choice.scope, choice.chosen_by) == (ClusteringScope.GROUP, ChosenBy.STATISTICS)
    assert Kind.OPEN_INPUT not in store.counts()
    declare(table, NARROW)
    assert due_by_statistics(open_table(store), timing=FAST).groups
    assert Kind.OPEN_INPUT not in store.counts(), "whether there is anything to do is known without"


def test_a_declared_scope_is_no_choice(table):
    for scope in (ClusteringScope.GROUP, ClusteringScope.PARTITION):
        declare(table, NARROW, scope=scope)
        found = due(table).debt
        assert found.choices == ()
        assert {group.scope for group in found.groups} == {scope}
    declare(table, NARROW, plan=replace(PLAN, max_group_size_bytes=10**9))
    assert due(table).debt.choices == (), "one group is one order"


def test_the_sample_is_drawn_once_for_the_choice_and_the_plan(table, tmp_path):
    declare(table, NARROW)
    store = CountingStore(LocalStore(str(tmp_path / "table")), tmp_path / "log")
    handle = open_table(store)
    found = due_clustering(handle, timing=FAST)
    read = store.counts()[Kind.OPEN_INPUT]
    assert read <= 2 * 8 + 1, "a sample, tried rows, and a footer"
    (query,) = forecast_due(handle, found).queries
    assert store.counts()[Kind.OPEN_INPUT] == read
    assert query.expected == found.debt.choices[0].whole.queries["narrow"]


def test_the_plan_expects_what_the_choice_expected_and_execution_finds_it(table):
    declare(table, NARROW)
    (choice,) = due(table).debt.choices
    instant = schedule_clustering(table.handle, timing=FAST).instant
    plan = table.handle.timeline().pending_clusterings[instant].plan
    (query,) = [query for group in plan.groups for query in read_prediction(group.extra)]
    assert query.expected == choice.whole.queries["narrow"]
    table.upsert({"k00000": (0, "a")})  # takes the plan back
    (measured,) = cluster(OneProcessSpark(), table.handle, timing=FAST).queries
    assert measured.expected.files == measured.after.files == 1


def test_where_the_forecast_fails_statistics_choose(table, caplog):
    declare(table, NARROW)
    (first, *_) = table.handle.view(table.handle.timeline()).all_slices()
    table.store.put(first.path, table.store.read(first.path)[:-10] + bytes(10))
    choice = the_choice(table)
    assert (choice.scope, choice.chosen_by) == (ClusteringScope.PARTITION, ChosenBy.STATISTICS)
    assert choice.whole.expected_bytes is None
    assert "statistics choose the scope of the clustering" in caplog.text


def test_where_the_limits_of_a_sample_are_spent_statistics_choose(table):
    declare(table, NARROW)
    scarce = SampleLimits(row_groups=4)
    (choice,) = due_clustering(table.handle, limits=scarce, timing=FAST).debt.choices
    assert choice.group.groups > 1
    assert (choice.scope, choice.chosen_by) == (ClusteringScope.PARTITION, ChosenBy.STATISTICS)
    assert choice.whole.expected_rows is None
    enough = scarce.for_each_of(choice.group.groups)
    (choice,) = due_clustering(table.handle, limits=enough, timing=FAST).debt.choices
    assert choice.chosen_by is ChosenBy.SAMPLE


def test_nothing_is_sampled_of_encrypted_files(table, tmp_path):
    declare(table, NARROW)
    apply_key(table, "env:NO_SUCH_KEY")
    store = CountingStore(LocalStore(str(tmp_path / "table")), tmp_path / "log")
    (choice,) = due(table, store).debt.choices
    assert choice.chosen_by is ChosenBy.STATISTICS
    assert Kind.OPEN_INPUT not in store.counts()


@pytest.mark.parametrize(
    ("group", "whole", "scope"),
    [(100, 90, "partition"), (100, 91, "group"), (0, 0, "group"), (10, 0, "partition")],
)
def test_one_order_is_taken_for_a_tenth_less(group, whole, scope):
    assert better_scope(group, whole) == scope


def test_samples_of_other_groups_are_made_of_those_that_were_drawn():
    def file(name, rows):
        return FileStatistics(
            path=name, size_bytes=1, row_groups=(RowGroupStatistics(rows=rows, data_bytes=1),)
        )

    def sample(first, count, of_rows, **by_path):
        rows = pa.table({"n": np.arange(first, first + count)})
        return GroupSample(rows=rows, of_rows=of_rows, by_path=by_path)

    groups = [[file("a", 300), file("b", 100)], [file("c", 800)]]
    samples = [sample(0, 400, 400, a=300, b=100), sample(1000, 200, 800, c=200)]
    (whole,) = regrouped(samples, groups, [[*groups[1], *groups[0]]], most_rows=10_000)
    assert (whole.of_rows, whole.rows.num_rows, dict(whole.by_path)) == (
        1200,
        300,
        {"c": 200, "a": 75, "b": 25},
    )
    assert np.diff(np.sort(whole.rows["n"].to_numpy())[:100]).tolist() == [4] * 99, "evenly"
    (fewer, other) = regrouped(samples, groups, [groups[0], groups[1]], most_rows=50)
    assert (fewer.rows.num_rows, other.rows.num_rows) == (50, 50)
    missing = GroupSample(rows=pa.table({"n": pa.array([], pa.int64())}), of_rows=800)
    (none,) = regrouped([samples[0], missing], groups, [[*groups[0], *groups[1]]], most_rows=50)
    assert none.is_missing


def test_a_forecast_of_one_group_is_that_of_its_parts_put_together(table):
    declare(table, NARROW)
    handle = table.handle
    spec = handle.effective_spec(handle.timeline())
    files = [file for group in due(table).debt.groups for file in group.files]
    execution = ExecutionPolicy(strategy="sort", columns=("v",))
    parts = Forecaster(table.store, spec, [files[:3], files[3:]], columns=("v",)).regrouped([files])
    whole = Forecaster(table.store, spec, [files], columns=("v",))
    (joined,) = parts.forecast(execution, target_bytes=40_000)
    (direct,) = whole.forecast(execution, target_bytes=40_000)
    assert joined == direct


def shown(table, *arguments):
    location = table.store.uri.removeprefix("file://")
    result = CliRunner().invoke(
        command_line, ["service", "cluster", location, *arguments], env={"COLUMNS": "80"}
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_plan_shows_both_scopes_and_what_was_gone_by(table):
    declare(table, NARROW)
    (scope,) = json.loads(shown(table, "--plan-only", "--format", "json"))["scopes"]
    assert (scope["partition"], scope["scope"], scope["chosen_by"]) == ("p=a", "partition", "sample")
    for figures in (scope["group"], scope["whole"]):
        read = figures["queries"]["narrow"]
        assert (figures["expected_rows"], figures["expected_bytes"]) == (read["rows"], read["data_bytes"])
    text = shown(table, "--plan-only")
    lines = {line.lstrip(" *").partition(" ")[0]: line for line in text.splitlines()}
    rows = {name: lines[name] for name in ("group", "partition")}
    assert rows["partition"].split()[0] == "*"
    assert f"{scope['group']['expected_rows']:,}" in rows["group"]
    assert f"{scope['whole']['expected_rows']:,}" in rows["partition"]
    assert max(map(len, text.splitlines())) <= 80
    assert "one order saves at least a tenth" in " ".join(text.split())
    scheduled = shown(table, "--schedule")
    assert rows["partition"] in scheduled.splitlines()
    assert "narrow" in scheduled


def test_layouts_that_are_tried_choose_alike(table):
    declare(table, NARROW)
    (trial,) = simulate_layouts(table.store, strategies=["sort"], columns=[("v",)]).candidates
    assert trial.queries[0].expected.files == 1, "one order"
    declare(table, WIDE)
    (trial,) = simulate_layouts(table.store, strategies=["sort"], columns=[("v",)]).candidates
    (group,) = simulate_layouts(
        table.store, strategies=["sort"], columns=[("v",)], scopes=[ClusteringScope.GROUP]
    ).candidates
    assert trial.files_after == group.files_after


def test_without_queries_the_plan_says_so(table):
    declare(table)
    text = " ".join(shown(table, "--plan-only").split())
    assert "scope auto: 1 partition in groups: no declared query would read less in one order" in text
    (scope,) = json.loads(shown(table, "--schedule", "--format", "json"))["scopes"]
    assert (scope["scope"], scope["chosen_by"], scope["whole"]) == ("group", "no queries", None)
    assert scope["group"]["expected_bytes"] is None
