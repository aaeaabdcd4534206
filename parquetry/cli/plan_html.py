"""A plan as a page for the browser."""

from __future__ import annotations

from parquetry.cli.carried import Carried
from parquetry.cli.outlook_words import outlook_lines
from parquetry.cli.plan_words import (
    cost_text,
    creation_lines,
    due_lines,
    files_text,
    kind_of,
    query_lines,
    small_text,
    steps_line,
    summary,
    value_text,
)
from parquetry.compiler.plan import Action, Blocked, Change, Plan, Step, TableFigures
from parquetry.compiler.plan_page import Card, bars, plan_page, render_page
from parquetry.compiler.review import yaml_diff


def render_html(plan: Plan) -> str:
    """The plan as one self-contained page."""
    blocked = (_blocked(entry, plan) for entry in plan.intent.blocked)
    actions = (_action(action, plan.evidence.figures.get(action.table)) for action in plan.intent.actions)
    outlooks = (plan.evidence.outlooks or {}).items()
    foreseen = ((table, line) for table, outlook in outlooks for line in outlook_lines(outlook))
    due = (*due_lines(plan), *foreseen)
    return render_page(plan_page(plan, (*blocked, *actions), summary=summary(plan), due=due))


def _action(action: Action, figures: TableFigures | None) -> Card:
    notes = list(creation_lines(action)) if Step.CREATE in action.steps else [f"at {action.location}"]
    notes += [f"{c.path}: {c.undeclared}" for c in action.changes if c.undeclared is not None]
    notes += [f"{c.path}: allowed, {c.allowed}" for c in action.changes if c.allowed is not None]
    notes += [
        f"{c.path}: {value_text(c.live)} in the table"
        for c in action.changes
        if c.live not in (None, c.old, c.new)
    ]
    has_files = figures is not None and figures.files > 0
    if figures is not None and has_files:
        notes += [
            cost_text(action, figures.debt),
            f"{files_text(figures)}, {small_text(figures)}",
            *query_lines(figures),
        ]
    return Card(
        name=action.table,
        kind=f"{kind_of(action)} {action.code}",
        css=str(action.change_class),
        notes=(*notes, steps_line(action)),
        origins=_origins(action.changes),
        diff=yaml_diff(action),
        bars=bars(figures.sizes_before, figures.sizes_after) if figures is not None and has_files else (),
    )


def _blocked(entry: Blocked, plan: Plan) -> Card:
    carried = Carried(target=plan.intent.target)
    return Card(
        name=entry.table,
        kind=f"blocked {entry.code}",
        css="blocked",
        notes=(entry.reason, f"what to do: {entry.remedy}"),
        origins=_origins(entry.changes),
        diff=yaml_diff(entry),
        recipe=tuple((step.text, "\n".join(carried.recipe(step.commands))) for step in entry.recipe),
    )


def _origins(changes: tuple[Change, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((change.path, change.origin) for change in changes if change.origin is not None)
