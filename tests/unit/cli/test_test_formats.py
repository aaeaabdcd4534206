"""The formats of CI: annotations, JUnit XML and SARIF, from tests that ended in every way."""

from __future__ import annotations

import json

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped

from parquetry.cli.terminal.output import Output
from parquetry.cli.views.tests import github, junit, sarif
from parquetry.cli.views.tests.printing import documents
from parquetry.compiler.testing.model import LimitOutcome, Outcome, Status, TableTests
from parquetry.project.model.table_tests import Unit

HOSTILE = "p=\x1b[31m]]>\n::error::x ##[error]\u202e<b>&\ufffe\ud800"


def outcome(name, status, *, value=7.0, partition=None, reason=None, table="trips"):
    limit = LimitOutcome(
        limit="max_files", unit=Unit.COUNT, status=status, value=value, error=3, partition=partition
    )
    return Outcome(
        table=table,
        test=name,
        kind="query",
        status=status,
        limits=() if reason else (limit,),
        reason=reason,
        origin="tables/my trips.yml:17:5",
    )


ENDS = TableTests(
    run_id="r",
    target="dev",
    outcomes=(
        outcome("good", Status.PASSED, value=1.0),
        outcome("near", Status.WARNED),
        outcome("bad", Status.FAILED, partition="day=2026-11-23"),
        outcome("blind", Status.UNMEASURED, reason="the table is gone"),
        outcome("rows", Status.NOT_EXECUTED, reason="it reads rows"),
        outcome("bad", Status.FAILED, table="other"),
    ),
)


def test_annotations_are_at_the_lines_of_tests():
    lines = github.render_github(ENDS, prefix="lake").splitlines()
    assert [line.split(" ")[0] for line in lines] == [
        *("::warning", "::error", "::error", "::notice", "::error", "::notice")
    ]
    assert lines[1].startswith("::error file=lake/tables/my trips.yml,line=17,col=5,title=trips bad::")
    assert lines[1].endswith("max_files: 7 in day=2026-11-23, error above 3")
    assert lines[-1].endswith("::1 passed, 1 warned, 2 failed, 1 unmeasured, 1 not executed")


def test_junit_has_a_suite_for_each_table_and_a_case_for_each_test():
    read = JUnitXml.fromstring(junit.render(ENDS, prefix=""))
    assert (read.tests, read.failures, read.errors, read.skipped) == (6, 2, 1, 1)
    trips, other = read
    kinds = {case.name: [type(result) for result in case.result] for case in trips}
    assert kinds == {"good": [], "near": [], "bad": [Failure], "blind": [Error], "rows": [Skipped]}
    by_name = {case.name: case for case in trips}
    assert by_name["near"].system_out.startswith("warned: max_files: 7")
    assert by_name["bad"].result[0].text == "tables/my trips.yml:17:5"
    assert [case.classname for case in other] == ["other"]


def test_sarif_has_what_did_not_pass_and_notes_what_was_not_executed():
    (run,) = json.loads(sarif.render(ENDS, prefix="lake"))["runs"]
    assert [result["level"] for result in run["results"]] == ["warning", "error", "error", "error"]
    assert {result["ruleId"] for result in run["results"]} == {"query"}
    assert run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]["id"] == "query"
    place = run["results"][1]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "lake/tables/my%20trips.yml"
    assert place["region"] == {"startLine": 17, "startColumn": 5}
    prints = [result["partialFingerprints"]["parquetryTest/v1"] for result in run["results"]]
    assert len(set(prints)) == 4
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "rows" in note["message"]["text"]


def test_values_of_others_stay_values_in_every_format(tmp_path, capsys):
    tests = TableTests(run_id="r", target="dev", outcomes=(outcome("bad", Status.FAILED, partition=HOSTILE),))
    files = {"--junit": tmp_path / "j", "--sarif": tmp_path / "s"}
    found = {option: text for option, _, text in documents(tests, Output(), files=files, project=tmp_path)}
    (case,) = next(iter(JUnitXml.fromstring(found["--junit"])))
    assert "::error::" in case.result[0].message
    message = json.loads(found["--sarif"])["runs"][0]["results"][0]["message"]["text"]
    for text in (*found.values(), case.result[0].message, message):
        assert not set("\x1b\u202e\ufffe\ud800") & set(text)
    said = github.render_github(tests, prefix="")
    assert len(said.splitlines()) == 2
    assert "##[" not in said


@pytest.mark.parametrize("render", [junit.render, sarif.render])
def test_nothing_to_test_is_a_whole_document(render):
    empty = TableTests(run_id="r", target="dev", outcomes=())
    assert render(empty, prefix="").startswith(("<testsuites", "{"))
