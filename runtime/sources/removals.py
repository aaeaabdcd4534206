"""The rows that a table has lost since another table read it, from its timeline and its archive log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.effective_writes import EffectiveWrites


def removal_between(table: TableHandle, since: str, until: str) -> str | None:
    """Return how a table has lost rows between ``since`` and ``until``, or None if it has lost none.

    Commits that have left the timeline are read from the archive log. If the log does not reach back to
    ``since``, or cannot be read, the answer states that.
    """
    timeline = table.timeline()
    try:
        positions = timeline.positions_after(
            "0" if since < (timeline.first_contiguous_write or "") else since
        )
    except CorruptTableError:
        return _unreadable(table, since)
    return _removal(table, timeline, positions, since, until)


def _removal(
    table: TableHandle, timeline: Timeline, positions: Mapping[str, str], since: str, until: str
) -> str | None:
    """Return how a table has lost rows, or None. ``positions`` are those after ``since``, by time."""
    name, effective = table.name, EffectiveWrites(timeline)
    last = next((time for time, position in positions.items() if position == since), since)
    if not effective.counts(last):
        return f"commit {since} of {name}, the last one that was read, was rolled back"
    for write in timeline.completed_writes:
        if since < write.position <= until and (loss := _loss_text(timeline.commit_metadata(write.time))):
            return f"commit {write.time} of {name} {loss}"
    first = timeline.first_contiguous_write
    late = {time for time, p in positions.items() if p > since and not timeline.is_completed(time)}
    if first is None or (since >= first and not late):
        return None
    for archived in _archived_writes(table, timeline, since, until, late=late):
        if archived is None:
            return _unreadable(table, since)
        time, metadata = archived
        if (loss := _loss_text(metadata)) and effective.counts(time):
            return f"commit {time} of {name} {loss}"
    return None


def _unreadable(table: TableHandle, since: str) -> str:
    return f"commits of {table.name} after {since} are archived, and no archive log says what they removed"


def _loss_text(metadata: CommitMetadata) -> str | None:
    """Return how a commit removed rows, as text, or None if it removed none."""
    if metadata.replaced and metadata.operation.upper() != CLUSTER:
        groups = sum(map(len, metadata.replaced.values()))
        return f"replaced {groups} file groups"
    deleted = sum(stat.num_deletes for stat in metadata.all_stats())
    return f"deleted or moved {deleted} rows" if deleted else None


def _archived_writes(
    table: TableHandle, timeline: Timeline, since: str, until: str, *, late: Collection[str]
) -> Iterator[tuple[str, CommitMetadata] | None]:
    """Yield the archived writes between two positions. If the log is incomplete, also yield None.

    A log file contains the instants of one archival, and newer files contain newer writes, except for the
    archived writes ``late``, which are known to be after ``since``.
    """
    reaches_back = False
    unseen = set(late)
    for _, log in timeline.layout.archived(table.store):
        if log is None:
            reaches_back = False
            break
        writes = [archived for archived in log if archived.is_completed_write]
        for archived in writes:
            if since < archived.position <= until and not timeline.is_completed(archived.time):
                yield archived.time, archived.commit_metadata()
        reaches_back |= any(archived.position <= since for archived in writes)
        unseen.difference_update(archived.time for archived in writes)
        if writes and not unseen and max(archived.position for archived in writes) <= since:
            return
    if not reaches_back:
        yield None
