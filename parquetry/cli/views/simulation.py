"""A sizing simulation in text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from parquetry.cli.terminal.format import columns, count, human_size, short_names
from parquetry.cli.terminal.output import Paint
from parquetry.compiler.reports.simulate_sizing import Simulation
from parquetry.compiler.workspace.spec_words import format_size
from parquetry.runtime.layout.simulation import sizing_json
from parquetry.runtime.layout.sizing import Assignment, SliceDecision
from parquetry.runtime.spec.sizing import SizingPolicy

_HEADER = ("file", "before", "small", "inserts", "after", "why")
_NUMBERS = frozenset({1, 3, 4})
_NEW = "new"

_Row = tuple[str, ...]


class SimulationView:
    """Which file gets how many rows, and why."""

    def text(self, outcome: Simulation, paint: Paint) -> str:
        """One line per file, or for all files of one fate, then the limits that were tried.

        Long file ids are cut to what tells them apart.
        """
        plan, policy = outcome.plan, outcome.policy
        names = short_names(decision.slice.file_id for decision in plan.decisions)
        existing = [_existing(names[d.slice.file_id], d, policy) for d in plan.decisions]
        rows = (*_alike(existing), *_alike([_made(assignment) for assignment in plan.new_files]))
        table = columns(_HEADER, rows, paint=paint, right=_NUMBERS)
        split = "auto" if policy.insert_split_size is None else f"{policy.insert_split_size:,} rows"
        return (
            f"{table}\n\n{plan.inserts:,} inserts; max_file_size {format_size(policy.max_file_size_bytes)}, "
            f"small_file_limit {format_size(policy.small_file_limit_bytes)}, insert_split_size {split}, "
            f"record_size {plan.record_size_bytes:g} B ({outcome.record_size_origin})"
        )

    def json(self, outcome: Simulation) -> Any:
        """Existing files in their order, then new ones with file null."""
        document = sizing_json(outcome.plan)
        for entry in document["files"]:
            del entry["reason"]
        return document


def _existing(name: str, decision: SliceDecision, policy: SizingPolicy) -> _Row:
    """Its size and the limit are said beside the reason, so files that are not small have one in common."""
    is_off = policy.small_file_limit_bytes == 0
    return (
        name,
        human_size(decision.slice.size_bytes),
        "yes" if decision.small else "no",
        f"{decision.inserts:,}",
        human_size(decision.size_after_bytes),
        decision.reason if decision.small or is_off else "not small",
    )


def _made(assignment: Assignment) -> _Row:
    after = human_size(assignment.size_after_bytes)
    return (_NEW, "", "", f"{assignment.inserts:,}", after, assignment.reason.removeprefix("new file, "))


def _alike(rows: Iterable[_Row]) -> Iterator[_Row]:
    """The rows, those of files that fare alike as one with their number, where the first of them was."""
    fates: dict[_Row, list[str]] = {}
    for row in rows:
        fates.setdefault(row[1:], []).append(row[0])
    for fate, names in fates.items():
        yield (names[0], *fate) if len(names) == 1 else _joint(names, fate)


def _joint(names: Sequence[str], fate: _Row) -> _Row:
    """The row of several files, with what each of them gets."""
    size_before, small, inserts, *rest = fate
    files = f"{len(names):,} {_NEW}" if names[0] == _NEW else count(len(names), "file")
    return (files, size_before, small, inserts if inserts == "0" else f"{inserts} each", *rest)
