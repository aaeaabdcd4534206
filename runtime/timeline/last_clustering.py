"""The last clustering of a table, and the last time that a job began one.

Both are known after the archive service has taken the commits from the timeline, and the second one also if
nothing was published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunClustering:
    """The time at which a job last began to cluster a table, and the bytes that it was to rewrite."""

    at_ms: int
    size_bytes: int


def record_begun(store: ObjectStore, *, size_bytes: int) -> None:
    """Record that a job begins to rewrite so many bytes of the table now, whatever comes of it."""
    begun = {"at_ms": store.now_ms(), "size_bytes": size_bytes}
    store.put(CLUSTERING_BEGUN_PATH, json.dumps(begun).encode())


def last_begun(store: ObjectStore) -> BegunClustering | None:
    """Return the clustering that a job last began on the table, or None if that is not known."""
    try:
        begun = parsed_json(store.read(CLUSTERING_BEGUN_PATH))
        return BegunClustering(at_ms=int(begun["at_ms"]), size_bytes=max(int(begun["size_bytes"]), 0))
    except (NotFoundError, ValueError, KeyError, TypeError, OverflowError):
        return None


def _newest(timeline: Timeline) -> str:
    times = (write.time for write in reversed(timeline.completed_writes) if is_clustering(timeline, write))
    return next(times, "")
