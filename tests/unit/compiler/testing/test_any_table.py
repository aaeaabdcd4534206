"""Tests of a table that no project declares, from a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.project.loading.tests_file import load_tests_file
from parquetry.runtime.storage.open import open_store
from tests.support.handmade import HandmadeTable
from tests.support.tested_layouts import fill, healthy_table

FILE = """\
queries:
  - {name: low, where: v < 10}
tests:
  - {query: {name: low, max_files: {warn: 1}}}
  - {max_overlap_depth: {column: v, value: 1}, where: p = 'a'}
  - {max_overlap_depth: {column: w, value: 1}}
  - {max_small_files: 2}
  - {max_drift: 0}
  - {unique: [id]}
"""


def run(tmp_path, *words):
    return CliRunner().invoke(command_line, ["test", "--no-spark", *map(str, words)])


@pytest.fixture
def tests(tmp_path):
    file = tmp_path / "tests.yml"
    file.write_text(FILE)
    return file


def test_a_table_of_another_program_is_tested_by_a_file(tmp_path, tests, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = HandmadeTable(tmp_path / "t")
    table.commit("1", {"p=a": {"f-0": [("x", 1)], "g-0": [("y", 2)]}, "p=b": {"h-0": [("z", 3)]}})
    (tmp_path / "t" / ".hoodie" / ".parquetry" / "table.json").unlink()
    tests.write_text(FILE.replace("v < 10", "n < 10").replace("column: v", "column: n"))
    done = run(tmp_path, "--table", "./t", "--tests", tests, "--format", "json")
    said = json.loads(done.stdout)
    assert (done.exit_code, said["run_id"], said["target"]) == (1, None, None)
    ends = {test["test"]: test["status"] for test in said["tests"]}
    assert ends == {
        "query_low": "warned",
        "max_overlap_depth_n": "passed",
        "max_overlap_depth_w": "unmeasured",
        "max_small_files": "failed",
        "max_drift": "unmeasured",
        "unique_id": "not_executed",
    }
    assert {test["table"] for test in said["tests"]} == {"./t"}
    assert said["tests"][0]["origin"] == f"{tests}:4:5"
    assert not (tmp_path / "target").exists()


def test_a_query_of_a_column_that_the_table_lacks_is_unmeasured(tmp_path, tests):
    fill(healthy_table(tmp_path / "t"), 0)
    tests.write_text(
        "queries: [{name: q, where: nope < 3}]\ntests: [{query: {name: q, max_files: 9, max_rows: 9}}]"
    )
    done = run(tmp_path, "--table", tmp_path / "t", "--tests", tests, "--format", "json")
    (found,) = json.loads(done.stdout)["tests"]
    assert (done.exit_code, found["status"]) == (1, "unmeasured")
    assert "no column nope" in found["reason"]


@pytest.mark.parametrize("is_absolute", [True, False])
@pytest.mark.parametrize(("folder", "file"), [("shop", "shop/t.yml"), (".", None)])
def test_places_are_those_in_the_checkout_or_none(tmp_path, monkeypatch, folder, file, is_absolute):
    (tmp_path / "shop" / "deep").mkdir(parents=True)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path if file else tmp_path / "shop"))
    monkeypatch.chdir(tmp_path / "shop" / "deep")
    path = tmp_path / folder / "t.yml"
    path.write_text("tests: [{max_skew: 3}]")
    named = path if is_absolute else os.path.relpath(path)
    done = run(
        tmp_path,
        "--table",
        "./no",
        "--tests",
        named,
        "--format",
        "github",
        "--junit",
        "j.xml",
        "--sarif",
        "s.json",
    )
    assert done.exit_code == 1
    error = next(line for line in done.output.splitlines() if line.startswith("::error"))
    (result,) = json.loads(Path("s.json").read_text())["runs"][0]["results"]
    if file is None:
        assert "file=" not in error
        assert "locations" not in result
        assert "t.yml" not in Path("j.xml").read_text()
    else:
        assert f"file={file}," in error
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert place == {"uri": file}
        assert f">{file}:1:" in Path("j.xml").read_text()


def test_the_applied_record_says_what_small_is(tmp_path, tests):
    table = healthy_table(tmp_path / "t")
    for number in range(2):
        fill(table, number)
    tests.write_text("tests:\n  - {max_small_files: 0}\n  - {clustering_debt: {max_bytes: 0}}\n")
    done = run(tmp_path, "--table", tmp_path / "t", "--tests", tests)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("", ["PQ009"]),
        ("- 3", ["PQ103"]),
        ("tests: 3", ["PQ103"]),
        ("tests: [{max_small_files: x}]", ["PQ103"]),
        ("tests: [{max_small_files: 3, max_skew: 3}]", ["PQ105"]),
        ("columns: []\ntests: [{max_skew: 3}]", ["PQ102"]),
        ("tests: [{max_skew: '{{ 3 }}'}]", ["PQ208"]),
        ("tests: [", ["PQ002"]),
        ("tests: []", ["PQ103"]),
        ("tests: [{name: a, max_skew: 3}, {name: a, max_orphans: 3}]", ["PQ301"]),
        ("tests: [{max_skew: {warn: 3, error: 1}}]", ["PQ501"]),
        ("tests: [{query: {name: q, max_files: 1}}]", ["PQ311"]),
        ("queries: [{name: q, where: 'v <)'}]\ntests: [{query: {name: q, max_files: 1}}]", ["PQ601"]),
        ("tests: [{write_amplification: {commits: 3, max: 3}, where: v = 1}]", ["PQ701"]),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path, tests, text, codes):
    tests.write_text(text)
    assert [one.code for one in load_tests_file("t.yml", text.encode()).diagnostics] == codes
    done = run(tmp_path, "--table", tmp_path, "--tests", tests)
    assert done.exit_code == 1
    assert codes[0] in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--table", "./t"],
        ["--tests", "tests.yml"],
        ["--table", "name", "--tests", "tests.yml"],
        ["--table", "./t", "--tests", "tests.yml", "--select", "x"],
        ["--table", "./t", "--tests", "nothing.yml"],
        ["--table", "./t", "--history"],
        ["--history", "--tests", "tests.yml"],
        ["--history", "--junit", "h.xml"],
        ["--history", "--sarif", "h.json"],
        ["--history", "--fail-fast"],
    ],
)
def test_table_and_tests_belong_together(tmp_path, tests, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path, *words).exit_code == 2


@pytest.mark.parametrize("secret", ["hush", "hu/sh"])
def test_a_password_in_a_location_is_refused_and_not_printed(tests, tmp_path, secret):
    done = run(tmp_path, "--table", f"s3://AKIA:{secret}@lake/t", "--tests", tests)
    assert done.exit_code == 2
    assert "password" in done.output
    assert "AKIA" not in done.output
    assert secret not in done.output


def test_where_there_is_no_table_the_tests_are_unmeasured(tmp_path, tests):
    done = run(tmp_path, "--table", tmp_path / "nothing", "--tests", tests, "--format", "json")
    said = json.loads(done.stdout)
    assert (done.exit_code, said["counts"]["unmeasured"], said["counts"]["not_executed"]) == (1, 6, 0)
    assert open_store(tmp_path / "nothing").list("") == []
