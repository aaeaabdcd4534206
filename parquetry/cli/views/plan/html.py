"""A plan as a page for the browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from parquetry.cli.terminal.format import human_size
from parquetry.cli.views.plan.commands import commands_again, typed_options_of, with_own_options
from parquetry.cli.views.plan.forecast import due_entries
from parquetry.cli.views.plan.overview import is_breaking, overview, verdict
from parquetry.cli.views.plan.words import (
    QUERY_HEADER,
    authority_lines,
    change_notes,
    cost_text,
    figures_of,
    files_line,
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
    warning_text,
)
from parquetry.cli.views.run_order import order_section, order_text
from parquetry.compiler.evidence.model import TableFigures
from parquetry.compiler.plan.changes import highest
from parquetry.compiler.plan.model import Blocked, Change, ChangeClass, PlanDocument, TableAction
from parquetry.compiler.reports.charts import Bars, Chart, bar_chart
from parquetry.compiler.reports.costs import COST_HEADER, COST_NOTE, cost_lines, cost_rows
from parquetry.compiler.reports.page import (
    Badge,
    Block,
    Commands,
    DataTable,
    Diff,
    Facts,
    Fold,
    Lines,
    Page,
    Section,
    Steps,
    Tone,
    Verbatim,
    render_page,
)
from parquetry.compiler.reports.replay_chart import replay_charts
from parquetry.compiler.reports.review import settings_diff, yaml_diff
from parquetry.compiler.security.allowed_settings import target_name
from parquetry.message import in_full

_TONES = {
    ChangeClass.METADATA: Tone.PLAIN,
    ChangeClass.CREATE: Tone.GOOD,
    ChangeClass.BREAKING: Tone.BAD,
    ChangeClass.EXECUTES: Tone.BAD,
}


def render_html(plan: PlanDocument) -> str:
    """Return the plan as one self-contained page."""
    plan = with_own_options(plan)
    intent = plan.intent
    sections = [_blocked(entry, plan) for entry in intent.blocked]
    sections += [_authority(plan)] if intent.authority else []
    sections += [_target(plan)] if intent.target_changes else []
    sections += [_action(action, plan) for action in shown_actions(plan)]
    return render_page(
        Page(
            title=f"parquetry plan for {intent.target}: {intent.project}",
            verdict=Badge(text=verdict(plan), tone=_tone(plan)),
            facts=Facts(entries=(*overview(plan), *_facts(plan))),
            sections=(*sections, *_ends(plan)),
        )
    )


def _tone(plan: PlanDocument) -> Tone:
    if plan.intent.blocked or any(map(is_breaking, plan.intent.actions)):
        return Tone.BAD
    converts = any(action.change_class is ChangeClass.FORMAT for action in plan.intent.actions)
    return Tone.WARN if plan.evidence.warnings or plan.intent.authority or converts else Tone.GOOD


def _facts(plan: PlanDocument) -> Iterator[tuple[str, str | Verbatim]]:
    created = datetime.fromtimestamp(plan.evidence.created_ms / 1000, UTC)
    yield "made", f"{created:%Y-%m-%d %H:%M:%S} UTC, by parquetry {plan.intent.parquetry}"
    if plan.intent.git_commit:
        yield "commit", Verbatim(plan.intent.git_commit)
    yield "plan", Verbatim(plan.plan_id)


def _ends(plan: PlanDocument) -> Iterator[Section]:
    """Yield the sections about the whole plan: warnings, costs, due work, drift and commands."""
    if warnings := plan.evidence.warnings:
        texts = tuple(map(warning_text, warnings))
        yield Section(title="Warnings", tone=Tone.WARN, blocks=(Lines(texts=texts),))
    if costs := cost_rows(plan):
        table = DataTable(
            caption="Costs",
            header=("table", *COST_HEADER[1:]),
            rows=tuple(row.cells for row in costs),
            numbers=frozenset({1, 2, 3}),
        )
        notes = tuple(f"{row.table}: {row.note}" for row in costs if row.note)
        blocks = (table, Fold(title="where the ranges come from", blocks=(Lines(texts=notes),)))
        yield Section(title="Costs", note=COST_NOTE, blocks=blocks if notes else (table,))
    if due := due_entries(plan):
        rows = tuple((Verbatim(table), text) for table, text in due)
        yield Section(
            title="Due",
            note="what the next run finds to do by the applied specs",
            blocks=(DataTable(caption="What is due", header=("table", "due"), rows=rows),),
        )
    if (order := plan.evidence.order) is not None and order.tables:
        yield order_section(order, note=order_text(order))
    if drift := plan.evidence.drift:
        rows = tuple((Verbatim(d.path), f"{value_text(d.old)} -> {value_text(d.live)}") for d in drift)
        yield Section(
            title="Drift",
            note="changes by other programs since the last apply; the command drift shows who and when",
            tone=Tone.WARN,
            blocks=(DataTable(caption="What drifted", header=("field", "applied -> live"), rows=rows),),
        )
    yield Section(
        title="Commands",
        note="that make and apply this plan",
        blocks=(Commands(text="\n".join(commands_again(plan))),),
    )


def _authority(plan: PlanDocument) -> Section:
    return Section(
        title="Authority",
        note="settings that later plans, runs and workflows obey, outside the specs of tables",
        tone=Tone.WARN,
        blocks=(Lines(texts=tuple(f"{sign} {text}" for sign, text in authority_lines(plan))),),
    )


def _target(plan: PlanDocument) -> Section:
    changes = tuple(entry.change for entry in plan.intent.target_changes)
    tables = [f"{', '.join(c.path for c in found)}: {text}" for found, text in target_groups(plan)]
    reach = highest(changes)
    return Section(
        title=target_name(plan.intent.target),
        badges=(Badge(text=target_kind(plan), tone=_tone_of(reach)),),
        tone=_tone_of(reach),
        blocks=(
            Lines(texts=(*_notes(changes), *tables)),
            Diff(lines=settings_diff(changes)),
            *_origins(changes),
        ),
    )


def _action(action: TableAction, plan: PlanDocument) -> Section:
    notes = location_lines(action) or [f"at {action.location}"]
    notes += _notes(action.changes)
    measured: list[Block] = []
    if (figures := figures_of(action, plan)) is not None:
        notes += [cost_text(action, figures.debt), files_line(figures)]
        notes += [] if figures.costs is None else cost_lines(figures.costs)
        measured = [*_queries(action.table, figures), *_sizes(figures), *_replay(figures)]
    diff = yaml_diff(action)
    return Section(
        title=action.table,
        badges=(Badge(text=kind_of(action), tone=_tone_of(action.change_class)), Badge(text=action.code)),
        tone=_tone_of(action.change_class),
        blocks=(
            Lines(texts=(*notes, *run_lines(action, plan), steps_line(action))),
            *((Diff(lines=diff),) if diff else ()),
            *_origins(action.changes),
            *measured,
        ),
    )


def _queries(table: str, figures: TableFigures) -> Iterator[Block]:
    if figures.queries:
        rows = tuple(query_rows(figures))
        yield DataTable(
            caption=f"What declared queries read of {table}",
            header=QUERY_HEADER,
            rows=rows,
            numbers=frozenset({1, 2, 3}),
            is_titled=True,
        )
        if note := query_note(figures):
            yield Lines(texts=(note,))


def _replay(figures: TableFigures) -> Iterator[Block]:
    if text := meta_columns_text(figures):
        yield Lines(texts=(text,))
    if figures.replay is not None and (text := replay_text(figures.replay)):
        yield Lines(texts=(text,))
        yield from replay_charts(figures.replay, size_text=human_size)


def _sizes(figures: TableFigures) -> Iterator[Chart]:
    tenths = len(figures.sizes_before) - 1
    bars = [
        Bars(label="above" if index == tenths else f"{(index + 1) * 100 // tenths}", values=counts)
        for index, counts in enumerate(zip(figures.sizes_before, figures.sizes_after, strict=True))
    ]
    chart = bar_chart("files by size, in percent of the largest size", bars, ("now", "with the debt paid"))
    if chart is not None:
        yield chart


def _blocked(entry: Blocked, plan: PlanDocument) -> Section:
    typed_options = typed_options_of(plan)
    steps = tuple((step.text, "\n".join(typed_options.recipe(step.commands))) for step in entry.recipe)
    diff = yaml_diff(entry)
    return Section(
        title=entry.table,
        badges=(Badge(text="blocked", tone=Tone.BAD), Badge(text=entry.code)),
        tone=Tone.BAD,
        blocks=(
            Lines(
                texts=(*_notes(entry.changes), in_full(entry.reason), f"what to do: {in_full(entry.remedy)}")
            ),
            *((Diff(lines=diff),) if diff else ()),
            *_origins(entry.changes),
            *((Steps(steps=steps),) if steps else ()),
        ),
    )


def _notes(changes: Sequence[Change]) -> list[str]:
    return [f"{change.path}: {note}" for change in changes for note in change_notes(change)]


def _origins(changes: Sequence[Change]) -> Iterator[Block]:
    """Yield a table of the places in the YAML that the changes come from."""
    rows = tuple((Verbatim(c.path), Verbatim(c.origin)) for c in changes if c.origin is not None)
    if rows:
        table = DataTable(caption="Places of the changes", header=("field", "place"), rows=rows)
        yield Fold(title="places in the YAML", blocks=(table,))


def _tone_of(reach: ChangeClass) -> Tone:
    return _TONES.get(reach, Tone.WARN)
