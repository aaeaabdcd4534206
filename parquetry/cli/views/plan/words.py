"""The wording of the parts of a plan, shared by all formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any, Final

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.views.deletions import expiry_lines, reasons_text
from parquetry.cli.views.meta_columns import share_text
from parquetry.cli.views.run_order import rank_text
from parquetry.compiler.evidence.model import DueFigures, DueSource, ExcludedFiles, TableFigures
from parquetry.compiler.plan.changes import CODES, highest
from parquetry.compiler.plan.model import Change, ChangeClass, PlanDocument, PlanWarning, Step, TableAction
from parquetry.compiler.replay.model import Replay
from parquetry.compiler.security.authority import AuthorityKind
from parquetry.compiler.spec_words import flow, format_size, human_duration
from parquetry.message import Message, Text, command, in_full
from parquetry.runtime.catalog.entry import EntryDifference
from parquetry.runtime.clustering.forecast.queries import QueryForecast
from parquetry.runtime.sources.due import sums_by_source
from parquetry.text.printable import quoted

_ABSENT = "(none)"
_SHORT_COMMIT = 12
_SHOWN = 3


def kind_of(action: TableAction) -> str:
    """Return the classes of an action, the most severe first, or ``forget``."""
    return "forget" if Step.FORGET in action.steps else classes_text(action.change_class, action.changes)


def classes_text(reach: ChangeClass, changes: Iterable[Change]) -> str:
    """Return the classes of a table's changes, such as ``evolve + policy``, including ``reach``."""
    classes = {reach, *(change.change_class for change in changes)}
    return " + ".join(sorted(map(str, classes), key=lambda name: -ChangeClass(name).rank))


def blocked_text(plan: PlanDocument) -> str:
    """Return what blocks the plan, such as ``blocked by 2 tables``, or an empty text."""
    number = sum(not blocked.blocks_target for blocked in plan.intent.blocked)
    by = [f"target {plan.intent.target}"] if number < len(plan.intent.blocked) else []
    by += [count(number, "table")] if number else []
    return f"blocked by {' and '.join(by)}" if by else ""


def shown_actions(plan: PlanDocument) -> tuple[TableAction, ...]:
    """Return the actions to show, without those that only record changed settings of the target."""
    return tuple(action for action in plan.intent.actions if not action.only_records_settings)


def figures_of(action: TableAction, plan: PlanDocument) -> TableFigures | None:
    """Return the figures of the action's table, or None if there are none or the table has no files."""
    figures = plan.evidence.figures.get(action.table)
    return None if figures is None or not figures.files else figures


def warning_text(warning: PlanWarning) -> str:
    """Return the position of a warning if it has one, its code and its message."""
    place = f"{warning.origin}: " if warning.origin else ""
    return f"{place}{warning.code} {in_full(warning.message)}"


def target_kind(plan: PlanDocument) -> str:
    """Return the classes of the target's changes, such as ``executes + policy``."""
    changes = [entry.change for entry in plan.intent.target_changes]
    return classes_text(highest(changes), changes)


def target_groups(plan: PlanDocument) -> list[tuple[tuple[Change, ...], str]]:
    """Return the target's changed settings by the tables that record them, with a line about these."""
    groups: dict[tuple[str, ...], list[Change]] = {}
    for entry in plan.intent.target_changes:
        groups.setdefault(entry.tables, []).append(entry.change)
    return [(tuple(changes), _tables_text(tables)) for tables, changes in groups.items()]


def _tables_text(tables: tuple[str, ...]) -> str:
    more = "" if len(tables) <= _SHOWN else f" and {len(tables) - _SHOWN} more"
    names = f"{', '.join(tables[:_SHOWN])}{more}"
    return f"apply records it in {count(len(tables), 'table')}: {names}"


_STEPS: Final[Mapping[Step, str]] = {
    Step.CREATE: "creates the table",
    Step.RESTORE: "restores the properties",
    Step.DROP_METADATA_TABLE: "drops the metadata table",
    Step.UPGRADE: "upgrades the table to its declared version",
    Step.DOWNGRADE: "downgrades the table to its declared version",
    Step.EVOLVE: "commits the schema",
    Step.RECORD: "records the spec",
    Step.REWRITE: "rewrites the files that are due by the policy",
    Step.FORGET: "records that the table is no longer declared; its data stays",
    Step.SYNC: "registers the table in its catalog",
}


def step_line(step: Step) -> str:
    """Return the effect of a step of apply."""
    return _STEPS[step]


def steps_line(action: TableAction) -> str:
    """Return what apply does to the table, such as ``apply commits the schema, records the spec``."""
    return f"apply {', '.join(step_line(step) for step in action.steps)}"


def catalog_lines(action: TableAction, plan: PlanDocument) -> list[str]:
    """Return what apply registers or changes in the catalog of a table, if it was read."""
    found = (plan.evidence.catalogs or {}).get(action.table)
    if found is None:
        return []
    added = f"{count(found.partitions_added, 'partition')} added" if found.partitions_added else ""
    updated = f"{count(found.partitions_updated, 'partition')} updated" if found.partitions_updated else ""
    if found.created:
        parts = [f"registered with {count(found.columns, 'column')}", added]
        return [f"catalog {found.place}: {', '.join(filter(None, parts))}"]
    lines = [f"catalog {found.place}: {_difference_text(difference)}" for difference in found.changes]
    partitions = ", ".join(filter(None, (added, updated)))
    return [*lines, f"catalog {found.place}: {partitions}"] if partitions else lines


def _difference_text(difference: EntryDifference) -> str:
    if difference.stored is None and difference.wanted is None:
        return difference.path
    return f"{difference.path}: {value_text(difference.stored)} -> {value_text(difference.wanted)}"


def run_lines(action: TableAction, plan: PlanDocument) -> list[str]:
    """Return lines about the next run and the catalog.

    They tell of files from new sources, partitions that go, what changes in the catalog, and SQL for Spark.
    """
    lines = [f"ingest {ingest_text(source)}" for source in plan.evidence.sources.get(action.table, ())]
    if (expiry := (plan.evidence.expiring or {}).get(action.table)) is not None:
        lines += [f"next run: {text}" for text in expiry_lines(expiry)]
    lines += catalog_lines(action, plan)
    paths = plan.evidence.unchecked_sql.get(action.table, ())
    return [*lines, f"only Spark checks functions and types, in run: {', '.join(paths)}"] if paths else lines


def value_text(value: Any) -> str:
    """Return a field's value on one line."""
    if value is None or value == []:
        return _ABSENT
    if isinstance(value, list):
        return ", ".join(map(value_text, value))
    if isinstance(value, dict):
        return flow(value)
    if isinstance(value, str):
        return value if value.isprintable() else quoted(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def debt_text(debt: DueFigures) -> str:
    """Return the debt of a table, such as ``2.1 GB to rewrite, about 3 runs at 1GiB``, or ``none``."""
    parts = []
    if debt.rewrite_bytes:
        runs = "by no run, as its budget is 0"
        if debt.budget_bytes:
            runs = f"about {count(debt.runs, 'run')} at {format_size(debt.budget_bytes)}"
        seconds = ""
        if debt.seconds is not None:
            seconds = f", about {human_duration(max(debt.seconds, 1))} at its past throughput"
        more = debt.commits_until_due
        waits = f", from {count(more, 'more commit')} on" if more else ""
        parts.append(f"{human_size(debt.rewrite_bytes)} to rewrite, {runs}{seconds}{waits}")
    if debt.expired_files:
        expired = count(debt.expired_files, "expired version")
        parts.append(f"{expired} to delete ({human_size(debt.expired_bytes)})")
    return "; ".join(parts) or "none"


def ingest_text(source: DueSource) -> str:
    """Return what the next run ingests from a source, such as ``landing (upsert): 2 files, 14 KB``."""
    head = f"{source.source} ({source.operation})"
    if source.problem is not None:
        return f"{head}: the run would fail: {in_full(source.problem)}"
    if source.warning is not None:
        return f"{head}: nothing new; warning: {in_full(source.warning)}"
    known = "".join(
        f"; {count(each.files, 'file')}, {human_size(each.size_bytes)}, ingested before by {each.source} "
        f"({each.commits})"
        for each in sums_by_source(source.known)
    )
    if not source.is_due:
        return f"{head}: nothing new{known}"
    changed = f", {source.changed_files:,} changed since ingested" if source.changed_files else ""
    return f"{head}: {count(source.files, 'file')}, {human_size(source.size_bytes)}{changed}{known}"


def due_lines(plan: PlanDocument) -> list[tuple[str, str]]:
    """Return pairs of table and text about the next run.

    These are a line for the debt, one for the table's place in the run if the target has operations, one for
    what services delete, and one per source.
    """
    due, ingest = plan.evidence.due or {}, plan.evidence.ingest or {}
    deletions, partitions = plan.evidence.deletions or {}, plan.evidence.partitions or {}
    order = plan.evidence.order
    ranked = {} if order is None else {one.table: one for one in order.tables}
    lines = []
    for name in dict.fromkeys((*due, *partitions, *deletions, *ingest)):
        if name in due:
            lines.append((name, f"now 0 B; debt {debt_text(due[name])}{_pending_text(due[name])}"))
        if name in ranked and order is not None:
            lines.append((name, rank_text(order, ranked[name])))
        lines += [(name, text) for text in expiry_lines(partitions[name])] if name in partitions else []
        if name in deletions and not deletions[name].is_empty:
            lines.append((name, reasons_text(deletions[name])))
        lines += [(name, f"ingest {ingest_text(source)}") for source in ingest.get(name, ())]
    return lines


def due_tables(plan: PlanDocument) -> frozenset[str]:
    """Return the tables for which the next run has something to do, or to report."""
    ingest, excluded = plan.evidence.ingest or {}, plan.evidence.excluded or {}
    found = {
        name
        for name, sources in ingest.items()
        if any(source.problem or source.warning or source.known for source in sources)
    }
    found |= {name for name, files in excluded.items() if files.total}
    found |= (plan.evidence.partitions or {}).keys()
    found |= {name for name, deletions in (plan.evidence.deletions or {}).items() if not deletions.is_empty}
    with_work = plan.evidence.tables_with_work | plan.evidence.tables_not_yet_due
    return frozenset(found | with_work | (plan.evidence.forecasts or {}).keys())


def _due_summary(plan: PlanDocument) -> str:
    number = len(plan.evidence.tables_with_work)
    pending = len(plan.evidence.tables_not_yet_due - plan.evidence.tables_with_work)
    waits = f"; clustering waits for more commits in {count(pending, 'table')}" if pending else ""
    return f"; work is due for {count(number, 'table')}{waits}" if number else f"; no work is due{waits}"


def excluded_lines(table: str, excluded: ExcludedFiles) -> list[Text]:
    """Return the files that clustering leaves as they are, each with its reason, and the number of others."""
    lines: list[Text] = [f"{file.path}: {file.detail}" for file in excluded.files]
    if more := excluded.total - len(excluded.files):
        shows_all = Message(
            "and {files} more; {command} names all",
            files=count(more, "file"),
            command=command("service", "cluster", table, "--plan-only", "-v"),
        )
        lines.append(shows_all)
    return lines


def _pending_text(debt: DueFigures) -> str:
    if not debt.small_files:
        return ""
    return f"; {count(debt.small_files, 'small file')} ({human_size(debt.small_bytes)}) for the next writes"


def cost_text(action: TableAction, debt: DueFigures | None) -> str:
    """Return how many bytes apply rewrites now, and the debt that remains."""
    due = "" if debt is None else f"; debt {debt_text(debt)}"
    if Step.REWRITE not in action.steps:
        return f"now 0 B{due}"
    limit_bytes = action.max_rewrite_bytes
    limit = "" if limit_bytes is None else f", at most {format_size(limit_bytes)}"
    due = human_size(debt.rewrite_bytes) if debt is not None else "what is due"
    if debt is None or limit_bytes is None or debt.rewrite_bytes <= limit_bytes:
        return f"now {due}{limit}"
    return f"now at most {format_size(limit_bytes)} of {due}; the rest is debt, {debt_text(debt)} in all"


def files_text(figures: TableFigures) -> str:
    """Return the number of files, and the number after the debt is paid if it differs."""
    debt = figures.debt
    if debt is None or debt.files_after == figures.files:
        return count(figures.files, "file")
    return f"{figures.files:,} -> {debt.files_after:,} files"


def small_text(figures: TableFigures) -> str:
    """Return how many files are small, by the current limit and by the declared one."""
    return small_words(figures.small_files_before, figures.small_files_after)


def small_words(before: int, after: int) -> str:
    """Return how many files are small by the current limit, and by the declared one if it differs."""
    return (
        f"{before} small" if before == after else f"{before} small by today's limit, {after} by the new one"
    )


QUERY_HEADER: Final = ("query", "files", "rows", "bytes")
_REPLAY_ERROR: Final = 0.05


def query_rows(figures: TableFigures) -> list[tuple[str, str, str, str]]:
    """Return the cells below :data:`QUERY_HEADER`: what each query reads now, and what it will read."""
    rows = []
    for query in figures.queries:
        now, expected = query.now, query.expected
        files = _arrow(f"{now.files:,} of {query.total:,}", f"{expected.files:,} of {query.total_after:,}")
        read = _arrow(f"{now.rows:,}", f"{expected.rows:,}")
        size = _arrow(human_size(now.data_bytes), human_size(expected.data_bytes))
        rows.append((query.query, files, f"{read} of {query.rows:,}{dictionary_text(query)}", size))
    return rows


def dictionary_text(query: QueryForecast) -> str:
    """Return the number of rows left by dictionaries, such as `` (90 -> 20 by dictionaries)``, if lower."""
    now, expected = query.now, query.expected
    if (now.fewest_rows, expected.fewest_rows) == (now.rows, expected.rows):
        return ""
    return f" ({_arrow(f'{now.fewest_rows:,}', f'{expected.fewest_rows:,}')} by dictionaries)"


def query_note(figures: TableFigures) -> str:
    """Return how the figures of queries were obtained, and for which readers they hold, or an empty text."""
    return "; ".join(filter(None, (_source_note(figures), _dictionary_note(figures))))


def _dictionary_note(figures: TableFigures) -> str:
    if not any(map(dictionary_text, figures.queries)):
        return ""
    return "by dictionaries: for readers that skip row groups by their dictionaries, as Spark does"


def _source_note(figures: TableFigures) -> str:
    changed = [
        query for query in figures.queries if (query.now, query.total) != (query.expected, query.total_after)
    ]
    if not changed:
        return ""
    if all(query.sampled for query in changed):
        made = changed[0].total_after
        by_sizes = figures.debt is None or figures.debt.files_after == made
        then = "" if by_sizes else f", which predicts {count(made, 'file')}"
        return f"now, and expected after the debt is paid: from a sample of the rows{then}"
    return (
        "now, and expected after the debt is paid: estimated from statistics (for strings an upper bound), "
        "as files are encrypted, cannot be read, or are too many for a sample"
    )


def query_lines(figures: TableFigures) -> list[str]:
    """Return the figures of queries as lines, with a note about how they were obtained."""
    lines = [
        f"query {name}: reads {files} files, {rows} rows, {size}"
        for name, files, rows, size in query_rows(figures)
    ]
    note = query_note(figures)
    return [*lines, f"queries: {note}"] if note else lines


def _arrow(now: str, expected: str) -> str:
    return now if now == expected else f"{now} -> {expected}"


def files_line(figures: TableFigures) -> str:
    """Return the number and size of a table's files, with their values after the change."""
    return f"{files_text(figures)}, {_bytes_text(figures)}, {small_text(figures)}"


def _bytes_text(figures: TableFigures) -> str:
    """Return the bytes of a table, and the range that is expected after a rewrite if there is one."""
    after = figures.size_bytes_after
    if after is None:
        return human_size(figures.size_bytes)
    low, high = human_size(after.low), human_size(after.high)
    return f"{human_size(figures.size_bytes)} -> {low if low == high else f'{low} to {high}'}"


def meta_columns_text(figures: TableFigures) -> str:
    """Return what the meta columns take that a change leaves empty, or an empty text."""
    found = figures.meta_columns
    if found is None:
        return ""
    currency = None if figures.costs is None else figures.costs.currency
    share = share_text(found, figures.size_bytes, currency)
    return f"meta columns that stay empty take {share} of the files, until these are rewritten"


def replay_text(found: Replay | None) -> str:
    """Return what the new limits would have made of the newest writes, or an empty text without any."""
    if found is None:
        return ""
    applied, declared = found.applied, found.declared
    if declared is None or not found.arrived_bytes or not found.days:
        return ""
    days = date.fromisoformat(found.days[-1].day) - date.fromisoformat(found.days[0].day)
    period = f"{count(found.commits, 'commit')}, {count(days.days + 1, 'day')}"
    words = (
        f"replay of the newest writes ({period}): the new limits would have left {declared.files:,} files "
        f"({declared.small_files:,} small) instead of {applied.files:,} ({applied.small_files:,} small), and "
        f"written {human_size(declared.all_written_bytes)} instead of {human_size(applied.all_written_bytes)}"
    )
    return "; ".join((words, *_replay_error(found), *found.gaps))


def _replay_error(found: Replay) -> Iterator[str]:
    """Yield a sentence if the replay of the applied limits differs from the records by more than 5 %."""
    if any(abs(share) > _REPLAY_ERROR for share in found.error):
        files, written = found.error
        yield (
            f"the replay is inexact: against what is recorded, the limits of today end with {files:+.1%} of "
            f"the files, and write {written:+.1%} of the bytes"
        )


def change_text(change: Change) -> str:
    """Return the path of a change with its old and its new value, on one line."""
    return f"{change.path}: {value_text(change.old)} -> {value_text(change.new)}"


def change_notes(change: Change) -> list[str]:
    """Return what to show of a change besides its values: code, reason, permission and live value."""
    notes = [change.code] if change.needs_allow_entry else []
    if change.note is not None:
        notes.append(in_full(change.note))
    if change.allowed is not None:
        notes.append(f"allowed: {change.allowed}")
    if change.live not in (None, change.old, change.new):
        notes.append(f"{value_text(change.live)} in the table")
    return notes


def location_lines(action: TableAction) -> list[str]:
    """Return lines about a table that is created, forgotten, or declared again (SC003); none for others."""
    if Step.CREATE in action.steps:
        return creation_lines(action)
    if Step.FORGET in action.steps:
        return [f"at {action.location}: no spec declares it any more"]
    return [f"at {action.location}: {CODES[action.code]}"] if action.code == "SC003" else []


def creation_lines(action: TableAction) -> list[str]:
    """Return the location, columns, key, partitions and file sizes of a table that is created."""
    spec = action.spec
    largest = format_size(spec.sizing.max_file_size_bytes)
    limit = format_size(spec.sizing.small_file_limit_bytes)
    key = f"key {', '.join(spec.record_key)}" if spec.record_key else "no key (append only)"
    partitions = f"partitioned by {', '.join(spec.partition_by)}" if spec.partition_by else "unpartitioned"
    return [
        f"at {action.location}: {count(len(spec.columns), 'column')}, {key}, {partitions}",
        f"files up to {largest}, filled below {limit}",
    ]


def commit_text(plan: PlanDocument) -> str:
    """Return the abbreviated git commit, or an empty text."""
    commit = plan.intent.git_commit
    return "" if commit is None else f"commit {commit[:_SHORT_COMMIT]}"


def uncommitted_text(plan: PlanDocument) -> str:
    """Return the uncommitted specs, such as ``made in ...: tables/a.yml (1)``, or an empty text."""
    names = plan.evidence.uncommitted
    if not names:
        return ""
    shown = f"{', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''} ({len(names)})"
    return f"made in a working tree with uncommitted changes: {shown}"


def drift_line(plan: PlanDocument) -> Text:
    """Return what other programs changed, on one line, or an empty text."""
    places = [drift.path for drift in plan.evidence.drift]
    if not places:
        return ""
    more = "" if len(places) <= _SHOWN else f" and {len(places) - _SHOWN} more"
    return Message(
        "drift: {places}{more}; {command} shows who changed it and when",
        places=places[:_SHOWN],
        more=more,
        command=command("drift"),
    )


def unchanged_tables(plan: PlanDocument) -> int:
    """Return how many tables of the project do not differ from their declaration."""
    blocked = sum(not entry.blocks_target for entry in plan.intent.blocked)
    return plan.evidence.tables - len(plan.intent.actions) - blocked


_AUTHORITY: Final = {
    AuthorityKind.ENVIRONMENT: "a variable whose value may be printed",
    AuthorityKind.SETTING: "a setting of the project or target",
    AuthorityKind.GUARDRAIL: "a rule over plans",
    AuthorityKind.LINK: "a link",
    AuthorityKind.SUBMODULE: "files of another repository",
    AuthorityKind.REQUIREMENTS: "installed packages",
    AuthorityKind.WORKFLOW: "what the forge executes, or who reviews",
    AuthorityKind.CODE: "code",
}
_OF_LINKS: Final = (AuthorityKind.LINK, AuthorityKind.SUBMODULE)


def authority_lines(plan: PlanDocument) -> list[tuple[str, str]]:
    """Return a sign and a line for each added, removed or changed entry of the project's authority."""
    lines = []
    for change in plan.intent.authority:
        verb, sign = ("changes", "~") if change.old and change.new else ("is new", "+")
        verb, sign = (verb, sign) if change.new else ("was removed", "-")
        leads = ""
        if change.kind in _OF_LINKS:
            leads = f": {value_text(change.old)} -> {value_text(change.new)}"
        lines.append((sign, f"{value_text(change.name)} {verb} ({_AUTHORITY[change.kind]}){leads}"))
    return lines


def authority_text(plan: PlanDocument) -> str:
    """Return how many entries of the project's authority change, or an empty text."""
    number = len(plan.intent.authority)
    return f"{count(number, 'change')} of authority" if number else ""


def summary(plan: PlanDocument) -> str:
    """Return how many tables of each kind there are, and for how many work is due if that was requested.

    An example is ``1 blocked, 2 evolve + policy, 4 unchanged.``
    """
    intent = plan.intent
    blocked = sum(not entry.blocks_target for entry in intent.blocked)
    due = "" if plan.evidence.due is None else _due_summary(plan)
    if plan.is_empty:
        return f"No changes: {count(plan.evidence.tables, 'table')} as declared{due}."
    ranks = {kind_of(action): action.change_class.rank for action in intent.actions}
    kinds = Counter(kind_of(action) for action in intent.actions)
    parts = [f"{number} {kind}" for kind, number in sorted(kinds.items(), key=lambda item: ranks[item[0]])]
    if text := authority_text(plan):
        parts.insert(0, text)
    if blocked:
        parts.insert(0, f"{blocked} blocked")
    if blocked < len(intent.blocked):
        parts.insert(0, f"target {intent.target} blocked")
    return f"{', '.join(parts)}, {unchanged_tables(plan)} unchanged{due}."
