"""What is remembered of passes, and which tests may rely on it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from parquetry.compiler.testing.live_table import is_lasting
from parquetry.compiler.testing.passes import Passes, PassesFile
from parquetry.runtime.main import JobResult
from parquetry.runtime.spec.codec import from_json_value, to_json_value
from parquetry.runtime.spec.row_tests import FailingKeys, RowTestResult, RowTestsResult
from parquetry.runtime.spec.table_spec import TableTest


@pytest.fixture
def file(tmp_path):
    return PassesFile(root=tmp_path, target="dev", table="orders")


def test_a_pass_counts_for_its_definition_and_while_its_commit_is_there(file):
    files = frozenset({"one", "two"})
    file.write(file.read().with_passed({"a": ("definition", "5", files), "b": ("other", "5", files)}))
    file.write(file.read().with_passed({"b": ("other", "6", frozenset({"three"}))}))
    found = file.read()
    assert found.of("a", "definition", ["4", "5"]) == files
    assert found.of("b", "other", ["6"]) == {"three"}
    for test, definition, instants in (("a", "changed", ["5"]), ("a", "definition", ["6"]), ("c", "", [])):
        assert found.of(test, definition, instants) == frozenset()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"version": 2, "tests": {}, "files": []}',
        '{"version": 1, "tests": {"a": {"definition": "d", "instant": "5", "files": 3}}, "files": []}',
        '{"version": 1, "tests": {"a": {"definition": "d", "instant": "5", "files": -1}}, "files": [["f"]]}',
    ],
)
def test_what_was_not_written_here_is_no_pass(file, tmp_path, content):
    file.write(Passes())
    (path,) = (tmp_path / "target").rglob("orders.json")
    assert path.stat().st_mode & 0o077 == 0
    path.write_text(content)
    assert file.read() == Passes()


def test_a_link_in_the_way_is_neither_read_nor_written(file, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "target").symlink_to(elsewhere)
    file.write(Passes())
    assert (file.read(), [*elsewhere.iterdir()]) == (Passes(), [])


@pytest.mark.parametrize(
    ("expression", "lasts"),
    [
        ("a > 3 AND b IN ('x', 'y')", True),
        ("A BETWEEN 1 AND 2 OR s.f IS NOT NULL", True),
        ("length(trim(b)) > 0", True),
        ("CAST(a AS STRING) <> ''", True),
        ("CASE WHEN a > 3 THEN b = 'x' ELSE true END", True),
        ("d >= DATE '2026-01-01'", True),
        ("d >= current_date - 7", False),
        ("d >= current_date() - 7", False),
        ("d <= now()", False),
        ("a > rand()", False),
        ("d < DATE 'tomorrow'", False),
        ("t < TIMESTAMP 'Now'", False),
        ("b = current_user", False),
        ("somebody_s(a) > 3", False),
        ("s.rand() > 3", False),
        ("a > $$now$$", False),
        ("`current_date` > a", False),
    ],
)
def test_only_expressions_that_never_change_their_mind_last(expression, lasts):
    test = TableTest(kind="expression", arguments=expression, severity="error")
    assert is_lasting(test, ["a", "b", "d", "s", "t"]) is lasts
    assert is_lasting(replace(test, kind="unique", arguments=["a"]), ["a"])


def test_what_a_job_answers_comes_back_from_its_json():
    keys = FailingKeys(columns=("k",), rows=(("1",), (None,)))
    tested = RowTestsResult(
        answers=(RowTestResult(name="t", failures=(2,), keys=keys),), files=1, rows=9, scans=1
    )
    result = JobResult(table="t", job="test", tested=tested)
    document = json.loads(json.dumps(to_json_value(result)))
    assert from_json_value(JobResult, document, place="p") == result
    assert "tested" not in to_json_value(JobResult(table="t", job="services"))
