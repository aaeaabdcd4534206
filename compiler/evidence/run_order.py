"""The order in which a run rewrites the tables that are due, what fits, and why the rest waits.

:func:`rank_rewrites` decides this for `plan --due` and for each step of `run`. It reads no clock and no
table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from statistics import median
from typing import Final

from parquetry.compiler.evidence.money import AmountRange, PlanPrices
from parquetry.runtime.layout.clustering.model import ExclusionReason
from parquetry.runtime.layout.clustering.run_budget import MOST_FILES, RunBudget, RunRoom
from parquetry.runtime.spec.codec import OMIT_EMPTY, omit

ASSUMED_BYTES_PER_SECOND: Final = 16 * 2**20
"""The throughput that is assumed as long as no table of the target has a measured one."""


class RateBasis(StrEnum):
    """The basis of a throughput: the table's own writes, the other tables of the target, or nothing."""

    TABLE = "table"
    TARGET = "target"
    ASSUMED = "assumed"


class DeferralReason(StrEnum):
    """The reason why due files of a table wait for a later run."""

    WINDOW = "window"
    COOLDOWN = "cooldown"
    BUDGET = "budget"
    TIME = "time"
    GROUPS = "groups"


_REASONS: Final = {
    ExclusionReason.GROUPS: DeferralReason.GROUPS,
    ExclusionReason.FILES: DeferralReason.GROUPS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRewrite:
    """The clustering debt of a table for which a run may spend its budget.

    Attributes:
        table: The name of the table.
        groups: Its groups, the oldest first, then the best, each as its bytes and its number of files.
        max_groups: The most groups that one run rewrites.
        gain_bytes: The bytes a day that declared queries no longer read once all groups are rewritten.
        gain_requests: The requests a day that they no longer make.
        priority: The factor of the gain.
        delay_seconds: The time since the oldest due file, the last clustering, or the last time that one
            began, whichever is latest.
        since_clustering_seconds: The time since the last clustering, None if there is none.
        has_failed: True if the clustering that began last did not complete.
        bytes_per_second: The throughput that was measured on the table, None if there is none.
    """

    table: str
    groups: tuple[tuple[int, int], ...]
    max_groups: int
    gain_bytes: float = 0
    gain_requests: float = 0
    priority: float = 1
    delay_seconds: float = 0
    since_clustering_seconds: float | None = None
    has_failed: bool = False
    bytes_per_second: float | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes of all groups."""
        return sum(size for size, _ in self.groups)

    def gain_in_money(self, prices: PlanPrices) -> Fraction:
        """Return the price a day of what queries no longer read."""
        return prices.scans(size_bytes=round(self.gain_bytes), requests=round(self.gain_requests))

    def gain_per_byte(self, prices: PlanPrices | None) -> float:
        """Return the gain for each rewritten byte, by priority: in bytes, or with prices in money."""
        gain = self.gain_bytes if prices is None else float(self.gain_in_money(prices))
        return gain * self.priority / max(self.size_bytes, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The limits of a run over all its tables, at one moment.

    Attributes:
        rewrite_bytes: The bytes that the run may rewrite, None without a limit.
        spent_bytes: The bytes that it has rewritten.
        seconds: The time that is left, None without a limit.
        is_open: False if the window is closed.
        parallel: The number of tables that are rewritten at the same time.
        cooldown_seconds: The time after a clustering in which a table is not clustered again.
        max_delay_seconds: The delay from which a table comes first, whatever its gain.
        usual_bytes_per_second: The throughput of tables without a measured one (:func:`usual_throughput`).
        prices: The prices by which the gain is money, None if it is bytes.
    """

    rewrite_bytes: int | None = None
    spent_bytes: int = 0
    seconds: float | None = None
    is_open: bool = True
    parallel: int = 1
    cooldown_seconds: float = 0
    max_delay_seconds: float = float("inf")
    usual_bytes_per_second: float | None = None
    prices: PlanPrices | None = None

    @property
    def currency(self) -> str | None:
        """The currency of the gain, None if it is bytes."""
        return None if self.prices is None else self.prices.currency


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRewrite:
    """The place of a table in a run: the groups that the run takes, and those that it defers.

    Attributes:
        table: The name of the table.
        gain_bytes: The bytes a day that declared queries no longer read once all groups are rewritten.
        priority: The factor of the gain.
        delay_seconds: The time that the table has waited.
        is_overdue: True if it has waited so long that it comes first.
        taken_groups: The number of groups that the run takes.
        taken_bytes: Their bytes.
        seconds: The time that they take at ``bytes_per_second``.
        bytes_per_second: The throughput of the prediction.
        rate_basis: The basis of this throughput.
        deferred_groups: The number of groups that wait for a later run.
        deferred_bytes: Their bytes.
        reason: The reason why they wait, None if none does.
        gain_micros: The price of what queries no longer read in a day, in millionths of the currency, rounded
            down. None if the gain is bytes.
    """

    table: str
    gain_bytes: float
    priority: float
    delay_seconds: float
    is_overdue: bool
    taken_groups: int
    taken_bytes: int
    seconds: float
    bytes_per_second: float
    rate_basis: RateBasis
    deferred_groups: int = 0
    deferred_bytes: int = 0
    reason: DeferralReason | None = None
    gain_micros: int | None = field(default=None, metadata=OMIT_EMPTY)

    def budget(self, limit_bytes: int) -> RunBudget:
        """Return the part of a run's budget that the table gets: as much as its taken groups need."""
        return RunBudget(limit_bytes=limit_bytes, spent_bytes=max(limit_bytes - self.taken_bytes, 0))


def usual_throughput(due: Iterable[DueRewrite]) -> float | None:
    """Return the median of the measured throughputs of all tables that are due, None if there is none.

    A run computes it once, so that the tables that it has begun count until its end.
    """
    known = [one.bytes_per_second for one in due if one.bytes_per_second]
    return median(known) if known else None


def rank_rewrites(due: Sequence[DueRewrite], limits: RunLimits) -> tuple[RankedRewrite, ...]:
    """Return the tables in the order in which a run rewrites them, with what it takes of each.

    Tables that have waited for ``max_delay_seconds`` come first, the longest wait before the others. The
    others follow by their gain for each rewritten byte, those whose last clustering failed after the rest.

    The run first takes the oldest group of each overdue table. All other groups, also those of overdue
    tables, share by gain what is left. A group is taken if it fits into the bytes and the time that are left,
    but nothing is taken of a table whose oldest group does not fit. The first group of a run is taken even if
    it is larger, so that no group waits forever. So a run exceeds its limits by one group at most.
    """
    order = sorted(due, key=lambda one: _rank(one, limits))
    room = _Room(limits)
    shares = {one.table: _Share(one, *_rate(one, limits.usual_bytes_per_second)) for one in order}
    for one in order:
        if _is_overdue(one, limits):
            room.take(shares[one.table], one.groups[:1])
    for one in sorted(due, key=lambda one: _by_gain(one, limits)):
        share = shares[one.table]
        room.take(share, one.groups[len(share.taken) :])
    return tuple(
        RankedRewrite(
            table=one.table,
            gain_bytes=one.gain_bytes,
            priority=one.priority,
            delay_seconds=one.delay_seconds,
            is_overdue=_is_overdue(one, limits),
            taken_groups=len(share.taken),
            taken_bytes=share.taken_bytes,
            seconds=share.taken_bytes / share.bytes_per_second,
            bytes_per_second=share.bytes_per_second,
            rate_basis=share.rate_basis,
            deferred_groups=len(one.groups) - len(share.taken),
            deferred_bytes=one.size_bytes - share.taken_bytes,
            reason=share.reason,
            gain_micros=_gain_micros(one, limits),
        )
        for one, share in ((one, shares[one.table]) for one in order)
    )


def _is_overdue(one: DueRewrite, limits: RunLimits) -> bool:
    return one.delay_seconds >= limits.max_delay_seconds


def _gain_micros(one: DueRewrite, limits: RunLimits) -> int | None:
    if limits.prices is None:
        return None
    gain = one.gain_in_money(limits.prices)
    return AmountRange.of(gain, gain).low_micros


def _by_gain(one: DueRewrite, limits: RunLimits) -> tuple[bool, float, float, str]:
    return one.has_failed, -one.gain_per_byte(limits.prices), -one.delay_seconds, one.table


def _rank(one: DueRewrite, limits: RunLimits) -> tuple[bool, float, tuple[bool, float, float, str]]:
    if _is_overdue(one, limits):
        return False, -one.delay_seconds, _by_gain(one, limits)
    return True, 0, _by_gain(one, limits)


def _rate(one: DueRewrite, usual: float | None) -> tuple[float, RateBasis]:
    if one.bytes_per_second:
        return one.bytes_per_second, RateBasis.TABLE
    return (ASSUMED_BYTES_PER_SECOND, RateBasis.ASSUMED) if usual is None else (usual, RateBasis.TARGET)


@dataclass(slots=True)
class _Share:
    """The groups that a run takes of a table, and the reason why others wait, None if none does.

    ``lane`` is the place in which the table runs among those at the same time, None if nothing is taken.
    """

    table: DueRewrite
    bytes_per_second: float
    rate_basis: RateBasis
    taken: list[tuple[int, int]] = field(default_factory=list)
    reason: DeferralReason | None = None
    lane: int | None = None

    @property
    def taken_bytes(self) -> int:
        """The bytes of the taken groups."""
        return sum(size for size, _ in self.taken)


class _Room:
    """The bytes and the time that a run has left."""

    def __init__(self, limits: RunLimits) -> None:
        """Start with what the limits leave."""
        self._limits = limits
        self._budget = RunBudget(limit_bytes=limits.rewrite_bytes, spent_bytes=limits.spent_bytes)
        self._lanes = [float("inf") if limits.seconds is None else limits.seconds] * limits.parallel

    def take(self, share: _Share, groups: Sequence[tuple[int, int]]) -> None:
        """Take those of the next groups of a table that fit."""
        table = share.table
        since = table.since_clustering_seconds
        if not self._limits.is_open:
            share.reason = DeferralReason.WINDOW
        elif since is not None and since < self._limits.cooldown_seconds:
            share.reason = DeferralReason.COOLDOWN
        if share.reason is not None:
            return
        # A table starts where the tables before it end first.
        lane = self._lanes.index(max(self._lanes)) if share.lane is None else share.lane
        room = RunRoom(
            self._budget,
            max_groups=table.max_groups - len(share.taken),
            max_files=MOST_FILES - sum(files for _, files in share.taken),
        )
        for size, files in groups:
            reason = self._refusal(size, files, room, self._lanes[lane] * share.bytes_per_second)
            if reason is None:
                room.take(size, files)
                share.taken.append((size, files))
                share.lane = lane
                self._lanes[lane] = max(self._lanes[lane] - size / share.bytes_per_second, 0)
            else:
                share.reason = share.reason or reason
                if not share.taken:
                    # A clustering ends the wait of the table, so it needs the group that has waited longest.
                    break
        self._budget = self._budget.left_after(room.taken_bytes)

    def _refusal(self, size: int, files: int, room: RunRoom, time_bytes: float) -> DeferralReason | None:
        """Return the reason why a group has to wait, or None if the run takes it."""
        is_first = not (self._budget.spent_bytes or room.taken_bytes)
        if time_bytes <= 0 or (size > time_bytes and not is_first):
            return DeferralReason.TIME
        refusal = room.refusal(size, files)
        return None if refusal is None else _REASONS.get(refusal, DeferralReason.BUDGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """The order of a run's rewrites and its limits.

    ``starts_ms`` is the time at which the window lets it start, in milliseconds since 1970 (UTC). If
    ``rewrite_bytes`` or ``seconds`` is None, there is no such limit. ``spent_bytes`` of the bytes are used
    when the run ends, including those that failed clusterings were to rewrite. ``currency`` is that of the
    gains, None if they are bytes.
    """

    starts_ms: int
    rewrite_bytes: int | None
    seconds: float | None
    tables: tuple[RankedRewrite, ...]
    spent_bytes: int = field(default=0, metadata=omit(0))
    currency: str | None = field(default=None, metadata=OMIT_EMPTY)
