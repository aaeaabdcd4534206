"""The whole archive of a table."""

from __future__ import annotations

from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.timeline.archive_log import ArchivedInstant
from parquetry.runtime.timeline.layout import TimelineLayout


def read_archive(store: ObjectStore, layout: TimelineLayout) -> list[ArchivedInstant]:
    """Everything in its files, the oldest first; one that cannot be read fails."""
    found: list[ArchivedInstant] = []
    for _, log in layout.archived(store):
        assert log is not None
        found = [*log, *found]
    return found
