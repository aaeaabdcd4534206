"""A plan in text and JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parquetry.cli.output import Paint
from parquetry.cli.views import count, human_size
from parquetry.compiler.plan import Action, Blocked, Change, ChangeClass, Plan
from parquetry.compiler.plan_codec import plan_json
from parquetry.compiler.words import format_size

_ABSENT = "(none)"
_SHORT_COMMIT = 12
_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """One line per changed field with the place that caused it.

    ``saved`` is where the plan went; ``applying`` leaves out the advice to apply it.
    """

    saved: Path | None = None
    applying: bool = False

    def text(self, outcome: Plan, paint: Paint) -> str:
        """Actions, then what is blocked, the summary, and the next command."""
        lines = [_headline(outcome, paint), ""]
        for action in outcome.intent.actions:
            lines += [*_action(action, outcome, paint), ""]
        for blocked in outcome.intent.blocked:
            lines += [*_blocked(blocked, paint), ""]
        return "\n".join([*lines, paint.bold(_summary(outcome)), *self._next(outcome)])

    def json(self, outcome: Plan) -> Any:
        """The plan as it is saved, without the file's digest."""
        return plan_json(outcome)

    def _next(self, plan: Plan) -> list[str]:
        if plan.intent.blocked:
            return ["Next: resolve what is blocked, or leave these tables out with --exclude."]
        if plan.intent.actions and not self.applying:
            return [f"Next: parquetry apply{f' {self.saved}' if self.saved else ''}"]
        return []


def _headline(plan: Plan, paint: Paint) -> str:
    intent = plan.intent
    commit = f", commit {intent.git_commit[:_SHORT_COMMIT]}" if intent.git_commit else ""
    return paint.dim(f"project {intent.project}, target {intent.target}{commit}")


def _action(action: Action, plan: Plan, paint: Paint) -> Iterator[str]:
    creates = action.change_class is ChangeClass.CREATE
    sign = paint.good("+") if creates else paint.warn("~")
    yield f"{sign} {paint.bold(action.table)}  {action.change_class}"
    if creates:
        yield from _creation(action)
    yield from _change_lines(action.changes, paint)
    figures = plan.evidence.figures.get(action.table)
    if figures is not None and figures.files:
        small = (
            f"{figures.small_files_before} small"
            if figures.small_files_before == figures.small_files_after
            else f"small files {figures.small_files_before} -> {figures.small_files_after}"
        )
        yield f"    now 0 B; {count(figures.files, 'file')}, {human_size(figures.size_bytes)}, {small}"


def _creation(action: Action) -> Iterator[str]:
    spec = action.spec
    key = f"key {', '.join(spec.record_key)}" if spec.record_key else "no key (append only)"
    partitions = f"partitioned by {', '.join(spec.partition_by)}" if spec.partition_by else "unpartitioned"
    yield f"    at {action.location}: {count(len(spec.columns), 'column')}, {key}, {partitions}"
    yield (
        f"    files up to {format_size(spec.sizing.max_file_size_bytes)}, "
        f"filled below {format_size(spec.sizing.small_file_limit_bytes)}"
    )


def _blocked(blocked: Blocked, paint: Paint) -> Iterator[str]:
    yield f"{paint.bad('!')} {paint.bold(blocked.table)}  {paint.bad('blocked')} {blocked.code}"
    yield from _change_lines(blocked.changes, paint)
    yield from _wrapped(blocked.reason)
    yield from _wrapped(f"what to do: {blocked.remedy}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        width=_WIDTH,
        initial_indent="    ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _change_lines(changes: tuple[Change, ...], paint: Paint) -> Iterator[str]:
    shown = [(f"{c.path}: {_shown(c.old)} -> {_shown(c.new)}", c) for c in changes]
    width = max((len(text) for text, _ in shown), default=0)
    for text, change in shown:
        origin = f"  {paint.dim(change.origin)}" if change.origin else ""
        kind = f"  {change.code}" if change.change_class is ChangeClass.BREAKING else ""
        yield f"    {text.ljust(width)}{origin}{kind}".rstrip()


def _shown(value: Any) -> str:
    if value is None or value in ([], {}):
        return _ABSENT
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _summary(plan: Plan) -> str:
    intent = plan.intent
    unchanged = plan.evidence.tables - len(intent.actions) - len(intent.blocked)
    if plan.is_empty:
        return f"No changes: {count(plan.evidence.tables, 'table')} as declared."
    classes = Counter(action.change_class for action in intent.actions)
    parts = [f"{number} {name}" for name, number in sorted(classes.items(), key=lambda item: item[0].rank)]
    if intent.blocked:
        parts.append(f"{len(intent.blocked)} blocked")
    return f"{', '.join(parts)}, {unchanged} unchanged."
