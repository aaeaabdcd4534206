"""A difference of specs: in text and JSON, as a comment on a pull request, and as annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.terminal.markdown import code, code_html, inline
from parquetry.cli.terminal.output import Output, Paint
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.cli.views.diagnostics import annotation, path_in_repository
from parquetry.cli.views.plan.source_changes import grouped_changes
from parquetry.cli.views.plan.words import change_notes, change_text, classes_text, small_words, value_text
from parquetry.compiler.plan.codec import changes_json, with_class_key
from parquetry.compiler.plan.model import Change
from parquetry.compiler.reports.diff import (
    DiffStatus,
    Estimate,
    GuardrailDiff,
    SpecDiff,
    TableDiff,
    TargetDiff,
)
from parquetry.compiler.security.allowed_settings import target_name
from parquetry.runtime.spec.codec import to_json_value

_LONGEST_COMMENT_BYTES: Final = 60_000
"""A size that fits into a comment on GitHub."""
_ROOM_FOR_NOTE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffView:
    """The tables that differ, each changed field with its origin; commands get the ``typed_options``."""

    typed_options: TypedOptions = field(default_factory=TypedOptions)

    def text(self, outcome: SpecDiff, paint: Paint) -> str:
        """Return a block per target, guardrail and table, then a count of each class."""
        head = paint.dim(f"project {outcome.project}, target {outcome.target}, against {outcome.base}")
        blocks = ["\n".join(_target(target, paint)) for target in outcome.targets]
        if outcome.default_target is not None:
            blocks.insert(
                0, "\n".join([f"{paint.warn('~')} project", *_change(outcome.default_target, paint)])
            )
        blocks += ["\n".join(_guardrail(rule, paint)) for rule in outcome.guardrails]
        blocks += [
            "\n".join(_table(table, outcome.target, paint, self.typed_options)) for table in outcome.tables
        ]
        return "\n\n".join([head, *blocks, paint.bold(_summary(outcome))])

    def json(self, outcome: SpecDiff) -> Any:
        """Return every field; the class of a table and of a change is under ``class``."""
        document: dict[str, Any] = to_json_value(outcome)
        document["tables"] = [_json(table) for table in outcome.tables]
        document["targets"] = [_json(target) for target in outcome.targets]
        if outcome.default_target is not None:
            document["default_target"] = changes_json((outcome.default_target,))[0]
        return document


def show_diff(diff: SpecDiff, output: Output, *, project: Path) -> None:
    """Write the difference to stdout in the chosen format; ``project`` is the project's folder."""
    match output.format:
        case "markdown":
            click.echo(render_diff_markdown(diff, max_bytes=_LONGEST_COMMENT_BYTES), nl=False)
        case "github":
            click.echo(render_diff_github(diff, prefix=path_in_repository(project)), nl=False)
        case _:
            output.show(DiffView(typed_options=output.typed_options), diff)


def _json(table: TableDiff | TargetDiff) -> dict[str, Any]:
    return with_class_key(to_json_value(table)) | {"changes": changes_json(table.changes)}


def _target(target: TargetDiff, paint: Paint) -> Iterator[str]:
    name = paint.bold(target_name(target.target))
    match target.status:
        case DiffStatus.ADDED:
            yield f"{paint.good('+')} {name}  new target"
        case DiffStatus.REMOVED:
            yield f"{paint.dim('-')} {name}  target removed"
        case DiffStatus.CHANGED:
            yield f"{paint.warn('~')} {name}  {classes_text(target.change_class, target.changes)}"
    yield from (line for change in target.changes for line in _change(change, paint))
    for path in target.unallowed:
        yield f"    {paint.bad('blocked')}: {path} needs an allow entry under {target_name(target.target)}"


def _guardrail(rule: GuardrailDiff, paint: Paint) -> Iterator[str]:
    name = f"guardrail {paint.bold(rule.guardrail)}"
    match rule.status:
        case DiffStatus.ADDED:
            yield f"{paint.good('+')} {name}  new rule"
        case DiffStatus.REMOVED:
            yield f"{paint.dim('-')} {name}  rule removed"
        case DiffStatus.CHANGED:
            yield f"{paint.warn('~')} {name}  changed rule"
    yield from (f"    {c.path}: {value_text(c.old)} -> {value_text(c.new)}" for c in rule.changes)
    yield paint.dim(f"        {rule.file}")


def _table(table: TableDiff, target: str, paint: Paint, typed_options: TypedOptions) -> Iterator[str]:
    match table.status:
        case DiffStatus.ADDED:
            yield f"{paint.good('+')} {paint.bold(table.table)}  create"
            yield f"    {table.file}"
        case DiffStatus.REMOVED:
            yield f"{paint.dim('-')} {paint.bold(table.table)}  forget"
            yield f"    {table.file} was removed; the table's data stays"
        case DiffStatus.CHANGED:
            kind = classes_text(table.change_class, table.changes)
            yield f"{paint.warn('~')} {paint.bold(table.table)}  {kind}"
            yield from (line for change in grouped_changes(table.changes) for line in _change(change, paint))
            yield from _advice(table, target, paint, typed_options)
    if table.estimate is not None:
        yield from _estimate(table.estimate)


def _change(change: Change, paint: Paint) -> Iterator[str]:
    yield f"    {change_text(change)}"
    yield paint.dim(f"        {change.code} {change.origin}")
    if change.allowed is not None:
        yield f"        allowed: {change.allowed}"


def _advice(table: TableDiff, target: str, paint: Paint, typed_options: TypedOptions) -> Iterator[str]:
    if table.never_in_place:
        plan = typed_options.named("parquetry", "plan")
        yield f"    {paint.bad('blocked')}: never made in place; {plan} prints the recipe"
    if table.protected:
        yield f"    {paint.bad('blocked')}: target {target} protects this table"
    for unallowed in table.unallowed:
        yield f"    {paint.bad('blocked')}: {unallowed} needs an allow entry in parquetry.yml"


def _estimate(estimate: Estimate) -> Iterator[str]:
    seen = f"at {estimate.instant}" if estimate.instant else "without a write"
    yield (
        f"    {seen}: {count(estimate.files, 'file')}, {human_size(estimate.size_bytes)}, "
        f"{small_words(estimate.small_files_before, estimate.small_files_after)}"
    )
    if estimate.rewrite_bytes:
        yield (
            f"    debt: about {human_size(estimate.rewrite_bytes)} to cluster, "
            f"files {estimate.files} -> {estimate.files_after}"
        )


def _summary(diff: SpecDiff) -> str:
    if diff.is_empty:
        tables = f": {count(diff.unchanged, 'table')} unchanged" if diff.unchanged else ""
        return f"No differences{tables}."
    words = {DiffStatus.ADDED: "create", DiffStatus.REMOVED: "forget"}
    kinds = Counter(
        words.get(table.status) or classes_text(table.change_class, table.changes) for table in diff.tables
    )
    parts = [count(len(diff.targets), "target")] if diff.targets else []
    parts += [count(len(diff.guardrails), "guardrail")] if diff.guardrails else []
    parts += ["default target"] if diff.default_target is not None else []
    parts += [f"{number} {kind}" for kind, number in sorted(kinds.items())]
    if diff.unchanged:
        parts.append(f"{diff.unchanged} unchanged")
    return f"{', '.join(parts)}."


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
        text += f"\n{_change_item(diff.default_target)}"
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
            yield annotation("notice", change.origin, title, change_text(change), prefix=prefix)
        if not entry.changes:
            yield annotation("notice", None, name, _status(entry), prefix=prefix)
    for rule in diff.guardrails:
        origin = None if rule.status is DiffStatus.REMOVED else f"{rule.file}:1:1"
        changes = "; ".join(f"{c.path}: {value_text(c.old)} -> {value_text(c.new)}" for c in rule.changes)
        yield annotation("notice", origin, _rule_title(rule), changes or rule.file, prefix=prefix)
    if diff.default_target is not None:
        change = diff.default_target
        yield annotation("notice", change.origin, "default target", change_text(change), prefix=prefix)


def _section(entry: TableDiff | TargetDiff, target: str) -> str:
    blocks = "".join(f"- **blocked**: {inline(reason)}\n" for reason in _blocks(entry))
    changes = "".join(map(_change_item, grouped_changes(entry.changes)))
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


def _blocks(entry: TableDiff | TargetDiff) -> list[str]:
    """Return the reasons why the entry may not be applied as it is."""
    reasons = []
    if isinstance(entry, TableDiff) and entry.never_in_place:
        reasons.append("never made in place; the plan has the recipe")
    if isinstance(entry, TableDiff) and entry.protected:
        reasons.append("the target protects this table")
    return [*reasons, *(f"{what} needs an allow entry" for what in entry.unallowed)]


def _change_item(change: Change) -> str:
    """Return the path and the values of a change, and then its position and its notes."""
    item = f"- {code(change.path)}: {code(value_text(change.old))} -> {code(value_text(change.new))}"
    notes = [*([change.origin] if change.origin else ()), *change_notes(change)]
    return f"{item} ({inline('; '.join(notes))})\n" if notes else f"{item}\n"
