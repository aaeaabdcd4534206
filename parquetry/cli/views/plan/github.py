"""A plan as annotations of a GitHub workflow: each change at the line that causes it."""

from __future__ import annotations

from collections.abc import Iterator

from parquetry.cli.views.plan.commands import typed_options_of, with_options
from parquetry.cli.views.plan.words import kind_of, shown_actions, summary, value_text
from parquetry.compiler.plan.model import Change, PlanDocument
from parquetry.compiler.workspace.target_settings import target_name
from parquetry.project.diagnostics.github import workflow_command

_PARTS = 3


def render_github(plan: PlanDocument, *, prefix: str = "") -> str:
    """Workflow commands: an error for each blocked table, warnings, a notice for each changed field.

    ``prefix`` leads from the repository to the project.
    """
    return "".join(f"{line}\n" for line in _lines(with_options(plan, typed_options_of(plan)), prefix))


def _lines(plan: PlanDocument, prefix: str) -> Iterator[str]:
    def there(origin: str | None) -> str | None:
        return f"{prefix}/{origin}" if prefix and origin else origin

    for blocked in plan.intent.blocked:
        place = next((change.origin for change in blocked.changes if change.origin), None)
        message = f"{blocked.reason}; {blocked.remedy}"
        yield _command("error", there(place), f"{blocked.table} blocked {blocked.code}", message)
    for warning in plan.evidence.warnings:
        title = f"{warning.table} {warning.code}"
        yield _command("warning", there(warning.origin), title, warning.message)
    for entry in plan.intent.target_changes:
        title = f"{target_name(plan.intent.target)} {entry.change.change_class}"
        yield _command("notice", there(entry.change.origin), title, _change(entry.change))
    for action in shown_actions(plan):
        if not action.changes:
            title = f"{action.table} {kind_of(action)}"
            yield _command("notice", None, title, f"{action.table} at {action.location}")
        for change in action.changes:
            title = f"{action.table} {change.change_class}"
            yield _command("notice", there(change.origin), title, _change(change))
    yield _command("notice", None, "parquetry plan", summary(plan))


def _change(change: Change) -> str:
    return f"{change.path}: {value_text(change.old)} -> {value_text(change.new)}"


def annotation(kind: str, origin: str | None, title: str, message: str, *, prefix: str = "") -> str:
    """A workflow command at a place in the project, to which ``prefix`` leads from the repository."""
    return _command(kind, f"{prefix}/{origin}" if prefix and origin else origin, title, message)


def _command(kind: str, origin: str | None, title: str, message: str) -> str:
    return workflow_command(kind, {**_place(origin), "title": title}, message)


def _place(origin: str | None) -> dict[str, str]:
    """``file:line:column`` as properties; nothing for a value that no file says."""
    parts = [] if origin is None else origin.rsplit(":", 2)
    return dict(zip(("file", "line", "col"), parts, strict=True)) if len(parts) == _PARTS else {}
