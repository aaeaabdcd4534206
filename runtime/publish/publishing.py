"""Publishing: the metadata of other formats follows the newest state of a table.

The live files are compared with the files that the newest metadata names, and one commit adds and removes the
difference. So commits, rollbacks, restores and what a killed process left are the same case. The metadata is
read before the timeline: what a process publishes is never older than what it replaces.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from parquetry.errors import message_of
from parquetry.message import Message, Text, Value, command
from parquetry.runtime.commit.damaged_files import check_read
from parquetry.runtime.errors import (
    ConflictError,
    CorruptTableError,
    StaleTimelineError,
    UnsupportedTableError,
)
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import column_types
from parquetry.runtime.layout.skipping.statistics import FileStatistics, StatisticValue
from parquetry.runtime.publish.delta import DeltaLog
from parquetry.runtime.publish.iceberg_format import PublishedIceberg
from parquetry.runtime.publish.model import (
    PartitionValues,
    Published,
    PublishedFile,
    PublishedFormat,
    Snapshot,
)
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.masking import log_failure
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.os_errors import LATE_FAILURES
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.partition_bounds import PartitionBounds
from parquetry.runtime.table.partition_path import NULL_PARTITION
from parquetry.runtime.table.schema import described, live_columns
from parquetry.runtime.table.statistics import each_statistics
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.effective_writes import invalid_completed_writes
from parquetry.runtime.timeline.instant import Action, parse_instant_ms

_LOG = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
_PARTITION_TYPES: Final = frozenset({"string", "int", "bigint", "date", "boolean"})
"""The types whose values partition paths spell as the other formats do."""

_CLUSTER: Final = "CLUSTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """The state of one format after publishing.

    ``instant`` is the newest write that its metadata shows. If nothing had changed, nothing was written, and
    ``files_added`` and ``files_removed`` are 0.
    """

    format: str
    instant: str
    files_added: int = 0
    files_removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table with the state of each of its formats."""

    table: str
    formats: tuple[PublishResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishLag:
    """The distance of a format's metadata from the newest state of the table.

    ``instant`` is the newest write that it shows, or None if there is no metadata. ``writes`` is the number
    of writes that the table has and the metadata does not show, or that were rolled back and are still shown.
    A pending write of the published state counts if it may have been completed and archived since. ``since``
    is the oldest of them, or None if there are none.
    """

    format: str
    instant: str | None
    writes: int
    since: str | None


def formats_of(table: TableHandle) -> tuple[PublishedFormat, ...]:
    """Return the formats in which the applied spec publishes the table."""
    spec = table.spec
    if spec is None or spec.publish is None:
        return ()
    formats: list[PublishedFormat] = []
    if spec.publish.delta is not None:
        formats.append(DeltaLog(table.store))
    if spec.publish.iceberg is not None:
        formats.append(PublishedIceberg(table.store, spec.publish.iceberg))
    return tuple(formats)


def publish_after(table: TableHandle, what: str) -> tuple[Text, ...]:
    """Publish the table after a change, and return the failures, which are logged and not raised.

    The change is not affected, and the next write, `run` or `publish` catches up.

    Args:
        table: The table.
        what: The change, such as ``write``.
    """
    warnings: list[Text] = []
    for one in formats_of(table):
        try:
            _publish(table, one)
        except LATE_FAILURES as error:
            failure = f"publishing as {one.name} after the {what} failed; the {what} is not affected"
            log_failure(_LOG, failure, error, table.shown_by, location=table.store.uri)
            warnings.append(Message("publish {format}: {reason}", format=one.name, reason=message_of(error)))
    return tuple(warnings)


def files_still_named(table: TableHandle) -> frozenset[str]:
    """Publish the table before files are deleted, and return the paths that its formats name nevertheless.

    If everything is published, no expired file is named, and the result is empty.

    Raises:
        ParquetryError: If the metadata of a format cannot be read, so that it may name any file.
    """
    named: set[str] = set()
    for one in formats_of(table):
        try:
            _publish(table, one)
        except LATE_FAILURES as error:
            failure = f"files that {one.name} names are kept, because publishing failed"
            log_failure(_LOG, failure, error, table.shown_by, location=table.store.uri)
            published = _published(table, one)
            if published is not None:
                with _readable(table, one):
                    named |= one.paths(published)
    return frozenset(named)


def expire_published(table: TableHandle, earliest: str) -> None:
    """Forget published states before ``earliest``, whose files a clean has deleted. Failures are logged."""
    for one in formats_of(table):
        try:
            with _readable(table, one):
                one.expire(earliest, table.timeline().savepoints)
        except LATE_FAILURES as error:
            failure = f"older states of {one.name} stay in its metadata until the next clean"
            log_failure(_LOG, failure, error, table.shown_by, location=table.store.uri)


def publish(table: TableHandle, formats: Iterable[PublishedFormat]) -> tuple[PublishResult, ...]:
    """Bring the metadata of the formats to the newest state of the table.

    Raises:
        ConflictError: If other processes change the table each time, or a rollback is not finished.
        ForeignTableError: If somebody else has written to the metadata of a format.
        UnsupportedTableError: If a format cannot show a file or a column.
        CorruptTableError: If a file of the newest state is damaged or missing, or the applied record must not
            be used.
    """
    return tuple(_publish(table, one) for one in formats)


def publish_lag(table: TableHandle, one: PublishedFormat) -> PublishLag:
    """Return how far a format is behind the newest state of the table.

    Raises:
        ForeignTableError: If somebody else has written to its metadata.
    """
    shown = _published(table, one)
    # Read last, or a write that is published meanwhile would count.
    timeline = table.timeline()
    differing = {instant.time for instant in timeline.completed_writes}
    if shown is not None:
        differing = (differing - shown.writes) | _rolled_back(timeline, shown)
        if shown.settled and _may_lack_archived(timeline, shown):
            differing |= {shown.settled} - shown.writes
    return PublishLag(
        format=one.name,
        instant=None if shown is None else shown.instant,
        writes=len(differing),
        since=min(differing, default=None),
    )


def lag_warnings(table: TableHandle) -> tuple[Text, ...]:
    """Return a sentence about each format that is behind, or whose metadata cannot be read."""
    warnings: list[Text] = []
    for one in formats_of(table):
        try:
            lag = publish_lag(table, one)
        except LATE_FAILURES as error:
            warnings.append(Message("{format}: {reason}", format=one.name, reason=message_of(error)))
            continue
        if lag.since is not None:
            warnings.append(
                Message(
                    "{format} is behind the table by writes since {since}: {writes}; run {command}",
                    format=one.name,
                    writes=lag.writes,
                    since=lag.since,
                    command=command("publish", "TABLE"),
                )
            )
    return tuple(warnings)


@contextmanager
def _readable(table: TableHandle, one: PublishedFormat) -> Iterator[None]:
    """Raise any error of a library that reads or writes the metadata of a format as a CorruptTableError."""
    try:
        yield
    except LATE_FAILURES:
        raise
    except Exception as error:  # libraries raise many classes, and a complete write must not fail
        raise CorruptTableError(
            "{table}: the metadata of {format} cannot be read or written: {reason}; the Hudi table is "
            "unharmed. Restore the metadata from a copy, or remove it and run {command}",
            table=table.store.uri,
            format=one.name,
            reason=quoted_library_text(str(error), kind=type(error).__name__),
            command=command("publish", "TABLE"),
        ) from error


def _published(table: TableHandle, one: PublishedFormat) -> Published | None:
    with _readable(table, one):
        return one.published()


def _publish(table: TableHandle, one: PublishedFormat) -> PublishResult:
    if table.fault is not None:
        raise table.fault.error()
    for _ in range(_ATTEMPTS):
        before = _published(table, one)
        timeline = table.timeline()
        if invalid_completed_writes(timeline):
            raise ConflictError(
                "{table}: a rollback is not finished; the next write finishes it, and publishes",
                table=table.store.uri,
            )
        try:
            with _readable(table, one):
                result = _publish_state(table, one, before, timeline)
        except StaleTimelineError:
            continue
        if result is not None:
            return result
    raise ConflictError(
        "{table} was changed {attempts} times while it was published as {format}; the next write "
        "publishes it",
        table=table.store.uri,
        attempts=_ATTEMPTS,
        format=one.name,
    )


def _publish_state(
    table: TableHandle, one: PublishedFormat, before: Published | None, timeline: Timeline
) -> PublishResult | None:
    """Publish the state of the timeline; return None if the table or the metadata changed meanwhile."""
    writes = frozenset(instant.time for instant in timeline.completed_writes)
    touched = None if before is None else _touched_partitions(timeline, before)
    incomplete = frozenset[str]() if before is None else before.incomplete
    is_shown = before is not None and touched is not None and writes <= before.writes
    if not writes or (is_shown and not incomplete):
        if before is not None:
            one.repair(before)
        return PublishResult(format=one.name, instant="" if before is None else before.instant)
    # Writes that were archived before they were published may have changed rows.
    later = frozenset[str]() if before is None or touched is None else writes - before.writes
    if incomplete:
        touched = None
    view = table.view(timeline)
    slices = _live_slices(table, view, touched)
    if _decisive(timeline.reload()) != _decisive(timeline):
        return None
    table.check_layout()
    snapshot = _snapshot(table, view, writes, later)
    folders = None if touched is None else _folders(table, snapshot, touched)
    shown = frozenset[str]() if before is None else one.paths(before, folders)
    live = {part.path: part for part in slices}
    added = _LiveFiles(table, snapshot, [live[path] for path in sorted(live.keys() - (shown - incomplete))])
    removed = sorted(shown - live.keys())
    if not one.publish(snapshot, added, removed, before=before):
        return None
    return PublishResult(
        format=one.name, instant=snapshot.instant, files_added=len(added), files_removed=len(removed)
    )


def _decisive(timeline: Timeline) -> tuple[object, ...]:
    """Return what the live files depend on, to compare two timelines."""
    reverts = (*timeline.of(Action.ROLLBACK), *timeline.of(Action.RESTORE))
    return timeline.completed_writes, tuple(instant.time for instant in reverts)


def _touched_partitions(timeline: Timeline, before: Published) -> Collection[str] | None:
    """Return the partitions in which files may differ from the published state, or None for all."""
    if _may_lack_archived(timeline, before) or _rolled_back(timeline, before):
        return None
    later = {instant.time for instant in timeline.completed_writes} - before.writes
    touched: set[str] = set()
    for metadata in map_each(sorted(later), timeline.commit_metadata):
        touched |= metadata.partitions
    return touched


def _may_lack_archived(timeline: Timeline, before: Published) -> bool:
    """Return whether writes may have been archived that the published state does not show.

    They are not older than ``before.settled``. While that write is pending, no newer one is archived.
    """
    first = timeline.first_contiguous_write
    is_pending = any(instant.time == before.settled for instant in timeline.pending_writes)
    return first is None or (first > before.settled and not is_pending)


def _rolled_back(timeline: Timeline, before: Published) -> set[str]:
    """Return the writes of the published state that were rolled back: they are gone, and not archived."""
    gone = before.writes - {instant.time for instant in timeline.completed_writes}
    return {time for time in gone if time >= (timeline.first_contiguous_write or "")}


def _live_slices(
    table: TableHandle, view: FileSystemView, touched: Collection[str] | None
) -> Sequence[FileSlice]:
    """Return the live files, of some partitions or of all. Raise CorruptTableError if one is damaged."""
    partitions = sorted(view.partitions() if touched is None else touched)
    view.list_partitions(partitions)
    slices = [part for partition in partitions for part in view.slices(partition)]
    chosen = set(partitions)
    check_read(
        table,
        view,
        slices,
        until=view.newest,
        choose=lambda paths: [path for path in paths if path in chosen],
    )
    return slices


def _snapshot(
    table: TableHandle, view: FileSystemView, writes: frozenset[str], later: frozenset[str]
) -> Snapshot:
    """Return the snapshot. ``later`` are the writes since the published state if all are known, or none."""
    timeline = view.timeline
    columns = live_columns(table.store, timeline, table.config)
    pending = (instant.time for instant in timeline.pending_writes)
    return Snapshot(
        instant=view.newest,
        completed_ms=parse_instant_ms(view.newest, table.config.timezone),
        operation=timeline.commit_metadata(view.newest).operation,
        writes=writes,
        settled=min((view.newest, *pending)),
        columns=described(columns, table.spec),
        partition_by=_partition_columns(table, columns),
        savepoints=timeline.savepoints,
        same_rows={timeline.commit_metadata(time).operation for time in later} == {_CLUSTER},
        table_id=table.table_id,
    )


def _partition_columns(table: TableHandle, columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the partition columns, or none if a path does not give their values in every case."""
    config, types = table.config, column_types(columns)
    plain = config.hive_style or config.url_encode
    if not table.paths_hold_values or not plain:
        return ()
    known = all(types.get(name) in _PARTITION_TYPES for name in config.partition_by)
    return tuple(config.partition_by) if known else ()


def _folders(
    table: TableHandle, snapshot: Snapshot, partitions: Iterable[str]
) -> Mapping[str, PartitionValues]:
    """Return the partitions with the values of the partition columns, or with none if they are not known."""
    bounds = PartitionBounds(table, column_types(snapshot.columns))
    folders: dict[str, PartitionValues] = {}
    for partition in partitions:
        found = bounds.of(partition)
        known = [found[name] for name in snapshot.partition_by if name in found]
        values = tuple(None if one.maximum == NULL_PARTITION else one.minimum for one in known)
        folders[partition] = values if len(known) == len(snapshot.partition_by) else ()
    return folders


class _LiveFiles:
    """The base files of these slices. Their statistics are read whenever they are iterated."""

    def __init__(self, table: TableHandle, snapshot: Snapshot, slices: Sequence[FileSlice]) -> None:
        self._table = table
        self._partition_by = snapshot.partition_by
        self._types = column_types(snapshot.columns)
        self._slices = slices

    def __len__(self) -> int:
        return len(self._slices)

    def __iter__(self) -> Iterator[PublishedFile]:
        table, zone = self._table, self._table.config.timezone
        bounds = PartitionBounds(table, self._types)
        slices = {part.path: part for part in self._slices}
        for statistics in each_statistics(table.store, self._slices):
            part = slices[statistics.path]
            yield PublishedFile(
                path=part.path,
                size_bytes=part.size_bytes,
                modified_ms=parse_instant_ms(part.instant, zone),
                partition=_partition_values(table, bounds, self._partition_by, part, statistics),
                statistics=statistics,
            )


def _partition_values(
    table: TableHandle,
    bounds: PartitionBounds,
    names: Sequence[str],
    part: FileSlice,
    statistics: FileStatistics,
) -> PartitionValues:
    """Return the values of the partition columns, the same for all rows of the file."""
    found = bounds.of(part.partition) if names else {}
    values: list[StatisticValue | None] = []
    for name in names:
        bound = found.get(name)
        is_null = bound is not None and bound.maximum == NULL_PARTITION
        stored = statistics.columns.get(name)
        # Rows with an empty text share the folder of those with null.
        is_mixed = is_null and (stored is None or stored.nulls != statistics.rows) and statistics.rows > 0
        if bound is None or is_mixed:
            raise UnsupportedTableError(
                "{table}: the rows of {file} do not have one value of {column} that other formats can name, "
                "such as empty text beside null; change these rows, or remove publish from the table",
                table=table.store.uri,
                file=Value.file(part.path),
                column=name,
            )
        values.append(None if is_null else bound.minimum)
    return tuple(values)
