"""Which instants count: sidecars name the write they belong to, and count while it is in effect."""

from __future__ import annotations

from collections.abc import Callable

from parquetry.runtime.storage import ObjectStore
from parquetry.runtime.table_config import TableConfig
from parquetry.runtime.timeline.archive_log import read_archive
from parquetry.runtime.timeline.instant import WRITE_ACTIONS, State
from parquetry.runtime.timeline.timeline import Timeline


def effective_instants(store: ObjectStore, config: TableConfig, timeline: Timeline) -> Callable[[str], bool]:
    """Whether a write is completed, on the active timeline or in the archive.

    The archive is read once, and only when an instant is asked for that the active timeline lacks.
    A rolled back or restored write has lost its completed file before it could be archived.
    """
    archived: frozenset[str] | None = None

    def is_effective(instant: str) -> bool:
        nonlocal archived
        if timeline.is_completed(instant):
            return True
        if timeline.contains(instant):
            return False
        if archived is None:
            archived = _archived_writes(store, config)
        return instant in archived

    return is_effective


def _archived_writes(store: ObjectStore, config: TableConfig) -> frozenset[str]:
    return frozenset(
        entry.time
        for entry in read_archive(store, config.archive_folder)
        if entry.state.lower() == State.COMPLETED and entry.action in WRITE_ACTIONS
    )
