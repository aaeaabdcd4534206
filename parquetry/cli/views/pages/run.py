"""A run as a page: files and rows of each job, errors, and what queries read after clustering."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.views.operating.run import done_text
from parquetry.cli.views.pages.tests import sections_of, tests_verdict
from parquetry.cli.views.queries import measured_block
from parquetry.cli.views.run_order import order_section, used_text
from parquetry.compiler.jobs.results import JobOutcome, RunResult
from parquetry.compiler.reports.page import (
    Badge,
    Block,
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
from parquetry.compiler.testing.history import TestHistory
from parquetry.message import Text, in_full
from parquetry.runtime.main import JobResult

_HEADER: Final = ("status", "job", "inserted", "updated", "deleted", "files", "bytes", "commit")
_NUMBERS: Final = frozenset({2, 3, 4, 5, 6})
_WORDS: Final = {Tone.BAD: "failed", Tone.WARN: "warned", Tone.GOOD: "done"}


def render_run(
    run: RunResult, *, target: str, history: TestHistory | None, with_options: Callable[[Text], str]
) -> str:
    """Return one self-contained page of a run, with the tests after the run at its end.

    Args:
        run: The result of the run.
        target: The name of the target.
        history: The results of the tests in earlier runs, or None.
        with_options: Completes the commands that errors name.

    """
    results = [outcome.result for outcome in run.outcomes if outcome.result is not None]
    facts: list[tuple[str, Cell]] = [("run", Verbatim(run.run_id)), ("wrote", _written(results))]
    order: tuple[Section, ...] = ()
    if run.order is not None and run.order.tables:
        facts.append(("services", used_text(run.order, rewritten=run.clustered_bytes)))
        order = (order_section(run.order, note="the due clusterings, and what waits for a later run"),)
    if run.unapplied:
        facts.append(("not applied", f"{', '.join(run.unapplied)}: used as declared"))
    return render_page(
        Page(
            title=f"parquetry run at {target}",
            verdict=_verdict(run),
            facts=Facts(entries=tuple(facts)),
            sections=(
                *order,
                *(
                    _section(table, list(found), with_options)
                    for table, found in groupby(run.outcomes, key=lambda outcome: outcome.table)
                ),
                *(() if run.tests is None else sections_of(run.tests, history, note="tests")),
            ),
        )
    )


def _verdict(run: RunResult) -> Badge:
    jobs = count(len(run.outcomes), "job")
    failed = sum(outcome.error is not None for outcome in run.outcomes)
    tone = _tone(run.outcomes)
    tests = None if run.tests is None or not run.tests.outcomes else tests_verdict(run.tests)
    warned = ", with warnings" if tone is Tone.WARN else ""
    words = f"{failed} of {jobs} failed" if failed else f"{jobs} done{warned}"
    tones = [tone, *([tests.tone] if tests else [])]
    tone = next(tone for tone in (Tone.BAD, Tone.WARN, Tone.GOOD) if tone in tones)
    return Badge(text=f"{words}; {tests.text}" if tests else words, tone=tone)


def _written(results: Sequence[JobResult]) -> str:
    """Return the rows of the commits, and the files and bytes of commits and clusterings."""
    commits = [result.commit for result in results if result.commit is not None]
    rows = [count(sum(commit.rows for commit in commits), "row")] if commits else []
    files = count(sum(result.files_written for result in results), "file")
    return ", ".join([*rows, files, human_size(sum(result.bytes_written for result in results))])


def _section(table: str, outcomes: list[JobOutcome], with_options: Callable[[Text], str]) -> Section:
    tone = _tone(outcomes)
    return Section(
        title=table,
        badges=(Badge(text=_WORDS[tone], tone=tone),),
        tone=tone,
        blocks=tuple(_blocks(table, outcomes, with_options)),
    )


def _tone(outcomes: Sequence[JobOutcome]) -> Tone:
    """Return the tone of the worst outcome."""
    if any(outcome.error is not None for outcome in outcomes):
        return Tone.BAD
    return Tone.WARN if any(map(_warnings, outcomes)) else Tone.GOOD


def _blocks(table: str, outcomes: list[JobOutcome], with_options: Callable[[Text], str]) -> Iterator[Block]:
    rows = tuple(_row(outcome) for outcome in outcomes)
    yield DataTable(caption=f"Jobs of {table}", header=_HEADER, rows=rows, numbers=_NUMBERS)
    if reasons := [f"{o.name}: {with_options(o.error.message)}" for o in outcomes if o.error is not None]:
        yield Lines(texts=tuple(reasons), tone=Tone.BAD)
    if warnings := [f"{o.name}: {warning}" for o in outcomes for warning in _warnings(o)]:
        yield Lines(texts=tuple(warnings), tone=Tone.WARN)
    if done := [f"{o.name}: {done_text(o.result)}" for o in outcomes if _is_service(o) and o.result]:
        yield Lines(texts=tuple(done))
    for outcome in outcomes:
        if outcome.result is not None and outcome.result.clustering is not None:
            queries = outcome.result.clustering.queries
            if queries:
                yield measured_block(queries)


def _row(outcome: JobOutcome) -> tuple[Cell, ...]:
    if outcome.error is not None:
        return (Badge(text="failed", tone=Tone.BAD), outcome.name, *[""] * 6)
    commit = None if outcome.result is None else outcome.result.commit
    if commit is None or commit.instant is None:
        done = outcome.result is not None and (outcome.result.committed or _wrote_entry(outcome.result))
        return (
            Badge(text="done" if done else "nothing new", tone=Tone.GOOD if done else Tone.PLAIN),
            outcome.name,
            *[""] * 6,
        )
    return (
        Badge(text="warned", tone=Tone.WARN) if _warnings(outcome) else Badge(text="done", tone=Tone.GOOD),
        outcome.name,
        *(f"{number:,}" for number in (commit.inserted_rows, commit.updated_rows, commit.deleted_rows)),
        f"{commit.files:,}",
        human_size(commit.bytes_written),
        Verbatim(commit.instant),
    )


def _is_service(outcome: JobOutcome) -> bool:
    result = outcome.result
    return result is not None and result.commit is None and (result.committed or _wrote_entry(result))


def _wrote_entry(result: JobResult) -> bool:
    return result.synced is not None and result.synced.wrote


def _warnings(outcome: JobOutcome) -> tuple[str, ...]:
    result = outcome.result
    if result is None:
        return ()
    texts = (*result.warnings, *(() if result.commit is None else result.commit.warnings))
    return tuple(map(in_full, texts))
