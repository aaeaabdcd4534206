"""The plan strategies: the built-in ones, and those of the entry-point group.

A plan strategy is a function that gets the files of one partition and returns, by file id, the reasons to
rewrite some of them. The planner then checks that a rewrite gains something and applies the limits and the
budget. Files of another policy are due whatever the strategy returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from parquetry.errors import ParquetryError
from parquetry.message import Message
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.clustering.depth import DEEP
from parquetry.runtime.layout.clustering.model import ClusteringFile, DueReason, PlanContext
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.plug_ins import PLAN_STRATEGIES


class PlanStrategy(Protocol):
    """A function that picks due files of one partition."""

    def __call__(self, files: Sequence[ClusteringFile], context: PlanContext, /) -> Mapping[str, str]:
        """Return the due reasons by file id: a :class:`DueReason` or the strategy's own text."""
        ...


def by_size(files: Sequence[ClusteringFile], context: PlanContext, /) -> Mapping[str, str]:
    """Pick the small files, and the oversize files with more than one row."""
    limits = context.limits
    small = {file.file_id: DueReason.SMALL for file in files if limits.is_small(file.size_bytes)}
    large = [file for file in files if limits.is_oversize(file.size_bytes)]
    oversize = {file.file_id: DueReason.OVERSIZE for file in large if file.rows != 1}
    return {**small, **oversize}


def by_overlap(files: Sequence[ClusteringFile], context: PlanContext, /) -> Mapping[str, str]:
    """Pick the files in which more than ``DEEP`` sorted runs cover a point of the clustering columns.

    If the policy arranges rows, files that no clustering wrote are picked too, unless statistics show that
    the partition is already in order: several files, none of which overlaps another.
    """
    depths = context.depths
    deep: dict[str, str] = {name: DueReason.OVERLAP for name, depth in depths.items() if depth > DEEP}
    if not context.execution.arranges_rows or is_in_order(files, context):
        return deep
    new = (file.file_id for file in files if file.digest is None)
    return deep | {name: DueReason.OVERLAP if depths.get(name, 1) > 1 else DueReason.NEW for name in new}


def is_in_order(files: Sequence[ClusteringFile], context: PlanContext) -> bool:
    """Return whether statistics show that no two sorted runs of the partition overlap."""
    known = {None, context.execution.digest}
    return len(files) > 1 and all(
        context.depths.get(file.file_id) == 1 and file.digest in known for file in files
    )


def by_commits(files: Sequence[ClusteringFile], context: PlanContext, /) -> Mapping[str, str]:
    """Pick the files written since the last clustering, in any partition: those that no clustering wrote.

    If the policy does not arrange rows, only those of wrong size are picked.
    """
    new = {file.file_id: DueReason.NEW for file in files if file.digest is None}
    if context.execution.arranges_rows:
        return new
    return {file_id: why for file_id, why in by_size(files, context).items() if file_id in new}


BUILT_IN: Final[Mapping[str, PlanStrategy]] = {"size": by_size, "overlap": by_overlap, "commits": by_commits}


def plan_strategy(name: str) -> PlanStrategy:
    """Return the plan strategy of that name, built in or from the entry-point group.

    A strategy from an entry point also raises InvalidDataError if it fails or returns an invalid result.

    Raises:
        InvalidDataError: If there is no such strategy; the message lists the known ones.

    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    point = PLAN_STRATEGIES.entry_point(name)
    if point is None:
        raise InvalidDataError("clustering.plan.strategy: {problem}", problem=PLAN_STRATEGIES.missing(name))
    return _checked(name, point.load)


def _checked(name: str, load: Callable[[], PlanStrategy]) -> PlanStrategy:
    """Return a wrapper of a plug-in strategy that validates its result and names it in errors."""

    def ask(files: Sequence[ClusteringFile], context: PlanContext, /) -> Mapping[str, str]:
        try:
            answer = load()(files, context)
            reasons = dict(answer.items()) if isinstance(answer, Mapping) else None
        except ParquetryError:
            raise
        except Exception as failure:
            reason = quoted_library_text(" ".join(str(failure).split()))
            raise _wrong(
                name,
                Message("failed: {error_class}: {reason}", error_class=type(failure).__name__, reason=reason),
            ) from failure
        if reasons is None:
            raise _wrong(
                name,
                Message(
                    "returned {found}, not a mapping of file ids to reasons", found=type(answer).__name__
                ),
            )
        ids = {file.file_id for file in files}
        for file_id, why in reasons.items():
            if file_id not in ids or not isinstance(why, str):
                raise _wrong(
                    name,
                    Message(
                        "returned {found} for {file_id}, not a text for the id of a given file",
                        found=quoted_library_text(repr(why)),
                        file_id=quoted_library_text(repr(file_id)),
                    ),
                )
        return reasons

    return ask


def _wrong(name: str, problem: Message) -> InvalidDataError:
    return InvalidDataError(
        "clustering.plan.strategy: {strategy!r} {problem}; correct the package that has it in the "
        "entry-point group {group}, or name another strategy",
        strategy=name,
        problem=problem,
        group=PLAN_STRATEGIES.name,
    )
