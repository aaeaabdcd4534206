"""Rounds of clustering that published nothing: writers won every group of the plan, or a group failed.

What was lost beside something that was published is in the replacecommit; of these nothing else tells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.layout.clustering.model import FileKey
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.sidecars import LOST_FOLDER


def note_lost(timeline: Timeline, instant: str, groups: Iterable[FileKey]) -> None:
    """Record that the clustering of that instant lost all its file groups; forget what is long ago."""
    content = json.dumps(sorted(groups), separators=(",", ":"))
    timeline.store.put(f"{LOST_FOLDER}/{instant}.json", content.encode())
    known = _rounds(timeline.store)
    timeline.store.delete_all([path for time, path in known if time < _since(timeline)])


def lost_rounds(timeline: Timeline) -> Iterator[tuple[str, set[FileKey]]]:
    """By instant the file groups that were lost, as far back as the active timeline goes."""
    for time, path in _rounds(timeline.store):
        if time < _since(timeline):
            continue
        try:
            listed = parsed_json(timeline.store.read(path))
            yield time, {(partition, file_id) for partition, file_id in listed}
        except (NotFoundError, ValueError, TypeError):
            # It says only when to try again: without it that is now.
            continue


def _rounds(store: ObjectStore) -> list[tuple[str, str]]:
    paths = sorted(info.path for info in store.list(LOST_FOLDER))
    named = ((path.rpartition("/")[2].removesuffix(".json"), path) for path in paths)
    return [(time, path) for time, path in named if time.isdigit()]


def _since(timeline: Timeline) -> str:
    writes = timeline.completed_writes
    return writes[0].time if writes else ""
