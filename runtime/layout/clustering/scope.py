"""The scope of an order: whether it should span a whole partition, and how many tasks that takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from parquetry.runtime.layout.clustering.depth import CURVES, depths_of
from parquetry.runtime.layout.clustering.model import (
    ChosenBy,
    ClusteringFile,
    Debt,
    PlannedGroup,
    ScopeChoice,
    ScopeFigures,
    Situation,
)
from parquetry.runtime.layout.skipping.files import bounds_of, columns_of
from parquetry.runtime.layout.skipping.predicate import may_hold
from parquetry.runtime.layout.skipping.statistics import RowGroupStatistics, merge_columns
from parquetry.runtime.spec.clustering import ClusteringScope, ClusteringSpec, ExecutionPolicy

TARGETS_OF_A_TASK: Final = 8
"""The number of target-size files per task, enough to spread any remainder over them."""


WORTH_ONE_ORDER: Final = 0.9
"""One order over a partition is chosen if queries read at most this share of their reads by groups."""


def tasks_of(size_bytes: int, *, target_bytes: int) -> int:
    """Return how many tasks write a group in one order: one for about eight files of the target size."""
    return max(size_bytes // (TARGETS_OF_A_TASK * target_bytes), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeQuestion:
    """The due files of a partition as two or more ``groups``, and as ``whole`` in one order.

    A budget may divide ``whole`` into several groups too. ``by_statistics`` is the choice by statistics
    alone.
    """

    partition: str
    groups: tuple[PlannedGroup, ...]
    whole: tuple[PlannedGroup, ...]
    by_statistics: ClusteringScope

    def of(self, scope: ClusteringScope) -> tuple[PlannedGroup, ...]:
        """Return the groups of a scope."""
        return self.whole if scope is ClusteringScope.PARTITION else self.groups


Choose: TypeAlias = Callable[[Sequence[ScopeQuestion]], Sequence[ScopeChoice]]
"""Answers the questions of a plan, in their order."""


def better_scope(group_bytes: float, whole_bytes: float) -> ClusteringScope:
    """Return PARTITION if one order over the partition saves queries a tenth of their reads, else GROUP.

    The margin pays for a shuffle and for a larger group, which is more likely to conflict with writers.

    Args:
        group_bytes: The bytes that declared queries read if each group has its own order.
        whole_bytes: The bytes that they read with one order over the partition.

    """
    return (
        ClusteringScope.PARTITION
        if whole_bytes <= WORTH_ONE_ORDER * group_bytes < group_bytes
        else ClusteringScope.GROUP
    )


def may_gain(groups: Sequence[PlannedGroup], execution: ExecutionPolicy, situation: Situation) -> bool:
    """Return whether one order over these groups of a partition could gain more than an order in each group.

    That is possible only if a query filters by a column of the order, and statistics cannot keep it to one
    group, and at least one of the groups that it reads overlaps another one.
    """
    return _query_reads_overlapping_groups(groups, execution, situation, ordered_by=execution.columns)


def chosen_by_statistics(
    groups: Sequence[PlannedGroup], execution: ExecutionPolicy, situation: Situation
) -> ClusteringScope:
    """Return the scope by statistics alone, which do not show the effect of the later columns of a sort."""
    leading = execution.columns if execution.strategy in CURVES else execution.columns[:1]
    gains = _query_reads_overlapping_groups(groups, execution, situation, ordered_by=leading)
    return ClusteringScope.PARTITION if gains else ClusteringScope.GROUP


def by_statistics(questions: Sequence[ScopeQuestion], spec: ClusteringSpec) -> list[ScopeChoice]:
    """Return the choice by statistics alone for each question, with its costs."""
    return [
        ScopeChoice(
            partition=question.partition,
            scope=question.by_statistics,
            chosen_by=ChosenBy.STATISTICS,
            group=costs_of(question.groups, spec),
            whole=costs_of(question.whole, spec),
        )
        for question in questions
    ]


def costs_of(groups: Sequence[PlannedGroup], spec: ClusteringSpec) -> ScopeFigures:
    """Return the costs of rewriting the groups, without figures about queries."""
    target_bytes = spec.plan.target_file_size_bytes
    rewritten = Debt(groups=tuple(groups))
    shuffled = (
        group.size_bytes
        for group in groups
        if group.scope is ClusteringScope.PARTITION
        and tasks_of(group.size_bytes, target_bytes=target_bytes) > 1
    )
    return ScopeFigures(
        groups=len(groups),
        rewritten_files=rewritten.files_before,
        rewritten_bytes=rewritten.rewritten_bytes,
        shuffled_bytes=sum(shuffled),
        files_after=rewritten.files_after,
    )


def _query_reads_overlapping_groups(
    groups: Sequence[PlannedGroup],
    execution: ExecutionPolicy,
    situation: Situation,
    *,
    ordered_by: Sequence[str],
) -> bool:
    """Return whether a query on these columns reads several groups, and one of them overlaps another."""
    if len(groups) < 2 or not situation.queries:  # noqa: PLR2004 - one is one order
        return False
    names = {name.lower() for name in ordered_by}
    asking = [query for query in situation.queries if columns_of(query) & names]
    if not asking:
        return False
    merged_groups = [_as_one(group, str(number)) for number, group in enumerate(groups)]
    depths = depths_of(merged_groups, execution)
    known = [bounds_of(_statistics(whole), situation.types) for whole in merged_groups]
    for query in asking:
        read = [whole for whole, bounds in zip(merged_groups, known, strict=True) if may_hold(query, bounds)]
        if len(read) > 1 and any(depths.get(whole.file_id, len(merged_groups)) > 1 for whole in read):
            return True
    return False


def _as_one(group: PlannedGroup, name: str) -> ClusteringFile:
    """Return the group as one file with the merged bounds of its files."""
    columns = merge_columns(_statistics(file) for file in group.files)
    rows = [file.rows for file in group.files]
    return ClusteringFile(
        partition=group.partition,
        file_id=name,
        instant="",
        path=name,
        size_bytes=group.size_bytes,
        rows=sum(count or 0 for count in rows),
        columns=columns,
    )


def _statistics(file: ClusteringFile) -> RowGroupStatistics:
    # A file with an unknown number of rows counts as a file with rows: its column bounds are unknown too.
    return RowGroupStatistics(rows=file.rows or 1, data_bytes=file.size_bytes, columns=file.columns)
