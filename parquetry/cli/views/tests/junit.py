"""The results of tests as JUnit XML for CI servers: a suite for each table, a case for each test."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from parquetry.cli.views.tests.text import finding
from parquetry.compiler.testing.model import Outcome, Status, TableTests
from parquetry.text.printable import visible

_KINDS = {Status.FAILED: Failure, Status.UNMEASURED: Error, Status.NOT_EXECUTED: Skipped}


def render(tests: TableTests, *, prefix: str) -> str:
    """Return the document; ``prefix`` is the project's path in the repository.

    JUnit has no warnings: a case with one passes, and its output has the measurement.
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
    position = f"{prefix}/{outcome.origin}" if prefix and outcome.origin else outcome.origin or ""
    if outcome.status not in _KINDS:
        case.system_out = f"{outcome.status}: {message}\n{_text(position)}"
        return case
    result = _KINDS[outcome.status](message, outcome.kind)
    result.text = _text(position)
    case.result = [result]
    return case


def _text(text: str) -> str:
    """Return the text with characters that are invisible or not allowed in XML as escapes."""
    return visible(text)
