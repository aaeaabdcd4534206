"""The order in which a run rewrites the tables that are due, what fits, and why the rest waits.

:func:`rank_rewrites` decides this for `plan --due` and for each step of `run`. It reads no clock and no
table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Final

from parquetry.runtime.layout.clustering.model import ExclusionReason
from parquetry.runtime.layout.clustering.run_budget import RunBudget, RunRoom
from parquetry.runtime.spec.codec import omit

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
        groups: Its groups, best first, each as its bytes and its number of files.
        max_groups: The most groups that one run rewrites.
        gain_bytes: The bytes a day that declared queries no longer read once all groups are rewritten.
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
    priority: float = 1
    delay_seconds: float = 0
    since_clustering_seconds: float | None = None
    has_failed: bool = False
    bytes_per_second: float | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes of all groups."""
        return sum(size for size, _ in self.groups)

    @property
    def gain_per_byte(self) -> float:
        """The gain for each rewritten byte, by priority."""
        return self.gain_bytes * self.priority / max(self.size_bytes, 1)


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
    """

    rewrite_bytes: int | None = None
    spent_bytes: int = 0
    seconds: float | None = None
    is_open: bool = True
    parallel: int = 1
    cooldown_seconds: float = 0
    max_delay_seconds: float = float("inf")
    usual_bytes_per_second: float | None = None


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
    others follow by their gain for each rewritten byte, those whose last clustering failed after the rest. A
    group is taken if it fits into the bytes and the time that are left. The first group of a run is taken
    even if it is larger, so that no group waits forever. So a run exceeds its limits by one group at most.
    """
    budget = RunBudget(limit_bytes=limits.rewrite_bytes, spent_bytes=limits.spent_bytes)
    lanes, ranked = [limits.seconds] * limits.parallel, []
    for one in sorted(due, key=lambda one: _rank(one, limits)):
        rate, basis = _rate(one, limits.usual_bytes_per_second)
        # The next table starts where the tables before it end first.
        seconds = None if limits.seconds is None else max(each for each in lanes if each is not None)
        taken, reason = _fitting(one, budget, limits, None if seconds is None else seconds * rate)
        taken_bytes = sum(size for size, _ in taken)
        budget = budget.left_after(taken_bytes)
        spent_seconds = taken_bytes / rate
        if seconds is not None:
            lanes[lanes.index(seconds)] = max(seconds - spent_seconds, 0)
        ranked.append(
            RankedRewrite(
                table=one.table,
                gain_bytes=one.gain_bytes,
                priority=one.priority,
                delay_seconds=one.delay_seconds,
                is_overdue=_is_overdue(one, limits),
                taken_groups=len(taken),
                taken_bytes=taken_bytes,
                seconds=spent_seconds,
                bytes_per_second=rate,
                rate_basis=basis,
                deferred_groups=len(one.groups) - len(taken),
                deferred_bytes=one.size_bytes - taken_bytes,
                reason=reason,
            )
        )
    return tuple(ranked)


def _is_overdue(one: DueRewrite, limits: RunLimits) -> bool:
    return one.delay_seconds >= limits.max_delay_seconds


def _rank(one: DueRewrite, limits: RunLimits) -> tuple[bool, bool, float, float, str]:
    if _is_overdue(one, limits):
        return False, False, 0, -one.delay_seconds, one.table
    return True, one.has_failed, -one.gain_per_byte, -one.delay_seconds, one.table


def _rate(one: DueRewrite, usual: float | None) -> tuple[float, RateBasis]:
    if one.bytes_per_second:
        return one.bytes_per_second, RateBasis.TABLE
    return (ASSUMED_BYTES_PER_SECOND, RateBasis.ASSUMED) if usual is None else (usual, RateBasis.TARGET)


def _fitting(
    one: DueRewrite, budget: RunBudget, limits: RunLimits, time_bytes: float | None
) -> tuple[list[tuple[int, int]], DeferralReason | None]:
    """Return the groups that the run takes, and the reason why others wait, None if none does.

    ``time_bytes`` is what the table's throughput rewrites in the time that is left, None without a limit.
    """
    if not limits.is_open:
        return [], DeferralReason.WINDOW
    since = one.since_clustering_seconds
    if since is not None and since < limits.cooldown_seconds:
        return [], DeferralReason.COOLDOWN
    room = RunRoom(budget, max_groups=one.max_groups)
    taken: list[tuple[int, int]] = []
    reasons: list[DeferralReason] = []
    for size, files in one.groups:
        is_first = not (budget.spent_bytes or room.taken_bytes)
        if time_bytes is not None and (
            time_bytes <= 0 or (room.taken_bytes + size > time_bytes and not is_first)
        ):
            reasons.append(DeferralReason.TIME)
        elif (refusal := room.refusal(size, files)) is not None:
            reasons.append(_REASONS.get(refusal, DeferralReason.BUDGET))
        else:
            room.take(size, files)
            taken.append((size, files))
    return taken, reasons[0] if reasons else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """The order of a run's rewrites and its limits.

    ``starts_ms`` is the time at which the window lets it start, in milliseconds since 1970 (UTC). If
    ``rewrite_bytes`` or ``seconds`` is None, there is no such limit. ``spent_bytes`` of the bytes are used
    when the run ends, including those that failed clusterings were to rewrite.
    """

    starts_ms: int
    rewrite_bytes: int | None
    seconds: float | None
    tables: tuple[RankedRewrite, ...]
    spent_bytes: int = field(default=0, metadata=omit(0))
