"""How the parts of a plan are said, alike in every shape that it is shown in."""

from __future__ import annotations

from collections import Counter
from typing import Any, assert_never

from parquetry.cli.views import count, human_size
from parquetry.compiler.changes import CODES
from parquetry.compiler.plan import (
    Action,
    Change,
    ChangeClass,
    Debt,
    DueSource,
    ExcludedFiles,
    Plan,
    Step,
    TableFigures,
)
from parquetry.compiler.review import quoted
from parquetry.compiler.words import format_size

_ABSENT = "(none)"
_SHORT_COMMIT = 12
_SHOWN = 3
_MINUTE, _HOUR = 60, 3600


def kind_of(action: Action) -> str:
    """The word that an action goes by: its class, or that the table is forgotten."""
    return "forget" if Step.FORGET in action.steps else str(action.change_class)


def step_line(step: Step) -> str:
    """What applying does in a step."""
    match step:
        case Step.CREATE:
            return "makes the table"
        case Step.RESTORE:
            return "puts the properties back"
        case Step.EVOLVE:
            return "commits the schema"
        case Step.RECORD:
            return "records the spec"
        case Step.REWRITE:
            return "rewrites what the policy makes due"
        case Step.FORGET:
            return "records that it is forgotten; its data stays"
        case _:
            assert_never(step)


def steps_line(action: Action) -> str:
    """What applying does to the table, such as ``apply commits the schema, records the spec``."""
    return f"apply {', '.join(step_line(step) for step in action.steps)}"


def value_text(value: Any) -> str:
    """A field's value on one line."""
    if value is None or value in ([], {}):
        return _ABSENT
    if isinstance(value, list):
        return ", ".join(map(value_text, value))
    if isinstance(value, str):
        return value if value.isprintable() else quoted(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def debt_text(debt: Debt) -> str:
    """What a table owes, such as ``2.1 GB to rewrite, about 3 runs at 1GiB``, or ``none``."""
    parts = []
    if debt.rewrite_bytes:
        runs = f"about {count(debt.runs, 'run')} at {format_size(debt.budget_bytes)}"
        seconds = "" if debt.seconds is None else f", {duration_text(debt.seconds)} at the pace of its writes"
        parts.append(f"{human_size(debt.rewrite_bytes)} to rewrite, {runs}{seconds}")
    if debt.expired_files:
        expired = count(debt.expired_files, "expired version")
        parts.append(f"{expired} to delete ({human_size(debt.expired_bytes)})")
    return "; ".join(parts) or "none"


def ingest_text(source: DueSource) -> str:
    """What the next run takes from a source, such as ``landing (upsert): 2 files, 14 KB``."""
    head = f"{source.source} ({source.operation})"
    if source.problem is not None:
        return f"{head}: the run would fail: {source.problem}"
    if not source.is_due:
        return f"{head}: nothing new"
    changed = f", {source.changed_files:,} changed since ingested" if source.changed_files else ""
    return f"{head}: {count(source.files, 'file')}, {human_size(source.size_bytes)}{changed}"


def due_lines(plan: Plan) -> list[tuple[str, str]]:
    """What the next run does, as table and text: the debt it pays, then a line for each source."""
    due, ingest = plan.evidence.due or {}, plan.evidence.ingest or {}
    lines = []
    for name in dict.fromkeys((*due, *ingest)):
        if name in due:
            lines.append((name, f"now 0 B; debt {debt_text(due[name])}{_waiting(due[name])}"))
        lines += [(name, f"ingest {ingest_text(source)}") for source in ingest.get(name, ())]
    return lines


def excluded_lines(table: str, excluded: ExcludedFiles) -> list[str]:
    """The files that clustering leaves, each with its reason, and how many more there are."""
    lines = [f"{file.path}: {file.detail}" for file in excluded.files]
    if more := excluded.total - len(excluded.files):
        lines.append(
            f"and {count(more, 'file')} more; `parquetry service cluster {table} --plan-only -v` names all"
        )
    return lines


def _waiting(debt: Debt) -> str:
    if not debt.small_files:
        return ""
    return f"; {count(debt.small_files, 'small file')} ({human_size(debt.small_bytes)}) for the next writes"


def cost_text(action: Action, debt: Debt | None) -> str:
    """What applying moves now, and what is owed afterwards."""
    owed = "" if debt is None else f"; debt {debt_text(debt)}"
    if Step.REWRITE not in action.steps:
        return f"now 0 B{owed}"
    ceiling = action.byte_ceiling
    limit = "" if ceiling is None else f", at most {format_size(ceiling)}"
    due = human_size(debt.rewrite_bytes) if debt is not None else "what is due"
    if debt is None or ceiling is None or debt.rewrite_bytes <= ceiling:
        return f"now {due}{limit}"
    return f"now at most {format_size(ceiling)} of {due}; the rest is debt, {debt_text(debt)} in all"


def duration_text(seconds: int) -> str:
    """A duration in its largest sensible unit, such as ``about 4 min``."""
    for unit, length in (("h", _HOUR), ("min", _MINUTE)):
        if seconds >= length:
            return f"about {round(seconds / length)} {unit}"
    return f"about {max(seconds, 1)} s"


def files_text(figures: TableFigures) -> str:
    """The files before and, where paying the debt changes their number, after."""
    debt = figures.debt
    if debt is None or debt.files_after == figures.files:
        return count(figures.files, "file")
    return f"{figures.files:,} -> {debt.files_after:,} files"


def small_text(figures: TableFigures) -> str:
    """How many files are small, before and after the change."""
    before, after = figures.small_files_before, figures.small_files_after
    return f"{before} small" if before == after else f"small files {before} -> {after}"


def query_lines(figures: TableFigures) -> list[str]:
    """What each declared query reads, and what it is expected to read with the debt paid."""
    lines = []
    for query in figures.queries:
        now = f"query {query.name}: reads {query.read} of {count(query.total, 'file')}"
        same = (query.read, query.total) == (query.read_after, query.total_after)
        lines.append(now if same else f"{now}, then about {query.read_after} of {query.total_after}")
    return lines


def files_line(figures: TableFigures) -> str:
    """A table's files and how large they are in all, with what the change makes of them."""
    return f"{files_text(figures)}, {human_size(figures.size_bytes)}, {small_text(figures)}"


def change_notes(change: Change) -> list[str]:
    """What is said of a change besides its values and its place."""
    notes = [change.code] if change.change_class is ChangeClass.BREAKING else []
    if change.undeclared is not None:
        notes.append(change.undeclared)
    if change.allowed is not None:
        notes.append(f"allowed: {change.allowed}")
    if change.live not in (None, change.old, change.new):
        notes.append(f"{value_text(change.live)} in the table")
    return notes


def place_lines(action: Action) -> list[str]:
    """Where the table is that is made or forgotten, and what a new one looks like; nothing for others."""
    if Step.CREATE in action.steps:
        return creation_lines(action)
    if Step.FORGET in action.steps:
        return [f"at {action.location}: no spec declares it any more"]
    return [f"at {action.location}: {CODES[action.code]}"] if action.code == "SC003" else []


def creation_lines(action: Action) -> list[str]:
    """What a table that is made looks like."""
    spec = action.spec
    largest = format_size(spec.sizing.max_file_size_bytes)
    limit = format_size(spec.sizing.small_file_limit_bytes)
    key = f"key {', '.join(spec.record_key)}" if spec.record_key else "no key (append only)"
    partitions = f"partitioned by {', '.join(spec.partition_by)}" if spec.partition_by else "unpartitioned"
    return [
        f"at {action.location}: {count(len(spec.columns), 'column')}, {key}, {partitions}",
        f"files up to {largest}, filled below {limit}",
    ]


def commit_text(plan: Plan) -> str:
    """The git commit in short, empty without one."""
    commit = plan.intent.git_commit
    return "" if commit is None else f"commit {commit[:_SHORT_COMMIT]}"


def drift_line(plan: Plan) -> str:
    """What others changed, on one line; empty where nothing was seen."""
    places = [drift.path for drift in plan.evidence.drift]
    if not places:
        return ""
    more = "" if len(places) <= _SHOWN else f" and {len(places) - _SHOWN} more"
    return f"drift: {', '.join(places[:_SHOWN])}{more}; `parquetry drift` says who and when"


def summary(plan: Plan) -> str:
    """How many tables of each kind: ``1 create, 2 evolve, 1 blocked, 4 unchanged.`` is an example."""
    intent = plan.intent
    unchanged = plan.evidence.tables - len(intent.actions) - len(intent.blocked)
    if plan.is_empty:
        return f"No changes: {count(plan.evidence.tables, 'table')} as declared."
    ranks = {kind_of(action): action.change_class.rank for action in intent.actions}
    kinds = Counter(kind_of(action) for action in intent.actions)
    parts = [f"{number} {kind}" for kind, number in sorted(kinds.items(), key=lambda item: ranks[item[0]])]
    if intent.blocked:
        parts.append(f"{len(intent.blocked)} blocked")
    return f"{', '.join(parts)}, {unchanged} unchanged."
