"""A plan as a page for the browser."""

from __future__ import annotations

from parquetry.cli.views.plan.commands import commands_again, typed_options_of, with_options
from parquetry.cli.views.plan.forecast import due_entries
from parquetry.cli.views.plan.words import (
    QUERY_HEADER,
    blocked_text,
    change_notes,
    cost_text,
    files_line,
    kind_of,
    place_lines,
    query_note,
    query_rows,
    shown_actions,
    sql_lines,
    steps_line,
    summary,
    target_groups,
    target_kind,
    value_text,
)
from parquetry.compiler.plan.changes import highest
from parquetry.compiler.plan.model import Blocked, Change, PlanDocument, TableAction
from parquetry.compiler.reports.plan_page import Card, bars, plan_page, render_page
from parquetry.compiler.reports.review import settings_diff, yaml_diff
from parquetry.compiler.workspace.target_settings import target_name


def render_html(plan: PlanDocument) -> str:
    """The plan as one self-contained page."""
    plan = with_options(plan, typed_options_of(plan))
    blocked = (_blocked(entry, plan) for entry in plan.intent.blocked)
    target = (_target(plan),) if plan.intent.target_changes else ()
    actions = (_action(action, plan) for action in shown_actions(plan))
    page = plan_page(
        plan,
        (*blocked, *target, *actions),
        blocked=blocked_text(plan),
        summary=summary(plan),
        due=tuple(due_entries(plan)),
        drift=tuple((d.path, f"{value_text(d.old)} -> {value_text(d.live)}") for d in plan.evidence.drift),
        commands=commands_again(plan),
    )
    return render_page(page)


def _target(plan: PlanDocument) -> Card:
    changes = tuple(entry.change for entry in plan.intent.target_changes)
    tables = [f"{', '.join(c.path for c in found)}: {text}" for found, text in target_groups(plan)]
    return Card(
        name=target_name(plan.intent.target),
        kind=target_kind(plan),
        css=str(highest(changes)),
        notes=(*_notes(changes), *tables),
        origins=_origins(changes),
        diff=settings_diff(changes),
    )


def _action(action: TableAction, plan: PlanDocument) -> Card:
    figures = plan.evidence.figures.get(action.table)
    notes = place_lines(action) or [f"at {action.location}"]
    notes += _notes(action.changes)
    has_files = figures is not None and figures.files > 0
    has_queries = figures is not None and has_files and bool(figures.queries)
    if figures is not None and has_files:
        notes += [
            cost_text(action, figures.debt),
            files_line(figures),
        ]
    return Card(
        name=action.table,
        kind=f"{kind_of(action)} {action.code}",
        css=str(action.change_class),
        notes=(*notes, *sql_lines(action, plan), steps_line(action)),
        origins=_origins(action.changes),
        diff=yaml_diff(action),
        bars=bars(figures.sizes_before, figures.sizes_after) if figures is not None and has_files else (),
        queries=(QUERY_HEADER, *query_rows(figures)) if has_queries and figures is not None else (),
        query_note=query_note(figures) if has_queries and figures is not None else "",
    )


def _blocked(entry: Blocked, plan: PlanDocument) -> Card:
    typed_options = typed_options_of(plan)
    return Card(
        name=entry.table,
        kind=f"blocked {entry.code}",
        css="blocked",
        notes=(*_notes(entry.changes), entry.reason, f"what to do: {entry.remedy}"),
        origins=_origins(entry.changes),
        diff=yaml_diff(entry),
        recipe=tuple((step.text, "\n".join(typed_options.recipe(step.commands))) for step in entry.recipe),
    )


def _notes(changes: tuple[Change, ...]) -> list[str]:
    return [f"{change.path}: {note}" for change in changes for note in change_notes(change)]


def _origins(changes: tuple[Change, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((change.path, change.origin) for change in changes if change.origin is not None)
