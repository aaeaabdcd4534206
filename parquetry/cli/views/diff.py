"""A difference of specs, in text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.terminal.output import Output, Paint
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.cli.views.diagnostics import path_in_repository
from parquetry.cli.views.plan.source_changes import grouped_changes
from parquetry.cli.views.plan.specs import render_diff_github, render_diff_markdown
from parquetry.cli.views.plan.words import classes_text, small_words, value_text
from parquetry.compiler.plan.codec import changes_json
from parquetry.compiler.plan.model import Change
from parquetry.compiler.reports.diff import (
    DiffStatus,
    Estimate,
    GuardrailDiff,
    SpecDiff,
    TableDiff,
    TargetDiff,
)
from parquetry.compiler.workspace.target_settings import target_name
from parquetry.runtime.spec.codec import to_json_value

_LONGEST_COMMENT_BYTES: Final = 60_000
"""A size that fits into a comment on GitHub."""


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
    document: dict[str, Any] = to_json_value(table)
    shown = {"class" if key == "change_class" else key: value for key, value in document.items()}
    return shown | {"changes": changes_json(table.changes)}


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
    yield f"    {change.path}: {value_text(change.old)} -> {value_text(change.new)}"
    yield paint.dim(f"        {change.code} {change.origin}")
    if change.allowed is not None:
        yield f"        allowed: {change.allowed}"


def _advice(table: TableDiff, target: str, paint: Paint, typed_options: TypedOptions) -> Iterator[str]:
    if table.never_in_place:
        plan = typed_options.named("parquetry", "plan")
        yield f"    {paint.bad('blocked')}: never made in place; {plan} prints the recipe"
    if table.protected:
        yield f"    {paint.bad('blocked')}: target {target} protects this table"
    for code in table.unallowed:
        yield f"    {paint.bad('blocked')}: {code} needs an allow entry in parquetry.yml"


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
