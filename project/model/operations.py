"""When table services of a target run, and how much they may do: its window, its budget and its order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from math import prod
from typing import Any, Final
from zoneinfo import ZoneInfo

from parquetry.project.validation.units import DAY_SECONDS, duration_seconds, size_bytes

MAX_DELAY_SECONDS: Final = 7 * DAY_SECONDS
"""The default of ``max_delay``."""

_WINDOW = re.compile(r"([0-9]{2}):([0-9]{2})-([0-9]{2}):([0-9]{2}) ([A-Za-z0-9_+/-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceWindow:
    """The hours of each day in which services may run, by the wall clock of a time zone.

    If ``end`` is not later than ``start``, the window ends on the next day.
    """

    start: time
    end: time
    zone: str

    @classmethod
    def parse(cls, text: str) -> ServiceWindow:
        """Return the window of a text such as ``01:00-05:00 Europe/Rome``.

        Raises:
            ValueError: if a time or the zone does not exist, or if the times are equal.

        """
        found = _WINDOW.fullmatch(text)
        if found is None:
            message = f"{text!r} is not a window such as 01:00-05:00 Europe/Rome"
            raise ValueError(message)
        try:
            ZoneInfo(found[5])
        except (KeyError, OSError) as error:
            message = f"there is no time zone {found[5]!r}"
            raise ValueError(message) from error
        start, end = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
        if start == end:
            message = "it ends when it starts"
            raise ValueError(message)
        return cls(start=start, end=end, zone=found[5])

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M} {self.zone}"

    def next_span(self, now: float) -> tuple[float, float]:
        """Return the start and the end of the window that is open at ``now``, or of the next one.

        Of two that are open, because one became longer, it is the one that ends last. A window whose hours
        the clocks skip does not open on that day.

        Times are in seconds since 1970 (UTC). If clocks are put forward over the start, the window opens at
        that moment; if they are put forward over the end, it closes as much later. If they are put back, it
        opens at the first of two equal times and closes at the last.
        """
        zone = ZoneInfo(self.zone)
        today = datetime.fromtimestamp(now, zone).date()
        spans = [self._span(today + timedelta(days=days), zone) for days in range(-1, 4)]
        coming = [(start, end) for start, end in spans if now < end > start]
        are_open = [(start, end) for start, end in coming if start <= now]
        return are_open[-1] if are_open else coming[0]

    def _span(self, day: date, zone: ZoneInfo) -> tuple[float, float]:
        last = day if self.start < self.end else day + timedelta(days=1)
        starts, ends = _moments(day, self.start, zone), _moments(last, self.end, zone)
        start = starts[0]
        if starts[1] < starts[0]:
            start = _offset_change(starts[1], starts[0], zone)
        return start, max(ends)


def _moments(day: date, wall: time, zone: ZoneInfo) -> tuple[float, float]:
    """Return the seconds since 1970 of a wall time by the offset before and after a change of clocks.

    They are equal on other days. The second one is earlier if the clocks skip that time.
    """
    local = datetime.combine(day, wall, tzinfo=zone)
    return local.replace(fold=0).timestamp(), local.replace(fold=1).timestamp()


def _offset_change(before: float, after: float, zone: ZoneInfo) -> float:
    """Return the first second with the offset of ``after``, if the clocks change once in between."""
    low, high = int(before), int(after)
    wanted = datetime.fromtimestamp(high, UTC).astimezone(zone).utcoffset()
    while low < high:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, UTC).astimezone(zone).utcoffset() == wanted:
            high = middle
        else:
            low = middle + 1
    return float(high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The rules for the table services of a target. None means no limit.

    ``rewrite_bytes`` and ``seconds`` are the budget of a run over all its tables. ``parallel`` is the number
    of tables that are clustered at the same time. ``priorities`` are factors of the gain, by tag.
    """

    window: ServiceWindow | None = None
    rewrite_bytes: int | None = None
    seconds: float | None = None
    parallel: int = 1
    cooldown_seconds: int = 0
    max_delay_seconds: int = MAX_DELAY_SECONDS
    priorities: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Operations:
        """Return the rules of a valid ``operations`` section."""
        budget = value.get("budget", {})
        return cls(
            window=ServiceWindow.parse(value["window"]) if "window" in value else None,
            rewrite_bytes=size_bytes(budget["rewrite"]) if "rewrite" in budget else None,
            seconds=float(budget["hours"]) * 3600 if "hours" in budget else None,
            parallel=int(value.get("parallel", 1)),
            cooldown_seconds=duration_seconds(value["cooldown"]) if "cooldown" in value else 0,
            max_delay_seconds=duration_seconds(value["max_delay"])
            if "max_delay" in value
            else MAX_DELAY_SECONDS,
            priorities={tag: float(factor) for tag, factor in value.get("priorities", {}).items()},
        )

    def priority(self, tags: Iterable[str]) -> float:
        """Return the factor of a table with these tags: the product of their factors."""
        return prod(self.priorities.get(tag, 1.0) for tag in tags)
