"""The progress of cleaning, which is also recorded if a clean found nothing to delete.

Hudi records no clean without files, and then checks all partitions again the next time. Here the limits are
noted in a sidecar. Without the note, more partitions are checked than necessary.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from parquetry.runtime.errors import InvalidDataError, NotFoundError
from parquetry.runtime.services.retention import KEEP_LATEST_FILE_VERSIONS, Horizon
from parquetry.runtime.spec.codec import from_json_value, parsed_json
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Action, State
from parquetry.runtime.timeline.sidecars import CLEAN_PROGRESS_PATH

SAVEPOINTS_KEY: Final = "savepointed_timestamps"
BARRIER_KEY: Final = "parquetry.held_back_since"
PARTIAL_KEY: Final = "parquetry.partial"
"""Marks a clean that deleted versions of some file groups only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanProgress:
    """The limits of the last clean: all files that had expired under them are deleted.

    ``earliest`` was the first commit to retain, or None if versions were kept by number. In the latter case,
    ``barrier`` is the commit from which a pending write held back versions, if one did. ``last_completed``
    was the newest write at that time, and ``savepoints`` were protected.
    """

    earliest: str | None
    last_completed: str
    barrier: str | None
    savepoints: tuple[str, ...]

    def covers(self, limits: Horizon, timeline: Timeline) -> bool:
        """Return whether a clean with these limits would find nothing."""
        if not set(self.savepoints) <= set(timeline.savepoints):
            return False
        if limits.earliest is None:
            newest = timeline.completed_writes[-1].time
            return (self.earliest, self.last_completed, self.barrier) == (None, newest, limits.barrier)
        return self.earliest == limits.earliest


def read_progress(timeline: Timeline) -> CleanProgress | None:
    """Return the newer one of the recorded progress and the last completed clean, or None without either."""
    known = [
        progress for progress in (_from_note(timeline.store), _last_clean(timeline)) if progress is not None
    ]
    return max(known, key=lambda progress: progress.last_completed, default=None)


def note_progress(store: ObjectStore, progress: CleanProgress) -> None:
    """Record that all files that had expired under these limits are deleted."""
    store.put(CLEAN_PROGRESS_PATH, json.dumps(asdict(progress)).encode())


def partitions_to_check(
    timeline: Timeline, limits: Horizon, progress: CleanProgress | None
) -> Iterable[str] | None:
    """Return the partitions in which versions may have expired since the last clean, or None for all.

    Versions may have expired where a write has passed out of the limits since, and where a pending write had
    held versions back. All partitions are checked if there was no clean before, if the commit of its limits
    was archived, or if a savepoint was deleted.
    """
    if progress is None or not set(progress.savepoints) <= set(timeline.savepoints):
        return None
    since = progress.earliest
    if since is None and limits.policy == KEEP_LATEST_FILE_VERSIONS:
        since = progress.barrier or progress.last_completed
    writes = timeline.completed_writes
    if not since or not writes or since < writes[0].time:
        return None
    touched: set[str] = set()
    for instant in writes:
        if since <= instant.time and (limits.earliest is None or instant.time < limits.earliest):
            touched |= timeline.commit_metadata(instant.time).partitions
    return sorted(touched)


def _from_note(store: ObjectStore) -> CleanProgress | None:
    """Return the recorded progress, or None if there is none or it is unreadable."""
    try:
        return from_json_value(
            CleanProgress, parsed_json(store.read(CLEAN_PROGRESS_PATH)), place=CLEAN_PROGRESS_PATH
        )
    except (NotFoundError, ValueError, InvalidDataError):
        return None


def _last_clean(timeline: Timeline) -> CleanProgress | None:
    """Return the progress of the last complete clean on the timeline, or None."""
    for clean in reversed(timeline.of(Action.CLEAN, state=State.COMPLETED)):
        last = timeline.clean_metadata(clean.time)
        if PARTIAL_KEY not in last.extra:
            return CleanProgress(
                earliest=last.earliest_commit_to_retain,
                last_completed=last.last_completed_commit,
                barrier=last.extra.get(BARRIER_KEY),
                savepoints=_savepoints(last.extra),
            )
    return None


def _savepoints(extra: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(time for time in extra.get(SAVEPOINTS_KEY, "").split(",") if time)
