"""The periods for which writers wait for each other. Tests use shorter ones."""

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

    A writer refreshes its heartbeat every ``heartbeat_seconds``, and counts as dead if it has not done so for
    ``dead_after_seconds`` by the store's clock. A writer waits for an instant that is up to
    ``clock_skew_seconds`` ahead of that clock. It waits up to ``foreign_lock_seconds`` for the lock of
    another program, up to ``live_lock_seconds`` for the lock of a live writer, and up to ``give_way_seconds``
    for an older writer that is about to change the same files. Before a writer takes the lock, it lists the
    timeline again if its last listing is ``listing_valid_seconds`` old, so that less is read under the lock.
    A write that lost a conflict is repeated up to ``retries`` times, after a pause that doubles from
    ``backoff_seconds`` to ``longest_backoff_seconds``, with jitter. A clustering plan whose execution has not
    started expires after ``plan_expires_seconds``.
    """

    heartbeat_seconds: float = 20.0
    dead_after_seconds: float = 180.0
    clock_skew_seconds: float = 5.0
    foreign_lock_seconds: float = 60.0
    live_lock_seconds: float = 3600.0
    give_way_seconds: float = 600.0
    listing_valid_seconds: float = 10.0
    poll_seconds: float = 0.1
    longest_poll_seconds: float = 2.0
    retries: int = 10
    backoff_seconds: float = 0.1
    longest_backoff_seconds: float = 10.0
    plan_expires_seconds: float = 24 * 3600.0
    sleep: Callable[[float], None] = time.sleep

    def pause_before_retry(self, attempt: int) -> None:
        """Sleep before retry number ``attempt`` (from 1), for 50 to 100 % of the doubled pause."""
        longest = min(self.backoff_seconds * 2.0 ** (attempt - 1), self.longest_backoff_seconds)
        self.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret

    def poll(self, round_number: int) -> None:
        """Sleep between two checks of a change that another writer is about to make."""
        growth = 1.5 ** min(round_number, _ROUNDS_OF_GROWTH)
        pause = min(self.poll_seconds * growth, self.longest_poll_seconds)
        self.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret


DEFAULT_TIMING = Timing()
