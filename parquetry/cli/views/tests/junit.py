"""What tests came to as JUnit XML, which servers of CI read: a suite for each table, a case for each test."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from parquetry.cli.views.tests.text import finding
from parquetry.compiler.testing.model import Outcome, Status, TableTests
from parquetry.printable import visible

_KINDS = {Status.FAILED: Failure, Status.UNMEASURED: Error, Status.NOT_EXECUTED: Skipped}


def render(tests: TableTests, *, prefix: str) -> str:
    """The document. JUnit knows no warnings: such a case passes, and its output says what was measured.

    ``prefix`` leads from the repository to the project.
    """
    document = JUnitXml("parquetry test")
    for name, outcomes in groupby(tests.outcomes, key=lambda outcome: outcome.table):
        suite = TestSuite(_text(name))
        for outcome in outcomes:
            suite.add_testcase(_case(outcome, prefix))
        document.add_testsuite(suite)
    content: bytes = document.tostring()
    return content.decode()


def _case(outcome: Outcome, prefix: str) -> Any:
    case = TestCase(_text(outcome.test), _text(outcome.table))
    if outcome.status is Status.PASSED:
        return case
    message = _text(finding(outcome))
    place = f"{prefix}/{outcome.origin}" if prefix and outcome.origin else outcome.origin or ""
    if outcome.status not in _KINDS:
        case.system_out = f"{outcome.status}: {message}\n{_text(place)}"
        return case
    result = _KINDS[outcome.status](message, outcome.kind)
    result.text = _text(place)
    case.result = [result]
    return case


def _text(text: str) -> str:
    """The text with what XML cannot hold, or nobody can see, as escapes."""
    return visible(text)
