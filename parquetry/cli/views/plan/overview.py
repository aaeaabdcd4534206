"""The summary of a plan: the verdict, and one line for each question that a reviewer asks first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.views.plan.words import (
    authority_lines,
    authority_text,
    blocked_text,
    kind_of,
    shown_actions,
    unchanged_tables,
    uncommitted_text,
)
from parquetry.compiler.evidence.model import DueFigures, QueryFigures
from parquetry.compiler.plan.guarding import DENIED
from parquetry.compiler.plan.model import ChangeClass, PlanDocument, Step, TableAction
from parquetry.compiler.reports.costs import cost_rows
from parquetry.compiler.spec_words import human_duration
from parquetry.project.guardrails.model import RuleOutcome

_NAMED: Final = 6
_COMPARED: Final = 3


def verdict(plan: PlanDocument) -> str:
    """Return the most important facts, such as ``blocked by 1 table; 2 tables change, none breaking``."""
    intent = plan.intent
    changed = len(intent.actions)
    parts = [blocked_text(plan)] if intent.blocked else []
    if changed:
        tables = f"{count(changed, 'table')} change{'s' if changed == 1 else ''}"
        parts.append(f"{tables}, {_reach(plan)}")
    if text := authority_text(plan):
        parts.append(text)
    if not parts:
        parts.append(f"no changes, {count(plan.evidence.tables, 'table')} as declared")
    return "; ".join(parts)


def overview(plan: PlanDocument) -> list[tuple[str, str]]:
    """Return a name and a line for each question of a reviewer, if the plan has an answer."""
    lines = [
        ("uncommitted", uncommitted_text(plan)),
        ("authority", _authority(plan)),
        ("tables", _tables(plan)),
        ("rewritten", _rewritten(plan)),
        ("costs", _costs(plan)),
        ("queries", _queries(plan)),
        ("tests", _tests(plan)),
        ("guardrails", _guardrails(plan)),
        ("warnings", ", ".join(_counted(warning.code for warning in plan.evidence.warnings))),
        ("drift", count(len(plan.evidence.drift), "field") if plan.evidence.drift else ""),
    ]
    return [(name, text) for name, text in lines if text]


def is_breaking(action: TableAction) -> bool:
    """Return whether applying the action may lose data, break readers, or execute the code of others."""
    return action.change_class in (ChangeClass.BREAKING, ChangeClass.EXECUTES)


def _reach(plan: PlanDocument) -> str:
    classes = [action.change_class for action in plan.intent.actions]
    breaking, executing = classes.count(ChangeClass.BREAKING), classes.count(ChangeClass.EXECUTES)
    converted = classes.count(ChangeClass.FORMAT)
    parts = [f"{breaking} breaking"] if breaking else ["none breaking"]
    parts += [f"{converted} to another table version"] if converted else []
    parts += [f"{executing} executing other code"] if executing else []
    return ", ".join(parts)


def _tables(plan: PlanDocument) -> str:
    kinds = [(f"blocked {entry.code}", entry.table) for entry in plan.intent.blocked]
    actions = sorted(shown_actions(plan), key=lambda action: -action.change_class.rank)
    kinds += [(kind_of(action), action.table) for action in actions]
    parts = [
        f"{kind}: {_names([name for _, name in entries])}"
        for kind, entries in (
            (kind, list(found)) for kind, found in groupby(kinds, key=lambda entry: entry[0])
        )
    ]
    settings = len(plan.intent.actions) - len(actions)
    parts += [f"settings of the target alone: {count(settings, 'table')}"] if settings else []
    unchanged = unchanged_tables(plan)
    parts += [f"unchanged: {unchanged}"] if unchanged else []
    return "; ".join(parts)


def _authority(plan: PlanDocument) -> str:
    return _names(
        [
            f"{sign} {change.name}"
            for (sign, _), change in zip(authority_lines(plan), plan.intent.authority, strict=True)
        ]
    )


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _rewritten(plan: PlanDocument) -> str:
    """Return the bytes that apply rewrites, and those that the policies of the changed tables make due."""
    now = due = seconds = 0
    for action in plan.intent.actions:
        debt = _debt(action, plan)
        if debt is None:
            continue
        at_once = _at_once(action, debt)
        now, due = now + at_once, due + debt.rewrite_bytes - at_once
        seconds += debt.seconds or 0
    later = f"; {human_size(due)} by later runs" if due else ""
    duration = f", about {human_duration(seconds)} in all at past throughput" if seconds else ""
    return f"{human_size(now)} by apply{later}{duration}" if plan.intent.actions else ""


def _debt(action: TableAction, plan: PlanDocument) -> DueFigures | None:
    figures = plan.evidence.figures.get(action.table)
    return None if figures is None else figures.debt


def _at_once(action: TableAction, debt: DueFigures) -> int:
    if Step.REWRITE not in action.steps:
        return 0
    limit = action.max_rewrite_bytes
    return debt.rewrite_bytes if limit is None else min(limit, debt.rewrite_bytes)


def _costs(plan: PlanDocument) -> str:
    rows = cost_rows(plan)
    if not rows:
        return ""
    row = rows[-1]
    return (
        f"{row.one_off} once; a month: storage {row.storage}, queries {row.queries}; pays back {row.pay_back}"
    )


def _queries(plan: PlanDocument) -> str:
    """Return how many declared queries read more, less or as much, with the largest differences in bytes."""
    found = [
        (action.table, query)
        for action in plan.intent.actions
        if (figures := plan.evidence.figures.get(action.table)) is not None
        for query in figures.queries
    ]
    worse = [(table, query) for table, query in found if _gain(query) < 0]
    better = [(table, query) for table, query in found if _gain(query) > 0]
    same = len(found) - len(worse) - len(better)
    parts = [f"{len(worse)} worse: {_compared(worse)}"] if worse else []
    parts += [f"{len(better)} better: {_compared(better)}"] if better else []
    parts += [f"{same} as before"] if same else []
    return "; ".join(parts)


def _gain(query: QueryFigures) -> int:
    """Return the number of bytes that the query no longer reads, or that of rows if the bytes are equal."""
    now, expected = query.now, query.expected
    return now.data_bytes - expected.data_bytes or now.rows - expected.rows


def _compared(queries: list[tuple[str, QueryFigures]]) -> str:
    ordered = sorted(queries, key=lambda entry: -abs(_gain(entry[1])))
    texts = [
        f"{table}.{query.query} {human_size(query.now.data_bytes)} -> {human_size(query.expected.data_bytes)}"
        for table, query in ordered[:_COMPARED]
    ]
    more = f" and {len(ordered) - _COMPARED} more" if len(ordered) > _COMPARED else ""
    return f"{', '.join(texts)}{more}"


def _tests(plan: PlanDocument) -> str:
    """Return how many tests the changed tables declare, and which tables declare none."""
    declared = {
        action.table: len(action.spec.extra.tests)
        for action in shown_actions(plan)
        if Step.FORGET not in action.steps
    }
    if not any(declared.values()):
        return ""
    without = [name for name, number in declared.items() if not number]
    none = f"; none for {_names(without)}" if without else ""
    return f"{sum(declared.values())} declared{none}"


def _guardrails(plan: PlanDocument) -> str:
    verdicts = [verdict for action in plan.intent.actions for verdict in action.guardrails or ()]
    allowed = [verdict.guardrail for verdict in verdicts if verdict.allowed is not None]
    warned = [
        verdict.guardrail
        for verdict in verdicts
        if verdict.allowed is None and verdict.severity is RuleOutcome.WARN
    ]
    denied = sum(entry.code == DENIED for entry in plan.intent.blocked)
    parts = [f"{count(denied, 'table')} denied"] if denied else []
    parts += [f"overridden: {_names([*_counted(allowed)])}"] if allowed else []
    parts += [f"warned: {_names([*_counted(warned)])}"] if warned else []
    return "; ".join(parts)


def _counted(names: Iterable[str]) -> Iterator[str]:
    """Yield each name once, followed by the number of its occurrences if there are several."""
    found = list(names)
    for name in dict.fromkeys(found):
        times = found.count(name)
        yield name if times == 1 else f"{name} ({times})"
