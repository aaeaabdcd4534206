"""A plan as a comment on a pull request, within a limit of bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.markdown import code, code_html, fenced, inline
from parquetry.cli.views.plan.commands import commands_again, typed_options_of, with_own_options
from parquetry.cli.views.plan.forecast import due_entries
from parquetry.cli.views.plan.overview import is_breaking, overview, verdict
from parquetry.cli.views.plan.words import (
    QUERY_HEADER,
    authority_lines,
    authority_text,
    change_notes,
    commit_text,
    cost_text,
    debt_text,
    figures_of,
    files_line,
    files_text,
    kind_of,
    location_lines,
    meta_columns_text,
    query_note,
    query_rows,
    replay_text,
    run_lines,
    shown_actions,
    steps_line,
    target_groups,
    target_kind,
    value_text,
)
from parquetry.compiler.evidence.model import TableFigures
from parquetry.compiler.plan.changes import highest
from parquetry.compiler.plan.model import Blocked, Change, PlanDocument, TableAction
from parquetry.compiler.reports.costs import COST_HEADER, COST_NOTE, cost_rows
from parquetry.compiler.reports.review import settings_diff, yaml_diff
from parquetry.compiler.security.allowed_settings import target_name
from parquetry.message import in_full
from parquetry.text import shell

_ROOM_FOR_NOTE = 200
_NOT_IN_MARKERS = re.compile(r"[^\w-]+")


@dataclass(frozen=True, slots=True)
class _Section:
    """The details of a table; those with a higher ``rank`` are more important."""

    rank: int
    text: str


def render_markdown(plan: PlanDocument, *, max_bytes: int) -> str:
    """Return the plan in GitHub's Markdown, at most ``max_bytes`` long in UTF-8.

    The verdict comes first, then a line for each question of a reviewer, then the blocked tables; everything
    else is folded. If space is short, the details of tables are omitted, those of the mildest changes first,
    then rows of the tables from their end. Omitted parts are counted.
    """
    plan = with_own_options(plan)
    intent = plan.intent
    project, target = (_NOT_IN_MARKERS.sub("-", name) for name in (intent.project, intent.target))
    top = f"<!-- parquetry:plan project={project} target={target} -->\n"
    top += f"### parquetry plan for {code(intent.target)}: {inline(verdict(plan))}\n{_alert(plan)}\n"
    footer = _footer(plan, room=max_bytes // 2)
    room = max_bytes - _size(top) - _size(footer) - _ROOM_FOR_NOTE
    lines = [f"| **{name}** | {inline(text)} |\n" for name, text in overview(plan)]
    seen, seen_left = _fitting(lines, room - _size(_GLANCE_HEADER))
    head = f"{_GLANCE_HEADER}{''.join(seen)}" if seen else ""
    room -= _size(head)
    changed, authority_left = _fitting([f"{line}\n" for line in _authority(plan)], room)
    room -= sum(map(_size, changed))
    blocked, blocked_left = _fitting([_blocked(entry, plan) for entry in intent.blocked], room)
    room -= sum(map(_size, blocked))
    rows, rows_left = _folded("Tables", [*_rows(plan)], room, header=_HEADER)
    room -= _size(rows)
    warnings, warnings_left = _folded("Warnings", [*_warnings(plan)], room)
    room -= _size(warnings)
    details, details_left = _most_important([*_sections(plan)], room)
    note = _note(
        rows_left=seen_left + authority_left + rows_left + warnings_left,
        blocked_left=blocked_left,
        details_left=details_left,
    )
    return "".join([top, head, *changed, *blocked, rows, warnings, *details, note, footer])


_GLANCE_HEADER = "| | |\n|---|---|\n"
_HEADER = "| table | change | class | now | debt | files | queries |\n|---|---|---|---|---|---|---|\n"


def _alert(plan: PlanDocument) -> str:
    """Return a red alert box if tables are blocked or breaking, else an empty text."""
    if plan.intent.blocked:
        names = _names(entry.table for entry in plan.intent.blocked)
        return f"\n> [!CAUTION]\n> Nothing is applied as long as something is blocked: {names}.\n"
    if breaking := [a.table for a in plan.intent.actions if is_breaking(a)]:
        return f"\n> [!CAUTION]\n> May lose data, break readers, or execute other code: {_names(breaking)}.\n"
    return ""


def _authority(plan: PlanDocument) -> Iterator[str]:
    """Yield the changes of authority, which an approval also approves; they are never folded."""
    if plan.intent.authority:
        yield f"\n**{authority_text(plan)}**: what later plans, runs and workflows obey.\n"
    yield from (f"- {code(sign)} {inline(text)}" for sign, text in authority_lines(plan))


def _names(names: Iterable[str]) -> str:
    first, *rest = names
    return f"{code(first)} and {len(rest)} more" if rest else code(first)


def _folded(title: str, rows: Sequence[str], room: int, *, header: str = "") -> tuple[str, int]:
    """Return the rows that fit, folded below their number, and how many do not fit.

    The text is empty if none fits.
    """
    frame = _details(f"{title}: {len(rows)}", header)
    taken, left = _fitting(rows, room - _size(frame) - 1)
    return ("\n" + _details(f"{title}: {len(rows)}", header + "".join(taken)) if taken else ""), left


def _rows(plan: PlanDocument) -> Iterator[str]:
    yield from _target_row(plan)
    yield from (_row(action, plan) for action in shown_actions(plan))


def _row(action: TableAction, plan: PlanDocument) -> str:
    figures = plan.evidence.figures.get(action.table)
    fields = count(len(action.changes), "field") if action.changes else kind_of(action)
    debt = "" if figures is None or figures.debt is None else debt_text(figures.debt)
    files = "" if figures is None else files_text(figures)
    queries = [] if figures is None else query_rows(figures)
    gains = "; ".join(f"{name}: {rows} rows, {size}" for name, _, rows, size in queries)
    now = cost_text(action, None if figures is None else figures.debt).split(";")[0].removeprefix("now ")
    cells = (code(action.table), *map(inline, (fields, kind_of(action), now, debt, files, gains)))
    return f"| {' | '.join(cells)} |\n"


def _target_row(plan: PlanDocument) -> Iterator[str]:
    changes = plan.intent.target_changes
    if changes:
        fields = count(len(changes), "setting")
        cells = (code(target_name(plan.intent.target)), fields, target_kind(plan), "", "", "", "")
        yield f"| {' | '.join(cells)} |\n"


def _target_section(plan: PlanDocument) -> Iterator[_Section]:
    """Yield the section about changed settings of the target, if there are any."""
    parts = []
    for changes, tables in target_groups(plan):
        lines = (f"{sign}{text}" for sign, text in settings_diff(changes))
        parts += [fenced("\n".join(lines), "diff"), *_changes(changes), f"{inline(tables)}\n"]
    if parts:
        title = f"{code_html(target_name(plan.intent.target))}: {target_kind(plan)}"
        rank = highest(entry.change for entry in plan.intent.target_changes).rank
        yield _Section(rank, "\n" + _details(title, "\n".join(parts)))


def _blocked(blocked: Blocked, plan: PlanDocument) -> str:
    typed_options = typed_options_of(plan)
    lines = [
        f"\n**Blocked: {code(blocked.table)}** {inline(blocked.code)}: {inline(in_full(blocked.reason))}.\n",
        f"**What to do:** {inline(in_full(blocked.remedy))}\n",
    ]
    steps = []
    for number, step in enumerate(blocked.recipe, start=1):
        steps.append(f"{number}. {inline(step.text)}")
        if step.commands:
            steps.append(_indented(fenced("\n".join(typed_options.recipe(step.commands)), "sh")))
    if steps:
        lines.append(_details(f"Recipe for {code_html(blocked.table)}", "\n".join(steps)))
    if blocked.changes:
        change = "\n".join((_diff(blocked), *_changes(blocked.changes)))
        lines.append(_details(f"The change of {code_html(blocked.table)}", change))
    return "\n".join(lines) + "\n"


def _warnings(plan: PlanDocument) -> Iterator[str]:
    for warning in plan.evidence.warnings:
        place = f"{code(warning.origin)} " if warning.origin else ""
        yield f"- {place}{inline(warning.code)} {inline(in_full(warning.message))}\n"


def _sections(plan: PlanDocument) -> Iterator[_Section]:
    yield from _target_section(plan)
    for action in shown_actions(plan):
        parts = [f"{inline(line)}\n" for line in location_lines(action)]
        steps = (*run_lines(action, plan), steps_line(action))
        parts += [_diff(action), *_changes(action.changes), *(f"{inline(line)}\n" for line in steps)]
        if (figures := figures_of(action, plan)) is not None:
            parts.append(_figures(figures, action.spec.sizing.max_file_size_bytes))
        fields = f", {count(len(action.changes), 'field')}" if action.changes else ""
        title = f"{code_html(action.table)}: {kind_of(action)}{fields}"
        yield _Section(action.change_class.rank, "\n" + _details(title, "\n".join(parts)))
    if costs := cost_rows(plan):
        cells = [_inline_row(row) for row in (COST_HEADER, *(row.cells for row in costs))]
        notes = [f"- {code(row.table)}: {inline(row.note)}" for row in costs if row.note]
        ranges = f"{COST_NOTE[0].upper()}{COST_NOTE[1:]}."
        body = "\n".join([cells[0], "|---|---:|---:|---:|---|", *cells[1:], "", ranges, "", *notes])
        yield _Section(0, "\n" + _details("Costs", body + "\n"))
    due = due_entries(plan)
    if due:
        body = "".join(f"- {code(table)}: {inline(text)}\n" for table, text in due)
        yield _Section(0, "\n" + _details("What the next run finds to do", body))
    drift = plan.evidence.drift
    if drift:
        lines = [f"- {code(d.path)}: {inline(f'{value_text(d.old)} -> {value_text(d.live)}')}" for d in drift]
        yield _Section(0, "\n" + _details(f"Drift: {count(len(drift), 'field')}", "\n".join(lines) + "\n"))


def _changes(changes: Sequence[Change]) -> Iterator[str]:
    """Yield a list with the places of the changes and notes about them."""
    notes_by_path = [(change.path, [change.origin or "", *change_notes(change)]) for change in changes]
    lines = [
        f"- {code(path)}: {inline('; '.join(filter(None, notes)))}\n"
        for path, notes in notes_by_path
        if any(notes)
    ]
    if lines:
        yield "".join(lines)


def _figures(figures: TableFigures, largest: int) -> str:
    lines = [f"{inline(files_line(figures))}\n"]
    sentences = filter(None, (meta_columns_text(figures), replay_text(figures.replay)))
    lines += [f"{inline(sentence)}\n" for sentence in sentences]
    if figures.queries:
        cells = [_inline_row(row) for row in (QUERY_HEADER, *query_rows(figures))]
        lines += [cells[0], "|---|---:|---:|---:|", *cells[1:]]
    if note := query_note(figures):
        lines += ["", f"{inline(note[0].upper() + note[1:])}."]
    tenths = len(figures.sizes_before) - 1
    rows = [
        f"| {_bucket(index, tenths)} | {before} | {after} |"
        for index, (before, after) in enumerate(zip(figures.sizes_before, figures.sizes_after, strict=True))
        if before or after
    ]
    if rows:
        lines += [
            "",
            f"| size, of {largest:,} B | files now | with the debt paid |",
            "|---|---:|---:|",
            *rows,
        ]
    return "\n".join(lines) + "\n"


def _inline_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(inline, cells))} |"


def _bucket(index: int, tenths: int) -> str:
    return "above" if index == tenths else f"up to {(index + 1) * 100 // tenths} %"


def _diff(entry: TableAction | Blocked) -> str:
    lines = [f"{sign}{text}" for sign, text in yaml_diff(entry)]
    return fenced("\n".join(lines), "diff") if lines else ""


def _details(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n</details>\n"


def _footer(plan: PlanDocument, *, room: int) -> str:
    """Return the plan's id and commit, and the commands that make and apply it.

    If the commands are too long, only `plan` without its selectors and variables is shown.
    """
    intent = plan.intent
    made = f"plan {code(plan.plan_id)}, parquetry {inline(intent.parquetry)}"
    text = commit_text(plan)
    commit = text if text.removeprefix("commit ").isalnum() else inline(text)
    commands = "\n".join(commands_again(plan))
    if _size(commands) > room:
        plain = shell.line("parquetry", "plan", "--target", intent.target)
        commands = f"{plain} # with --select, --exclude, --var as in the plan"
    return f"\n---\n{made}{f', {commit}' if commit else ''}\n\n{fenced(commands, 'sh')}"


def _note(*, rows_left: int, blocked_left: int, details_left: int) -> str:
    parts = [
        what.format(number)
        for number, what in (
            (rows_left, "{} rows of tables, authority and warnings"),
            (blocked_left, "{} of the blocked tables"),
            (details_left, "the details of {} tables"),
        )
        if number
    ]
    return (
        f"\n*Omitted for lack of space: {', '.join(parts)}. {shell.named('parquetry', 'show')} has all.*\n"
        if parts
        else ""
    )


def _fitting(texts: Sequence[str], room: int) -> tuple[list[str], int]:
    """Return the first texts that fit into the room, and the number of the others."""
    taken: list[str] = []
    for text in texts:
        room -= _size(text)
        if room < 0:
            break
        taken.append(text)
    return taken, len(texts) - len(taken)


def _most_important(sections: Sequence[_Section], room: int) -> tuple[list[str], int]:
    """Return the sections that fit, in their order, and the number of the others.

    Sections of higher rank are taken first.
    """
    taken: set[int] = set()
    for index in sorted(range(len(sections)), key=lambda i: (-sections[i].rank, i)):
        size = _size(sections[index].text)
        if size > room:
            break
        room -= size
        taken.add(index)
    return [sections[index].text for index in sorted(taken)], len(sections) - len(taken)


def _size(text: str) -> int:
    return len(text.encode())


def _indented(text: str) -> str:
    return "".join(f"   {line}\n" for line in text.split("\n") if line)
