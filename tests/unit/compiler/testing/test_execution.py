"""How tests end: by their limits, for the partitions that they are about, or without an answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.testing.execution import execute_tests
from parquetry.compiler.testing.model import Status
from parquetry.compiler.testing.tables import TableUnderTest, declared_tests
from parquetry.errors import ParquetryError
from parquetry.message import in_full
from parquetry.project.model.table_tests import table_test
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.table_spec import Column, Extra
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.properties import PROPERTIES_PATH
from parquetry.runtime.timeline.sidecars import IDENTITY_PATH
from tests.support.handmade import HandmadeTable
from tests.support.handmade import spec as handmade
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.small_table import SmallTable
from tests.support.stores import CountingStore, Kind
from tests.support.tested_layouts import DECLARED, by_status, fill, healthy_table, outcomes, under_test


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three files in partition a, two in b."""
    made = healthy_table(tmp_path_factory.mktemp("tests") / "t")
    for number, partitions in enumerate(("ab", "ab", "a")):
        fill(made, number, partitions)
    return made


@pytest.mark.parametrize(
    ("limit", "more", "status"),
    [
        (3, {}, Status.PASSED),
        (2, {}, Status.FAILED),
        (2, {"severity": "warn"}, Status.WARNED),
        ({"warn": 2, "error": 3}, {}, Status.WARNED),
        ({"warn": 2, "error": 2}, {}, Status.FAILED),
        ({"error": 2}, {"severity": "warn"}, Status.FAILED),
        ({"warn": 3, "error": 9}, {}, Status.PASSED),
    ],
)
def test_each_limit_has_its_severity(table, limit, more, status):
    (found,) = outcomes(table, [{"max_partition_files": limit, **more}])
    assert found.status is status
    assert [(one.value, one.partition) for one in found.limits] == [(3, "p=a")]


def test_the_worst_limit_of_a_test_counts_and_lower_limits_are_from_below(table):
    (found,) = outcomes(table, [{"file_size": {"percentile": 100, "min": {"warn": "1GiB"}, "max": "1B"}}])
    assert [limit.status for limit in found.limits] == [Status.WARNED, Status.FAILED]
    assert found.status is Status.FAILED


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("p = 'a'", 3),
        ("p <> 'a'", 2),
        ("p IN ('b', 'c')", 2),
        ("P >= 'b'", 2),
    ],
)
def test_where_chooses_partitions_by_their_values(table, where, files):
    (found,) = outcomes(table, [{"max_partition_files": 0, "where": where}])
    assert [limit.value for limit in found.limits] == [files]
    (found,) = outcomes(table, [{"max_file_versions": 0, "where": where}])
    assert [limit.value for limit in found.limits] == [min(files, 1)]


def test_text_conditions_leave_out_the_partition_of_null(tmp_path):
    made = healthy_table(tmp_path / "t")
    made.insert({"k": (1, "DE"), "l": (2, "__HIVE_DEFAULT_PARTITION__"), "m": (3, "FR")})
    wheres = ["p = 'DE'", "p <> 'DE'", "p IS NULL", "p IS NOT NULL", "p > 'A'"]
    found = outcomes(made, [{"max_small_files": 0, "where": where} for where in wheres])
    assert [outcome.limits[0].value for outcome in found] == [1, 1, 1, 2, 2]


def test_a_clustering_that_is_only_planned_is_owed(tmp_path):
    policy = read_applied(healthy_table(tmp_path / "h").store).spec.extra.clustering
    policy = replace(policy, execution=replace(policy.execution, columns=("n",)))
    table = HandmadeTable(tmp_path / "t", handmade(extra=Extra(clustering=policy)))
    table.commit("5", {p: {f"{p}{n}": [(f"{p}{n}{m}", m) for m in range(9)] for n in range(3)} for p in "ab"})
    entries = [{"clustering_debt": {"max_bytes": 0, "max_age": "1d"}}]

    def owed():
        declared = declared_tests([table_test(entry) for entry in entries], lambda _: None)
        one = TableUnderTest(
            name="t", store=lambda: table.store, tests=declared, declared=table.spec, extra=table.spec.extra
        )
        (found,) = execute_tests([one], run_id=None, target=None).outcomes
        return found.status, found.limits[0].value

    before = owed()
    assert before[0] is Status.FAILED
    table.plan_clustering("6", {"a": ["a0", "a1", "a2"]})
    assert owed() == before


def test_amplification_by_clusterings_alone_is_no_pass(tmp_path):
    table = HandmadeTable(tmp_path / "t")
    table.commit("5", {"a": {"f": [("k", 1)]}})
    table.commit("6", {"a": {"g": [("k", 1)]}}, operation="CLUSTER", replaced={"a": ["f"]})
    limits = {"write_amplification": {"commits": 1, "max": 9}}
    declared = declared_tests([table_test(limits)], lambda _: None)
    one = TableUnderTest(
        name="t", store=lambda: table.store, tests=declared, declared=table.spec, extra=table.spec.extra
    )
    (found,) = execute_tests([one], run_id=None, target=None).outcomes
    assert found.status is Status.UNMEASURED


@pytest.mark.parametrize("where", ["p > 'b'", "p IS NULL"])
def test_a_condition_that_no_partition_fulfils_is_no_pass(table, where):
    (found,) = outcomes(table, [{"max_partition_files": 0, "where": where}])
    assert (found.status, found.limits) == (Status.UNMEASURED, ())
    assert "no partition matches" in found.reason


@pytest.mark.parametrize(
    "where", ["p LIKE 'a%'", "upper(p) = 'A'", "v > 3", "p = current_date", "true", "p ="]
)
def test_a_condition_that_paths_do_not_answer_is_no_pass(table, where):
    (found,) = outcomes(table, [{"max_small_files": 10, "where": where}])
    assert (found.status, found.limits) == (Status.UNMEASURED, ())
    assert "current_date" in found.reason


def test_days_are_chosen_by_what_day_it_is(tmp_path):
    made = healthy_table(tmp_path / "t")
    today = made.store.now_ms() // 86_400_000
    days = [str(_day(today - back)) for back in (0, 3, 9)]
    for day in days:
        made.insert({f"{day}-{n}": (n, day) for n in range(3)})
    dated = under_test(
        made,
        [{"max_small_files": 0, "where": "p >= current_date - 7"}],
        spec=lambda spec: replace(
            spec, columns=tuple(replace(c, type="date") if c.name == "p" else c for c in spec.columns)
        ),
    )
    (found,) = execute_tests([dated], run_id=None, target=None).outcomes
    assert [limit.value for limit in found.limits] == [2]


def _day(number):
    import datetime as dt

    return dt.date(1970, 1, 1) + dt.timedelta(days=number)


def test_tests_of_rows_are_named_and_do_not_pass(table):
    entries = [{"unique": ["id"]}, {"name": "plausible", "expression": "v > 0"}, {"max_small_files": 0}]
    found = outcomes(table, entries)
    assert by_status(found) == {Status.NOT_EXECUTED: ["unique_id", "plausible"]}
    assert "it needs rows" in found[0].reason


def test_nulls_are_counted_by_statistics(tmp_path):
    made = healthy_table(tmp_path / "t")
    made.insert({f"k{n}": (n, "a") for n in range(5)})
    made.insert({f"l{n}": (None if n < 3 else n, "b") for n in range(5)})
    found = outcomes(
        made,
        [
            {"not_null": ["id", "p"]},
            {"not_null": ["ID", "v"]},
            {"not_null": ["v"], "severity": "warn"},
            {"not_null": ["v"], "where": "p = 'a'"},
        ],
    )
    assert [outcome.status for outcome in found] == [
        *(Status.PASSED, Status.FAILED, Status.WARNED, Status.PASSED)
    ]
    assert [(limit.limit, limit.value) for limit in found[1].limits] == [("ID", 0), ("v", 3)]


def test_a_column_that_the_table_lacks_is_no_pass(table):
    """It may be declared, and not applied yet."""
    unknown = under_test(
        table,
        [{"not_null": ["note"]}, {"unique": ["id", "note"]}, {"expression": "note <> ''"}],
        spec=lambda spec: replace(spec, columns=(*spec.columns, Column(name="note", type="string"))),
    )
    found = execute_tests([unknown], run_id=None, target=None).outcomes
    assert [outcome.status for outcome in found] == [Status.UNMEASURED] * 3
    assert {outcome.reason for outcome in found} == {"the table has no column note"}


def test_fail_fast_measures_nothing_after_the_first_failure(table):
    tests = [{"max_partition_files": {"warn": 0}}, {"max_small_files": 0}, {"max_partition_files": 1}]
    one, other = under_test(table, [*tests, {"max_skew": 9}]), under_test(table, [{"max_orphans": 0}])
    result = execute_tests([one, other], run_id=None, target=None, fail_fast=True)
    ends = [outcome.status for outcome in result.outcomes]
    assert ends == [
        Status.WARNED,
        Status.PASSED,
        Status.FAILED,
        Status.NOT_EXECUTED,
        Status.NOT_EXECUTED,
    ]
    assert result.failure.message == "1 of 5 tests failed"
    everything = execute_tests([one, other], run_id=None, target=None)
    assert everything.counts[Status.NOT_EXECUTED] == 0


def test_a_query_or_a_commit_that_is_not_there_is_no_pass(table, tmp_path):
    (found,) = outcomes(table, [{"query": {"name": "nope", "max_files": 1}}])
    assert found.status is Status.UNMEASURED
    empty = healthy_table(tmp_path / "t")
    assert by_status(outcomes(empty)) == {Status.UNMEASURED: ["max_commit_age"]}


def test_a_table_that_is_missing_foreign_or_broken_fails_its_tests(table, tmp_path):
    other = TableOwner(project="other", target=None)
    gone = replace(under_test(table), store=lambda: open_store(tmp_path / "gone"))
    foreign = replace(under_test(table), owner=other)
    shutil.copytree(table.store.uri.removeprefix("file://"), tmp_path / "t")
    (tmp_path / "t" / PROPERTIES_PATH).write_text("hoodie.table.type=MERGE_ON_READ\n")
    broken = under_test(table, store=open_store(tmp_path / "t"))
    shutil.copytree(table.store.uri.removeprefix("file://"), tmp_path / "u")
    (tmp_path / "u" / IDENTITY_PATH).write_text("{")
    cut_off = under_test(table, store=open_store(tmp_path / "u"))
    for one in (gone, foreign, broken, cut_off):
        result = execute_tests([one], run_id=None, target=None)
        assert {outcome.status for outcome in result.outcomes} == {Status.UNMEASURED}
        (reason,) = {outcome.reason for outcome in result.outcomes}
        assert str(reason) == in_full(reason)  # no table has personal columns
        assert result.failure.exit_code == 1


def test_a_file_that_cannot_be_read_fails_the_tests_that_ask_for_it_alone(table, tmp_path):
    shutil.copytree(table.store.uri.removeprefix("file://"), tmp_path / "t")
    broken = SmallTable(store=open_store(tmp_path / "t"))
    handle = broken.handle
    part = handle.view(handle.timeline()).all_slices()[0]
    (tmp_path / "t" / part.path).write_bytes(b"PAR1" * 2000)
    ends = by_status(outcomes(broken))
    assert ends[Status.UNMEASURED] == ["max_overlap_depth_v", "query_first", "clustering_debt"]
    assert ends[Status.FAILED] == ["max_drift"]


def test_personal_values_are_in_no_outcome(table, tmp_path):
    hidden = under_test(
        table,
        [
            {"max_partition_files": 0, "where": "p = 'a'"},
            {"max_skew": 0},
            {"query": {"name": "first", "max_files": 0}, "where": "p IN ('a', 'b')"},
        ],
        spec=lambda spec: replace(
            spec, columns=tuple(replace(c, pii=True) if c.name == "p" else c for c in spec.columns)
        ),
    )
    found = execute_tests([hidden], run_id=None, target=None).outcomes
    assert [outcome.limits[0].partition for outcome in found] == ["p=***", "p=***", None]
    assert [outcome.where for outcome in found] == ["p = '***'", None, "p IN ('***', '***')"]
    assert [outcome.limits[0].value for outcome in found] == [3, found[1].limits[0].value, 2]


def test_what_is_asked_for_is_read_once(table, tmp_path):
    counted = CountingStore(table.store, tmp_path / "log")
    execute_tests(
        [under_test(table, [*DECLARED[:7], *DECLARED[:7]], store=counted)], run_id=None, target=None
    )
    calls = counted.calls()
    sidecars = [path for kind, path in calls if kind is Kind.READ and path.endswith(".statistics")]
    assert len(sidecars) == len(set(sidecars)) == 3
    listed = [path for kind, path in calls if kind is Kind.LIST and path.startswith("p=")]
    assert sorted(listed) == ["p=a", "p=b"]


def test_sizes_and_ages_need_no_statistics(table, tmp_path):
    counted = CountingStore(table.store, tmp_path / "log")
    plain = [DECLARED[place] for place in (0, 1, 2, 3, 7, 8, 9)]
    assert (
        by_status(execute_tests([under_test(table, plain, store=counted)], run_id=None, target=None).outcomes)
        == {}
    )
    assert not [path for _, path in counted.calls() if path.endswith((".statistics", ".parquet"))]


def test_a_project_s_tests_are_recorded_and_end_with_1(tmp_path, monkeypatch):
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    tests = [{"max_small_files": 0}, {"max_orphans": 0}]
    folder.write("tables/events.yml", EVENTS | {"tests": tests})
    monkeypatch.chdir(folder.root)
    assert CliRunner().invoke(command_line, ["apply", "--auto-approve"]).exit_code == 0
    assert CliRunner().invoke(command_line, ["test"]).exit_code == 0
    SmallTable(store=open_store(folder.root / "warehouse/events")).insert({"k": (1, "a")})
    done = CliRunner().invoke(command_line, ["test", "--format", "json"])
    assert done.exit_code == 1
    said = json.loads(done.stdout)
    saved = json.loads((folder.root / "target/runs" / said["run_id"] / "results.json").read_text())
    assert saved == said
    lines = (folder.root / "tables/events.yml").read_text().splitlines()
    _, line, column = said["tests"][0]["origin"].split(":")
    assert lines[int(line) - 1][int(column) - 1 :] == "max_small_files: 0"


def test_results_that_cannot_be_saved_are_a_failure(tmp_path, monkeypatch):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.orders(tests=[{"max_orphans": 0}])
    monkeypatch.chdir(folder.root)
    assert CliRunner().invoke(command_line, ["apply", "--auto-approve"]).exit_code == 0
    (folder.root / "target" / "runs").write_text("in the way")
    done = CliRunner().invoke(command_line, ["test"])
    assert done.exit_code == ParquetryError.exit_code
    assert "cannot be written" in done.stderr


def test_all_kinds_together_ask_for_each_listing_and_record_once(table, tmp_path):
    """Apart from drift, which looks at the table anew as `parquetry drift` does."""
    counted = CountingStore(table.store, tmp_path / "log")
    everything = [test for test in DECLARED if test != {"max_drift": 0}]
    found = execute_tests([under_test(table, everything * 2, store=counted)], run_id=None, target=None)
    assert {outcome.status for outcome in found.outcomes} == {Status.PASSED}
    calls = counted.calls()
    lists = Counter(path for kind, path in calls if kind is Kind.LIST)
    assert {path: count for path, count in lists.items() if count > 1} == {".hoodie": 2}, (
        "before and after files"
    )
    assert {path for path in lists if not path.startswith(".hoodie")} <= {"", "p=a", "p=b"}
    reads = Counter(path for kind, path in calls if kind is Kind.READ)
    assert max(reads.values()) == 1
    commits = [path for path in reads if path.endswith(".commit")]
    statistics = [path for path in reads if path.endswith(".statistics")]
    assert (len(commits), len(statistics)) == (4, 3)


_IN_A_PROCESS = """
import sys
from click.testing import CliRunner
from parquetry.cli.main import command_line
done = CliRunner().invoke(command_line, ["test", "--table", sys.argv[1], "--tests", sys.argv[2]])
print(done.output)
assert done.exit_code == 0
assert not {"pyspark", "py4j"} & set(sys.modules), "Spark is imported"
"""


def test_no_jvm_is_started_and_spark_not_imported(table, tmp_path):
    file = tmp_path / "tests.json"
    file.write_text(json.dumps({"tests": DECLARED, "queries": [{"name": "first", "where": "v < 400"}]}))
    words = [sys.executable, "-c", _IN_A_PROCESS, table.store.uri.removeprefix("file://"), str(file)]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env=os.environ | {"JAVA_HOME": "/nowhere"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
