"""The health of a lake: on one screen, as JSON, as Markdown, and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.terminal.markdown import code, inline
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.compiler.reports.health import HealthLine, HealthStatus, LakeHealth, TableHealth
from parquetry.compiler.reports.page import (
    Badge,
    Commands,
    DataTable,
    Lines,
    Page,
    Section,
    Tone,
    render_page,
)
from parquetry.message import in_full
from parquetry.runtime.spec.codec import to_json_value

_TABLES: Final = ("table", "lines", "queries read too much", "due for clustering", "size", "files")
_NUMBERS: Final = frozenset(range(1, len(_TABLES)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthView:
    """The tables that need attention, the worst first; commands get the ``typed_options``."""

    typed_options: TypedOptions = field(default_factory=TypedOptions)

    def text(self, outcome: LakeHealth, paint: Paint) -> str:
        """Return the summary, a block for each table that needs attention, and what is not applied."""
        blocks = [self._block(table, paint) for table in outcome.needing_attention]
        head = (paint.warn if blocks else paint.good)(_summary(outcome))
        return "\n\n".join([head, *blocks, *_not_applied(outcome)])

    def json(self, outcome: LakeHealth) -> Any:
        """Return every field; commands are lines to type."""
        document = to_json_value(outcome)
        for shown, table in zip(document["tables"], outcome.tables, strict=True):
            for entry, line in zip(shown["lines"], table.lines, strict=True):
                entry["command"] = self._command(line)
        return document

    def markdown(self, outcome: LakeHealth) -> str:
        """Return the summary and a row for each line, in GitHub's Markdown."""
        rows = [
            f"| {code(table.table)} | {_cost(table)} | {code(line.check)} | {inline(in_full(line.reason))} "
            f"| {code(self._command(line))} |\n"
            for table in outcome.needing_attention
            for line in table.lines
        ]
        head = f"### parquetry health at {code(outcome.target)}: {inline(_summary(outcome))}\n"
        header = "\n| table | queries read too much | check | reason | command |\n|---|---|---|---|---|\n"
        body = f"{header}{''.join(rows)}" if rows else ""
        return head + body + "".join(f"\n{inline(text)}\n" for text in _not_applied(outcome))

    def html(self, outcome: LakeHealth) -> str:
        """Return one self-contained page: a row for each table, and sections of those that need attention."""
        worst = outcome.needing_attention
        rows = tuple(_row(table) for table in outcome.tables if table.status is not HealthStatus.NOT_APPLIED)
        lake = DataTable(caption="Tables", header=_TABLES, rows=rows, numbers=_NUMBERS)
        return render_page(
            Page(
                title=f"parquetry health of {outcome.project} at {outcome.target}",
                verdict=Badge(text=_summary(outcome), tone=Tone.WARN if worst else Tone.GOOD),
                lead="".join(_not_applied(outcome)),
                sections=(
                    *([Section(title="Tables", note="the worst first", blocks=(lake,))] if rows else ()),
                    *(self._section(table) for table in worst),
                ),
            )
        )

    def _block(self, table: TableHealth, paint: Paint) -> str:
        cost = _cost(table)
        lines = [f"{paint.bold(table.table)}{cost and f'  queries read {cost} too much'}"]
        for line in table.lines:
            lines.append(f"  {paint.warn(line.check)}: {in_full(line.reason)}")
            lines.append(f"    $ {self._command(line)}")
        return "\n".join(lines)

    def _section(self, table: TableHealth) -> Section:
        is_unread = table.status is HealthStatus.UNREADABLE
        tone, cost = Tone.BAD if is_unread else Tone.WARN, _cost(table)
        return Section(
            title=table.table,
            note=cost and f"queries read {cost} too much",
            badges=tuple(Badge(text=line.check, tone=tone) for line in table.lines),
            tone=tone,
            blocks=tuple(
                block
                for line in table.lines
                for block in (Lines(texts=(in_full(line.reason),)), Commands(text=self._command(line)))
            ),
        )

    def _command(self, line: HealthLine) -> str:
        return self.typed_options.without_selection().into("parquetry", *line.command)


def _summary(health: LakeHealth) -> str:
    worst, tables = len(health.needing_attention), len(health.tables)
    if not worst:
        healthy = len(health.of(HealthStatus.HEALTHY))
        return f"{count(healthy, 'table')} healthy"
    return f"{worst:,} of {count(tables, 'table')} need{'s' if worst == 1 else ''} attention"


def _not_applied(health: LakeHealth) -> Iterator[str]:
    """Yield the names of the tables that are not applied, if there are any."""
    names = [table.table for table in health.of(HealthStatus.NOT_APPLIED)]
    if names:
        yield f"not applied: {', '.join(sorted(names))}"


def _cost(table: TableHealth) -> str:
    """Return what the debt costs the declared queries in a day, or an empty text."""
    return f"{human_size(table.excess_read_bytes)} a day" if table.excess_read_bytes else ""


def _row(table: TableHealth) -> tuple[str, ...]:
    return (
        table.table,
        f"{len(table.lines)}" if table.lines else "",
        _cost(table),
        human_size(table.debt_bytes) if table.debt_bytes else "",
        "" if table.size_bytes is None else human_size(table.size_bytes),
        "" if table.files is None else f"{table.files:,}",
    )
