"""A plan in text and JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.cli.terminal.wrap import join_units, split_units, terminal_width
from parquetry.cli.views.deletions import file_lines
from parquetry.cli.views.plan.commands import with_options
from parquetry.cli.views.plan.forecast import forecast_lines, has_figures_after_apply
from parquetry.cli.views.plan.source_changes import grouped_changes
from parquetry.cli.views.plan.words import (
    authority_lines,
    authority_text,
    blocked_text,
    change_text,
    commit_text,
    cost_text,
    drift_line,
    due_lines,
    due_tables,
    excluded_lines,
    figures_of,
    files_line,
    kind_of,
    location_lines,
    meta_columns_text,
    query_lines,
    replay_text,
    run_lines,
    shown_actions,
    steps_line,
    summary,
    target_groups,
    target_kind,
    uncommitted_text,
    value_text,
    warning_text,
)
from parquetry.cli.views.run_order import order_text
from parquetry.cli.views.scope import scope_lines
from parquetry.compiler.evidence.model import TableFigures
from parquetry.compiler.plan.codec import plan_json
from parquetry.compiler.plan.model import (
    Blocked,
    Change,
    PlanDocument,
    RecipeStep,
    Step,
    TableAction,
)
from parquetry.compiler.reports.costs import cost_lines, total_line
from parquetry.compiler.security.allowed_settings import target_name
from parquetry.message import in_full
from parquetry.text import shell


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """One line per changed field with the place that caused it.

    ``saved`` is the file of the plan. ``applying`` leaves out the advice to apply it. ``typed_options`` are
    added to the commands that are printed. ``verbose`` shows all tables and all partitions whose scopes were
    compared.
    """

    saved: Path | None = None
    applying: bool = False
    typed_options: TypedOptions = field(default_factory=TypedOptions)
    verbose: bool = False

    def text(self, outcome: PlanDocument, paint: Paint) -> str:
        """Return the actions, blocked tables, due work, warnings, the summary, and the next command."""
        outcome = with_options(outcome, self.typed_options)
        uncommitted = uncommitted_text(outcome)
        lines = [_headline(outcome, paint), *(_warning(uncommitted, paint) if uncommitted else ()), ""]
        if outcome.intent.authority:
            lines += [*_authority(outcome, paint), ""]
        if outcome.intent.target_changes:
            lines += [*_target(outcome, paint), ""]
        for action in shown_actions(outcome):
            lines += [*_action(action, outcome, paint), ""]
        for blocked in outcome.intent.blocked:
            lines += [*_blocked(blocked, paint, self.typed_options), ""]
        if outcome.evidence.due is not None:
            lines += [*_due(outcome, paint, self.typed_options, verbose=self.verbose), ""]
        for warning in outcome.evidence.warnings:
            lines += [*_warning(warning_text(warning), paint), ""]
        if outcome.evidence.drift:
            lines += [*_wrapped(self.typed_options.with_options(drift_line(outcome)), indent=0), ""]
        if total := total_line(outcome):
            lines += [*_wrapped(total, indent=0), ""]
        return "\n".join([*lines, paint.bold(summary(outcome)), *self._next(outcome)])

    def json(self, outcome: PlanDocument) -> Any:
        """Return the plan as it is saved, without the file's digest."""
        return plan_json(outcome)

    def _next(self, plan: PlanDocument) -> list[str]:
        if plan.intent.blocked:
            if any(blocked.blocks_target for blocked in plan.intent.blocked):
                return ["Next: resolve what is blocked."]
            return ["Next: resolve what is blocked, or leave these tables out with --exclude."]
        if plan.intent.actions and plan.evidence.options.base is not None:
            return ["Next: review the changes; they are applied after the merge."]
        if plan.intent.actions and not self.applying:
            return [f"Next: {self._apply()}"]
        if plan.is_empty and plan.evidence.tables_with_work:
            return [f"Next: {self.typed_options.into('parquetry', 'run')}"]
        return []

    def _apply(self) -> str:
        """Return the command to apply the plan; a saved plan is applied without selectors, as a whole."""
        if self.saved is None:
            return self.typed_options.into("parquetry", "apply")
        return self.typed_options.without_selection().into(
            "parquetry", "apply", shell.path_word(str(self.saved))
        )


def _headline(plan: PlanDocument, paint: Paint) -> str:
    base = plan.evidence.options.base
    against = "" if base is None else f"untrusted, base {base or 'the default branch of origin'}"
    words = (f"project {plan.intent.project}", f"target {plan.intent.target}", commit_text(plan), against)
    made = paint.dim(", ".join(word for word in words if word))
    blocked = blocked_text(plan)
    return f"{paint.bad(blocked)}, {made}" if blocked else made


def _warning(text: str, paint: Paint) -> list[str]:
    return _wrapped(text, indent=0, first=f"{paint.warn('warning')} ")


def _action(action: TableAction, plan: PlanDocument, paint: Paint) -> Iterator[str]:
    yield f"{_sign(action, paint)} {paint.bold(action.table)}  {kind_of(action)}"
    yield from (f"    {line}" for line in location_lines(action))
    yield from _change_lines(action.changes, paint)
    if (figures := figures_of(action, plan)) is not None:
        yield from _figures(action, figures)
    for line in run_lines(action, plan):
        yield from _wrapped(line)
    yield f"    {steps_line(action)}"


def _authority(plan: PlanDocument, paint: Paint) -> Iterator[str]:
    yield f"{paint.warn('~')} {paint.bold('authority')}  {authority_text(plan)}"
    for sign, text in authority_lines(plan):
        yield from _wrapped(f"{sign} {text}")


def _target(plan: PlanDocument, paint: Paint) -> Iterator[str]:
    yield f"{paint.warn('~')} {paint.bold(target_name(plan.intent.target))}  {target_kind(plan)}"
    for changes, tables in target_groups(plan):
        yield from _change_lines(changes, paint)
        yield from _wrapped(tables)


def _sign(action: TableAction, paint: Paint) -> str:
    if Step.CREATE in action.steps:
        return paint.good("+")
    return paint.dim("-") if Step.FORGET in action.steps else paint.warn("~")


def _figures(action: TableAction, figures: TableFigures) -> Iterator[str]:
    yield from _wrapped(cost_text(action, figures.debt))
    yield f"    {files_line(figures)}"
    for line in query_lines(figures):
        yield from _wrapped(line)
    for line in [] if figures.costs is None else cost_lines(figures.costs):
        yield from _wrapped(line)
    for sentence in filter(None, (meta_columns_text(figures), replay_text(figures.replay))):
        yield from _wrapped(sentence)


def _due(plan: PlanDocument, paint: Paint, typed_options: TypedOptions, *, verbose: bool) -> Iterator[str]:
    """Yield the due work of tables under their applied policies, and the new files of their sources."""
    yield paint.bold("due")
    if (order := plan.evidence.order) is not None and order.tables:
        yield from _wrapped(order_text(order))
    shown = due_tables(plan)
    lines = [(name, text) for name, text in due_lines(plan) if verbose or name in shown]
    excluded, forecasts = plan.evidence.excluded or {}, plan.evidence.forecasts or {}
    deletions = plan.evidence.deletions or {} if verbose else {}
    width = max((len(name) for name, _ in lines), default=0)
    for place, (name, text) in enumerate(lines):
        yield from _wrapped(f"{name.ljust(width)}  {text}")
        is_last = place + 1 == len(lines) or lines[place + 1][0] != name
        if is_last and name in deletions:
            for line in file_lines(deletions[name]):
                yield from _wrapped(line, indent=6)
        if is_last and name in forecasts:
            yield from _forecast(name, plan, paint, verbose=verbose)
        if is_last and name in excluded and excluded[name].total:
            yield "      left as they are:"
            for left in excluded_lines(name, excluded[name]):
                yield from _wrapped(typed_options.with_options(left), indent=8)
    if not plan.evidence.due and not lines:
        yield "    no table is applied"
    elif hidden := len({name for name, _ in due_lines(plan)} - {name for name, _ in lines}):
        yield f"    nothing for {count(hidden, 'other table' if lines else 'table')}; -v lists all"


def _forecast(table: str, plan: PlanDocument, paint: Paint, *, verbose: bool) -> Iterator[str]:
    forecast = (plan.evidence.forecasts or {})[table]
    for line in forecast_lines(forecast, changes=has_figures_after_apply(table, plan)):
        yield from _wrapped(line, indent=6)
    yield from scope_lines(forecast.scopes, paint, verbose=verbose, indent=6)


def _blocked(blocked: Blocked, paint: Paint, typed_options: TypedOptions) -> Iterator[str]:
    yield f"{paint.bad('!')} {paint.bold(blocked.table)}  {paint.bad('blocked')} {blocked.code}"
    yield from _change_lines(blocked.changes, paint)
    yield from _wrapped(in_full(blocked.reason))
    yield from _wrapped(f"what to do: {in_full(blocked.remedy)}")
    for number, step in enumerate(blocked.recipe, start=1):
        if number == 1 and typed_options.directory is not None:
            yield f"         $ {shell.line('cd', shell.path_word(str(typed_options.directory)))}"
        yield from _recipe_step(number, step, typed_options)


def _recipe_step(number: int, step: RecipeStep, typed_options: TypedOptions) -> Iterator[str]:
    yield from _wrapped(f"{number}. {step.text}", indent=6, hang=3)
    yield from (f"         $ {command}" for command in typed_options.recipe(step.commands))


def _wrapped(text: str, *, indent: int = 4, hang: int = 2, first: str = "") -> list[str]:
    lines = textwrap.wrap(
        join_units(text),
        width=terminal_width(),
        initial_indent=" " * indent + first,
        subsequent_indent=" " * (indent + hang),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [split_units(line) for line in lines]


def _change_lines(changes: tuple[Change, ...], paint: Paint) -> Iterator[str]:
    """Yield a line for each change; if the places do not fit beside the values, they go below them."""
    shown = [(f"{change_text(change)}{_live(change)}", change) for change in grouped_changes(changes)]
    beside = max((len(text) for text, _ in shown), default=0)
    places = max((len(_origin_text(change)) for _, change in shown), default=0)
    fits = 4 + beside + 2 + places <= terminal_width()
    for text, change in shown:
        place = _origin_text(change)
        if fits or not place:
            yield f"    {text.ljust(beside if place else 0)}  {paint.dim(place)}".rstrip()
        else:
            yield from _wrapped(text, hang=4)
            yield f"        {paint.dim(place)}"
        if change.note is not None:
            yield from _wrapped(in_full(change.note), indent=8)
        if change.allowed is not None:
            yield from _wrapped(f"allowed: {change.allowed}", indent=8)


def _live(change: Change) -> str:
    if change.live is None or change.live in (change.old, change.new):
        return ""
    return f" (live: {value_text(change.live)})"


def _origin_text(change: Change) -> str:
    kind = change.code if change.needs_allow_entry else ""
    return "  ".join(word for word in (change.origin or "", kind) if word)
