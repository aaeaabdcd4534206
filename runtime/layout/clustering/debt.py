"""The debt of a table under its clustering policy.

These functions are pure. They use the known facts about files and predict output files with the functions
that execution uses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from parquetry.runtime.layout.clustering.depth import depths_of
from parquetry.runtime.layout.clustering.groups import groups_of
from parquetry.runtime.layout.clustering.model import (
    STEPS_DUE,
    ChosenBy,
    ClusteringFile,
    Debt,
    DueReason,
    ExcludedFile,
    ExclusionReason,
    PlanContext,
    PlannedGroup,
    ScopeChoice,
    Situation,
)
from parquetry.runtime.layout.clustering.partitions import chosen_partitions
from parquetry.runtime.layout.clustering.run_budget import MOST_FILES
from parquetry.runtime.layout.clustering.scope import (
    Choose,
    ScopeQuestion,
    by_statistics,
    chosen_by_statistics,
    costs_of,
    may_gain,
)
from parquetry.runtime.layout.clustering.sizes import SizeLimits
from parquetry.runtime.layout.clustering.strategies import plan_strategy
from parquetry.runtime.layout.model import FileKey
from parquetry.runtime.spec.clustering import ClusteringScope, ClusteringSpec

_UNLIMITED: Final = 2**62

_JUDGE_NEW_FILES: Final = frozenset({"overlap"})


def compute_debt(
    spec: ClusteringSpec,
    files: Sequence[ClusteringFile],
    situation: Situation,
    *,
    budget_bytes: int | None = None,
    choose: Choose | None = None,
) -> Debt:
    """Return all due files in groups, and the reason of each file that is not due.

    A file is due if the plan strategy picks it. It is also due if the policy arranges rows and the digest in
    the file's footer is not the applied one (the ``overlap`` strategy itself decides about files that no
    clustering wrote). Due files whose rewrite gains nothing, such as a lone small file, are excluded, so a
    table has no debt after its debt was paid. The time is n log n in the number of files.

    Args:
        spec: The clustering policy.
        files: The newest slices of all partitions, in any order.
        situation: The other facts about the table.
        budget_bytes: The largest size of a group. The limits of a run are applied later, by
            :func:`~parquetry.runtime.layout.clustering.run_budget.limited_to_budget`.
        choose: Chooses the scope of ``scope: auto`` where one order over a partition could gain; if None,
            statistics decide.

    Raises:
        InvalidDataError: If the plan strategy is unknown or the regular expression of the partitions is
            invalid.

    """
    by_partition: dict[str, list[ClusteringFile]] = defaultdict(list)
    for file in files:
        by_partition[file.partition].append(file)
    chosen = chosen_partitions(by_partition, spec.plan.partitions, situation.partitioning)
    planner = _Planner(spec, situation, budget_bytes=budget_bytes)
    parts = [planner.part(members) for path, members in by_partition.items() if path in chosen]
    choices = _choices(parts, spec, choose)
    excluded: dict[FileKey, ExcludedFile] = {}
    for path, members in by_partition.items():
        if path not in chosen:
            excluded |= _excluded(members, ExclusionReason.PARTITION)
    for part in parts:
        excluded |= part.excluded
        choice = choices.get(part.path)
        if part.question is not None and choice is not None:
            part.groups = list(part.question.of(choice.scope))
        for group in part.groups:
            for file in group.files:
                del excluded[file.key]
    return Debt(
        groups=_in_turn(group for part in parts for group in part.groups),
        excluded=tuple(excluded[file.key] for file in files if file.key in excluded),
        choices=tuple(choices.values()),
    )


@dataclass(slots=True, kw_only=True)
class _Part:
    """The due files of a partition. With ``scope: auto`` it has a ``question``, a ``choice``, or neither."""

    path: str
    groups: list[PlannedGroup]
    excluded: dict[FileKey, ExcludedFile] = field(default_factory=dict)
    question: ScopeQuestion | None = None
    choice: ScopeChoice | None = None


class _Planner:
    """Plans the groups of one partition at a time."""

    def __init__(self, spec: ClusteringSpec, situation: Situation, *, budget_bytes: int | None) -> None:
        self._spec = spec
        self._situation = situation
        self._strategy = plan_strategy(spec.plan.strategy)
        self._limits = SizeLimits.of(spec.plan, max_file_size_bytes=situation.max_file_size_bytes)
        self._scope = spec.execution.scope if spec.execution.arranges_rows else ClusteringScope.GROUP
        # Rows are sorted within a group, so an order over a partition needs a group of the whole partition.
        self._whole_bytes = budget_bytes or _UNLIMITED
        self._capacity_bytes = min(spec.plan.max_group_size_bytes, self._whole_bytes)

    def part(self, members: Sequence[ClusteringFile]) -> _Part:
        """Return the due files of a partition in groups, and the others with their reasons."""
        execution = self._spec.execution
        unavailable = _unavailable(members, self._situation, applied=execution.digest)
        context = PlanContext(
            plan=self._spec.plan,
            execution=execution,
            limits=self._limits,
            depths=depths_of(members, execution) if execution.arranges_rows else {},
        )
        reasons = _digest_reasons(self._spec, members) | dict(self._strategy(members, context))
        due = [file for file in members if file.file_id in reasons and file.key not in unavailable]
        part = self._grouped(members[0].partition, due, reasons, context)
        part.excluded |= _excluded(members, ExclusionReason.HEALTHY)
        part.excluded |= _excluded(
            (f for f in members if self._limits.is_off_size(f.size_bytes)), ExclusionReason.NOT_PICKED
        )
        part.excluded |= _excluded(due, ExclusionReason.NO_GAIN)
        part.excluded |= unavailable
        return part

    def _grouped(
        self,
        path: str,
        due: Sequence[ClusteringFile],
        reasons: Mapping[str, str],
        context: PlanContext,
    ) -> _Part:
        """Return the groups of the due files.

        With ``scope: auto``, also return the question or the choice.
        """

        def whole() -> list[PlannedGroup]:
            """Return the groups for one order over the partition."""
            return groups_of(
                due,
                reasons,
                context,
                capacity_bytes=self._whole_bytes,
                most_files=MOST_FILES,
                scope=ClusteringScope.PARTITION,
            )

        if self._scope is ClusteringScope.PARTITION:
            return _Part(path=path, groups=whole())
        groups = groups_of(due, reasons, context, capacity_bytes=self._capacity_bytes)
        part = _Part(path=path, groups=groups)
        if self._scope is not ClusteringScope.AUTO or len(groups) < 2:  # noqa: PLR2004 - one is one order
            return part
        execution, situation = self._spec.execution, self._situation
        in_one_order = whole() if may_gain(groups, execution, situation) else []
        if in_one_order:
            part.question = ScopeQuestion(
                partition=path,
                groups=tuple(groups),
                whole=tuple(in_one_order),
                by_statistics=chosen_by_statistics(groups, execution, situation),
            )
        else:
            by = ChosenBy.STATISTICS if situation.queries else ChosenBy.NO_QUERIES
            costs = costs_of(groups, self._spec)
            part.choice = ScopeChoice(partition=path, scope=ClusteringScope.GROUP, chosen_by=by, group=costs)
        return part


def _choices(parts: Sequence[_Part], spec: ClusteringSpec, choose: Choose | None) -> dict[str, ScopeChoice]:
    """Return the choice of ``scope: auto`` for each partition that has one."""
    choices = {part.path: part.choice for part in parts if part.choice is not None}
    questions = [part.question for part in parts if part.question is not None]
    if questions:
        answers = by_statistics(questions, spec) if choose is None else choose(questions)
        choices |= {choice.partition: choice for choice in answers}
    return choices


def in_batches(groups: Sequence[PlannedGroup], batches: int) -> list[tuple[PlannedGroup, ...]]:
    """Divide the groups into at most ``batches`` batches of about equal bytes.

    The groups keep their order, and no batch is empty.
    """
    total = sum(group.size_bytes for group in groups)
    filled: list[list[PlannedGroup]] = []
    seen = 0
    for group in groups:
        begins = seen * batches // max(total, 1)
        if not filled or begins >= len(filled):
            filled.append([])
        filled[-1].append(group)
        seen += group.size_bytes
    return [tuple(batch) for batch in filled]


def _digest_reasons(spec: ClusteringSpec, files: Iterable[ClusteringFile]) -> dict[str, str]:
    """Return the due reasons of files whose digest is not the applied one, by file id."""
    if not spec.execution.arranges_rows:
        return {}
    applied = spec.execution.digest
    reasons: dict[str, str] = {f.file_id: DueReason.POLICY for f in files if f.digest not in (None, applied)}
    if spec.plan.strategy not in _JUDGE_NEW_FILES:
        reasons |= {file.file_id: DueReason.NEW for file in files if file.digest is None}
    return reasons


def _unavailable(
    files: Iterable[ClusteringFile], situation: Situation, *, applied: str
) -> dict[FileKey, ExcludedFile]:
    """Return the files that must not be rewritten: reserved ones, and those under ``existing: keep``."""
    excluded: dict[FileKey, ExcludedFile] = {}
    until = situation.kept_until
    for file in files:
        if file.key in situation.reserved:
            detail = situation.reserved[file.key]
            excluded[file.key] = ExcludedFile(file=file, reason=ExclusionReason.RESERVED, detail=detail)
        elif until is not None and file.digest not in (applied, STEPS_DUE) and file.instant <= until:
            excluded[file.key] = ExcludedFile(file=file, reason=ExclusionReason.KEPT)
    return excluded


def _excluded(files: Iterable[ClusteringFile], reason: ExclusionReason) -> dict[FileKey, ExcludedFile]:
    """Return the files as excluded files with this reason, by file group."""
    return {file.key: ExcludedFile(file=file, reason=reason) for file in files}


def _in_turn(groups: Iterable[PlannedGroup]) -> tuple[PlannedGroup, ...]:
    """Return the groups in the order in which runs take them: the one with the oldest file, then by benefit.

    So each run pays the oldest debt of a table, and no group waits forever while better ones arrive.
    """
    best_first = sorted(groups, key=_best_first)
    if best_first:
        oldest = min(range(len(best_first)), key=lambda place: best_first[place].oldest_instant)
        best_first.insert(0, best_first.pop(oldest))
    return tuple(best_first)


def _best_first(group: PlannedGroup) -> tuple[float, str, str]:
    """Return the sort key that puts the best benefit per byte first."""
    return -group.benefit / max(group.size_bytes, 1), group.partition, group.files[0].path
