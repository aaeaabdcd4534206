"""The execution of a clustering plan: from its groups on the timeline to the result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from parquetry.errors import ParquetryError, message_of
from parquetry.message import PARTITION_FIELD, Text, joined
from parquetry.runtime.base_file.result import FileResult
from parquetry.runtime.clustering.forecast.queries import MeasuredQuery, sum_by_query
from parquetry.runtime.clustering.plan.avro import (
    LAYOUT_PARAM,
    SCOPE_KEY,
    SORT_COLUMNS_PARAM,
    execution_of,
)
from parquetry.runtime.clustering.rewrite.kept_sample import kept_sample
from parquetry.runtime.clustering.rewrite.order import row_order
from parquetry.runtime.clustering.rewrite.strategies import check_strategies
from parquetry.runtime.clustering.rewrite.task import GroupWork
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import PartialFailureError
from parquetry.runtime.layout.clustering.scope import tasks_of
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.clustering import (
    ClusteringScope,
    ClusteringSpec,
    ExecutionPolicy,
)
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.table.file_names import relative_path
from parquetry.runtime.timeline.clustering_plan import ClusteringGroup, ClusteringPlan

_LAYOUTS: Final = {"LINEAR": "sort", "ZORDER": "zorder", "HILBERT": "hilbert"}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpublishedGroup:
    """A group that was not published, with the reason."""

    partition: str = field(metadata=PARTITION_FIELD)
    files: int
    reason: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenGroup:
    """A group and its new files; ``queries`` are the declared queries, measured on these files."""

    work: GroupWork
    files: tuple[FileResult, ...]
    queries: tuple[MeasuredQuery, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClusteringResult(Brief):
    """The result of a plan, or of a run of several plans, which is the sum of their results.

    ``instants`` are the replacecommits. If no group of a plan could be published, the plan has none. Sizes
    are in bytes.

    ``attempted_bytes`` are those of all groups whose rewrite began, also of those that were not published.
    They count for budgets. If a plan failed as a whole, all its groups count.

    ``left_out`` are groups that a writer has changed, or that cannot be rewritten; they are due again.
    ``excluded_files`` is the number of files that were not due or exceeded the limits of the run. ``queries``
    are the declared queries, measured on the rewritten files.
    """

    instants: tuple[str, ...] = ()
    groups: int = 0
    rows: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    attempted_bytes: int = 0
    excluded_files: int = 0
    left_out: tuple[UnpublishedGroup, ...] = ()
    queries: tuple[MeasuredQuery, ...] = ()
    warnings: tuple[Text, ...] = ()

    def __add__(self, other: ClusteringResult) -> ClusteringResult:
        """Return the result of both."""
        return ClusteringResult(
            instants=self.instants + other.instants,
            groups=self.groups + other.groups,
            rows=self.rows + other.rows,
            files_before=self.files_before + other.files_before,
            files_after=self.files_after + other.files_after,
            bytes_before=self.bytes_before + other.bytes_before,
            bytes_after=self.bytes_after + other.bytes_after,
            attempted_bytes=self.attempted_bytes + other.attempted_bytes,
            excluded_files=self.excluded_files + other.excluded_files,
            left_out=self.left_out + other.left_out,
            queries=sum_by_query(self.queries + other.queries),
            warnings=self.warnings + other.warnings,
        )


class PartlyClusteredError(PartialFailureError):
    """A part of a run was published, another part failed; ``result`` has what was done and left out."""

    result: ClusteringResult

    def __init__(self, location: str, failures: Sequence[Exception], result: ClusteringResult) -> None:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        reason = message_of(failures[0])
        if not isinstance(failures[0], ParquetryError):
            reason = quoted_library_text(str(failures[0]).strip().partition("\n")[0])
        super().__init__(
            "{table}: clustering {instants} is committed, but a part of the run failed: {reason}{more}; "
            "remove the cause, then run again",
            table=location,
            instants=result.instants,
            reason=reason,
            more=more,
        )
        self.result = result


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWork:
    """The work of a plan on the current table, and the groups that have changed since the plan was made."""

    works: tuple[GroupWork, ...]
    left_out: tuple[UnpublishedGroup, ...]
    execution: ExecutionPolicy
    digest: str | None


def planned_work(transaction: Transaction, plan: ClusteringPlan) -> PlannedWork:
    """Return the work of a plan, made by this project or by Hudi, on the current table.

    Raises:
        InvalidDataError: If the plan's execution strategy is unknown or not allowed.

    """
    table = transaction.table
    view = table.view(transaction.timeline)
    partitions = sorted({part.partition for group in plan.groups for part in group.slices})
    view.list_partitions(partitions)
    current = {part.path: part for partition in partitions for part in view.slices(partition)}
    planned = execution_of(plan)
    execution = planned.execution if planned is not None else _of_hudi(plan)
    check_strategies(ClusteringSpec(execution=execution), table.store.allowed)
    order = row_order(execution)
    works: list[GroupWork] = []
    left_out: list[UnpublishedGroup] = []
    index = 0
    for group in plan.groups:
        paths = [relative_path(table.store, part.path) for part in group.slices]
        slices = tuple(current[path] for path in paths if path in current)
        if len(slices) < len(paths) or not paths:
            left_out.append(_left_out_group(group))
            continue
        target = planned.target_file_size_bytes if planned is not None else _share(slices, group)
        tasks = 1
        if order is not None and group.extra.get(SCOPE_KEY) == ClusteringScope.PARTITION:
            tasks = tasks_of(sum(part.size_bytes for part in slices), target_bytes=target)
        works.append(
            GroupWork(
                index=index,
                partition=group.slices[0].partition,
                slices=slices,
                target_bytes=target,
                order=order,
                tasks=tasks,
                ranked_by=kept_sample(plan, group),
            )
        )
        index += tasks
    return PlannedWork(
        works=tuple(works),
        left_out=tuple(left_out),
        execution=execution,
        digest=execution.digest if planned is not None else None,
    )


def unpublished_group(group: RewrittenGroup, reason: Text) -> UnpublishedGroup:
    """Return the record of a group that was rewritten but is not published."""
    return UnpublishedGroup(partition=group.work.partition, files=len(group.work.slices), reason=reason)


def description(
    execution: ExecutionPolicy,
    publishable: Sequence[RewrittenGroup],
    left_out: Sequence[UnpublishedGroup],
    *,
    deferred: int,
) -> str:
    """Return the description of a clustering for the metadata of its replacecommit, as JSON.

    ``deferred`` is the number of groups that did not begin before the time at which the run stops.
    """
    return json.dumps(
        {
            "strategy": execution.strategy,
            "columns": list(execution.columns),
            "groups": len(publishable),
            "files": {
                "before": sum(len(group.work.slices) for group in publishable),
                "after": sum(len(group.files) for group in publishable),
            },
            "bytes": {
                "before": sum(part.size_bytes for group in publishable for part in group.work.slices),
                "after": sum(file.stat.file_size_bytes for group in publishable for file in group.files),
            },
            "left_out": len(left_out),
            **({"deferred": deferred} if deferred else {}),
        },
        separators=(",", ":"),
    )


def plan_result(
    commit: CommitResult,
    publishable: Sequence[RewrittenGroup],
    left_out: Sequence[UnpublishedGroup],
    queries: Sequence[MeasuredQuery],
) -> ClusteringResult:
    """Return the result of a plan.

    If the commit was not published, all groups are left out and no query counts as measured.

    Args:
        commit: The result of the commit.
        publishable: The rewritten groups of the commit.
        left_out: The groups that were already left out.
        queries: The measured queries.

    """
    if commit.instant is None:
        reason = joined("; ", commit.retry_reasons) or "no group of the plan remained"
        left_out = [*left_out, *(unpublished_group(group, reason) for group in publishable)]
        publishable, queries = [], ()
    files = [file for group in publishable for file in group.files]
    slices = [part for group in publishable for part in group.work.slices]
    return ClusteringResult(
        instants=() if commit.instant is None else (commit.instant,),
        groups=len(publishable),
        rows=sum(file.stat.num_writes for file in files),
        files_before=len(slices),
        files_after=len(files),
        bytes_before=sum(part.size_bytes for part in slices),
        bytes_after=sum(file.stat.file_size_bytes for file in files),
        left_out=tuple(left_out),
        queries=tuple(queries),
        warnings=commit.warnings,
    )


def _of_hudi(plan: ClusteringPlan) -> ExecutionPolicy:
    """Return the execution policy of a plan that Hudi made.

    It corresponds to SparkSortAndSizeExecutionStrategy of Hudi 0.15.
    """
    params = plan.strategy_params
    columns = tuple(name.strip() for name in params.get(SORT_COLUMNS_PARAM, "").split(",") if name.strip())
    if not columns:
        return ExecutionPolicy()
    layout = params.get(LAYOUT_PARAM, "LINEAR").upper().replace("-", "")
    return ExecutionPolicy(strategy=_LAYOUTS.get(layout, "sort"), columns=columns)


def _share(slices: Sequence[FileSlice], group: ClusteringGroup) -> int:
    """Return the target size that divides the slices into the planned number of output files."""
    return max(sum(part.size_bytes for part in slices) // max(group.output_files, 1), 1)


def _left_out_group(group: ClusteringGroup) -> UnpublishedGroup:
    return UnpublishedGroup(
        partition=group.slices[0].partition if group.slices else "",
        files=len(group.slices),
        reason="a writer has changed its files since it was planned",
    )
