"""Tests of rows on Spark: what they count, in how many scans, and which files they read."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parquetry.compiler.testing.model import Status
from parquetry.runtime.services.rollback import rollback
from tests.support.effort import in_full
from tests.support.small_table import FAST, make_table
from tests.support.tested_layouts import by_status, fill, healthy_history, healthy_table
from tests.support.tested_rows import Launched, answered, duplicates, failures, orphans, rows_of_files

pytestmark = pytest.mark.spark


@pytest.fixture
def launch(spark):
    return Launched(session=spark)


@pytest.fixture
def parents(tmp_path):
    """A table with the keys a0 to a9, whose values are 0 to 9."""
    table = make_table(tmp_path / "parents")
    table.insert({f"a{n}": (n, "x") for n in range(10)})
    return table


def declared(parents):
    """A test of each kind that reads rows, in three ways of failing."""
    return [
        {"not_null": ["v"]},
        {"unique": ["id"]},
        {"relationships": {"columns": ["v"], "to": parents.store.uri}},
    ]


@pytest.mark.parametrize(
    ("decay", "caught"),
    [
        (lambda table: table.insert({"b1": (None, "a")}), "not_null_v"),
        # Two writers of another program insert a key: neither looks it up.
        (lambda table: (table.insert({"b1": (1, "a")}), table.insert({"b1": (2, "a")})), "unique_id"),
        (lambda table: table.insert({"b1": (10, "a")}), "relationships_v"),
    ],
)
def test_each_decay_of_rows_is_caught_by_the_test_that_is_for_it(tmp_path, parents, launch, decay, caught):
    table = make_table(tmp_path / "t")
    table.insert({f"a{n}": (n, "ab"[n % 2]) for n in range(10)})
    table.upsert({f"a{n}": (9 - n, "ab"[n % 2]) for n in range(3)})
    assert by_status(answered(table, declared(parents), launch).outcomes) == {}
    decay(table)
    assert by_status(answered(table, declared(parents), launch).outcomes) == {Status.FAILED: [caught]}


@pytest.mark.parametrize("seed", range(200 if in_full() else 2))
def test_no_test_of_rows_fails_on_a_healthy_history(tmp_path, launch, seed):
    table = healthy_table(tmp_path / "t")
    healthy_history(table, seed)
    tests = [
        {"not_null": ["id", "v"]},
        {"unique": ["id"]},
        {"expression": "length(id) = 7"},
        {"accepted_values": {"column": "p", "values": ["a", "b"]}},
        {"relationships": {"columns": ["id", "p"], "to": table.store.uri}},
        {"row_count": {"min": 1, "max_decrease": 0}},
    ]
    for full in (False, False, True):
        found = answered(table, tests, launch, project=tmp_path, full=full)
        assert by_status(found.outcomes) == {}


ROWS = st.lists(
    st.tuples(st.sampled_from("klmn"), st.none() | st.integers(-2, 3), st.sampled_from("ab")), max_size=6
)


@settings(
    max_examples=60 if in_full() else 5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(writes=st.lists(ROWS, min_size=1, max_size=3), others=ROWS)
def test_counts_are_those_of_a_model(tmp_path_factory, launch, writes, others):
    folder = tmp_path_factory.mktemp("model")
    table, other = make_table(folder / "t"), make_table(folder / "o")
    for number, rows in enumerate(writes):
        for key, value, partition in rows:
            # The number keeps apart what one write would merge; the key repeats between writes.
            table.insert({f"{key}{number % 2}": (value, partition)})
    for key, value, partition in others:
        other.insert({key: (value, partition)})
    found = answered(
        table,
        [
            {"not_null": ["id", "v"]},
            {"unique": ["id"]},
            {"unique": ["v", "p"]},
            {"unique": ["v"]},
            {"expression": "v >= 0 OR p = 'a'"},
            {"expression": "v % 2 = 0"},
            {"accepted_values": {"column": "v", "values": [0, 1, 2]}},
            {"accepted_values": {"column": "p", "values": ["b"]}},
            {"relationships": {"columns": ["v"], "to": other.store.uri}},
            {"relationships": {"columns": ["v", "p"], "to": other.store.uri}},
            {"row_count": {"min": 1}},
        ],
        launch,
    ).outcomes
    rows, there = rows_of_files(table), rows_of_files(other)
    values = [value for _, value, _ in rows]
    assert [failures(outcome) for outcome in found] == [
        [0, values.count(None)],
        [duplicates([(key,) for key, _, _ in rows])],
        [duplicates([(value, p) for _, value, p in rows])],
        [duplicates([(value,) for value in values])],
        [sum(value is not None and value < 0 and p != "a" for _, value, p in rows)],
        [sum(value is not None and value % 2 != 0 for value in values)],
        [sum(value is not None and value not in (0, 1, 2) for value in values)],
        [sum(p != "b" for _, _, p in rows)],
        [orphans([(value,) for value in values], [(value,) for _, value, _ in there])],
        [orphans([(value, p) for _, value, p in rows], [(value, p) for _, value, p in there])],
        [len(rows)],
    ]


TEN = [
    {"unique": ["id"]},
    {"unique": ["v", "p"]},
    {"expression": "v % 2 < 5"},
    {"expression": "length(id) > 1"},
    {"expression": "v + 1 > 0"},
    {"expression": "id LIKE '%0%' OR v > 0"},
    {"accepted_values": {"column": "p", "values": ["a", "b"]}},
    {"accepted_values": {"column": "v", "values": list(range(1000))}},
    {"expression": "abs(v) < 5000", "where": "p = 'a'"},
    {"expression": "v IS NOT NULL OR p = 'c'", "where": "p = 'b'"},
]


@pytest.fixture
def filled(tmp_path):
    table = healthy_table(tmp_path / "t")
    for number in range(2):
        fill(table, number)
    return table


def test_ten_tests_are_one_scan(filled, launch, spark):
    scanned = ScannedRows(spark)
    found = answered(filled, TEN, launch)
    assert by_status(found.outcomes) == {}
    assert len(launch.jobs) == 1
    answer = launch.results[0].tested
    assert (answer.scans, answer.files, answer.rows) == (1, 4, 1600)
    assert scanned.since() == 1600


class ScannedRows:
    """How many records tasks of a session have read from files, as Spark counts them."""

    def __init__(self, spark):
        self._spark = spark
        self._before = self._total()

    def since(self):
        return self._total() - self._before

    def _total(self):
        context = self._spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        store, none = (
            context.statusStore(),
            self._spark.sparkContext._gateway.new_array(self._spark._jvm.double, 0),
        )
        stages = store.stageList(None, False, False, none, None)
        return sum(stages.apply(number).inputRecords() for number in range(stages.size()))


def test_what_statistics_answer_starts_no_job(filled):
    found = answered(
        filled,
        [
            {"not_null": ["id", "v"]},
            {"expression": "v >= 0 AND v < 800"},
            {"accepted_values": {"column": "p", "values": ["a", "b"]}},
            {"row_count": {"min": 1600, "max": 1600, "max_increase": 1, "max_decrease": 0}},
        ],
        Launched(),
    )
    assert by_status(found.outcomes) == {}
    assert [outcome.files_read for outcome in found.outcomes] == [0, 0, 0, None]


def test_after_an_upsert_only_what_changed_is_read(filled, launch, tmp_path):
    tests = [{"expression": "v % 2 < 5"}, {"unique": ["v", "p"]}, {"expression": "v > rand() - 5"}]
    first = answered(filled, tests, launch, project=tmp_path)
    assert [outcome.files_read for outcome in first.outcomes] == [4, 4, 4]
    again = answered(filled, tests[:2], Launched(), project=tmp_path)
    assert [outcome.files_read for outcome in again.outcomes] == [0, 0]
    filled.upsert({"a000001": (1, "a")})
    later = answered(filled, tests, launch, project=tmp_path)
    # Values of another file of that partition and of the other partition overlap with none of the new file.
    assert [outcome.files_read for outcome in later.outcomes] == [1, 1, 4]
    assert by_status(later.outcomes) == {}
    everything = answered(filled, tests, launch, project=tmp_path, full=True)
    assert [outcome.files_read for outcome in everything.outcomes] == [4, 4, 4]


def test_a_new_row_meets_the_old_ones_of_its_key(filled, launch, tmp_path):
    tests = [{"unique": ["v", "p"]}, {"expression": "v <> 3 OR id < 'b'"}]
    answered(filled, tests[:1], launch, project=tmp_path)
    filled.insert({"again": (7, "a")})
    found = answered(filled, tests[:1], launch, project=tmp_path)
    assert failures(found.outcomes[0]) == [1]
    assert found.outcomes[0].files_read == 2


def test_a_pass_counts_no_more_after_a_rollback_or_for_another_test(filled, launch, tmp_path):
    tests = [{"name": "one", "expression": "v % 2 < 5"}]
    written = filled.upsert({"a000001": (1, "a")})
    answered(filled, tests, launch, project=tmp_path)
    rollback(filled.handle, written.instant, timing=FAST)
    found = answered(filled, tests, launch, project=tmp_path)
    assert found.outcomes[0].files_read == 4
    other = answered(filled, [{"name": "one", "expression": "v % 2 < 4"}], launch, project=tmp_path)
    assert other.outcomes[0].files_read == 4


def test_a_failing_test_is_read_whole_again(filled, launch, tmp_path):
    tests = [{"expression": "v % 2 = 0", "max_failures": {"error": 5000}}]
    for _ in range(2):
        found = answered(filled, tests, launch, project=tmp_path)
        assert (found.outcomes[0].status, failures(found.outcomes[0])) == (Status.PASSED, [800])
        assert found.outcomes[0].files_read == 4


def test_what_spark_cannot_compute_is_one_test_s_problem(filled, launch):
    tests = [
        {"expression": "1 / (v - 3) < 9"},
        {"unique": ["v"], "max_failures": {"warn": 5}},
        {"expression": "v + 1"},
        {"expression": "v IN (SELECT 1)"},
        {"accepted_values": {"column": "v", "values": ["three"]}},
        {"relationships": {"columns": ["v"], "to": filled.store.uri, "to_columns": ["id"]}},
        {"expression": "max(v) < 5000"},
        {"expression": "count(*) OVER (PARTITION BY v) < 9"},
        {"expression": "explode(array(true, true))"},
        {"expression": "v % 2 <> 1"},
    ]
    found = answered(filled, tests, launch).outcomes
    assert [outcome.status for outcome in found] == [
        Status.UNMEASURED,
        Status.WARNED,
        *[Status.UNMEASURED] * 7,
        Status.FAILED,
    ]
    assert failures(found[1]) == failures(found[-1]) == [800]
    assert "DIVIDE_BY_ZERO" in found[0].reason


def test_failing_keys_are_few_and_personal_values_masked(filled, launch, spark):
    kept = {}

    def save(_table, test, keys):
        kept[test] = keys
        return f"failures/{test}"

    tests = [
        {"expression": "v <> 3"},
        {"name": "twice", "unique": ["v", "p"]},
        {"accepted_values": {"column": "p", "values": ["a"]}},
    ]
    filled.insert({"again": (7, "a")})
    found = answered(filled, tests, launch, keeps=2, save=save)
    assert [outcome.failures for outcome in found.outcomes] == [
        "failures/expression",
        "failures/twice",
        "failures/accepted_values_p",
    ]
    assert sorted(kept["expression"].rows) == [("a000003",), ("b000003",)]
    assert kept["twice"].columns == ("v", "p")
    assert kept["twice"].rows == (("7", "a"),)
    assert len(kept["accepted_values_p"].rows) == 2
    job = launch.jobs[-1]
    columns = tuple(replace(column, pii=column.name == "id") for column in job.spec.columns)
    hidden = launch(replace(job, spec=replace(job.spec, columns=columns))).tested
    assert hidden.answers[0].keys.rows == (("***",), ("***",))
    assert hidden.answers[1].keys.rows == (("7", "a"),)
    assert "a000003" not in json.dumps(launch.jobs[-1].to_json()) + str(hidden.answers[0].keys.rows)
