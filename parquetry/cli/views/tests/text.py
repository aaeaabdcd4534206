"""The results of tests, of this run and of earlier ones, in text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from parquetry.cli.terminal.format import columns, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.compiler.spec_words import format_age, format_size, human_duration
from parquetry.compiler.testing.history import PastTest, TestHistory
from parquetry.compiler.testing.model import LimitOutcome, Outcome, Status, TableTests, to_json
from parquetry.message import in_full
from parquetry.project.model.table_tests import Unit
from parquetry.runtime.spec.codec import to_json_value

_HEADER = ("", "test", "measured", "limit")
_HISTORY_HEADER: Final = ("test", "runs", "now", "since run")
_NAMED = 3
_SYMBOLS: Final = {
    Status.PASSED: ".",
    Status.WARNED: "w",
    Status.FAILED: "F",
    Status.UNMEASURED: "?",
    Status.NOT_EXECUTED: "-",
}


class TestsView:
    """A block for each table with a line for each limit, then the number of tests by status."""

    def text(self, outcome: TableTests, paint: Paint) -> str:
        """Return the blocks; tests without a measurement have the reason below them."""
        if not outcome.outcomes:
            return "Nothing to test: no test is declared for the selected tables."
        blocks = [
            f"{paint.bold(name)}\n{_table(list(tests), paint)}"
            for name, tests in groupby(outcome.outcomes, key=lambda test: test.table)
        ]
        return "\n\n".join([*blocks, counted(outcome)])

    def json(self, outcome: TableTests) -> Any:
        """Return the document that the schema of ``test`` describes."""
        return to_json(outcome)


class HistoryView:
    """A block for each table with a line for each test: one mark per run, the newest at the right."""

    def text(self, outcome: TestHistory, paint: Paint) -> str:
        """Return the blocks and a legend of the marks."""
        if not any(test.runs for test in outcome.tests):
            return f"No run of these tests at {outcome.target} is in target/runs."
        blocks = [
            f"{paint.bold(name)}\n{_history_block([_history_row(test) for test in tests], paint)}"
            for name, tests in groupby(outcome.tests, key=lambda test: test.table)
        ]
        legend = ", ".join(f"{symbol} {words(status)}" for status, symbol in _SYMBOLS.items())
        return "\n\n".join([*blocks, f"One mark a run, the newest last: {legend}"])

    def json(self, outcome: TestHistory) -> Any:
        """Return the document that the schema of ``test-history`` describes."""
        return to_json_value(outcome)


def counted(tests: TableTests) -> str:
    """Return the number of tests by status, such as ``12 passed, 1 failed``."""
    found = [f"{number} {words(status)}" for status, number in tests.counts.items() if number]
    return ", ".join(found) or "no tests"


def words(status: Status) -> str:
    """Return the status in words."""
    return status.replace("_", " ")


def finding(outcome: Outcome) -> str:
    """Return one line about a test that did not pass: the broken limits, or why nothing was measured."""
    if outcome.reason is not None:
        return f"{words(outcome.status)}: {in_full(outcome.reason)}"
    broken = [
        f"{limit.limit}: {measured_text(limit)}, {bounds_text(limit)}"
        for limit in outcome.limits
        if limit.status is not Status.PASSED
    ]
    kept = [f"failing keys are in {outcome.failures}"] if outcome.failures else []
    return "; ".join([*broken, *kept])


def _table(tests: list[Outcome], paint: Paint) -> str:
    rows = [row for test in tests for row in _rows(test)]
    lines = columns(_HEADER, rows, paint=paint).split("\n")
    reasons: dict[str, list[str]] = {}
    for test in tests:
        if test.reason is not None:
            reasons.setdefault(in_full(test.reason), []).append(test.test)
    reason_lines = [f"  {_named(names)}: {reason}" for reason, names in reasons.items()]
    reason_lines += [f"  {test.test}: failing keys are in {test.failures}" for test in tests if test.failures]
    return "\n".join([*(f"  {line}" for line in lines), *reason_lines])


def _named(names: list[str]) -> str:
    """Return names in a sentence, cut after the first ones."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _rows(test: Outcome) -> Iterator[tuple[str, ...]]:
    if not test.limits:
        yield words(test.status), test.test, "", ""
    for number, limit in enumerate(test.limits):
        name = test.test if number == 0 else ""
        key = "" if limit.limit == test.kind else f"{limit.limit} "
        yield words(limit.status), name, measured_text(limit), f"{key}{bounds_text(limit)}"


def measured_text(limit: LimitOutcome, past: float | None = None) -> str:
    """Return the measured value and its partition, or a ``past`` value of the same limit."""
    if past is not None:
        return _measured(past, limit.unit)
    if limit.value is None:
        return "nothing"
    place = f" in {limit.partition}" if limit.partition else ""
    return f"{_measured(limit.value, limit.unit)}{place}"


def bounds_text(limit: LimitOutcome) -> str:
    """Return the bounds of a limit, such as ``warn above 10, error above 100``."""
    word = "below" if limit.is_lower else "above"
    found = [
        f"{severity} {word} {_declared(bound, limit.unit)}"
        for severity, bound in (("warn", limit.warn), ("error", limit.error))
        if bound is not None
    ]
    return ", ".join(found)


def _measured(value: float, unit: Unit) -> str:
    match unit:
        case Unit.COUNT:
            return f"{value:,.0f}"
        case Unit.RATIO:
            return f"{value:,.2f}"
        case Unit.BYTES:
            return human_size(value)
    return human_duration(value)


def _declared(bound: float, unit: Unit) -> str:
    match unit:
        case Unit.COUNT | Unit.RATIO:
            return f"{bound:,}"
        case Unit.BYTES:
            return format_size(int(bound))
    return format_age(int(bound))


def _history_block(rows: list[tuple[str, ...]], paint: Paint) -> str:
    return "\n".join(f"  {line}" for line in columns(_HISTORY_HEADER, rows, paint=paint).split("\n"))


def _history_row(test: PastTest) -> tuple[str, ...]:
    if not test.runs:
        return test.test, "", "", ""
    symbols = "".join(_SYMBOLS[run.status] for run in test.runs)
    newest = test.runs[-1]
    same = next(
        (
            test.runs[index + 1]
            for index in range(len(test.runs) - 2, -1, -1)
            if test.runs[index].status is not newest.status
        ),
        test.runs[0],
    )
    return test.test, symbols, words(newest.status), same.run_id
