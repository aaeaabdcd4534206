"""Instants: the names and times of what happened to a table (timeline layout 1).

Hudi names a state file ``<time>.<action>[.<state>]`` directly in ``.hoodie``, with one exception:
an in-flight commit is ``<time>.inflight``. Times are compared as text.
Source: HoodieInstant, HoodieActiveTimeline and HoodieInstantTimeGenerator of Hudi 0.15.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from parquetry.runtime.errors import CorruptTableError

TIMELINE_FOLDER: Final = ".hoodie"

_FILE_NAME = re.compile(r"([0-9]+)\.([a-z]+)(?:\.([a-z]+))?")
_SECONDS_LENGTH = 14
_MILLIS_LENGTH = 17


class Timezone(StrEnum):
    """The zone in which a table's instants are written; Hudi's default is LOCAL."""

    LOCAL = "LOCAL"
    UTC = "UTC"


class Action(StrEnum):
    """What an instant does. This project writes the first six, and reads past the others."""

    COMMIT = "commit"
    REPLACECOMMIT = "replacecommit"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    DELTACOMMIT = "deltacommit"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    INDEXING = "indexing"


WRITE_ACTIONS: Final = frozenset(
    {Action.COMMIT, Action.REPLACECOMMIT, Action.DELTACOMMIT, Action.COMPACTION, Action.LOGCOMPACTION}
)


class State(StrEnum):
    """How far an instant has come."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"

    @property
    def rank(self) -> int:
        """0, 1, 2: the order in which the state files appear."""
        return _STATE_ORDER.index(self)


_ACTIONS = {action.value: action for action in Action}
_STATE_ORDER = (State.REQUESTED, State.INFLIGHT, State.COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """One action at one time, in the state that one of its files stands for."""

    time: str
    action: Action
    state: State

    @property
    def file_name(self) -> str:
        """The name of the state file in ``.hoodie``."""
        if self.state is State.COMPLETED:
            return f"{self.time}.{self.action}"
        if self.state is State.INFLIGHT and self.action is Action.COMMIT:
            return f"{self.time}.inflight"
        return f"{self.time}.{self.action}.{self.state}"

    @property
    def path(self) -> str:
        """The state file, relative to the table."""
        return f"{TIMELINE_FOLDER}/{self.file_name}"

    @property
    def is_completed(self) -> bool:
        """Whether the action took effect."""
        return self.state is State.COMPLETED

    def with_state(self, state: State) -> Instant:
        """The same action in another state."""
        return Instant(time=self.time, action=self.action, state=state)

    @classmethod
    def parse(cls, name: str) -> Instant | None:
        """The instant that a file name in ``.hoodie`` stands for; None for any other file."""
        match = _FILE_NAME.fullmatch(name)
        if match is None:
            return None
        time, word, suffix = match.groups()
        if word == "inflight":
            return None if suffix else cls(time=time, action=Action.COMMIT, state=State.INFLIGHT)
        action = _ACTIONS.get(word)
        if action is None:
            return None
        if suffix is None:
            return cls(time=time, action=action, state=State.COMPLETED)
        if suffix not in (State.REQUESTED, State.INFLIGHT):
            return None
        return cls(time=time, action=action, state=State(suffix))


def format_instant(ms: int, zone: Timezone) -> str:
    """The 17 digits ``yyyyMMddHHmmssSSS`` of a moment (ms since the epoch) in the table's zone.

    LOCAL is the zone of this machine, as for a Hudi writer.
    """
    seconds, millis = divmod(ms, 1000)
    moment = datetime.fromtimestamp(seconds, UTC if zone is Timezone.UTC else None)
    return f"{moment:%Y%m%d%H%M%S}{millis:03d}"


def parse_instant_ms(time: str, zone: Timezone) -> int:
    """The moment of an instant in ms since the epoch.

    Fourteen digits (old tables) mean the last millisecond of their second; digits beyond the
    seventeenth are ignored. CorruptTableError for text that is no time.
    """
    wall = _wall_clock(time)
    moment = wall.replace(tzinfo=UTC) if zone is Timezone.UTC else wall
    return int(moment.replace(microsecond=0).timestamp()) * 1000 + wall.microsecond // 1000


def next_instant(after: str | None, now_ms: int, zone: Timezone) -> str:
    """An instant for now that is greater than ``after``: now, or one millisecond after it.

    The result lies ahead of the clock when ``after`` does; the caller has to wait then.
    """
    now = format_instant(now_ms, zone)
    if after is None or now > after:
        return now
    following = _wall_clock(after) + timedelta(milliseconds=1)
    return f"{following:%Y%m%d%H%M%S}{following.microsecond // 1000:03d}"


def _wall_clock(time: str) -> datetime:
    digits = time + "999" if len(time) == _SECONDS_LENGTH else time[:_MILLIS_LENGTH]
    if len(digits) == _MILLIS_LENGTH and digits.isascii() and digits.isdigit():
        try:
            seconds = datetime.strptime(digits[:_SECONDS_LENGTH], "%Y%m%d%H%M%S")  # noqa: DTZ007 - a wall clock reading, the zone is the table's
        except ValueError:
            pass
        else:
            return seconds + timedelta(milliseconds=int(digits[_SECONDS_LENGTH:]))
    message = (
        f"instant {time!r} on the timeline is not a time (yyyyMMddHHmmssSSS); "
        f"move its files out of {TIMELINE_FOLDER} if no Hudi writer made them"
    )
    raise CorruptTableError(message)
