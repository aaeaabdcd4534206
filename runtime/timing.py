"""How long writers wait for each other. Every period is a value, so that tests can shorten it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_ROUNDS_OF_GROWTH: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The periods of the commit protocol, in seconds.

    A writer shows that it lives every ``heartbeat_seconds`` and counts as dead after
    ``dead_after_seconds`` of silence by the store's clock. ``clock_skew_seconds`` is how far an
    instant may lie ahead of that clock and still be waited for. A lock of another program is
    waited for during ``foreign_lock_seconds``, a living writer's lock during
    ``live_lock_seconds``; an older writer that is about to change the same files is given way
    for ``give_way_seconds``. A write that lost is repeated up to ``retries`` times, after a
    pause that doubles from ``backoff_seconds`` to ``longest_backoff_seconds``, with jitter.
    A clustering plan that nobody has begun to execute is given up after ``plan_expires_seconds``.
    """

    heartbeat_seconds: float = 20.0
    dead_after_seconds: float = 180.0
    clock_skew_seconds: float = 5.0
    foreign_lock_seconds: float = 60.0
    live_lock_seconds: float = 3600.0
    give_way_seconds: float = 600.0
    poll_seconds: float = 0.1
    longest_poll_seconds: float = 2.0
    retries: int = 10
    backoff_seconds: float = 0.1
    longest_backoff_seconds: float = 10.0
    plan_expires_seconds: float = 24 * 3600.0
    sleep: Callable[[float], None] = time.sleep

    def pause_before_retry(self, attempt: int) -> None:
        """Sleep before retry number ``attempt`` (from 1): half to all of the doubled pause."""
        longest = min(self.backoff_seconds * 2.0 ** (attempt - 1), self.longest_backoff_seconds)
        self.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret

    def poll(self, round_number: int) -> None:
        """Sleep between two looks at something that another writer is about to change."""
        growth = 1.5 ** min(round_number, _ROUNDS_OF_GROWTH)
        pause = min(self.poll_seconds * growth, self.longest_poll_seconds)
        self.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret


DEFAULT_TIMING = Timing()
