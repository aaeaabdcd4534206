"""Which layouts of a table are tried, and which of them is worth its cost for the declared queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from parquetry.compiler.clustering_trials import Trial, Trials, TrialTable, TriedQuery
from parquetry.compiler.errors import UsageError
from parquetry.compiler.rereading import read_again
from parquetry.runtime.layout.clustering_depth import CURVES
from parquetry.runtime.layout.clustering_policy import STITCH, ExecutionPolicy, Scope
from parquetry.runtime.storage import ObjectStore
from parquetry.runtime.table import open_table

_STRATEGIES: Final = ("sort", "zorder", "hilbert")
_MOST_COLUMNS: Final = 3
"""A curve over more columns narrows none of them much."""

WORTH_IT: Final = 0.9
"""A layout is suggested when the queries would read at most this share of what they read now."""

_AS_GOOD: Final = 1.05
"""The simplest layout within this factor of the best is the one that is suggested."""

_ALL_OF_IT: Final = 0.95
_WORSE: Final = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """What is suggested, None when clustering would not help; ``reasons`` are sentences without end.

    ``trials`` have the best layout first.
    """

    trials: Trials
    best: Trial | None
    reasons: tuple[str, ...]


@read_again
def try_layouts(
    store: ObjectStore,
    *,
    strategies: Sequence[str] = (),
    columns: Sequence[tuple[str, ...]] = (),
    scopes: Sequence[Scope] = (),
) -> Trials:
    """Layouts of the table in ``store``: every strategy with every list of columns in every scope.

    What is not given is the built-in strategies (a curve over one column is a sort); the columns of the
    policy in force, or where it has none those of the declared queries; and the policy's scope.
    TableNotFoundError when there is no table, UsageError when there is no column to go by,
    InvalidDataError for a strategy or a column that there is not.
    """
    table = TrialTable(open_table(store))
    policy = table.policy.execution
    lists = tuple(columns) or ((policy.columns,) if policy.columns else _column_lists(table)[:1])
    wanted = tuple(strategies) or (STITCH, *_STRATEGIES)
    if not lists and set(wanted) != {STITCH}:
        raise UsageError(
            f"table {table.name} declares no queries with conditions on columns and no clustering columns: "
            "name some with --columns COLUMN,..."
        )
    return table.tried(
        _distinct(
            replace(policy, strategy=strategy, columns=() if strategy == STITCH else names, scope=scope)
            for strategy in wanted
            for names in lists or ((),)
            for scope in (scopes or (policy.scope,))
        )
    )


@read_again
def suggest(store: ObjectStore) -> Suggestion:
    """The layouts that the declared queries ask for, the best first, and which of them to take.

    TableNotFoundError when there is no table.
    """
    table = TrialTable(open_table(store))
    policy = table.policy.execution
    layouts = [policy, replace(policy, strategy=STITCH, columns=())]
    for names in _column_lists(table):
        strategies = ("sort",) if len(names) == 1 else _STRATEGIES
        layouts += [replace(policy, strategy=name, columns=names) for name in strategies]
    return suggestion_of(table.tried(_distinct(layouts)))


def suggestion_of(trials: Trials) -> Suggestion:
    """What the trials say."""
    ranked = sorted(trials.trials, key=lambda trial: (trial.share, trial.rewritten_bytes))
    ordered = replace(trials, trials=tuple(ranked))
    if (reason := _nothing_foreseen(trials)) is not None:
        return Suggestion(trials=ordered, best=None, reasons=(reason,))
    reasons = [reason for query in trials.queries if (reason := _never_helped(query, trials)) is not None]
    best = ranked[0]
    if best.share > WORTH_IT or not best.rewritten_bytes:
        reasons.append(
            f"under the best layout, {in_words(best.execution)}, the queries read {best.share:.0%} of "
            "the bytes that they read now"
        )
        return Suggestion(trials=ordered, best=None, reasons=tuple(reasons))
    chosen = min(
        (trial for trial in ranked if trial.share <= best.share * _AS_GOOD),
        key=lambda trial: (len(trial.execution.columns), trial.execution.strategy != "sort", trial.share),
    )
    return Suggestion(trials=ordered, best=chosen, reasons=(*_gains(chosen, trials.queries), *reasons))


def _distinct(layouts: Iterable[ExecutionPolicy]) -> list[ExecutionPolicy]:
    """The layouts that put rows in different orders, the first of those that are alike."""
    found: dict[ExecutionPolicy, ExecutionPolicy] = {}
    for layout in layouts:
        alike = layout
        if layout.strategy in CURVES and len(layout.columns) == 1:
            alike = replace(layout, strategy="sort")
        if layout.strategy == STITCH:
            # It has no order that could be one over the partition.
            alike = replace(layout, scope=Scope.GROUP)
        found.setdefault(alike, layout)
    return list(found.values())


def _nothing_foreseen(trials: Trials) -> str | None:
    """Why no layout can be better than another; None when one can."""
    if trials.encrypted:
        return "files are encrypted: no query can skip by values, and nothing is foreseen of what is read"
    if not trials.queries:
        return "the table declares no queries: add some to its `queries`"
    if not trials.files:
        return "the table has no files yet: there is nothing to read"
    if not any(query.now.data_bytes for query in trials.queries):
        return "by statistics no file has rows for the queries: there is nothing to read"
    return None


def in_words(layout: ExecutionPolicy) -> str:
    """A layout and its scope where one is fixed: ``zorder (a, b) by partition``."""
    scope = {Scope.PARTITION: " by partition", Scope.GROUP: " by group"}.get(layout.scope, "")
    return f"{layout.strategy} ({', '.join(layout.columns)}){scope}" if layout.columns else layout.strategy


def _gains(trial: Trial, queries: Sequence[TriedQuery]) -> list[str]:
    """What each query gains, the most first, or loses."""
    parts = sorted(
        zip(queries, trial.expected, strict=True),
        key=lambda pair: pair[0].weight * (pair[1].data_bytes - pair[0].now.data_bytes),
    )
    said = []
    for query, expected in parts:
        narrowed = [name for name in trial.execution.columns if name in query.columns]
        if narrowed and expected.data_bytes < query.now.data_bytes:
            said.append(
                f"{query.name} has conditions on {', '.join(narrowed)}: it reads {expected.files:,} instead "
                f"of {query.now.files:,} files, and {expected.rows:,} instead of {query.now.rows:,} rows"
            )
        elif expected.data_bytes > _WORSE * query.now.data_bytes:
            said.append(
                f"{query.name} gets worse: it reads {expected.rows:,} instead of {query.now.rows:,} rows"
            )
    if not trial.execution.columns:
        said.append("merging small files is what helps: no order of the rows does better")
    return said


def _never_helped(query: TriedQuery, trials: Trials) -> str | None:
    """Why no layout that was tried helps the query; None when one does."""
    number = trials.queries.index(query)
    least = min((trial.expected[number].data_bytes for trial in trials.trials), default=0)
    if not query.columns:
        return f"{query.name} has no condition that statistics can answer: it reads every file"
    if query.columns <= set(trials.spec.partition_by):
        return f"{query.name} asks for partitions alone: they answer it already"
    if query.now.data_bytes and least <= _ALL_OF_IT * query.now.data_bytes:
        return None
    if query.now.row_groups <= 1:
        return f"{query.name} reads no more than one row group already"
    return f"{query.name} reads about as much however rows are arranged"


def _column_lists(table: TrialTable) -> list[tuple[str, ...]]:
    """The columns of the queries' conditions, those that weigh most first: all, each alone, the first two.

    Partition columns have one value in each file already.
    """
    weights: dict[str, float] = {}
    for query in table.queries:
        for name in sorted(query.columns - set(table.spec.partition_by)):
            weights[name] = weights.get(name, 0.0) + query.weight
    names = tuple(sorted(weights, key=lambda name: (-weights[name], name))[:_MOST_COLUMNS])
    lists = [names, *((name,) for name in names), names[:2], names[1::-1]]
    return [found for found in dict.fromkeys(lists) if found]
