"""The last clustering of a table, and the last time that a job began one.

Both are known after the archive service has taken the commits from the timeline, and the second one also if
nothing was published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.instant import Action, Instant
from parquetry.runtime.timeline.sidecars import ARCHIVED_CLUSTERING_PATH, CLUSTERING_BEGUN_PATH


def is_clustering(timeline: Timeline, write: Instant) -> bool:
    """Return whether a completed write of the active timeline is a clustering."""
    if write.action is not Action.REPLACECOMMIT:
        return False
    return timeline.commit_metadata(write.time).operation == CLUSTER


def last_clustering(timeline: Timeline) -> str:
    """Return the instant of the newest completed clustering, archived or not, or "" if none is known.

    If the active timeline has none, this takes one request.
    """
    active = _newest(timeline)
    if active:
        return active
    try:
        instant = parsed_json(timeline.store.read(ARCHIVED_CLUSTERING_PATH))["instant"]
    except (NotFoundError, ValueError, KeyError, TypeError):
        return ""
    return instant if isinstance(instant, str) else ""


def keep_last_clustering(timeline: Timeline, leaving: Iterable[Instant]) -> None:
    """Record the newest clustering of the active timeline if it is one of the instants that leave it."""
    newest = _newest(timeline)
    if newest and any(instant.time == newest for instant in leaving):
        timeline.store.put(ARCHIVED_CLUSTERING_PATH, json.dumps({"instant": newest}).encode())


def record_begun(store: ObjectStore) -> None:
    """Record that a job begins to cluster the table now, whatever comes of it."""
    store.put(CLUSTERING_BEGUN_PATH, json.dumps({"at_ms": store.now_ms()}).encode())


def last_begun_ms(store: ObjectStore) -> int | None:
    """Return when a job last began to cluster the table, or None if that is not known."""
    try:
        return int(parsed_json(store.read(CLUSTERING_BEGUN_PATH))["at_ms"])
    except (NotFoundError, ValueError, KeyError, TypeError, OverflowError):
        return None


def _newest(timeline: Timeline) -> str:
    times = (write.time for write in reversed(timeline.completed_writes) if is_clustering(timeline, write))
    return next(times, "")
