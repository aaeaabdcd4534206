"""A difference of specs as a comment on a pull request, within a limit of bytes, and as annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.markdown import code, code_html, inline
from parquetry.cli.views.diagnostics import annotation
from parquetry.cli.views.plan.source_changes import grouped_changes
from parquetry.cli.views.plan.words import change_notes, classes_text, value_text
from parquetry.compiler.plan.model import Change
from parquetry.compiler.reports.diff import DiffStatus, GuardrailDiff, SpecDiff, TableDiff, TargetDiff
from parquetry.compiler.workspace.target_settings import target_name

_ROOM_FOR_NOTE = 100


def render_diff_markdown(diff: SpecDiff, *, max_bytes: int) -> str:
    """Return the difference in GitHub's Markdown, at most ``max_bytes`` long in UTF-8.

    The first line is a marker for project and target. Omitted entries are counted.
    """
    tables = sorted(diff.tables, key=lambda table: (not _blocks(table), table.table))
    entries: list[GuardrailDiff | TableDiff | TargetDiff] = [*diff.guardrails, *diff.targets, *tables]
    found = count(len(entries) + (diff.default_target is not None), "difference")
    text = (
        f"<!-- parquetry:diff project={diff.project} target={diff.target} -->\n"
        f"### parquetry: specs for {code(diff.target)} against {code(diff.base)}: {found}\n\n"
        "No table was opened. What apply would do is in a plan.\n"
    )
    if diff.default_target is not None:
        text += f"\n{_line(diff.default_target)}"
    for number, entry in enumerate(entries):
        section = _rule_section(entry) if isinstance(entry, GuardrailDiff) else _section(entry, diff.target)
        if len((text + section).encode()) > max_bytes - _ROOM_FOR_NOTE:
            return f"{text}\n*Omitted for lack of space: {count(len(entries) - number, 'difference')}.*\n"
        text += section
    return text


def render_diff_github(diff: SpecDiff, *, prefix: str = "") -> str:
    """Return workflow commands: an error for each blocked entry, a notice for each changed field."""
    return "".join(f"{line}\n" for line in _annotations(diff, prefix))


def _annotations(diff: SpecDiff, prefix: str) -> Iterator[str]:
    entries: list[TableDiff | TargetDiff] = [*diff.targets, *diff.tables]
    for entry in entries:
        name = _name(entry)
        origin = next((change.origin for change in entry.changes if change.origin), None)
        for reason in _blocks(entry):
            yield annotation("error", origin, f"{name} blocked", reason, prefix=prefix)
        for change in grouped_changes(entry.changes):
            title = f"{name} {change.change_class}"
            yield annotation("notice", change.origin, title, _change(change), prefix=prefix)
        if not entry.changes:
            yield annotation("notice", None, name, _status(entry), prefix=prefix)
    for rule in diff.guardrails:
        origin = None if rule.status is DiffStatus.REMOVED else f"{rule.file}:1:1"
        changes = "; ".join(f"{c.path}: {value_text(c.old)} -> {value_text(c.new)}" for c in rule.changes)
        yield annotation("notice", origin, _rule_title(rule), changes or rule.file, prefix=prefix)
    if diff.default_target is not None:
        change = diff.default_target
        yield annotation("notice", change.origin, "default target", _change(change), prefix=prefix)


def _section(entry: TableDiff | TargetDiff, target: str) -> str:
    blocks = "".join(f"- **blocked**: {inline(reason)}\n" for reason in _blocks(entry))
    changes = "".join(map(_line, grouped_changes(entry.changes)))
    title = f"{code_html(_name(entry))}: {_status(entry)}"
    body = f"{blocks}{changes}" or f"- {_added(entry, target)}\n"
    return f"\n<details{' open' if blocks else ''}><summary>{title}</summary>\n\n{body}\n</details>\n"


def _rule_section(rule: GuardrailDiff) -> str:
    """Return the section of a guardrail, unfolded because it changes which plans are denied."""
    lines = [f"{code(c.path)}: {code(value_text(c.old))} -> {code(value_text(c.new))}" for c in rule.changes]
    body = "".join(f"- {line}\n" for line in (*lines, code(rule.file)))
    return f"\n<details open><summary>{code_html(_rule_title(rule))}</summary>\n\n{body}\n</details>\n"


def _rule_title(rule: GuardrailDiff) -> str:
    return f"guardrail {rule.guardrail} {rule.status}"


def _added(entry: TableDiff | TargetDiff, target: str) -> str:
    return code(entry.file if isinstance(entry, TableDiff) else target_name(target))


def _name(entry: TableDiff | TargetDiff) -> str:
    return entry.table if isinstance(entry, TableDiff) else target_name(entry.target)


def _status(entry: TableDiff | TargetDiff) -> str:
    if entry.status is DiffStatus.CHANGED:
        return classes_text(entry.change_class, entry.changes)
    return str(entry.status)


def _blocks(entry: TableDiff | TargetDiff) -> tuple[str, ...]:
    """Return the reasons why the entry may not be applied as it is."""
    return tuple(_reasons(entry))


def _reasons(entry: TableDiff | TargetDiff) -> Iterable[str]:
    if isinstance(entry, TableDiff) and entry.never_in_place:
        yield "never made in place; the plan has the recipe"
    if isinstance(entry, TableDiff) and entry.protected:
        yield "the target protects this table"
    for what in entry.unallowed:
        yield f"{what} needs an allow entry"


def _line(change: Change) -> str:
    return f"- {' '.join(_parts(change))}\n"


def _parts(change: Change) -> Iterator[str]:
    """Yield the path and the values of a change, and then its position and its notes."""
    yield f"{code(change.path)}: {code(value_text(change.old))} -> {code(value_text(change.new))}"
    notes = [*([change.origin] if change.origin else ()), *change_notes(change)]
    if notes:
        yield f"({inline('; '.join(notes))})"


def _change(change: Change) -> str:
    return f"{change.path}: {value_text(change.old)} -> {value_text(change.new)}"
