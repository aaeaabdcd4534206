"""A plan as annotations of a GitHub workflow, each change at the line that causes it."""

from __future__ import annotations

from collections.abc import Iterator

from parquetry.cli.views.diagnostics import annotation
from parquetry.cli.views.plan.commands import with_own_options
from parquetry.cli.views.plan.source_changes import grouped_changes
from parquetry.cli.views.plan.words import (
    authority_lines,
    change_text,
    kind_of,
    shown_actions,
    summary,
    uncommitted_text,
)
from parquetry.compiler.plan.model import PlanDocument
from parquetry.compiler.security.allowed_settings import target_name
from parquetry.message import in_full


def render_github(plan: PlanDocument, *, prefix: str = "") -> str:
    """Return workflow commands: errors for blocked tables, warnings, and a notice for each changed field.

    ``prefix`` is the project's path in the repository.
    """
    return "".join(f"{line}\n" for line in _lines(with_own_options(plan), prefix))


def _lines(plan: PlanDocument, prefix: str) -> Iterator[str]:
    for blocked in plan.intent.blocked:
        origin = next((change.origin for change in blocked.changes if change.origin), None)
        message = f"{in_full(blocked.reason)}; {in_full(blocked.remedy)}"
        yield annotation("error", origin, f"{blocked.table} blocked {blocked.code}", message, prefix=prefix)
    for warning in plan.evidence.warnings:
        title = f"{warning.table} {warning.code}"
        yield annotation("warning", warning.origin, title, in_full(warning.message), prefix=prefix)
    for sign, text in authority_lines(plan):
        yield annotation("notice", None, "authority", f"{sign} {text}")
    for entry in plan.intent.target_changes:
        title = f"{target_name(plan.intent.target)} {entry.change.change_class}"
        yield annotation("notice", entry.change.origin, title, change_text(entry.change), prefix=prefix)
    for action in shown_actions(plan):
        if not action.changes:
            title = f"{action.table} {kind_of(action)}"
            yield annotation("notice", None, title, f"{action.table} at {action.location}")
        for change in grouped_changes(action.changes):
            title = f"{action.table} {change.change_class}"
            yield annotation("notice", change.origin, title, change_text(change), prefix=prefix)
    if text := uncommitted_text(plan):
        yield annotation("warning", None, "parquetry plan", text)
    yield annotation("notice", None, "parquetry plan", summary(plan))
