"""The queries that were learned from logs, and the change of the tables' files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.message import in_full
from parquetry.runtime.spec.codec import to_json_value

if TYPE_CHECKING:  # the command loads its own
    from parquetry.compiler.learning.proposal import Learned, LearnedQuery, LearnedTable

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnView:
    """The tables with their queries, what was not understood, and the change."""

    typed_options: TypedOptions = field(default_factory=TypedOptions)

    def text(self, outcome: Learned, paint: Paint) -> str:
        """Return the counts, a block for each table, other locations, and the differences of the files."""
        blocks = [
            "\n".join(_counts(outcome, paint)),
            *("\n".join(_table(table, paint)) for table in outcome.tables),
            "\n".join(_others(outcome)),
            *("\n".join(table.diff) for table in outcome.tables),
            "\n".join(self._end(outcome, paint)),
        ]
        return "\n\n".join(filter(None, blocks))

    def json(self, outcome: Learned) -> Any:
        """Return every field."""
        return to_json_value(outcome)

    def _end(self, outcome: Learned, paint: Paint) -> Iterator[str]:
        if outcome.written:
            yield from (f"{paint.good('wrote')}  {file}" for file in outcome.written)
            yield f"Next: {self.typed_options.into('parquetry', 'plan')}"
        elif any(table.diff for table in outcome.tables):
            yield "Nothing was written. With --write, the command changes the files."
        elif any(table.problem for table in outcome.tables):
            yield "nothing was written"
        elif outcome.tables:
            yield paint.good("the files declare what the logs ask")
        else:
            yield "no table of the project was read; name its location in the logs with --at TABLE=LOCATION"


def _counts(outcome: Learned, paint: Paint) -> Iterator[str]:
    yield (
        f"{count(outcome.logs, 'log')}: {count(outcome.queries, 'execution')}, "
        f"{count(outcome.scans, 'scan')} of files with {count(outcome.filters, 'filter')}"
    )
    if outcome.filters:
        understood = (outcome.conditions + outcome.at_runtime) / outcome.filters
        yield (
            f"  understood  {understood:.1%} of the filters: {count(outcome.conditions, 'condition')}, "
            f"{outcome.at_runtime:,} by values that another part of the query found"
        )
    for each in outcome.not_understood:
        yield f"  {paint.warn('not understood')}  {each.filters:,}: {each.reason}"
    if outcome.events_not_understood:
        number = count(outcome.events_not_understood, "line")
        yield f"  {paint.warn('not understood')}  {number} of the logs"
    if outcome.failed:
        yield f"  {paint.warn('not counted')}  {count(outcome.failed, 'statement')} that failed"
    for name in outcome.ambiguous:
        yield (
            f"  {paint.warn('not counted')}  {name}: several catalogs in the logs have its name; say which "
            f"with --at {name}=CATALOG.SCHEMA.TABLE"
        )
    for file in outcome.broken_off[:_SHOWN]:
        yield f"  {paint.warn('broken off')}  {file}: read up to there"
    for log in outcome.without_events[:_SHOWN]:
        yield f"  {paint.warn('no events')}  {log}"


def _table(table: LearnedTable, paint: Paint) -> Iterator[str]:
    yield (
        f"{paint.bold(table.table)}: {count(table.scans, 'scan')} of {human_size(table.read_bytes)} of "
        f"files, of which the queries cover {_share(table.covered_bytes, table)}"
    )
    if table.unsized_scans:
        yield f"  the size of {count(table.unsized_scans, 'scan')} is not known"
    if table.problem:
        yield f"  {paint.warn('not changed')}  {in_full(table.problem)}"
    for query in table.queries:
        yield from _query(query, table)
    if table.unconditional_scans:
        yield (
            f"  without a condition that is understood: {count(table.unconditional_scans, 'scan')}, "
            f"{_share(table.unconditional_bytes, table)} of the bytes"
        )
    for each in table.unproposed[:_SHOWN]:
        shape = f"{each.shape}: " if each.shape else ""
        yield f"  {paint.warn('not proposed')}  {shape}{count(each.runs, 'scan')}, as {each.reason}"
    if len(table.unproposed) > _SHOWN:
        yield f"  {paint.warn('not proposed')}  {len(table.unproposed) - _SHOWN:,} more"
    if table.not_seen:
        yield f"  declared, but in no log: {', '.join(table.not_seen)}"


def _query(query: LearnedQuery, table: LearnedTable) -> Iterator[str]:
    passed = query.selectivity
    share = (
        ""
        if passed is None
        else f", {passed.low:.2g} to {passed.high:.2g} of the rows pass (median {passed.median:.2g})"
    )
    change = "" if query.change == "none" else query.change
    yield f"  {change:<6}  {query.name}: {query.shape}"
    yield (
        f"          weight {query.weight:g}, {count(query.runs, 'scan')}, "
        f"{_share(query.read_bytes, table)} of the bytes{share}"
    )
    if query.masked:
        yield f"          parts on personal columns are left out: {', '.join(query.masked)}"


def _others(outcome: Learned) -> Iterator[str]:
    if not outcome.others:
        return
    yield "read, but not in the project:"
    for other in outcome.others[:_SHOWN]:
        where = other.location or "without a location"
        yield f"  {where}: {count(other.scans, 'scan')}, {human_size(other.read_bytes)}"
    if len(outcome.others) > _SHOWN:
        yield f"  {len(outcome.others) - _SHOWN:,} more"


def _share(size_bytes: int, table: LearnedTable) -> str:
    return f"{size_bytes / table.read_bytes:.0%}" if table.read_bytes else "an unknown share"
