"""The order in which a run rewrites tables, in words and as a part of pages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from parquetry.cli.terminal.format import count, human_size
from parquetry.compiler.evidence.run_order import DeferralReason, RankedRewrite, RateBasis, RunOrder
from parquetry.compiler.reports.page import DataTable, Section, Verbatim
from parquetry.compiler.spec_words import human_duration
from parquetry.project.model.prices import nearest_cents

_REASONS: Final[Mapping[DeferralReason, str]] = {
    DeferralReason.WINDOW: "the window of the target is closed",
    DeferralReason.COOLDOWN: "its last clustering is less than the cooldown ago",
    DeferralReason.BUDGET: "the rest of the run's budget is too small",
    DeferralReason.TIME: "the rest of the run's time is too short",
    DeferralReason.GROUPS: "they exceed the limits of one plan",
}
_HEADER: Final = ("rank", "table", "gain a day", "taken", "deferred", "reason")
_BASES: Final[Mapping[RateBasis, str]] = {
    RateBasis.TABLE: "measured on the table",
    RateBasis.TARGET: "the median of the other tables",
    RateBasis.ASSUMED: "assumed until something is measured",
}


def rank_text(order: RunOrder, ranked: RankedRewrite) -> str:
    """Return the place of a table in the next run, what the run takes of it, and what waits."""
    place = order.tables.index(ranked) + 1
    parts = [f"order {place} of {len(order.tables)}"]
    if ranked.taken_groups:
        parts[0] += f": rewrites {_groups(ranked.taken_groups, ranked.taken_bytes)}"
        rate = f"{human_size(round(ranked.bytes_per_second))}/s ({_BASES[ranked.rate_basis]})"
        parts.append(f"about {human_duration(max(ranked.seconds, 1))} at {rate}")
    if gain := _gain(order, ranked):
        factor = "" if ranked.priority == 1 else f", priority {ranked.priority:g}"
        parts.append(f"queries read {gain} a day less{factor}")
    if ranked.is_overdue:
        parts.append(f"first with its oldest group, as it has waited {human_duration(ranked.delay_seconds)}")
    return "; ".join([*parts, *filter(None, [deferral_text(ranked)])])


def deferral_text(ranked: RankedRewrite) -> str:
    """Return what of a table waits for a later run, and why; empty if nothing does."""
    if ranked.reason is None:
        return ""
    what = f" {_groups(ranked.deferred_groups, ranked.deferred_bytes)}" if ranked.deferred_groups else ""
    return f"deferred{what}: {_REASONS[ranked.reason]}"


def order_text(order: RunOrder) -> str:
    """Return when a run starts, its limits, and how much of them it takes."""
    starts = datetime.fromtimestamp(order.starts_ms / 1000, UTC)
    taken = [one for one in order.tables if one.taken_groups]
    seconds = sum(one.seconds for one in taken)
    time = ""
    if order.seconds is not None:
        time = f", about {human_duration(seconds)} of {human_duration(order.seconds)}"
    used = used_text(order, rewritten=sum(one.taken_bytes for one in taken))
    return f"services from {starts:%Y-%m-%d %H:%M} UTC, {count(len(taken), 'table')}{time}: {used}"


def order_section(order: RunOrder, *, note: str) -> Section:
    """Return the part of a page with the tables in order, what is taken of each, and why the rest waits."""
    rows = tuple(
        (
            str(rank),
            Verbatim(one.table),
            _gain(order, one),
            _groups(one.taken_groups, one.taken_bytes) if one.taken_groups else "",
            _groups(one.deferred_groups, one.deferred_bytes) if one.deferred_groups else "",
            "" if one.reason is None else _REASONS[one.reason],
        )
        for rank, one in enumerate(order.tables, start=1)
    )
    table = DataTable(
        caption="Order of the clusterings", header=_HEADER, rows=rows, numbers=frozenset({0, 2, 3, 4})
    )
    return Section(title="Order", note=note, blocks=(table,))


def used_text(order: RunOrder, *, rewritten: int) -> str:
    """Return how much of a run's budget is rewritten or lost, and of how many tables something waits."""
    limit = "" if order.rewrite_bytes is None else f" of {human_size(order.rewrite_bytes)}"
    deferred = sum(one.reason is not None for one in order.tables)
    rest = f", {count(deferred, 'table')} deferred" if deferred else ""
    lost_bytes = order.spent_bytes - rewritten
    lost = f", {human_size(lost_bytes)} lost to failures or writers" if lost_bytes > 0 else ""
    return f"{human_size(rewritten)}{limit} clustered{lost}{rest}"


def _gain(order: RunOrder, ranked: RankedRewrite) -> str:
    """Return the gain of a day; empty without one. It may be an amount for requests alone, of no bytes."""
    if not (ranked.gain_bytes or ranked.gain_micros):
        return ""
    money = ""
    if ranked.gain_micros is not None:
        money = f" ({nearest_cents(ranked.gain_micros)} {order.currency})"
    return f"{human_size(round(ranked.gain_bytes))}{money}"


def _groups(groups: int, size_bytes: int) -> str:
    return f"{count(groups, 'group')} ({human_size(size_bytes)})"
