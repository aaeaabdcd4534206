"""Layouts tried on a real table: compared, ranked, explained, and nothing written."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner
from jsonschema import validate

from parquetry.cli.main import command_line
from parquetry.cli.terminal.schema import answer_schema
from parquetry.compiler.reports.suggestion import simulate_layouts, suggest, suggestion_of
from parquetry.runtime.clustering.plan.due import schedule_clustering
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.clustering import (
    ClusteringScope,
    ClusteringSpec,
    ExecutionPolicy,
    Existing,
    PlanPolicy,
)
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.table.applied import read_applied
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import apply_clustering, apply_key, apply_queries
from tests.support.small_table import FAST, SmallTable, make_table
from tests.support.stores import CountingStore, Kind

PLAN = PlanPolicy(small_file_limit_bytes=30_000, target_file_size_bytes=40_000)
WRITES = {Kind.PUT, Kind.PUT_IF_ABSENT, Kind.CREATE_FILE, Kind.DELETE, Kind.DELETE_ALL, Kind.DELETE_FOLDER}
NARROW = {"name": "narrow", "where": "v >= 15000 AND v < 15200"}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The folder of a table with eight files in one partition, each with values of the whole range."""
    path = tmp_path_factory.mktemp("eight") / "table"
    small = make_table(path)
    apply_clustering(small, ClusteringSpec(plan=PLAN))
    for number in range(8):
        first = number * 2500
        small.insert({f"k{n}": (n * 7919 % 20_000, "a") for n in range(first, first + 2500)})
    return path


@pytest.fixture
def table(template, tmp_path):
    """A copy of it for one test."""
    shutil.copytree(template, tmp_path / "table")
    return SmallTable(store=LocalStore(str(tmp_path / "table")))


def tried(table, *arguments):
    location = table.store.uri.removeprefix("file://")
    result = CliRunner().invoke(command_line, ["simulate", "clustering", location, *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_layouts_are_compared_on_what_the_query_reads(table):
    apply_queries(table, NARROW)
    candidates = simulate_layouts(table.store, columns=[("v",), ("v", "id")])
    by_name = {candidate.execution.strategy: candidate for candidate in candidates.candidates}
    assert list(by_name) == ["stitch", "sort", "zorder", "hilbert"]
    (now,) = candidates.now
    assert (now.files, now.rows) == (8, 20_000)
    (sort,) = (candidate for candidate in candidates.candidates if candidate.execution.columns == ("v",))
    assert sort.execution.strategy == "sort", "a curve over one column is a sort"
    (query,) = sort.queries
    assert (query.query, query.now) == ("narrow", now)
    assert query.expected.files == 1
    assert query.expected.rows < 7000
    assert by_name["stitch"].queries[0].expected.rows == 20_000
    assert sort.share < 0.4 < by_name["stitch"].share
    assert {by_name[name].rewritten_files for name in ("sort", "zorder", "hilbert")} == {8}


def test_what_is_expected_is_what_the_plan_expects(table):
    apply_queries(table, NARROW)
    (candidate,) = simulate_layouts(table.store, strategies=["sort"], columns=[("v",)]).candidates
    applied = read_applied(table.store)
    section = ClusteringSpec(plan=PLAN, execution=ExecutionPolicy(strategy="sort", columns=("v",)))
    apply_clustering(table, section)
    apply_queries(table, *applied.spec.extra.queries)
    (measured,) = cluster(OneProcessSpark(), table.handle, timing=FAST).queries
    (query,) = candidate.queries
    assert query.expected.files == measured.after.files == 1
    assert query.expected == measured.expected, "the plan predicts the same"
    (again,) = simulate_layouts(table.store, strategies=["sort"]).candidates
    assert again.seconds is not None, "there is a past run now"


def test_trying_writes_nothing_and_reads_within_limits(table, tmp_path):
    apply_queries(table, NARROW)
    store = CountingStore(LocalStore(str(tmp_path / "table")), tmp_path / "log")
    simulate_layouts(
        store,
        columns=[("v",), ("id",), ("v", "id")],
        scopes=[ClusteringScope.GROUP, ClusteringScope.PARTITION],
    )
    assert not store.counts().keys() & WRITES
    assert store.counts()[Kind.OPEN_INPUT] <= 2 * (2 * 8 + 1), "a sample and tried rows of either grouping"


def test_the_best_is_suggested_with_reasons(table):
    apply_queries(table, NARROW | {"weight": 2.0}, {"name": "by_key", "where": "id = 'k7'", "weight": 0.1})
    found = suggest(table.store)
    assert found.best is not None
    assert (found.best.execution.strategy, found.best.execution.columns) == ("sort", ("v",))
    shares = [candidate.share for candidate in found.candidates.candidates]
    assert shares == sorted(shares)
    assert found.reasons[0].startswith("narrow has conditions on v: it reads 1 instead of 8 files")


@pytest.mark.parametrize(
    ("share", "in_force", "chosen"),
    [
        (0.502, ("v", "id"), ("v", "id")),
        (0.502, (), ("v",)),
        (0.498, (), ("v",)),
        (0.53, (), ("v", "id")),
        (0.53, ("v",), ("v", "id")),
    ],
)
def test_the_layout_in_force_wins_ties_then_the_simplest(table, share, in_force, chosen):
    """Sorted by both columns queries read half; by one alone, that ``share``."""
    apply_queries(table, NARROW)
    found = simulate_layouts(table.store, strategies=["sort"], columns=[("v",), ("v", "id")])
    shares = {("v",): share, ("v", "id"): 0.5}
    policy = ClusteringSpec(execution=ExecutionPolicy(strategy="sort", columns=in_force))
    candidates = [
        replace(candidate, share=shares[candidate.execution.columns]) for candidate in found.candidates
    ]
    best = suggestion_of(replace(found, candidates=tuple(candidates), policy=policy), tried=2).best
    assert best is not None
    assert best.execution.columns == chosen


def test_a_query_that_gets_worse_is_told_in_what_it_is_measured_by(table):
    """Fewer rows can take more bytes: pages and row groups are cut elsewhere."""
    apply_queries(table, NARROW, {"name": "by_key", "where": "id = 'k7'"})
    found = simulate_layouts(table.store, strategies=["sort"], columns=[("v",)])
    (candidate,) = (candidate for candidate in found.candidates if candidate.execution.columns)
    narrow, by_key = candidate.queries
    now = by_key.now
    heavier = replace(now, rows=now.rows - 1, data_bytes=2 * now.data_bytes)
    candidate = replace(candidate, queries=(narrow, replace(by_key, expected=heavier)), share=0.5)
    reasons = suggestion_of(replace(found, candidates=(candidate,)), tried=1).reasons
    said = f"by_key gets worse: it reads {heavier.data_bytes:,} instead of {now.data_bytes:,} bytes"
    assert said in reasons


@pytest.mark.parametrize(("heavy", "column"), [("narrow", "v"), ("by_key", "id")])
def test_weights_decide(table, heavy, column):
    asked = (NARROW, {"name": "by_key", "where": "id = 'k7'"})
    apply_queries(table, *(query | {"weight": 50.0 if query["name"] == heavy else 0.1} for query in asked))
    found = suggest(table.store)
    assert found.best is not None
    assert found.best.execution.columns[0] == column
    assert {("v",), ("id",)} <= {candidate.execution.columns for candidate in found.candidates.candidates}


@pytest.mark.parametrize(
    ("queries", "reason"),
    [
        ([], "the applied spec declares no queries"),
        ([{"name": "odd", "where": "length(id) > 3"}], "odd has no condition that statistics can answer"),
        ([{"name": "part", "where": "p = 'a'"}], "part has conditions on partition columns only"),
    ],
)
def test_it_says_why_nothing_helps(table, queries, reason):
    apply_queries(table, *queries)
    apply_clustering_size_off = ClusteringSpec(
        plan=replace(PLAN, small_file_limit_bytes=1), execution=ExecutionPolicy()
    )
    spec = read_applied(table.store).spec
    apply_clustering(table, apply_clustering_size_off)
    apply_queries(table, *spec.extra.queries)
    found = suggest(table.store)
    assert found.best is None
    assert any(said.startswith(reason) for said in found.reasons)


def test_a_table_in_order_keeps_its_layout(table):
    section = ClusteringSpec(plan=PLAN, execution=ExecutionPolicy(strategy="sort", columns=("v",)))
    apply_clustering(table, section)
    apply_queries(table, NARROW)
    cluster(OneProcessSpark(), table.handle, timing=FAST)
    assert suggest(table.store).best is None
    code, text, _ = tried(table, "--suggest")
    assert code == 0
    assert "Clustering would not help." in text
    assert schedule_clustering(table.handle, timing=FAST).instant is None


@pytest.mark.parametrize("busy", ["a plan waits", "existing files are kept"])
def test_files_that_may_not_be_touched_now_are_compared_all_the_same(table, busy):
    if busy == "a plan waits":
        section = ClusteringSpec(plan=PLAN, execution=ExecutionPolicy(strategy="sort", columns=("id",)))
        apply_clustering(table, section)
        assert schedule_clustering(table.handle, timing=FAST).forecast.debt.files_before == 8
    else:
        apply_clustering(table, ClusteringSpec(plan=PLAN, existing=Existing.KEEP))
    apply_queries(table, NARROW)
    found = suggest(table.store)
    assert found.best is not None
    assert (found.best.execution.columns, found.best.rewritten_files) == (("v",), 8)


def test_text_and_json(table):
    apply_queries(table, NARROW)
    code, text, _ = tried(table, "--suggest")
    assert code == 0
    assert "Suggested:\n  execution: {strategy: sort, columns: [v]}\n- narrow has conditions on v" in text
    assert max(map(len, text.splitlines())) <= 80
    code, text, _ = tried(table, "--columns", "v,id", "--strategy", "zorder", "--format", "json")
    answer = json.loads(text)
    validate(answer, answer_schema("simulate-clustering"))
    (layout,) = answer["layouts"]
    assert (layout["strategy"], layout["columns"], layout["rewritten_files"]) == ("zorder", ["v", "id"], 8)
    assert answer["queries"][0]["now"]["files"] == 8


def test_scopes_that_are_compared_can_be_told_apart(table):
    apply_queries(table, NARROW)
    scopes = [word for scope in ClusteringScope for word in ("--scope", scope.value)]
    _, text, _ = tried(table, "--columns", "v", "--strategy", "sort", "--strategy", "stitch", *scopes)
    costs = text.split("\n\n")[1].splitlines()[1:]
    layouts = [line.split("  ")[0] for line in costs]
    assert sorted(layouts) == ["sort (v)", "sort (v) by group", "sort (v) by partition", "stitch"]


def test_a_suggestion_keeps_what_else_the_policy_says(table):
    policy = ExecutionPolicy(
        strategy="sort", columns=("v",), scope=ClusteringScope.PARTITION, split_by=("p",), then=("prune",)
    )
    apply_clustering(table, ClusteringSpec(plan=PLAN, execution=policy))
    apply_queries(table, NARROW)
    found = suggest(table.store)
    assert found.best is not None
    assert found.best.execution == policy
    assert json.loads(tried(table, "--format", "json", "--suggest")[1])["suggestion"]["then"] == ["prune"]
    assert [candidate.execution.strategy for candidate in found.candidates.candidates] == ["sort", "stitch"]
    _, text, _ = tried(table, "--suggest")
    block = ["strategy: sort", "scope: partition", "columns: [v]", "split_by: [p]", "then: [prune]"]
    assert "\n    ".join(["Keep the declared layout:\n  execution:", *block]) + "\n" in text
    apply_clustering(table, ClusteringSpec(plan=PLAN, execution=replace(policy, strategy="zorder")))
    apply_queries(table, NARROW)
    names = [candidate.execution.strategy for candidate in suggest(table.store).candidates.candidates]
    assert sorted(names) == ["stitch", "zorder"], "over one column it is the sort"


def test_nothing_is_foreseen_of_encrypted_files(table, tmp_path):
    apply_queries(table, NARROW)
    apply_key(table, "env:NO_SUCH_KEY")
    store = CountingStore(LocalStore(str(tmp_path / "table")), tmp_path / "log")
    found = suggest(store)
    assert Kind.OPEN_INPUT not in store.counts()
    assert found.best is None
    assert [reason.partition(":")[0] for reason in found.reasons] == ["files are encrypted"]
    assert not found.candidates.queries
    assert all(candidate.files_after and candidate.queries == () for candidate in found.candidates.candidates)
    code, text, _ = tried(table, "--suggest")
    assert code == 0
    assert "no queries" not in text
    code, text, _ = tried(table, "--format", "json")
    validate(json.loads(text), answer_schema("simulate-clustering"))


def test_of_an_empty_table_nothing_is_read(tmp_path):
    small = make_table(tmp_path / "empty")
    apply_queries(small, NARROW)
    found = suggest(small.store)
    assert (found.best, found.reasons) == (None, ("the table has no files yet: there is nothing to read",))
    assert "%" not in tried(small, "--suggest")[1]


def test_what_cannot_be_tried_is_an_error(table):
    for queries in ([], [NARROW]):
        apply_queries(table, *queries)
        code, _, said = tried(table, "--columns", "nope")
        assert (code, "no column 'nope': it has id, v, p" in said) == (1, True)
        assert "no column 'V': did you mean 'v'?" in tried(table, "--columns", "V")[2]
    code, _, said = tried(table, "--strategy", "no_such_strategy")
    assert (code, "no_such_strategy" in said) == (1, True)
    assert tried(table, "--suggest", "--columns", "v")[0] == 2
    apply_queries(table)
    code, _, said = tried(table)
    assert code != 0
    assert "--columns" in said
