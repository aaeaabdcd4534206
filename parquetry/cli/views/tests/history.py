"""The results of tests in earlier runs, in text and JSON."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from parquetry.cli.terminal.format import columns
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.tests.text import words
from parquetry.compiler.testing.history import PastTest, TestHistory
from parquetry.compiler.testing.model import Status
from parquetry.runtime.spec.codec import to_json_value

_SYMBOLS: Final = {
    Status.PASSED: ".",
    Status.WARNED: "w",
    Status.FAILED: "F",
    Status.UNMEASURED: "?",
    Status.NOT_EXECUTED: "-",
}
_HEADER: Final = ("test", "runs", "now", "since run")


class HistoryView:
    """A block for each table with a line for each test: one mark per run, the newest at the right."""

    def text(self, outcome: TestHistory, paint: Paint) -> str:
        """Return the blocks and a legend of the marks."""
        if not any(test.runs for test in outcome.tests):
            return f"No run of these tests at {outcome.target} is in target/runs."
        blocks = [
            f"{paint.bold(name)}\n{_block([_row(test) for test in tests], paint)}"
            for name, tests in groupby(outcome.tests, key=lambda test: test.table)
        ]
        legend = ", ".join(f"{symbol} {words(status)}" for status, symbol in _SYMBOLS.items())
        return "\n\n".join([*blocks, f"One mark a run, the newest last: {legend}"])

    def json(self, outcome: TestHistory) -> Any:
        """Return the document that the schema of ``test-history`` describes."""
        return to_json_value(outcome)


def _block(rows: list[tuple[str, ...]], paint: Paint) -> str:
    return "\n".join(f"  {line}" for line in columns(_HEADER, rows, paint=paint).split("\n"))


def _row(test: PastTest) -> tuple[str, ...]:
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
