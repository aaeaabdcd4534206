"""From a clustering plan on the timeline to what its groups become, and which of them may be published.

Writers always win: a group of which a file was changed, or that a living writer has announced, is left
out at the last moment, under the lock, and its new files are deleted before the others are published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from parquetry.runtime.base_file_result import FileResult
from parquetry.runtime.clustering_order import RowOrder
from parquetry.runtime.clustering_queries import MeasuredQuery, added_up
from parquetry.runtime.clustering_sample_file import SAMPLE_KEY, KeptSample
from parquetry.runtime.clustering_strategies import execution_strategy
from parquetry.runtime.clustering_task import GroupWork
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.clustering_model import FileKey
from parquetry.runtime.layout.clustering_policy import ENCRYPT, PRUNE, STITCH, ExecutionPolicy, Scope
from parquetry.runtime.layout.clustering_scope import tasks_of
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.outcome import CommitResult
from parquetry.runtime.parallel import map_each
from parquetry.runtime.services.clustering_avro import (
    LAYOUT_PARAM,
    SCOPE_KEY,
    SORT_COLUMNS_PARAM,
    execution_of,
)
from parquetry.runtime.services.clustering_survey import reserved_groups
from parquetry.runtime.services.undo import files_of_instant, relative_path
from parquetry.runtime.timeline.clustering_plan import ClusteringGroup, ClusteringPlan
from parquetry.runtime.timeline.timeline import Timeline
from parquetry.runtime.transaction import Transaction

_LAYOUTS: Final = {"LINEAR": "sort", "ZORDER": "zorder", "HILBERT": "hilbert"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A group that was not published, and why."""

    partition: str
    files: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenGroup:
    """A group and the files that stand for it now."""

    work: GroupWork
    files: tuple[FileResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustered:
    """What one plan came to; ``commit.instant`` is None when no group of it could be published."""

    commit: CommitResult
    groups: int = 0
    rows: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    left_out: tuple[LeftOut, ...] = ()
    queries: tuple[MeasuredQuery, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringResult:
    """What a run of clustering did. ``instants`` are its replacecommits; sizes are in bytes.

    ``left_out`` are groups that a writer won; they are due again. ``excluded_files`` were not due, or
    not within the limits of the run. ``queries`` are the declared ones, on the files that were rewritten.
    """

    instants: tuple[str, ...] = ()
    groups: int = 0
    rows: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    excluded_files: int = 0
    left_out: tuple[LeftOut, ...] = ()
    queries: tuple[MeasuredQuery, ...] = ()
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWork:
    """What a plan asks for now, and the groups that have changed since it was made."""

    works: tuple[GroupWork, ...]
    left_out: tuple[LeftOut, ...]
    execution: ExecutionPolicy
    digest: str | None


def planned_work(transaction: Transaction, plan: ClusteringPlan) -> PlannedWork:
    """The work of a plan of this project, or of Hudi's, on the table as it is.

    InvalidDataError when the plan wants its rows arranged in a way that is not known here.
    """
    table = transaction.table
    view = table.view(transaction.timeline)
    partitions = sorted({part.partition for group in plan.groups for part in group.slices})
    current = {part.path: part for slices in map_each(partitions, view.slices) for part in slices}
    planned = execution_of(plan)
    execution = planned.execution if planned is not None else _of_hudi(plan)
    order = row_order(execution)
    works: list[GroupWork] = []
    left_out: list[LeftOut] = []
    index = 0
    for number, group in enumerate(plan.groups):
        paths = [relative_path(table.store, part.path) for part in group.slices]
        slices = tuple(current[path] for path in paths if path in current)
        if len(slices) < len(paths) or not paths:
            left_out.append(_left_out(group, "a writer has changed its files since it was planned"))
            continue
        target = planned.target_file_size_bytes if planned is not None else _share(slices, group)
        tasks = 1
        if order is not None and group.extra.get(SCOPE_KEY) == Scope.PARTITION:
            tasks = tasks_of(sum(part.size_bytes for part in slices), target_bytes=target)
        works.append(
            GroupWork(
                index=index,
                partition=group.slices[0].partition,
                slices=slices,
                target_bytes=target,
                order=order,
                tasks=tasks,
                ranked_by=_kept_sample(plan, number),
            )
        )
        index += tasks
    return PlannedWork(
        works=tuple(works),
        left_out=tuple(left_out),
        execution=execution,
        digest=execution.digest if planned is not None else None,
    )


def _kept_sample(plan: ClusteringPlan, number: int) -> KeptSample | None:
    path = plan.extra.get(SAMPLE_KEY)
    return None if path is None else KeptSample(path=path, number=number)


def row_order(execution: ExecutionPolicy) -> RowOrder | None:
    """The order of an execution policy; None where rows stay as they come.

    InvalidDataError for a strategy or a step that is not known here.
    """
    unknown = sorted(set(execution.then) - {ENCRYPT, PRUNE})
    if unknown:
        raise InvalidDataError(
            f"clustering.execution.then: {unknown[0]!r} cannot be done; take it out of the spec"
        )
    if execution.strategy == STITCH:
        split = execution.split_by
        return RowOrder(strategy="sort", columns=(), split_by=split) if split else None
    execution_strategy(execution.strategy)
    if not execution.columns:
        raise InvalidDataError(
            f"clustering.execution: {execution.strategy} needs columns; name them, or use {STITCH}"
        )
    return RowOrder(strategy=execution.strategy, columns=execution.columns, split_by=execution.split_by)


class Standing:
    """Which groups of a plan may be published, asked under the lock."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def still_hold(
        self, groups: Sequence[RewrittenGroup], now: Timeline, *, works: Sequence[GroupWork]
    ) -> tuple[list[RewrittenGroup], list[LeftOut]]:
        """The groups whose files are still the newest and that no living writer is about to change.

        The new files of all others among ``works`` are deleted.
        """
        partitions = sorted({work.partition for work in works})
        view = self._transaction.table.view(now)
        current = {part.path for slices in map_each(partitions, view.slices) for part in slices}
        timing = self._transaction.session.timing
        reserved = reserved_groups(now, timing=timing, but=self._transaction.instant)
        standing: list[RewrittenGroup] = []
        lost: list[LeftOut] = []
        for group in groups:
            slices = group.work.slices
            if not all(part.path in current for part in slices):
                lost.append(_lost(group, "a writer has changed its files"))
            elif why := next((reserved[key] for key in _keys(slices) if key in reserved), None):
                lost.append(_lost(group, f"of one of its files: {why}"))
            else:
                standing.append(group)
        self._delete_others(partitions, standing)
        return standing, lost

    def _delete_others(self, partitions: Iterable[str], standing: Iterable[RewrittenGroup]) -> None:
        transaction = self._transaction
        kept = {file.stat.path for group in standing for file in group.files}
        for partition in partitions:
            written = files_of_instant(transaction.store, partition, transaction.instant)
            transaction.store.delete_all([path for path in written if path not in kept])


def description(
    execution: ExecutionPolicy, standing: Sequence[RewrittenGroup], left_out: Sequence[LeftOut]
) -> str:
    """What the replacecommit says about itself, as JSON."""
    return json.dumps(
        {
            "strategy": execution.strategy,
            "columns": list(execution.columns),
            "groups": len(standing),
            "files": {
                "before": sum(len(group.work.slices) for group in standing),
                "after": sum(len(group.files) for group in standing),
            },
            "bytes": {
                "before": sum(part.size_bytes for group in standing for part in group.work.slices),
                "after": sum(file.stat.file_size_bytes for group in standing for file in group.files),
            },
            "left_out": len(left_out),
        },
        separators=(",", ":"),
    )


def clustered(
    commit: CommitResult,
    standing: Sequence[RewrittenGroup],
    left_out: Sequence[LeftOut],
    queries: Sequence[MeasuredQuery] = (),
) -> Clustered:
    """What became of a plan; groups of a run that was lost as a whole are left out, and measures of it."""
    if commit.instant is None:
        reason = "; ".join(commit.retry_reasons) or "no group of the plan was left"
        left_out = [*left_out, *(_lost(group, reason) for group in standing)]
        standing, queries = [], ()
    files = [file for group in standing for file in group.files]
    slices = [part for group in standing for part in group.work.slices]
    return Clustered(
        commit=commit,
        groups=len(standing),
        rows=sum(file.stat.num_writes for file in files),
        files_before=len(slices),
        files_after=len(files),
        bytes_before=sum(part.size_bytes for part in slices),
        bytes_after=sum(file.stat.file_size_bytes for file in files),
        left_out=tuple(left_out),
        queries=tuple(queries),
    )


def summed(parts: Sequence[Clustered], *, excluded_files: int = 0) -> ClusteringResult:
    """The result of a run of several plans."""
    return ClusteringResult(
        instants=tuple(part.commit.instant for part in parts if part.commit.instant is not None),
        groups=sum(part.groups for part in parts),
        rows=sum(part.rows for part in parts),
        files_before=sum(part.files_before for part in parts),
        files_after=sum(part.files_after for part in parts),
        bytes_before=sum(part.bytes_before for part in parts),
        bytes_after=sum(part.bytes_after for part in parts),
        excluded_files=excluded_files,
        left_out=tuple(lost for part in parts for lost in part.left_out),
        queries=added_up(query for part in parts for query in part.queries),
        warnings=tuple(warning for part in parts for warning in part.commit.warnings),
    )


def _of_hudi(plan: ClusteringPlan) -> ExecutionPolicy:
    """What a plan that Hudi made asks for: SparkSortAndSizeExecutionStrategy of Hudi 0.15."""
    params = plan.strategy_params
    columns = tuple(name.strip() for name in params.get(SORT_COLUMNS_PARAM, "").split(",") if name.strip())
    if not columns:
        return ExecutionPolicy()
    layout = params.get(LAYOUT_PARAM, "LINEAR").upper().replace("-", "")
    return ExecutionPolicy(strategy=_LAYOUTS.get(layout, "sort"), columns=columns)


def _keys(slices: Iterable[FileSlice]) -> Iterable[FileKey]:
    return ((part.partition, part.file_id) for part in slices)


def _share(slices: Sequence[FileSlice], group: ClusteringGroup) -> int:
    return max(sum(part.size_bytes for part in slices) // max(group.output_files, 1), 1)


def _left_out(group: ClusteringGroup, reason: str) -> LeftOut:
    partition = group.slices[0].partition if group.slices else ""
    return LeftOut(partition=partition, files=len(group.slices), reason=reason)


def _lost(group: RewrittenGroup, reason: str) -> LeftOut:
    return LeftOut(partition=group.work.partition, files=len(group.work.slices), reason=reason)
