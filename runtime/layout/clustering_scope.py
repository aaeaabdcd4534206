"""How far rows are put in one order: where that is worth a whole partition, and how many tasks it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from parquetry.runtime.layout.clustering_depth import CURVES, depths_of
from parquetry.runtime.layout.clustering_model import ClusteringFile, PlannedGroup, Situation
from parquetry.runtime.layout.clustering_policy import ExecutionPolicy
from parquetry.runtime.layout.file_statistics import RowGroupStatistics, merge_columns
from parquetry.runtime.layout.predicate import may_hold
from parquetry.runtime.layout.skipping import bounds_of, columns_of

TARGETS_OF_A_TASK: Final = 8
"""A task that writes so many files of the target size can spread any remainder over them."""


def tasks_of(size_bytes: int, *, target_bytes: int) -> int:
    """How many tasks write a group whose rows are one order, each about eight files of the target size."""
    return max(size_bytes // (TARGETS_OF_A_TASK * target_bytes), 1)


def gains_from_one_order(
    groups: Sequence[PlannedGroup], execution: ExecutionPolicy, situation: Situation
) -> bool:
    """Whether a declared query would open fewer files if the groups, all of a partition, were one.

    That is so when by statistics it has to look into more than one of them, and one of those covers
    values of the clustering columns that another group covers too: each has its own files for them.
    """
    if len(groups) < 2 or not situation.queries:  # noqa: PLR2004 - one is one order
        return False
    wholes = [_as_one(group, str(number)) for number, group in enumerate(groups)]
    depths = depths_of(wholes, execution)
    leading = execution.columns if execution.strategy in CURVES else execution.columns[:1]
    ordered_by = {name.lower() for name in leading}
    known = [bounds_of(_statistics(whole), situation.types) for whole in wholes]
    for query in situation.queries:
        if not columns_of(query) & ordered_by:
            continue
        touched = [whole for whole, bounds in zip(wholes, known, strict=True) if may_hold(query, bounds)]
        if len(touched) > 1 and any(depths.get(whole.file_id, len(wholes)) > 1 for whole in touched):
            return True
    return False


def _as_one(group: PlannedGroup, name: str) -> ClusteringFile:
    """The group as one file that covers what its files cover."""
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
    # A file of unknown rows counts as one that has some: its columns are unknown as well.
    return RowGroupStatistics(rows=file.rows or 1, data_bytes=file.size_bytes, columns=file.columns)
