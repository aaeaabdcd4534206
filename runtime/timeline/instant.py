"""Instants: the names, times and states of the actions on a table (timeline layout 1).

Hudi names a state file ``<time>.<action>[.<state>]`` directly in ``.hoodie``, with one exception: an inflight
commit is ``<time>.inflight``. Times are compared as text. Source: HoodieInstant, HoodieActiveTimeline and
HoodieInstantTimeGenerator of Hudi 0.15.
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
    """The time zone of the instants of a table. Hudi's default is LOCAL."""

    LOCAL = "LOCAL"
    UTC = "UTC"


class Action(StrEnum):
    """The action of an instant. This project writes the first six, and ignores the others when it reads."""

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
    """The state of an instant."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"

    @property
    def rank(self) -> int:
        """0, 1 or 2: the order in which the state files are created."""
        return _STATE_ORDER.index(self)


_ACTIONS = {action.value: action for action in Action}
_STATE_ORDER = (State.REQUESTED, State.INFLIGHT, State.COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """One action at one time, in the state of one of its files."""

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
        """The path of the state file, relative to the table."""
        return f"{TIMELINE_FOLDER}/{self.file_name}"

    @property
    def is_completed(self) -> bool:
        """True if the action is completed."""
        return self.state is State.COMPLETED

    def with_state(self, state: State) -> Instant:
        """Return the instant with another state."""
        return Instant(time=self.time, action=self.action, state=state)

    @classmethod
    def parse(cls, name: str) -> Instant | None:
        """Return the instant of a state file, given its name in ``.hoodie``, or None for any other file."""
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
    """Return the instant of a time: 17 digits ``yyyyMMddHHmmssSSS`` in the time zone of the table.

    ``ms`` are milliseconds since the epoch. LOCAL is the time zone of this machine, as for a Hudi writer.
    """
    seconds, millis = divmod(ms, 1000)
    moment = datetime.fromtimestamp(seconds, UTC if zone is Timezone.UTC else None)
    return f"{moment:%Y%m%d%H%M%S}{millis:03d}"


def parse_instant_ms(time: str, zone: Timezone) -> int:
    """Return the time of an instant in ms since the epoch.

    Fourteen digits (in old tables) mean the last millisecond of their second. Digits after the seventeenth
    are ignored.

    Raises:
        CorruptTableError: If the text is not a time.

    """
    wall = _wall_clock(time)
    moment = wall.replace(tzinfo=UTC) if zone is Timezone.UTC else wall
    return int(moment.replace(microsecond=0).timestamp()) * 1000 + wall.microsecond // 1000


def next_instant(after: str | None, now_ms: int, zone: Timezone) -> str:
    """Return the instant for a new action: the current time, or a later one if needed.

    If the current time is not greater than ``after``, the result is one millisecond after ``after``. If that
    is ahead of the clock, the caller has to wait.
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
    raise CorruptTableError(
        "instant {instant!r} on the timeline is not a time (yyyyMMddHHmmssSSS); move its files out of "
        "{folder} if no Hudi writer made them",
        instant=time,
        folder=TIMELINE_FOLDER,
    )
