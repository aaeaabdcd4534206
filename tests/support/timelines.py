"""Timelines and instants of tables, for tests that look at the state files themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.properties import read_table_properties
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import CommitMetadata, WriteStat
from parquetry.runtime.timeline.instant import (
    NAMES_OF_LAYOUT_1,
    Action,
    Instant,
    State,
    Timezone,
)
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


def pending(
    store: ObjectStore,
    time: str,
    action: Action = Action.COMMIT,
    state: State = State.REQUESTED,
    *,
    is_clustering: bool = False,
) -> Instant:
    """Return a pending instant with the names of the table's layout."""
    requested = timeline_of(store).layout.requested(time, action, is_clustering=is_clustering)
    return replace(requested, state=state)


def put_pending(
    store: ObjectStore,
    time: str,
    action: Action = Action.COMMIT,
    state: State = State.REQUESTED,
    *,
    content: bytes = b"",
) -> Instant:
    """Put the file of a pending instant as another program does, and return the instant."""
    instant = pending(store, time, action, state)
    store.put(instant.path, content)
    return instant


def put_completed(store: ObjectStore, time: str, action: Action, content: bytes | CommitMetadata) -> Instant:
    """Put the file of a completed instant as another program does, and return the instant."""
    timeline = timeline_of(store)
    done = timeline.layout.completion_of(
        timeline.layout.requested(time, action), after=timeline.last_instant, now_ms=0
    )
    if isinstance(content, CommitMetadata):
        content = timeline.layout.encode_commit(content)
    store.put(done.path, content)
    return done


def completed(store: ObjectStore, time: str, action: Action = Action.COMMIT) -> Instant:
    """Return the completed instant of that time."""
    found = timeline_of(store).layout.find_completed(store, pending(store, time, action))
    assert found is not None, f"{action} {time} is not completed"
    return found


def change_commit(store: ObjectStore, time: str, change: Callable[[WriteStat], WriteStat]) -> None:
    """Put the commit of that time again, each of its write stats changed."""
    timeline = timeline_of(store)
    metadata = timeline.commit_metadata(time)
    stats = {path: tuple(map(change, group)) for path, group in metadata.stats.items()}
    instant = timeline.write_at(time)
    assert instant is not None
    store.put(instant.path, timeline.layout.encode_commit(replace(metadata, stats=stats)))


def state_files(store: ObjectStore, time: str) -> list[str]:
    """Return the names of the state files of that time, sorted, each without its times."""
    names = (info.path.rpartition("/")[2] for info in store.list(timeline_of(store).layout.NAMES.folder))
    return sorted(name.partition(".")[2] for name in names if name.startswith(time))


def instant_of(time: str, action: Action, state: State) -> Instant:
    """Return an instant of layout 1."""
    return replace(NAMES_OF_LAYOUT_1.requested(time, action), state=state)
