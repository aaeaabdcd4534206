"""The note of a change of a table's version, and the deletion of the timeline that it leaves behind."""

from __future__ import annotations

from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.properties import read_table_properties
from parquetry.runtime.table.version_properties import changed_properties
from parquetry.runtime.timeline.layout import LAYOUT_OF_VERSION, LAYOUTS, TimelineLayout
from parquetry.runtime.timeline.sidecars import VERSION_CHANGE_PATH


def note_version_change(store: ObjectStore) -> None:
    """Note that a change of the version begins; the caller must hold the lock of the table."""
    store.put(VERSION_CHANGE_PATH, b"{}")


def finish_version_change(store: ObjectStore) -> bool:
    """Delete what a change of the version has left, and return whether one was noted.

    The caller must hold the lock of the table. That is the former timeline, or the half-written new one of a
    change that was interrupted before it replaced the properties. A timeline in the other layout stays unless
    a change was noted: Hudi may be writing it.
    """
    if store.stat(VERSION_CHANGE_PATH) is None:
        return False
    config = TableConfig.from_properties(read_table_properties(store), location=store.uri)
    _other_layout(config).delete(store)
    return store.delete(VERSION_CHANGE_PATH)


def _other_layout(config: TableConfig) -> TimelineLayout:
    """Return the layout that the table does not have, as a change of its version would make it."""
    other = next(version for version, number in LAYOUT_OF_VERSION.items() if number != config.layout)
    return LAYOUTS[LAYOUT_OF_VERSION[other]].of_table(changed_properties(config.raw, other), config.timezone)
