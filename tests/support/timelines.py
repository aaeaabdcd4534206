"""Timelines and instants of tables, for tests that look at the state files themselves."""

from __future__ import annotations

from dataclasses import replace

from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.properties import read_table_properties
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import NAMES_OF_LAYOUT_1, Action, Instant, State, Timezone
from parquetry.runtime.timeline.layout import LAYOUTS

LAYOUT_1 = LAYOUTS[1].of_table({}, Timezone.UTC)
LAYOUT_2 = LAYOUTS[2].of_table({}, Timezone.UTC)


def timeline_of(store: ObjectStore) -> Timeline:
    """Return the current timeline of the table in ``store``, or of layout 1 if it has no properties."""
    try:
        config = TableConfig.from_properties(read_table_properties(store), location=store.uri)
    except NotFoundError:
        return Timeline.load(store, LAYOUT_1)
    return Timeline.load(store, config.timeline_layout)


def instant_of(time: str, action: Action, state: State) -> Instant:
    """Return an instant of layout 1."""
    return replace(NAMES_OF_LAYOUT_1.requested(time, action), state=state)
