"""When a write last looked whether its table owes clustering anything, and found that nothing can be done.

Without it every write behind the first due one would look again: lists all partitions, reads statistics.
"""

from __future__ import annotations

import json

from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.sidecars import CLUSTERING_LOOK_PATH


def note_look(table: TableHandle) -> None:
    """Record that by the writes there are, and by what is applied, there was nothing to be done."""
    writes = table.timeline().completed_writes
    known = {"instant": writes[-1].time if writes else "", "applied": _applied(table)}
    table.store.put(CLUSTERING_LOOK_PATH, json.dumps(known).encode())


def commits_since_look(table: TableHandle, timeline: Timeline) -> int | None:
    """How many writes were completed since; None when nobody looked by what is applied now."""
    try:
        known = parsed_json(table.store.read(CLUSTERING_LOOK_PATH))
        if known["applied"] != _applied(table):
            return None
        instant = str(known["instant"])
        return sum(write.time > instant for write in timeline.completed_writes)
    except (NotFoundError, ValueError, KeyError, TypeError):
        # It says only when to look again: without it that is now.
        return None


def _applied(table: TableHandle) -> int | None:
    return None if table.applied is None else table.applied.number
