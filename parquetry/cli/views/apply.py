"""The outcome of apply, in text and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.cli.views.operating.sync import sync_text
from parquetry.cli.views.plan.words import kind_of
from parquetry.compiler.plan.apply import ActionResult, ApplyResult
from parquetry.compiler.plan.model import Step
from parquetry.runtime.spec.codec import to_json_value
from parquetry.text.printable import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyView:
    """One line per table, then the next command with the ``typed_options``."""

    typed_options: TypedOptions

    def text(self, outcome: ApplyResult, paint: Paint) -> str:
        """Return which tables were created, recorded or evolved, and which failed and why."""
        if not outcome.results:
            return "Nothing to apply."
        lines = [_line(result, outcome, paint, self.typed_options) for result in outcome.results]
        run = self.typed_options.into("parquetry", "run")
        done = sum(result.applied is not None for result in outcome.results)
        lines += ["", f"{count(done, 'table')} applied." + (f" Next: {run}" if done else "")]
        return "\n".join(lines)

    def json(self, outcome: ApplyResult) -> Any:
        """Return the plan's id and one entry per table."""
        return {
            "plan_id": outcome.plan.plan_id,
            "tables": [
                {
                    "table": result.action.table,
                    "class": str(result.action.change_class),
                    "applied": result.applied.applied_number if result.applied else None,
                    "steps": [str(step) for step in result.action.steps],
                    "created": result.applied.created if result.applied else False,
                    "rewritten_bytes": result.rewritten.size_bytes,
                    "instant": result.applied.instant if result.applied else None,
                    **({} if result.synced is None else {"synced": to_json_value(result.synced)}),
                    "error": result.error.in_full() if result.error else None,
                }
                for result in outcome.results
            ],
        }


def _line(result: ActionResult, outcome: ApplyResult, paint: Paint, typed_options: TypedOptions) -> str:
    """Return the line of a table, without the error that the command reports on stderr when it ends."""
    name = paint.bold(result.action.table)
    error = "" if result.error is None else one_line(typed_options.with_options(result.error.message))
    if result.applied is None:
        why = "" if result.error is outcome.failure else f": {error}"
        return f"{paint.bad('failed')}   {name}{why}"
    if result.error is not None:
        step = "registering" if Step.SYNC in result.action.steps and result.synced is None else "rewriting"
        why = f"{step} failed: {error}"
        return f"{paint.warn('applied')}  {name}: {kind_of(result.action)}; {why}"
    if result.applied.created:
        return f"{paint.good('created')}  {name}{_synced(result)}"
    evolved = f", schema evolved at {result.applied.instant}" if result.applied.instant else ""
    return (
        f"{paint.good('applied')}  {name}: {kind_of(result.action)}{evolved}{_moved(result)}{_synced(result)}"
    )


def _synced(result: ActionResult) -> str:
    synced = result.synced
    return "" if synced is None else f"; {synced.place}: {sync_text(synced)}"


def _moved(result: ActionResult) -> str:
    moved = result.rewritten
    if not moved.instants:
        return ""
    return f", {moved.files_before} -> {moved.files_after} files rewritten ({human_size(moved.size_bytes)})"
