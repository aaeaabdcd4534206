"""Which layouts of a table are tried, and which of them is worth its cost for the declared queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Final

from parquetry.compiler.reports.simulate_clustering import CandidateLayout, CandidateLayouts, SimulatedTable
from parquetry.errors import UsageError
from parquetry.runtime.clustering.forecast.queries import DeclaredQuery
from parquetry.runtime.clustering.forecast.sample import IN_REVIEW
from parquetry.runtime.layout.clustering.depth import CURVES
from parquetry.runtime.spec.clustering import STITCH, ClusteringScope, ExecutionPolicy
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.table.open import open_table
from parquetry.runtime.timeline.rereading import read_again

_STRATEGIES: Final = ("sort", "zorder", "hilbert")
_MOST_COLUMNS: Final = 3
"""A curve over more columns narrows none of them much."""

_CROSSED: Final = 5
"""So many columns are tried in all lists of up to three; of more, those that serve best alone."""

_MIB: Final = 1024 * 1024
_DRY_RUN_BYTES: Final = 256 * _MIB
"""About so many bytes are rewritten in memory for all layouts of a table that are tried in memory."""

_LARGEST_BYTES: Final = 32 * _MIB
"""The layouts of a larger table are not tried in memory: it would be held in memory, three times over."""

_FINALISTS: Final = 8
_SHOWN: Final = 10

_SCREENING: Final = replace(IN_REVIEW, row_groups=512, read_bytes=128 * _MIB)
"""What is looked at for the first round, in which every layout is tried: a quarter of a plan's rows."""

WORTH_IT: Final = 0.96
"""A layout is suggested when the queries would read at most this share of what they read now."""

_TIE: Final = 1.01
"""Layouts within this factor of the best are as good: the one in force wins, then the simplest."""

_ALL_OF_IT: Final = 0.95
_WORSE: Final = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """What is suggested, None when clustering would not help; ``reasons`` are sentences without end.

    ``candidates`` have the best layout first: the best ones of ``tried`` layouts, and those of one column.
    """

    candidates: CandidateLayouts
    tried: int
    best: CandidateLayout | None
    reasons: tuple[str, ...]


@read_again
def try_layouts(
    store: ObjectStore,
    *,
    strategies: Sequence[str] = (),
    columns: Sequence[tuple[str, ...]] = (),
    scopes: Sequence[ClusteringScope] = (),
) -> CandidateLayouts:
    """Layouts of the table in ``store``: every strategy with every list of columns in every scope.

    What is not given is the built-in strategies (a curve over one column is a sort); the columns of the
    policy in force, or where it has none those of the declared queries; and the policy's scope.
    TableNotFoundError when there is no table, UsageError when there is no column to go by,
    InvalidDataError for a strategy or a column that there is not.
    """
    table = SimulatedTable(open_table(store))
    policy = table.policy.execution
    names = policy.columns or tuple(_asked(table)[:_MOST_COLUMNS])
    lists = tuple(columns) or ((names,) if names else ())
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
    table = SimulatedTable(open_table(store))
    policy = table.policy.execution
    names = _asked(table)
    alone = [policy, replace(policy, strategy=STITCH, columns=())]
    alone += [replace(policy, strategy="sort", columns=(name,)) for name in names]
    first = _distinct(alone)
    candidates = table.tried(first, limits=_SCREENING)
    if _no_forecast(candidates) is not None:
        return suggestion_of(candidates, tried=len(first))
    every = _distinct([*first, *_crossed(policy, _best_alone(candidates, names))])
    if table.size_bytes * len(every) <= _DRY_RUN_BYTES:
        return suggestion_of(table.tried(every, dry_run=True), tried=len(every))
    crossed = table.tried(every[len(first) :], limits=_SCREENING).candidates
    finalists = _finalists(
        table, replace(candidates, candidates=(*candidates.candidates, *crossed)), always=first
    )
    return suggestion_of(finalists, tried=len(every))


def suggestion_of(candidates: CandidateLayouts, *, tried: int) -> Suggestion:
    """What the finalists say, of so many layouts ``tried``."""
    in_force = candidates.policy.execution
    ranked = sorted(candidates.candidates, key=lambda candidate: (candidate.share, candidate.rewritten_bytes))
    shown = [
        candidate
        for number, candidate in enumerate(ranked)
        if number < _SHOWN or len(candidate.execution.columns) <= 1 or candidate.execution == in_force
    ]
    ordered = replace(candidates, candidates=tuple(shown))
    if (reason := _no_forecast(candidates)) is not None:
        return Suggestion(candidates=ordered, tried=tried, best=None, reasons=(reason,))
    reasons = [
        reason
        for number in range(len(candidates.queries))
        if (reason := _never_helped(number, candidates, tried)) is not None
    ]
    best = ranked[0]
    if best.share > WORTH_IT or not best.rewritten_bytes:
        reasons.append(
            f"under the best of the {tried} layouts tried, {in_words(best.execution)}, the queries read "
            f"{best.share:.0%} of the bytes that they read now"
        )
        return Suggestion(candidates=ordered, tried=tried, best=None, reasons=tuple(reasons))
    chosen = min(
        (candidate for candidate in ranked if candidate.share <= best.share * _TIE),
        key=lambda candidate: (
            candidate.execution != in_force,
            len(candidate.execution.columns),
            candidate.execution.strategy != "sort",
            candidate.share,
        ),
    )
    reasons = [*_gains(chosen, candidates.queries), *reasons]
    return Suggestion(candidates=ordered, tried=tried, best=chosen, reasons=tuple(reasons))


def _crossed(policy: ExecutionPolicy, names: Sequence[str]) -> list[ExecutionPolicy]:
    """Sorts by two and three of the columns, and curves over them, in every order: it matters to both."""
    return [
        replace(policy, strategy=strategy, columns=columns)
        for size in range(2, _MOST_COLUMNS + 1)
        for columns in permutations(names, size)
        for strategy in _STRATEGIES
    ]


def _best_alone(candidates: CandidateLayouts, names: Sequence[str]) -> list[str]:
    """The columns that are worth being tried with others: those by which queries read least, alone."""
    shares = {
        candidate.execution.columns: candidate.share
        for candidate in candidates.candidates
        if candidate.execution.strategy == "sort" and len(candidate.execution.columns) == 1
    }
    found = sorted(names, key=lambda name: shares.get((name,), 1.0))[:_CROSSED]
    return [name for name in names if name in found]


def _finalists(
    table: SimulatedTable, candidates: CandidateLayouts, *, always: Sequence[ExecutionPolicy]
) -> CandidateLayouts:
    """The best of the first round, those that serve a query best, and ``always``, looked at more closely.

    They are run in memory where the table is small, else predicted from as large a sample as a plan's.
    """
    ranked = sorted(candidates.candidates, key=lambda candidate: candidate.share)
    is_small = table.size_bytes <= _LARGEST_BYTES
    most = max(_DRY_RUN_BYTES // table.size_bytes, _FINALISTS) if is_small else _FINALISTS
    of_query = [
        min(candidates.candidates, key=lambda candidate: candidate.queries[number].expected.data_bytes)
        for number in range(len(candidates.queries))
    ]
    chosen = [candidate.execution for candidate in (*ranked[:most], *of_query)]
    return table.tried(dict.fromkeys([*chosen, *always]), dry_run=is_small)


def _distinct(layouts: Iterable[ExecutionPolicy]) -> list[ExecutionPolicy]:
    """The layouts that put rows in different orders, the first of those that are alike."""
    found: dict[ExecutionPolicy, ExecutionPolicy] = {}
    for layout in layouts:
        alike = layout
        if layout.strategy in CURVES and len(layout.columns) == 1:
            alike = replace(layout, strategy="sort")
        if layout.strategy == STITCH:
            # It has no order that could be one over the partition.
            alike = replace(layout, scope=ClusteringScope.GROUP)
        found.setdefault(alike, layout)
    return list(found.values())


def _no_forecast(candidates: CandidateLayouts) -> str | None:
    """Why no layout can be better than another; None when one can."""
    if candidates.encrypted:
        return "files are encrypted: no query can skip rows by values, and there is no forecast"
    if not candidates.queries:
        return "the table declares no queries: add some to its `queries`"
    if not candidates.files:
        return "the table has no files yet: there is nothing to read"
    if not any(now.data_bytes for now in candidates.now):
        return "by statistics no file has rows for the queries: there is nothing to read"
    return None


def in_words(layout: ExecutionPolicy) -> str:
    """A layout and its scope where one is fixed: ``zorder (a, b) by partition``."""
    scope = {ClusteringScope.PARTITION: " by partition", ClusteringScope.GROUP: " by group"}.get(
        layout.scope, ""
    )
    return f"{layout.strategy} ({', '.join(layout.columns)}){scope}" if layout.columns else layout.strategy


def _gains(candidate: CandidateLayout, queries: Sequence[DeclaredQuery]) -> list[str]:
    """What each query gains, the most first, or loses."""
    parts = sorted(
        zip(queries, candidate.queries, strict=True),
        key=lambda pair: pair[0].weight * (pair[1].expected.data_bytes - pair[1].now.data_bytes),
    )
    said = []
    for query, forecast in parts:
        now, expected = forecast.now, forecast.expected
        narrowed = [name for name in candidate.execution.columns if name in query.columns]
        if narrowed and expected.data_bytes < now.data_bytes:
            said.append(
                f"{query.name} has conditions on {', '.join(narrowed)}: it reads {expected.files:,} instead "
                f"of {now.files:,} files, and {expected.rows:,} instead of {now.rows:,} rows"
            )
        elif expected.data_bytes > _WORSE * now.data_bytes:
            said.append(
                f"{query.name} gets worse: it reads {expected.data_bytes:,} instead of "
                f"{now.data_bytes:,} bytes"
            )
    if not candidate.execution.columns:
        said.append("merging small files helps: none of the row orders tried does better")
    return said


def _never_helped(number: int, candidates: CandidateLayouts, tried: int) -> str | None:
    """Why no layout that was tried helps the query of that number; None when one does."""
    query, now = candidates.queries[number], candidates.now[number]
    least = min(
        (candidate.queries[number].expected.data_bytes for candidate in candidates.candidates), default=0
    )
    if not query.columns:
        return f"{query.name} has no condition that statistics can answer: it reads every file"
    if query.columns <= set(candidates.spec.partition_by):
        return f"{query.name} has conditions on partition columns only: partitions answer it already"
    if now.data_bytes and least <= _ALL_OF_IT * now.data_bytes:
        return None
    if now.row_groups <= 1:
        return f"{query.name} reads no more than one row group already"
    return f"{query.name} reads hardly less than now under any of the {tried} layouts tried"


def _asked(table: SimulatedTable) -> list[str]:
    """The columns of the queries' conditions, those that weigh most first.

    Partition columns have one value in each file already.
    """
    weights: dict[str, float] = {}
    for query in table.queries:
        for name in sorted(query.columns - set(table.spec.partition_by)):
            weights[name] = weights.get(name, 0.0) + query.weight
    return sorted(weights, key=lambda name: (-weights[name], name))
