"""The note of a change of a table's version, and the end of the change behind its switch.

A program without the lock may put state files into the former timeline while the change goes on. They are
taken over before that timeline is deleted, also if the change was interrupted behind the switch.
"""

from __future__ import annotations

import json

from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.spec.codec import json_object
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.properties import read_table_properties
from parquetry.runtime.table.version_properties import changed_properties
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.layout import LAYOUT_OF_VERSION, LAYOUTS, TimelineLayout
from parquetry.runtime.timeline.layout_change import change_of_layout
from parquetry.runtime.timeline.sidecars import VERSION_CHANGE_PATH


def note_version_change(timeline: Timeline) -> None:
    """Note that a change of the version begins, and which state files of the timeline it changes.

    The caller must hold the lock of the table.
    """
    note = {"layout": timeline.layout.NUMBER, "files": sorted(timeline.files)}
    timeline.store.put(VERSION_CHANGE_PATH, json.dumps(note).encode())


def finish_version_change(store: ObjectStore) -> bool:
    """Finish or withdraw a change of the version, and return whether one was noted.

    The caller must hold the lock of the table. If the properties were replaced, state files that the former
    timeline got since the note are taken over, and it is deleted. Otherwise the half-written new timeline is.
    A timeline in the other layout stays unless a change was noted: Hudi may be writing it.

    Raises:
        CorruptTableError: If such a state file cannot be read.

    """
    try:
        note = json_object(store.read(VERSION_CHANGE_PATH), place=f"{store.uri}/{VERSION_CHANGE_PATH}")
    except NotFoundError:
        return False
    config = TableConfig.from_properties(read_table_properties(store), location=store.uri)
    other = _other_layout(config)
    if note.get("layout") == other.NUMBER:
        former, known = Timeline.load(store, other), set(note.get("files", ()))
        late = [i for i in former.instants if any(s.file_name not in known for s in former.states_of(i))]
        change_of_layout(other, config.timeline_layout).put_states(former, late)
    other.delete(store)
    store.delete(VERSION_CHANGE_PATH)
    return True


def _other_layout(config: TableConfig) -> TimelineLayout:
    """Return the layout that the table does not have, as a change of its version would make it."""
    other = next(version for version, number in LAYOUT_OF_VERSION.items() if number != config.layout)
    return LAYOUTS[LAYOUT_OF_VERSION[other]].of_table(changed_properties(config.raw, other), config.timezone)
