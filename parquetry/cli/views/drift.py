"""Drift, in text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.compiler.plan.drift import CODES, Drift, TableDrift
from parquetry.message import in_full
from parquetry.runtime.spec.codec import to_json_value


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftView:
    """The tables that have drifted, each difference with its author and a remedy.

    Commands get the ``typed_options``.
    """

    typed_options: TypedOptions = field(default_factory=TypedOptions)

    def text(self, outcome: Sequence[TableDrift], paint: Paint) -> str:
        """Return a block per drifted table, then the summary."""
        blocks = [
            "\n".join([paint.bold(table.table), *_lines(table, paint, self.typed_options)])
            for table in outcome
            if table.drifts
        ]
        refused = [
            f"{paint.bold(table.table)}\n  {in_full(table.refusal)}" for table in outcome if table.refusal
        ]
        return "\n\n".join([*blocks, *refused, _summary(outcome, paint)])

    def json(self, outcome: Sequence[TableDrift]) -> Any:
        """Return all tables, including those without drift."""
        return {"tables": [to_json_value(table) for table in outcome]}


def _lines(table: TableDrift, paint: Paint, typed_options: TypedOptions) -> Iterator[str]:
    for drift in table.drifts:
        has_values = drift.applied is not None or drift.live is not None
        difference = f": {_value(drift.applied)} -> {_value(drift.live)}" if has_values else ""
        yield f"  {paint.warn(drift.code)} {drift.path}"
        yield f"    {CODES[drift.code]}{difference}"
        author = ", ".join(part for part in (drift.writer, drift.instant and f"at {drift.instant}") if part)
        if author:
            yield paint.dim(f"    by {author}" if drift.writer else f"    {author}")
        yield f"    {_help(drift, table, typed_options)}"


def _help(drift: Drift, table: TableDrift, typed_options: TypedOptions) -> str:
    if drift.remedy is not None:
        return in_full(drift.remedy)
    if drift.restorable:
        return f"{typed_options.named('parquetry', 'apply')} restores it"
    location = table.location if ":" in table.location or "/" in table.location else f"./{table.location}"
    adopt = typed_options.without_selection().named("parquetry", "adopt", location)
    return f"{adopt} accepts it into the spec"


def _summary(outcome: Sequence[TableDrift], paint: Paint) -> str:
    found = sum(len(table.drifts) for table in outcome)
    drifted = sum(bool(table.drifts) for table in outcome)
    checked = [table for table in outcome if table.refusal is None]
    pending = [table.table for table in checked if not table.is_applied]
    unapplied = f"; not applied: {', '.join(pending)}" if pending else ""
    applied = len(checked) - len(pending)
    if not found:
        return f"{paint.good('no drift')} in {count(applied, 'applied table')}{unapplied}"
    return f"{count(found, 'difference')} in {drifted} of {count(applied, 'applied table')}{unapplied}"


def _value(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case list():
            return ", ".join(map(str, value)) or "none"
        case _:
            return str(value)
