"""The results of tests as a page: each limit with its measurement, its place, and its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from parquetry.cli.terminal.format import count
from parquetry.cli.views.tests.text import bounds_text, counted, measured_text, words
from parquetry.compiler.reports.charts import Chart, sparkline
from parquetry.compiler.reports.page import (
    Badge,
    Cell,
    DataTable,
    Facts,
    Lines,
    Page,
    Section,
    Tone,
    Verbatim,
    render_page,
)
from parquetry.compiler.testing.history import PastOutcome, TestHistory
from parquetry.compiler.testing.model import FAILURES, LimitOutcome, Outcome, Status, TableTests
from parquetry.message import in_full

TONES: Final = {
    Status.PASSED: Tone.GOOD,
    Status.WARNED: Tone.WARN,
    Status.FAILED: Tone.BAD,
    Status.UNMEASURED: Tone.BAD,
    Status.NOT_EXECUTED: Tone.PLAIN,
}
_HEADER: Final = ("status", "test", "measured", "limit", "history", "place")


def render_tests(tests: TableTests, history: TestHistory | None) -> str:
    """Return one self-contained page; ``history`` has earlier results, None outside of a project."""
    facts = [("tests", counted(tests))]
    facts += [("run", tests.run_id)] if tests.run_id is not None else []
    return render_page(
        Page(
            title=f"parquetry test for {tests.target}" if tests.target is not None else "parquetry test",
            verdict=tests_verdict(tests),
            facts=Facts(entries=tuple(facts)),
            sections=sections_of(tests, history),
        )
    )


def tests_verdict(tests: TableTests) -> Badge:
    """Return the number of tests that failed, or else warned, as a badge."""
    failed = sum(tests.counts[status] for status in FAILURES)
    if failed:
        return Badge(text=f"{failed} of {count(len(tests.outcomes), 'test')} failed", tone=Tone.BAD)
    if warned := tests.counts[Status.WARNED]:
        return Badge(text=f"{warned} of {count(len(tests.outcomes), 'test')} warned", tone=Tone.WARN)
    return Badge(text="no test failed" if tests.outcomes else "no test is declared", tone=Tone.GOOD)


def sections_of(tests: TableTests, history: TestHistory | None, *, note: str = "") -> tuple[Section, ...]:
    """Return a section for each table, with a row for each limit; ``note`` is added to each heading."""
    past = {(test.table, test.test): test.runs for test in (() if history is None else history.tests)}
    return tuple(
        _section(name, list(found), past, note)
        for name, found in groupby(tests.outcomes, key=lambda outcome: outcome.table)
    )


def _section(
    table: str, outcomes: list[Outcome], past: Mapping[tuple[str, str], Sequence[PastOutcome]], note: str
) -> Section:
    """Return the section of a table: its tests in a table, and the reasons below it."""
    worst = max((outcome.status for outcome in outcomes), key=[*_RISING].index)
    rows = tuple(row for one in outcomes for row in _rows(one, past.get((table, one.test), ())))
    reasons: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.reason is not None:
            reasons.setdefault(in_full(outcome.reason), []).append(outcome.test)
    reason_lines = tuple(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
    reason_lines += tuple(
        f"{one.test}: keys that failed are in {one.failures}" for one in outcomes if one.failures
    )
    return Section(
        title=table,
        note=note,
        badges=(Badge(text=words(worst), tone=TONES[worst]),),
        tone=TONES[worst],
        blocks=(
            DataTable(caption=f"Tests of {table}", header=_HEADER, rows=rows),
            *((Lines(texts=reason_lines),) if reason_lines else ()),
        ),
    )


_RISING: Final = (Status.NOT_EXECUTED, Status.PASSED, Status.WARNED, Status.FAILED, Status.UNMEASURED)


def _rows(outcome: Outcome, runs: Sequence[PastOutcome]) -> Iterator[tuple[Cell, ...]]:
    place: Cell = Verbatim(outcome.origin) if outcome.origin else ""
    name = outcome.test if outcome.where is None else f"{outcome.test} (where {outcome.where})"
    if not outcome.limits:
        yield _badge(outcome.status), name, "", "", _sparkline(runs, None) or "", place
    for limit in outcome.limits:
        key = "" if limit.limit == outcome.kind else f"{limit.limit} "
        chart = _sparkline(runs, limit)
        yield (
            _badge(limit.status),
            name,
            measured_text(limit),
            f"{key}{bounds_text(limit)}",
            chart or "",
            place,
        )


def _badge(status: Status) -> Badge:
    return Badge(text=words(status), tone=TONES[status])


def _sparkline(runs: Sequence[PastOutcome], limit: LimitOutcome | None) -> Chart | None:
    """Return a chart of a limit's values in past runs, with its bound; None if no value is known."""
    values = [None if limit is None else run.values.get(limit.limit) for run in runs]
    if not runs or (limit is not None and not any(value is not None for value in values)):
        return None
    bound = None if limit is None else limit.warn if limit.error is None else limit.error
    return sparkline(values, [run.status for run in runs], bound=bound, text=_summary(runs, values, limit))


def _summary(runs: Sequence[PastOutcome], values: Iterable[float | None], limit: LimitOutcome | None) -> str:
    ended = [run.status for run in runs]
    parts = [f"{ended.count(status)} {words(status)}" for status in _RISING if status in ended]
    known = [value for value in values if value is not None]
    if limit is not None and known:
        low, high = (measured_text(limit, value) for value in (min(known), max(known)))
        parts.append(f"measured {low}" if low == high else f"measured {low} to {high}")
    return f"{count(len(runs), 'run')}: {', '.join(parts)}"
