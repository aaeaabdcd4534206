"""The change of a table's version: its timeline and archive in another form, then its properties.

Both forms lie in different places, so readers see one of them until hoodie.properties is replaced, and the
other one from then on. After a crash before that moment, the next change deletes the half-written form. After
a crash behind it, a repeated call or a clean of the whole table finishes the change; until then, the old form
is ignored. No row is read or written.
"""

from __future__ import annotations

from collections.abc import Mapping

from parquetry.runtime.commit.table_lock import locked_session
from parquetry.runtime.errors import ConflictError, UnsupportedTableError
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.admission import writing_problems
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.properties import read_table_properties, update_table_properties
from parquetry.runtime.table.version_leftovers import finish_version_change, note_version_change
from parquetry.runtime.table.version_properties import changed_properties
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.layout import TimelineLayout
from parquetry.runtime.timeline.layout_change import LayoutChange, change_of_layout
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

_UNFINISHED = (Action.ROLLBACK, Action.RESTORE)


def change_version(
    store: ObjectStore, version: int, *, owner: TableOwner | None = None, timing: Timing = DEFAULT_TIMING
) -> bool:
    """Give the table another version under its lock, and return whether it had another one.

    A call for the present version finishes a crashed change.

    Raises:
        UnsupportedTableError: If the table has a metadata table, or a feature with which it cannot be
            written.
        ConflictError: If a write, a rollback or a restore is pending, or another program takes the lock.
        CorruptTableError: If a file of the timeline or the archive cannot be read. Nothing was changed.

    """
    table = open_table(store, owner=owner)
    with locked_session(table, table.timeline(), purpose="table version", timing=timing) as (_, lock):
        raw = read_table_properties(store)
        config = TableConfig.from_properties(raw, location=store.uri)
        if config.version == version:
            finish_version_change(store)
            return False
        _check(store, config)
        after = changed_properties(raw, version)
        change = change_of_layout(config.timeline_layout, _layout_of(after, store))
        moves = change.source.NUMBER != change.target.NUMBER
        timeline = Timeline.load(store, change.source)
        if moves:
            note_version_change(timeline)
            change.target.delete(store)
            _write(store, change, timeline)
        current = timeline.reload()
        _check_idle(current)
        if not lock.is_held() or current.files.keys() != timeline.files.keys():
            raise ConflictError(
                "{table}: another program wrote to the table while its version was changed; stop it, then "
                "apply again",
                table=store.uri,
            )
        _switch(store, raw, after, version)
        if moves:
            finish_version_change(store)
    return True


def _check(store: ObjectStore, config: TableConfig) -> None:
    """Raise UnsupportedTableError if the table cannot be written in its present form."""
    for problem in writing_problems(config):
        raise UnsupportedTableError("{table}: {reason}", table=store.uri, reason=problem)


def _check_idle(timeline: Timeline) -> None:
    """Raise ConflictError if a write, a rollback or a restore is pending. A scheduled clustering may be."""
    clusterings = timeline.pending_clusterings
    writes = [write for write in timeline.pending_writes if write.time not in clusterings]
    others = [i for action in _UNFINISHED for i in timeline.of(action) if not i.is_completed]
    for instant in (*writes, *others):
        raise ConflictError(
            "{table}: the {action} {instant} is pending, and its writer would not find it in another "
            "version; wait until it ends, or roll it back, then apply again",
            table=timeline.store.uri,
            action=instant.action,
            instant=instant.time,
        )


def _layout_of(properties: Mapping[str, str], store: ObjectStore) -> TimelineLayout:
    return TableConfig.from_properties(properties, location=store.uri).timeline_layout


def _write(store: ObjectStore, change: LayoutChange, timeline: Timeline) -> None:
    """Write the timeline and the archive in the target layout, the archive first."""
    _check_idle(timeline)
    change.change_archive(store)
    change.put_states(timeline, timeline.instants)


def _switch(store: ObjectStore, raw: Mapping[str, str], after: Mapping[str, str], version: int) -> None:
    """Replace the properties. This is the moment at which the table has its new version."""
    update_table_properties(
        store,
        after,
        remove=raw.keys() - after.keys(),
        comment=f"changed to table version {version} by parquetry",
    )
