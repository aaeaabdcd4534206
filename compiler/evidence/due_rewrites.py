"""The due rewrites of a target's tables, and the limits of its runs, from measured debts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from parquetry.compiler.evidence.figures import MeasuredDebt
from parquetry.compiler.evidence.money import PlanPrices
from parquetry.compiler.evidence.run_order import (
    DueRewrite,
    RunLimits,
    RunOrder,
    rank_rewrites,
    usual_throughput,
)
from parquetry.project import ResolvedTable
from parquetry.project.model.operations import Operations
from parquetry.project.model.resolved import Target


def due_rewrite(
    table: ResolvedTable, debt: MeasuredDebt, operations: Operations, *, at_ms: int
) -> DueRewrite | None:
    """Return what a run at a time may rewrite of a table, or None if nothing is due."""
    if not debt.groups.groups:
        return None
    since_ms = debt.clustered_ms
    waits_ms = at_ms if debt.waits_since_ms is None else debt.waits_since_ms
    return DueRewrite(
        table=table.name,
        groups=debt.groups.groups,
        max_groups=debt.groups.max_groups,
        gain_bytes=debt.gain_bytes,
        gain_requests=debt.gain_requests,
        priority=operations.priority(table.tags),
        delay_seconds=max(at_ms - waits_ms, 0) / 1000,
        since_clustering_seconds=None if since_ms is None else (at_ms - since_ms) / 1000,
        has_failed=debt.has_failed,
        bytes_per_second=debt.bytes_per_second,
    )


def run_limits(target: Target, operations: Operations, *, at: float) -> RunLimits:
    """Return the limits of a run that starts at a time, in seconds since 1970 (UTC)."""
    prices = target.prices
    seconds, is_open = operations.seconds, True
    if operations.window is not None:
        start, end = operations.window.next_span(at)
        is_open = start <= at
        seconds = end - max(at, start) if seconds is None else min(seconds, end - max(at, start))
    return RunLimits(
        rewrite_bytes=target.services_bytes,
        seconds=seconds,
        is_open=is_open,
        parallel=operations.parallel,
        cooldown_seconds=operations.cooldown_seconds,
        max_delay_seconds=operations.max_delay_seconds,
        prices=None if prices is None or not prices.scanned_tib else PlanPrices.of(prices),
    )


def next_order(
    target: Target,
    operations: Operations,
    debts: Mapping[str, MeasuredDebt],
    tables: Iterable[ResolvedTable],
    *,
    now_ms: int,
) -> RunOrder:
    """Return what a run would rewrite that starts now, or when the window opens.

    Args:
        target: The target.
        operations: Its rules.
        debts: The debts of the tables that runs cluster now, by name.
        tables: The tables of the project.
        now_ms: The present, in milliseconds since 1970 (UTC).
    """
    at = now_ms / 1000
    if operations.window is not None:
        at = max(at, operations.window.next_span(at)[0])
    at_ms = round(at * 1000)
    limits = run_limits(target, operations, at=at)
    found = (
        due_rewrite(table, debts[table.name], operations, at_ms=at_ms)
        for table in tables
        if table.name in debts
    )
    due = [one for one in found if one is not None]
    ranked = rank_rewrites(due, replace(limits, usual_bytes_per_second=usual_throughput(due)))
    return RunOrder(
        starts_ms=at_ms,
        rewrite_bytes=limits.rewrite_bytes,
        seconds=limits.seconds,
        currency=limits.currency,
        tables=ranked,
    )
