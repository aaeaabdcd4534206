"""A sizing simulation, and a replay of recorded writes, in text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from parquetry.cli.terminal.format import columns, count, human_size, short_names
from parquetry.cli.terminal.output import Paint
from parquetry.compiler.replay.model import Replay, ReplayedDay, ReplayedFigures
from parquetry.compiler.reports.page import DataTable, Facts, Lines, Page, Section, Tone, render_page
from parquetry.compiler.reports.replay import ReplayReport
from parquetry.compiler.reports.replay_chart import replay_charts
from parquetry.compiler.reports.simulate_sizing import Simulation
from parquetry.compiler.spec_words import format_size
from parquetry.runtime.layout.simulation import sizing_json
from parquetry.runtime.layout.sizing import Assignment, SliceDecision
from parquetry.runtime.spec.codec import to_json_value
from parquetry.runtime.spec.sizing import SizingPolicy

_HEADER = ("file", "before", "small", "inserts", "after", "why")
_NUMBERS = frozenset({1, 3, 4})
_NEW = "new"

_Row = tuple[str, ...]


class SimulationView:
    """The number of new rows per file, and the reasons."""

    def text(self, outcome: Simulation, paint: Paint) -> str:
        """Return a line per file, or per group of files with the same values, then the limits.

        Long file ids are cut to prefixes that differ.
        """
        plan, policy = outcome.plan, outcome.policy
        names = short_names(decision.slice.file_id for decision in plan.decisions)
        existing = [_existing(names[d.slice.file_id], d, policy) for d in plan.decisions]
        rows = (*_merged(existing), *_merged([_new(assignment) for assignment in plan.new_files]))
        table = columns(_HEADER, rows, paint=paint, right=_NUMBERS)
        return (
            f"{table}\n\n{plan.inserts:,} inserts; {limits_text(policy)}, "
            f"record_size {plan.record_size_bytes:g} B ({outcome.record_size_origin})"
        )

    def json(self, outcome: Simulation) -> Any:
        """Return the existing files in their order, then the new ones with file null."""
        document = sizing_json(outcome.plan)
        for entry in document["files"]:
            del entry["reason"]
        return document


_LAYOUTS = ("limits", "files", "small", "size", "old", "written", "clustered", "per byte")
_DAYS = ("day", "arrived", "files", "bytes written")


class ReplayView:
    """The recorded writes, and the layout that limits make of them, in total and by day."""

    def text(self, outcome: ReplayReport, paint: Paint) -> str:
        """Return a line for each layout, one for each day, then the limits and what was not recorded."""
        found = outcome.replay
        if found is None:
            return f"{outcome.table}: nothing was written in that time"
        table = columns(
            _LAYOUTS,
            [_layout(name, figures, found.arrived_bytes) for name, figures in replayed_sides(found)],
            paint=paint,
            right=frozenset(range(1, len(_LAYOUTS))),
        )
        days = columns(
            _DAYS, [_day(day) for day in found.days], paint=paint, right=frozenset(range(1, len(_DAYS)))
        )
        shown = f"files and bytes written: {' / '.join(name for name, _ in replayed_sides(found))}"
        lines = (
            shown,
            _period(found),
            *(f"{name}: {text}" for name, text in _limits(found)),
            *(f"note: {gap}" for gap in found.gaps),
        )
        return "\n\n".join((table, days, "\n".join(lines)))

    def json(self, outcome: ReplayReport) -> Any:
        """Return every field of the report."""
        return to_json_value(outcome)

    def html(self, outcome: ReplayReport) -> str:
        """Return the report as a page for a browser, with charts."""
        found = outcome.replay
        title = f"parquetry replay of {outcome.table}"
        if found is None:
            return render_page(Page(title=title, lead="Nothing was written in that time."))
        sides = replayed_sides(found)
        numbers = frozenset(range(1, len(_LAYOUTS)))
        rows = tuple(_layout(name, figures, found.arrived_bytes) for name, figures in sides)
        days = tuple(_day(day) for day in found.days)
        return render_page(
            Page(
                title=title,
                lead=_period(found),
                facts=Facts(entries=_limits(found)),
                sections=(
                    Section(
                        title="Layouts",
                        note="recorded, and what the limits make of the same rows",
                        blocks=(
                            DataTable(caption="Layouts", header=_LAYOUTS, rows=rows, numbers=numbers),
                            *replay_charts(found, size_text=human_size),
                            *((Lines(texts=found.gaps, tone=Tone.WARN),) if found.gaps else ()),
                        ),
                    ),
                    Section(
                        title="Days",
                        note=" / ".join(name for name, _ in sides),
                        blocks=(
                            DataTable(
                                caption="Days",
                                header=_DAYS,
                                rows=days,
                                numbers=frozenset(range(1, len(_DAYS))),
                            ),
                        ),
                    ),
                ),
            )
        )


def replayed_sides(found: Replay) -> tuple[tuple[str, ReplayedFigures], ...]:
    """Return the figures of the recorded, applied and declared layouts with their names."""
    sides = (("recorded", found.recorded), ("applied", found.applied))
    return sides if found.declared is None else (*sides, ("declared", found.declared))


def _period(found: Replay) -> str:
    files, written = found.error
    return (
        f"{count(found.commits, 'commit')} from {found.since} to {found.until}, "
        f"{count(found.clusterings, 'clustering')}. "
        f"Against what is recorded, the applied limits end with {files:+.1%} of the files, "
        f"and write {written:+.1%} of the bytes"
    )


def _limits(found: Replay) -> tuple[tuple[str, str], ...]:
    applied = ("applied", limits_text(found.applied_limits))
    if found.declared_limits is None:
        return (applied,)
    return applied, ("declared", limits_text(found.declared_limits))


def _layout(name: str, figures: ReplayedFigures, arrived_bytes: int) -> _Row:
    amplification = figures.amplification(arrived_bytes)
    return (
        name,
        f"{figures.files:,}",
        f"{figures.small_files:,}",
        human_size(figures.size_bytes),
        "" if figures.superseded_bytes is None else human_size(figures.superseded_bytes),
        human_size(figures.written_bytes),
        human_size(figures.clustered_bytes),
        "-" if amplification is None else f"{amplification:.2f}",
    )


def _day(day: ReplayedDay) -> _Row:
    sides = [side for side in (day.recorded, day.applied, day.declared) if side is not None]
    return (
        day.day,
        human_size(day.arrived_bytes),
        " / ".join(f"{side.files:,}" for side in sides),
        " / ".join(human_size(side.all_written_bytes) for side in sides),
    )


def limits_text(policy: SizingPolicy) -> str:
    """Return the limits of file sizes in one line."""
    split = "auto" if policy.insert_split_size is None else f"{policy.insert_split_size:,} rows"
    return (
        f"max_file_size {format_size(policy.max_file_size_bytes)}, "
        f"small_file_limit {format_size(policy.small_file_limit_bytes)}, insert_split_size {split}"
    )


def _existing(name: str, decision: SliceDecision, policy: SizingPolicy) -> _Row:
    """Return the row of an existing file.

    All files that are not small get the same reason, so that their rows can be merged.
    """
    is_off = policy.small_file_limit_bytes == 0
    return (
        name,
        human_size(decision.slice.size_bytes),
        "yes" if decision.small else "no",
        f"{decision.inserts:,}",
        human_size(decision.size_after_bytes),
        decision.reason if decision.small or is_off else "not small",
    )


def _new(assignment: Assignment) -> _Row:
    after = human_size(assignment.size_after_bytes)
    return (_NEW, "", "", f"{assignment.inserts:,}", after, assignment.reason.removeprefix("new file, "))


def _merged(rows: Iterable[_Row]) -> Iterator[_Row]:
    """Yield the rows, with one row and a number for all files whose other cells are equal."""
    names_by_cells: dict[_Row, list[str]] = {}
    for row in rows:
        names_by_cells.setdefault(row[1:], []).append(row[0])
    for cells, names in names_by_cells.items():
        yield (names[0], *cells) if len(names) == 1 else _joined_row(names, cells)


def _joined_row(names: Sequence[str], cells: _Row) -> _Row:
    """Return one row for several files, with the number of inserts for each of them."""
    size_before, small, inserts, *rest = cells
    files = f"{len(names):,} {_NEW}" if names[0] == _NEW else count(len(names), "file")
    return (files, size_before, small, inserts if inserts == "0" else f"{inserts} each", *rest)
