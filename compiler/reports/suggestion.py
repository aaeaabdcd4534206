"""The candidate layouts of a table, and the one that is worth its cost for the declared queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Final

from parquetry.compiler.evidence.model import MetaColumnFigures
from parquetry.compiler.evidence.money import PlanPrices
from parquetry.compiler.reports.simulate_clustering import CandidateLayout, CandidateLayouts, SimulatedTable
from parquetry.errors import UsageError
from parquetry.runtime.clustering.forecast.queries import DeclaredQuery
from parquetry.runtime.clustering.forecast.sample import IN_REVIEW, SampleLimits
from parquetry.runtime.layout.clustering.depth import CURVES
from parquetry.runtime.spec.clustering import STITCH, ClusteringScope, ExecutionPolicy
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.rereading import retry_stale

_STRATEGIES: Final = ("sort", "zorder", "hilbert")
_MOST_COLUMNS: Final = 3
"""A curve over more columns improves the skipping by each of them too little."""

_CROSSED: Final = 5
"""The most columns that are tried in all lists of up to three; of more columns, the best ones are taken."""

_MIB: Final = 1024 * 1024
_DRY_RUN_BYTES: Final = 256 * _MIB
"""The approximate number of bytes that dry runs of all layouts of a table may rewrite in memory."""

_FINAL_BYTES: Final = 2048 * _MIB
"""The approximate number of bytes that dry runs of the finalists may rewrite: some minutes of one core."""

_FINALISTS: Final = 12
_SHOWN: Final = 10

_SCREENING: Final = replace(IN_REVIEW, row_groups=512, read_bytes=128 * _MIB)
"""The limits of the first round, in which every layout is tried: a quarter of the rows of a plan's sample."""

WORTH_IT: Final = 0.96
"""A layout is suggested if the queries would read at most this share of the bytes they read now."""

_TIE: Final = 1.01
"""Layouts within this factor of the best count as equal: the current one wins, then the simplest."""

_ALL_OF_IT: Final = 0.95
_WORSE: Final = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """The suggested layout, or None if clustering would not help; ``reasons`` are sentences without a stop.

    ``candidates`` are sorted, the best first: the best of the ``tried`` layouts, and those of one column.
    ``meta_columns`` is what a table with all meta columns would save by their commit times alone; None if it
    has fewer.
    """

    candidates: CandidateLayouts
    tried: int
    best: CandidateLayout | None
    reasons: tuple[str, ...]
    meta_columns: MetaColumnFigures | None = None


@retry_stale
def simulate_layouts(
    store: ObjectStore,
    *,
    strategies: Sequence[str] = (),
    columns: Sequence[tuple[str, ...]] = (),
    scopes: Sequence[ClusteringScope] = (),
) -> CandidateLayouts:
    """Simulate each combination of strategy, columns and scope on the table in ``store``.

    Args:
        store: the store of the table.
        strategies: the strategies; by default the built-in ones (a curve over one column is a sort).
        columns: lists of columns; by default those of the current policy, or else those of the queries.
        scopes: the scopes; by default that of the policy.

    Raises:
        TableNotFoundError: if there is no table.
        UsageError: if there are no columns to try.
        InvalidDataError: if a strategy or column is unknown.

    """
    table = SimulatedTable(open_table(store))
    policy = table.policy.execution
    names = policy.columns or tuple(_query_columns(table)[:_MOST_COLUMNS])
    lists = tuple(columns) or ((names,) if names else ())
    wanted = tuple(strategies) or (STITCH, *_STRATEGIES)
    if not lists and set(wanted) != {STITCH}:
        raise UsageError(
            "table {table} declares no queries with conditions on columns and no clustering columns: "
            "name some with --columns COLUMN,...",
            table=table.name,
        )
    return table.simulate(
        _distinct(
            replace(policy, strategy=strategy, columns=() if strategy == STITCH else names, scope=scope)
            for strategy in wanted
            for names in lists or ((),)
            for scope in (scopes or (policy.scope,))
        )
    )


@retry_stale
def suggest(
    store: ObjectStore,
    *,
    prices: PlanPrices | None = None,
    sample: SampleLimits | None = None,
    final_bytes: int = _FINAL_BYTES,
) -> Suggestion:
    """Simulate the layouts that fit the declared queries, and suggest the one to use.

    Args:
        store: the store of the table.
        prices: the prices of the target; None for no amounts.
        sample: the limits of a sample by which layouts become finalists, whatever the size of the table. By
        default, all layouts of a small table are finalists, and a large one has the sample of a plan.
        final_bytes: the bytes that dry runs of the finalists may rewrite. Beyond it, the sample decides.

    Raises:
        TableNotFoundError: if there is no table.

    """
    table = SimulatedTable(open_table(store))
    return replace(_suggested(table, sample, final_bytes), meta_columns=table.emptied_meta_columns(prices))


def _suggested(table: SimulatedTable, sample: SampleLimits | None, final_bytes: int) -> Suggestion:
    """Return the suggested layout, see :func:`suggest`."""
    screening = _SCREENING if sample is None else _a_quarter_of(sample)
    policy = table.policy.execution
    names = _query_columns(table)
    alone = [policy, replace(policy, strategy=STITCH, columns=())]
    alone += [replace(policy, strategy="sort", columns=(name,)) for name in names]
    first = _distinct(alone)
    candidates = table.simulate(first, limits=screening)
    if _no_forecast(candidates) is not None:
        return suggestion_of(candidates, tried=len(first))
    every = _distinct([*first, *_crossed(policy, _best_alone(candidates, names))])
    if sample is None and table.size_bytes * len(every) <= _DRY_RUN_BYTES:
        return suggestion_of(table.simulate(every, dry_run=True), tried=len(every))
    crossed = table.simulate(every[len(first) :], limits=screening).candidates
    screened = replace(candidates, candidates=(*candidates.candidates, *crossed))
    finalists = dict.fromkeys([*_finalists(table, screened, sample), *first])
    is_small = table.size_bytes * len(finalists) <= final_bytes
    return suggestion_of(table.simulate(finalists, limits=sample, dry_run=is_small), tried=len(every))


def suggestion_of(candidates: CandidateLayouts, *, tried: int) -> Suggestion:
    """Choose the layout to suggest; ``tried`` is the number of layouts that were simulated."""
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
        if (reason := _no_gain_reason(number, candidates, tried)) is not None
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
    """Return a layout for each strategy and each ordered choice of two or three of the columns."""
    return [
        replace(policy, strategy=strategy, columns=columns)
        for size in range(2, _MOST_COLUMNS + 1)
        for columns in permutations(names, size)
        for strategy in _STRATEGIES
    ]


def _best_alone(candidates: CandidateLayouts, names: Sequence[str]) -> list[str]:
    """Return the columns to combine with others: those by which a sort lets the queries read least."""
    shares = {
        candidate.execution.columns: candidate.share
        for candidate in candidates.candidates
        if candidate.execution.strategy == "sort" and len(candidate.execution.columns) == 1
    }
    found = sorted(names, key=lambda name: shares.get((name,), 1.0))[:_CROSSED]
    return [name for name in names if name in found]


def _finalists(
    table: SimulatedTable, candidates: CandidateLayouts, sample: SampleLimits | None
) -> list[ExecutionPolicy]:
    """Return the best layouts of the first round, and the best for each query.

    Of layouts with equal reads, which order the rows alike, the simplest one is enough.
    """
    distinct: dict[tuple[int, ...], CandidateLayout] = {}
    for candidate in sorted(candidates.candidates, key=lambda one: (one.share, len(one.execution.columns))):
        distinct.setdefault(tuple(query.expected.rows for query in candidate.queries), candidate)
    most = _FINALISTS if sample else max(_DRY_RUN_BYTES // table.size_bytes, _FINALISTS)
    of_query = [
        min(candidates.candidates, key=lambda candidate: candidate.queries[number].expected.data_bytes)
        for number in range(len(candidates.queries))
    ]
    return [candidate.execution for candidate in (*list(distinct.values())[:most], *of_query)]


def _a_quarter_of(sample: SampleLimits) -> SampleLimits:
    """Return the limits with a quarter of the rows, for the first round."""
    return replace(sample, rows=sample.rows // 4, group_rows=sample.group_rows // 4)


def _distinct(layouts: Iterable[ExecutionPolicy]) -> list[ExecutionPolicy]:
    """Return the layouts that produce different row orders, the first one of equal ones."""
    found: dict[ExecutionPolicy, ExecutionPolicy] = {}
    for layout in layouts:
        alike = layout
        if layout.strategy in CURVES and len(layout.columns) == 1:
            alike = replace(layout, strategy="sort")
        if layout.strategy == STITCH:
            # Stitch keeps the order of rows, so its scope has no effect.
            alike = replace(layout, scope=ClusteringScope.GROUP)
        found.setdefault(alike, layout)
    return list(found.values())


def _no_forecast(candidates: CandidateLayouts) -> str | None:
    """Return why all layouts are equal for the queries, or None if they can differ."""
    if candidates.encrypted:
        return "files are encrypted: no query can skip rows by values, and there is no forecast"
    if not candidates.queries:
        return "the applied spec declares no queries: add some to the table's `queries`, and apply them"
    if not candidates.files:
        return "the table has no files yet: there is nothing to read"
    if not any(now.data_bytes for now in candidates.now):
        return "by statistics no file has rows for the queries: there is nothing to read"
    return None


def in_words(layout: ExecutionPolicy) -> str:
    """Return a layout in words, with its scope if it is fixed: ``zorder (a, b) by partition``."""
    scope = {ClusteringScope.PARTITION: " by partition", ClusteringScope.GROUP: " by group"}.get(
        layout.scope, ""
    )
    return f"{layout.strategy} ({', '.join(layout.columns)}){scope}" if layout.columns else layout.strategy


def _gains(candidate: CandidateLayout, queries: Sequence[DeclaredQuery]) -> list[str]:
    """Return sentences on what each query gains or loses, the largest gain first."""
    parts = sorted(
        zip(queries, candidate.queries, strict=True),
        key=lambda pair: pair[0].weight * (pair[1].expected.data_bytes - pair[1].now.data_bytes),
    )
    sentences = []
    for query, forecast in parts:
        now, expected = forecast.now, forecast.expected
        narrowed = [name for name in candidate.execution.columns if name in query.columns]
        if narrowed and expected.data_bytes < now.data_bytes:
            sentences.append(
                f"{query.name} has conditions on {', '.join(narrowed)}: it reads {expected.files:,} instead "
                f"of {now.files:,} files, and {expected.rows:,} instead of {now.rows:,} rows"
            )
        elif expected.data_bytes > _WORSE * now.data_bytes:
            sentences.append(
                f"{query.name} gets worse: it reads {expected.data_bytes:,} instead of "
                f"{now.data_bytes:,} bytes"
            )
    if not candidate.execution.columns:
        sentences.append("merging small files helps: none of the row orders tried does better")
    return sentences


def _no_gain_reason(number: int, candidates: CandidateLayouts, tried: int) -> str | None:
    """Return why no simulated layout helps the query with this number, or None if one does."""
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


def _query_columns(table: SimulatedTable) -> list[str]:
    """Return the columns of the queries' conditions, the highest weight first, without partition columns.

    Each file already has a single value of a partition column.
    """
    weights: dict[str, float] = {}
    for query in table.queries:
        for name in sorted(query.columns - set(table.spec.partition_by)):
            weights[name] = weights.get(name, 0.0) + query.weight
    return sorted(weights, key=lambda name: (-weights[name], name))
