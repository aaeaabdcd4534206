"""The whole archive log of a table."""

from __future__ import annotations

from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.timeline.archive_log import ArchivedInstant, newest_logs_first


def read_archive(store: ObjectStore, folder: str) -> list[ArchivedInstant]:
    """Everything in its files, the oldest first; one that cannot be read fails."""
    found: list[ArchivedInstant] = []
    for _, log in newest_logs_first(store, folder):
        assert log is not None
        found = [*log, *found]
    return found
