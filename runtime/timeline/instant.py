"""Instants: the names, times and states of the actions on a table, in both timeline layouts of Hudi.

In layout 1 (table version 6), Hudi names a state file ``<time>.<action>[.<state>]`` directly in ``.hoodie``,
with one exception: an inflight commit is ``<time>.inflight``. In layout 2 (versions 8 and 9), the files lie
in ``.hoodie/timeline``, the name of a completed one contains the completion time as well
(``<time>_<completion time>.<action>``), and the pending files of a clustering are named ``clustering``.
Times are compared as text. Source: HoodieInstant, HoodieActiveTimeline and HoodieInstantTimeGenerator of Hudi
0.15, InstantFileNameParserV2 and InstantFileNameGeneratorV2 of Hudi 1.2.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from parquetry.runtime.errors import CorruptTableError

TIMELINE_FOLDER: Final = ".hoodie"

_FILE_NAME = re.compile(r"([0-9]+)(?:_([0-9]+))?\.([a-z]+)(?:\.([a-z]+))?")
_INFLIGHT_COMMIT = "inflight"
_CLUSTERING = "clustering"
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
    """One action at one time, in the state of one of its files.

    ``completed_at`` is the completion time of a completed instant of layout 2, and None otherwise.
    ``is_named_clustering`` is True if the pending files of a replacecommit are named ``clustering``, as in
    layout 2.
    """

    time: str
    action: Action
    state: State
    names: StateFileNames = field(repr=False)
    completed_at: str | None = None
    is_named_clustering: bool = False

    @property
    def file_name(self) -> str:
        """The name of the state file, without its folder."""
        return self.names.name_of(self)

    @property
    def path(self) -> str:
        """The path of the state file, relative to the table."""
        return f"{self.names.folder}/{self.file_name}"

    @property
    def action_in_name(self) -> str:
        """The action as the state file spells it: ``clustering`` for a pending clustering of layout 2."""
        return _CLUSTERING if self.is_named_clustering and not self.is_completed else self.action

    @property
    def is_completed(self) -> bool:
        """True if the action is completed."""
        return self.state is State.COMPLETED

    @property
    def position(self) -> str:
        """The position of a completed instant in incremental reads: its completion time, if it has one."""
        return self.completed_at or self.time

    @property
    def requested(self) -> Instant:
        """The instant in the state requested."""
        return replace(self, state=State.REQUESTED, completed_at=None)

    @property
    def inflight(self) -> Instant:
        """The instant in the state inflight."""
        return replace(self, state=State.INFLIGHT, completed_at=None)

    @property
    def pending_states(self) -> tuple[Instant, Instant]:
        """The instant in the states requested and inflight."""
        return self.requested, self.inflight


class StateFileNames(ABC):
    """The names of the state files in one timeline layout. ``folder`` is relative to the table."""

    folder: str

    @abstractmethod
    def name_of(self, instant: Instant) -> str:
        """Return the name of the state file of an instant."""

    @abstractmethod
    def parse(self, name: str) -> Instant | None:
        """Return the instant of a state file, given its name in :attr:`folder`, or None for another file.

        Raises:
            CorruptTableError: If the name of a completed instant lacks its completion time.

        """

    def requested(self, time: str, action: Action, *, is_clustering: bool = False) -> Instant:
        """Return a requested instant; ``is_clustering`` says whether it is a clustering."""
        return Instant(
            time=time,
            action=action,
            state=State.REQUESTED,
            names=self,
            is_named_clustering=is_clustering and self._has_clustering_files,
        )

    _has_clustering_files = False

    def _parse_pending(self, time: str, word: str, suffix: str | None) -> Instant | None:
        """Return the pending instant of a name with these parts, or None."""
        if word == _INFLIGHT_COMMIT and suffix is None:
            return self.requested(time, Action.COMMIT).inflight
        is_clustering = word == _CLUSTERING
        action = action_of(word)
        if action is None or (is_clustering and not self._has_clustering_files):
            return None
        if suffix not in (State.REQUESTED, State.INFLIGHT):
            return None
        requested = self.requested(time, action, is_clustering=is_clustering)
        return requested if suffix == State.REQUESTED else requested.inflight


class _NamesOfLayout1(StateFileNames):
    folder = TIMELINE_FOLDER

    def name_of(self, instant: Instant) -> str:
        if instant.is_completed:
            return f"{instant.time}.{instant.action}"
        return _pending_name(instant)

    def parse(self, name: str) -> Instant | None:
        match = _FILE_NAME.fullmatch(name)
        if match is None or match[2] is not None:
            return None
        time, _, word, suffix = match.groups()
        if suffix is None and word in _ACTIONS:
            return Instant(time=time, action=_ACTIONS[word], state=State.COMPLETED, names=self)
        return self._parse_pending(time, word, suffix)


class _NamesOfLayout2(StateFileNames):
    folder = f"{TIMELINE_FOLDER}/timeline"
    _has_clustering_files = True

    def name_of(self, instant: Instant) -> str:
        if not instant.is_completed:
            return _pending_name(instant)
        if instant.completed_at is None:
            raise ValueError(f"the completion time of {instant.time} is unknown")
        return f"{instant.time}_{instant.completed_at}.{instant.action}"

    def parse(self, name: str) -> Instant | None:
        match = _FILE_NAME.fullmatch(name)
        if match is None:
            return None
        time, completed_at, word, suffix = match.groups()
        if completed_at is None and suffix is None and word in _ACTIONS:
            raise CorruptTableError(
                "{folder}/{file}: the name of a completed instant has no completion time, so readers differ "
                "about it; rename the file to {instant}_COMPLETIONTIME.{action} if its action succeeded, or "
                "delete it",
                folder=self.folder,
                file=name,
                instant=time,
                action=word,
            )
        if completed_at is None:
            return self._parse_pending(time, word, suffix)
        if suffix is not None or word not in _ACTIONS:
            return None
        return Instant(
            time=time, action=_ACTIONS[word], state=State.COMPLETED, names=self, completed_at=completed_at
        )


def _pending_name(instant: Instant) -> str:
    if instant.state is State.INFLIGHT and instant.action is Action.COMMIT:
        return f"{instant.time}.{_INFLIGHT_COMMIT}"
    return f"{instant.time}.{instant.action_in_name}.{instant.state}"


NAMES_OF_LAYOUT_1: Final[StateFileNames] = _NamesOfLayout1()
NAMES_OF_LAYOUT_2: Final[StateFileNames] = _NamesOfLayout2()


def action_of(name: str) -> Action | None:
    """Return the action that a record or a state file names, or None for an unknown name.

    A clustering is a replacecommit, though Hudi 1 names it ``clustering`` until it is completed.
    """
    return Action.REPLACECOMMIT if name == _CLUSTERING else _ACTIONS.get(name)


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
