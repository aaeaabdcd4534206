"""The part of the clustering debt that one run pays, and the number of runs that pay all of it.

A run has one budget for all its tables. Execution and prediction use the same :class:`RunRoom` to decide
about each group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from parquetry.runtime.layout.clustering.model import Debt, ExcludedFile, ExclusionReason, PlannedGroup

MOST_FILES: Final = 10_000
"""The largest number of files in a plan, because the timeline reads plans repeatedly."""

_MOST_STEPS: Final = 1_000_000
"""After this many examined groups, the runs for the rest are estimated from the limits of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """The number of bytes that a run may rewrite; if ``limit_bytes`` is None, there is no limit.

    ``spent_bytes`` of it went to other tables or to earlier plans. If ``is_strict`` is set, even a single
    group that alone is larger than the budget is not rewritten.
    """

    limit_bytes: int | None = None
    spent_bytes: int = 0
    is_strict: bool = False

    def left_after(self, size_bytes: int) -> RunBudget:
        """Return the budget after ``size_bytes`` more are spent."""
        return replace(self, spent_bytes=self.spent_bytes + size_bytes)


NO_LIMIT: Final = RunBudget()


class RunRoom:
    """The limits of a run on one table, and the groups that it has taken so far."""

    def __init__(self, budget: RunBudget, *, max_groups: int, max_files: int = MOST_FILES) -> None:
        """Start with no group taken."""
        self._budget = budget
        self._max_groups = max_groups
        self._max_files = max_files
        self._groups = self._files = 0
        self.taken_bytes = 0

    @property
    def is_full(self) -> bool:
        """True if no further group fits, whatever its size."""
        limit_bytes = self._budget.limit_bytes
        if self._groups >= self._max_groups:
            return True
        return limit_bytes is not None and self._budget.spent_bytes + self.taken_bytes >= limit_bytes

    def refusal(self, size_bytes: int, files: int) -> ExclusionReason | None:
        """Return why a group has to wait for another run, or None if this run takes it.

        A group that alone is larger than the budget is taken if it is the first of the run. It stays the only
        one.
        """
        if self._groups >= self._max_groups:
            return ExclusionReason.GROUPS
        budget, limit_bytes = self._budget, self._budget.limit_bytes
        spent_bytes = budget.spent_bytes + self.taken_bytes
        if limit_bytes is not None and spent_bytes + max(size_bytes, 1) > limit_bytes:
            if size_bytes <= limit_bytes or budget.is_strict or not limit_bytes:
                return ExclusionReason.BUDGET
            if spent_bytes or self._groups:
                return ExclusionReason.LARGER_THAN_BUDGET
        return ExclusionReason.FILES if self._files + files > self._max_files else None

    def take(self, size_bytes: int, files: int) -> None:
        """Count a group as taken."""
        self._groups += 1
        self._files += files
        self.taken_bytes += size_bytes


def limited_to_budget(debt: Debt, budget: RunBudget, *, max_groups: int, max_files: int = MOST_FILES) -> Debt:
    """Return the part of a debt that one run pays: the groups that fit, in their order.

    The files of groups that do not fit are added to the excluded files.

    Args:
        debt: The debt, whose groups were limited to the bytes of the same budget, so that only a group of a
            single file exceeds it.
        budget: The budget of the run.
        max_groups: The largest number of groups in the run.
        max_files: The largest number of files in the run.

    """
    limits = RunRoom(budget, max_groups=max_groups, max_files=max_files)
    taken: list[PlannedGroup] = []
    excluded: list[ExcludedFile] = []
    for group in debt.groups:
        reason = limits.refusal(group.size_bytes, len(group.files))
        if reason is not None:
            excluded += [ExcludedFile(file=file, reason=reason) for file in group.files]
            continue
        taken.append(group)
        limits.take(group.size_bytes, len(group.files))
    partitions = {group.partition for group in taken}
    return replace(
        debt,
        groups=tuple(taken),
        excluded=(*debt.excluded, *excluded),
        choices=tuple(choice for choice in debt.choices if choice.partition in partitions),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DueGroups:
    """The groups of a table's debt in their order, each as its bytes and its number of files."""

    groups: tuple[tuple[int, int], ...]
    max_groups: int

    @classmethod
    def of(cls, debt: Debt, *, max_groups: int) -> DueGroups:
        """Return the groups of a debt."""
        groups = tuple((group.size_bytes, len(group.files)) for group in debt.groups)
        return cls(groups=groups, max_groups=max_groups)


def by_last_clustering(clustered: Mapping[str, str]) -> list[str]:
    """Return the tables in the order in which a run lets them use its budget.

    The table whose last clustering is oldest comes first; tables with equal instants keep the given order.

    Args:
        clustered: The instant of each table's last clustering, or the empty string if it has none.

    """
    return sorted(clustered, key=lambda name: clustered[name])


def runs_of(tables: Sequence[DueGroups], *, budget_bytes: int) -> list[int]:
    """Return, for each table, the number of runs that pay its debt; 0 if nothing is due or the budget is 0.

    Args:
        tables: The tables in the order of the first run (:func:`by_last_clustering`). Tables that a run
            clusters come last in the next run.
        budget_bytes: The budget of one run for all tables.

    """
    runs = [0] * len(tables)
    left = {number: deque(table.groups) for number, table in enumerate(tables) if table.groups}
    order = list(left)
    run = steps = 0
    while left and budget_bytes and steps < _MOST_STEPS:
        run += 1
        budget = RunBudget(limit_bytes=budget_bytes)
        clustered = []
        for number in order:
            room = RunRoom(budget, max_groups=tables[number].max_groups)
            steps += _take_fitting(left[number], room)
            if room.taken_bytes:
                clustered.append(number)
                budget = budget.left_after(room.taken_bytes)
            if not left[number]:
                runs[number] = run
                del left[number]
        order = [n for n in (*(n for n in order if n not in clustered), *clustered) if n in left]
    if left and budget_bytes:
        rest_bytes = sum(size_bytes for groups in left.values() for size_bytes, _ in groups)
        by_bytes = -(-rest_bytes // budget_bytes)
        for number, groups in left.items():
            runs[number] = run + max(by_bytes, -(-len(groups) // tables[number].max_groups))
    return runs


def _take_fitting(groups: deque[tuple[int, int]], room: RunRoom) -> int:
    """Take the groups that fit into the room from ``groups``, and return how many groups were examined."""
    passed: list[tuple[int, int]] = []
    before = len(groups)
    while groups and not room.is_full:
        group = groups.popleft()
        if room.refusal(*group) is None:
            room.take(*group)
        else:
            passed.append(group)
    examined = before - len(groups)
    groups.extendleft(reversed(passed))
    return examined


def left_for_later(excluded_files: Iterable[ExcludedFile]) -> str | None:
    """Return a sentence about the due files that wait for a later run, or None if there are none."""
    reasons = (ExclusionReason.BUDGET, ExclusionReason.LARGER_THAN_BUDGET)
    files = [excluded.file for excluded in excluded_files if excluded.reason in reasons]
    if not files:
        return None
    size_bytes = sum(file.size_bytes for file in files)
    due, them = ("due file", "it") if len(files) == 1 else ("due files", "them")
    return (
        f"the rest of the run's budget is too small for {len(files):,} {due} ({size_bytes:,} bytes); "
        f"a later run clusters {them}"
    )
