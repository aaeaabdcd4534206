"""What a table owes its clustering policy, and which part of it a run takes on.

Pure: it looks at what is known of files, and predicts by the functions that execution goes by.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from parquetry.runtime.layout.clustering_depth import depths_of
from parquetry.runtime.layout.clustering_groups import groups_of
from parquetry.runtime.layout.clustering_model import (
    OWES_STEPS,
    ClusteringFile,
    Debt,
    Due,
    ExcludedFile,
    FileKey,
    Left,
    PlanContext,
    PlannedGroup,
    Situation,
)
from parquetry.runtime.layout.clustering_partitions import chosen_partitions
from parquetry.runtime.layout.clustering_policy import ClusteringSpec, Scope, SizeLimits
from parquetry.runtime.layout.clustering_scope import gains_from_one_order
from parquetry.runtime.layout.plan_strategies import plan_strategy

MOST_FILES: Final = 10_000
"""A plan names no more files than this: the timeline reads it again and again."""

_UNLIMITED: Final = 2**62

_JUDGE_NEW_FILES: Final = frozenset({"overlap"})


def debt(
    spec: ClusteringSpec,
    files: Sequence[ClusteringFile],
    situation: Situation,
    *,
    budget_bytes: int | None = None,
) -> Debt:
    """All that is due, in groups, and why everything else is not.

    A file is due when the plan strategy picks it, or when rows are to be arranged and its footer's
    digest is not the applied one (``overlap`` decides itself about files that no clustering wrote).
    Due files for which a rewrite gains nothing are left: a lone small file, say. So a table whose
    debt was paid owes nothing.

    ``files`` are the newest slices of all partitions, in any order. ``budget_bytes`` only keeps
    groups small enough to fit into it; what a run takes on is for :func:`within`. Steps are n log n
    in the files. InvalidDataError for a strategy or a regular expression that is none.
    """
    by_partition: dict[str, list[ClusteringFile]] = defaultdict(list)
    for file in files:
        by_partition[file.partition].append(file)
    chosen = chosen_partitions(by_partition, spec.plan.partitions, situation.partitioning)
    strategy = plan_strategy(spec.plan.strategy)
    limits = SizeLimits.of(spec.plan, max_file_size_bytes=situation.max_file_size_bytes)
    scope = spec.execution.scope if spec.execution.arranges_rows else Scope.GROUP
    # Rows are put in order within a group: for the order to hold in a partition it is one.
    whole = budget_bytes or _UNLIMITED
    capacity = min(spec.plan.max_group_size_bytes, whole)
    left: dict[FileKey, ExcludedFile] = {}
    groups: list[PlannedGroup] = []
    for partition, members in by_partition.items():
        if partition not in chosen:
            left |= _all_left(members, Left.PARTITION)
            continue
        unavailable = _unavailable(members, situation, applied=spec.execution.digest)
        context = PlanContext(
            plan=spec.plan,
            execution=spec.execution,
            limits=limits,
            depths=depths_of(members, spec.execution) if spec.execution.arranges_rows else {},
        )
        reasons = _digest_reasons(spec, members) | dict(strategy(members, context))
        due = [file for file in members if file.file_id in reasons and file.key not in unavailable]
        found: list[PlannedGroup] = []
        if scope is not Scope.PARTITION:
            found = groups_of(due, reasons, context, capacity_bytes=capacity)
        if scope is Scope.PARTITION or (
            scope is Scope.AUTO and gains_from_one_order(found, spec.execution, situation)
        ):
            found = groups_of(
                due, reasons, context, capacity_bytes=whole, most_files=MOST_FILES, scope=Scope.PARTITION
            )
        grouped = {file.key for group in found for file in group.files}
        groups += found
        left |= _all_left(members, Left.HEALTHY)
        left |= _all_left((f for f in members if limits.is_ill(f.size_bytes)), Left.NOT_PICKED)
        left |= _all_left(due, Left.NO_GAIN)
        left |= unavailable
        for key in grouped:
            del left[key]
    return Debt(
        groups=tuple(sorted(groups, key=_best_first)),
        excluded=tuple(left[file.key] for file in files if file.key in left),
    )


def within(owed: Debt, *, budget_bytes: int | None, max_groups: int, max_files: int = MOST_FILES) -> Debt:
    """The part of a debt that one run pays: groups as they come, best first, while they fit.

    ``budget_bytes`` None is no limit. What does not fit any more is among the excluded.
    """
    taken: list[PlannedGroup] = []
    left: list[ExcludedFile] = []
    size = count = 0
    for group in owed.groups:
        reason = None
        if len(taken) >= max_groups:
            reason = Left.GROUPS
        elif budget_bytes is not None and size + group.size_bytes > budget_bytes:
            reason = Left.BUDGET
        elif count + len(group.files) > max_files:
            reason = Left.FILES
        if reason is not None:
            left += [ExcludedFile(file=file, reason=reason) for file in group.files]
            continue
        taken.append(group)
        size += group.size_bytes
        count += len(group.files)
    return replace(owed, groups=tuple(taken), excluded=(*owed.excluded, *left))


def in_batches(groups: Sequence[PlannedGroup], batches: int) -> list[tuple[PlannedGroup, ...]]:
    """The groups in at most so many batches of about the same bytes, in their order; none is empty."""
    total = sum(group.size_bytes for group in groups)
    found: list[list[PlannedGroup]] = []
    seen = 0
    for group in groups:
        begins = seen * batches // max(total, 1)
        if not found or begins >= len(found):
            found.append([])
        found[-1].append(group)
        seen += group.size_bytes
    return [tuple(batch) for batch in found]


def _digest_reasons(spec: ClusteringSpec, files: Iterable[ClusteringFile]) -> dict[str, str]:
    """Why files that do not carry the applied digest are due, by file id."""
    if not spec.execution.arranges_rows:
        return {}
    applied = spec.execution.digest
    reasons: dict[str, str] = {f.file_id: Due.POLICY for f in files if f.digest not in (None, applied)}
    if spec.plan.strategy not in _JUDGE_NEW_FILES:
        reasons |= {file.file_id: Due.NEW for file in files if file.digest is None}
    return reasons


def _unavailable(
    files: Iterable[ClusteringFile], situation: Situation, *, applied: str
) -> dict[FileKey, ExcludedFile]:
    found: dict[FileKey, ExcludedFile] = {}
    until = situation.kept_until
    for file in files:
        if file.key in situation.reserved:
            detail = situation.reserved[file.key]
            found[file.key] = ExcludedFile(file=file, reason=Left.RESERVED, detail=detail)
        elif until is not None and file.digest not in (applied, OWES_STEPS) and file.instant <= until:
            found[file.key] = ExcludedFile(file=file, reason=Left.KEPT)
    return found


def _all_left(files: Iterable[ClusteringFile], reason: Left) -> dict[FileKey, ExcludedFile]:
    return {file.key: ExcludedFile(file=file, reason=reason) for file in files}


def _best_first(group: PlannedGroup) -> tuple[float, str, str]:
    return -group.benefit / max(group.size_bytes, 1), group.partition, group.files[0].path
