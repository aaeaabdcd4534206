"""The debt of a table under its clustering policy.

Pure: it looks at what is known of files, and predicts by the functions that execution goes by.
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
    FileKey,
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
from parquetry.runtime.spec.clustering import ClusteringScope, ClusteringSpec

_UNLIMITED: Final = 2**62

_JUDGE_NEW_FILES: Final = frozenset({"overlap"})


def debt(
    spec: ClusteringSpec,
    files: Sequence[ClusteringFile],
    situation: Situation,
    *,
    budget_bytes: int | None = None,
    choose: Choose | None = None,
) -> Debt:
    """All that is due, in groups, and why everything else is not.

    A file is due when the plan strategy picks it, or when rows are to be arranged and its footer's
    digest is not the applied one (``overlap`` decides itself about files that no clustering wrote).
    Due files for which a rewrite gains nothing are left: a lone small file, say. So a table whose
    debt was paid has none.

    ``files`` are the newest slices of all partitions, in any order. ``budget_bytes`` only keeps
    groups small enough to fit into it; what a run takes on is for
    :func:`~parquetry.runtime.layout.clustering.run_budget.within`. ``choose`` answers
    for ``scope: auto`` where one order over a partition could gain, without it statistics do. Steps are
    n log n in the files. InvalidDataError for a strategy or a regular expression that is none.
    """
    by_partition: dict[str, list[ClusteringFile]] = defaultdict(list)
    for file in files:
        by_partition[file.partition].append(file)
    chosen = chosen_partitions(by_partition, spec.plan.partitions, situation.partitioning)
    planner = _Planner(spec, situation, budget_bytes=budget_bytes)
    found = [planner.part(members) for path, members in by_partition.items() if path in chosen]
    choices = _choices(found, spec, choose)
    left: dict[FileKey, ExcludedFile] = {}
    for path, members in by_partition.items():
        if path not in chosen:
            left |= _all_left(members, ExclusionReason.PARTITION)
    for part in found:
        left |= part.left
        choice = choices.get(part.path)
        if part.question is not None and choice is not None:
            part.groups = list(part.question.of(choice.scope))
        for group in part.groups:
            for file in group.files:
                del left[file.key]
    return Debt(
        groups=tuple(sorted((group for part in found for group in part.groups), key=_best_first)),
        excluded=tuple(left[file.key] for file in files if file.key in left),
        choices=tuple(choices.values()),
    )


@dataclass(slots=True, kw_only=True)
class _Part:
    """What is due in a partition; for ``scope: auto`` there is a ``question``, a ``choice``, or neither."""

    path: str
    groups: list[PlannedGroup]
    left: dict[FileKey, ExcludedFile] = field(default_factory=dict)
    question: ScopeQuestion | None = None
    choice: ScopeChoice | None = None


class _Planner:
    """Finds the groups of one partition after the other."""

    def __init__(self, spec: ClusteringSpec, situation: Situation, *, budget_bytes: int | None) -> None:
        self._spec = spec
        self._situation = situation
        self._strategy = plan_strategy(spec.plan.strategy)
        self._limits = SizeLimits.of(spec.plan, max_file_size_bytes=situation.max_file_size_bytes)
        self._scope = spec.execution.scope if spec.execution.arranges_rows else ClusteringScope.GROUP
        # Rows are put in order within a group: for the order to hold in a partition it is one.
        self._whole_bytes = budget_bytes or _UNLIMITED
        self._capacity_bytes = min(spec.plan.max_group_size_bytes, self._whole_bytes)

    def part(self, members: Sequence[ClusteringFile]) -> _Part:
        """What is due of the files of a partition, and why the others are left."""
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
        part.left |= _all_left(members, ExclusionReason.HEALTHY)
        part.left |= _all_left(
            (f for f in members if self._limits.is_off_size(f.size_bytes)), ExclusionReason.NOT_PICKED
        )
        part.left |= _all_left(due, ExclusionReason.NO_GAIN)
        part.left |= unavailable
        return part

    def _grouped(
        self,
        path: str,
        due: Sequence[ClusteringFile],
        reasons: Mapping[str, str],
        context: PlanContext,
    ) -> _Part:
        def whole() -> list[PlannedGroup]:
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
        in_order = whole() if may_gain(groups, execution, situation) else []
        if in_order:
            part.question = ScopeQuestion(
                partition=path,
                groups=tuple(groups),
                whole=tuple(in_order),
                by_statistics=chosen_by_statistics(groups, execution, situation),
            )
        else:
            by = ChosenBy.STATISTICS if situation.queries else ChosenBy.NO_QUERIES
            costs = costs_of(groups, self._spec)
            part.choice = ScopeChoice(partition=path, scope=ClusteringScope.GROUP, chosen_by=by, group=costs)
        return part


def _choices(parts: Sequence[_Part], spec: ClusteringSpec, choose: Choose | None) -> dict[str, ScopeChoice]:
    """What ``scope: auto`` comes to, by partition."""
    found = {part.path: part.choice for part in parts if part.choice is not None}
    questions = [part.question for part in parts if part.question is not None]
    if questions:
        answers = by_statistics(questions, spec) if choose is None else choose(questions)
        found |= {choice.partition: choice for choice in answers}
    return found


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
    reasons: dict[str, str] = {f.file_id: DueReason.POLICY for f in files if f.digest not in (None, applied)}
    if spec.plan.strategy not in _JUDGE_NEW_FILES:
        reasons |= {file.file_id: DueReason.NEW for file in files if file.digest is None}
    return reasons


def _unavailable(
    files: Iterable[ClusteringFile], situation: Situation, *, applied: str
) -> dict[FileKey, ExcludedFile]:
    found: dict[FileKey, ExcludedFile] = {}
    until = situation.kept_until
    for file in files:
        if file.key in situation.reserved:
            detail = situation.reserved[file.key]
            found[file.key] = ExcludedFile(file=file, reason=ExclusionReason.RESERVED, detail=detail)
        elif until is not None and file.digest not in (applied, STEPS_DUE) and file.instant <= until:
            found[file.key] = ExcludedFile(file=file, reason=ExclusionReason.KEPT)
    return found


def _all_left(files: Iterable[ClusteringFile], reason: ExclusionReason) -> dict[FileKey, ExcludedFile]:
    return {file.key: ExcludedFile(file=file, reason=reason) for file in files}


def _best_first(group: PlannedGroup) -> tuple[float, str, str]:
    return -group.benefit / max(group.size_bytes, 1), group.partition, group.files[0].path
