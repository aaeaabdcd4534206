"""A replay: the writes of a period laid out again, under the applied limits and under other ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

from parquetry.compiler.replay.arrivals import RecordedTable, arrived_bytes
from parquetry.compiler.replay.history import RecordedClean, RecordedWrite, WriteHistory
from parquetry.compiler.replay.layout import LaidOutTable, LayoutLimits, TooManyFilesError
from parquetry.compiler.replay.model import Replay, ReplayedDay, ReplayedFigures, summed
from parquetry.runtime.layout.sizing import full_file_bytes
from parquetry.runtime.timeline.instant import Timezone, parse_instant_ms

_DAY = 8
"""The number of leading digits of an instant that form its day."""
_MIDNIGHT = "000000"


def replay(
    history: WriteHistory, applied: LayoutLimits, declared: LayoutLimits | None = None
) -> Replay | None:
    """Return the replay of a history under these limits, or None if no write of it made or replaced files.

    Clusterings run when they were recorded. Updates and deletes change the same rows as recorded. If the rows
    of one recorded file are in several files of the layout, each file gets a share by its number of these
    rows. Declared limits that produce too many files are left out, and ``gaps`` reports that.

    Raises:
        CorruptTableError: If an instant is not a valid time.
        TooManyFilesError: If the applied limits produce too many files.
    """
    if declared is not None:
        try:
            return _replay(history, applied, declared)
        except TooManyFilesError as too_many:
            gap = f"the declared limits are left out: {too_many.message.in_full()}"
            history = replace(history, gaps=(*history.gaps, gap))
    return _replay(history, applied, None)


def _replay(history: WriteHistory, applied: LayoutLimits, declared: LayoutLimits | None) -> Replay | None:
    """Return the replay of a history in which no limits make too many files."""
    writes = [event for event in history.events if isinstance(event, RecordedWrite)]
    if not any(write.partitions or write.replaced for write in writes):
        return None
    recorded = RecordedTable(history.files)
    layouts = [_ReplayedLayout(LaidOutTable(applied), applied)]
    if declared is not None:
        layouts.append(_ReplayedLayout(LaidOutTable(declared, recorded_sizes=applied.sizes), declared))
    starting_files = tuple(recorded)
    for layout in layouts:
        layout.table.start(starting_files)
    days = []
    for day, events in groupby(history.events, key=lambda event: event.time[:_DAY]):
        parse_instant_ms(day + _MIDNIGHT, Timezone.UTC)
        days.append(_day(day, [*events], recorded, layouts, has_cleans=history.has_cleans))
    return Replay(
        since=writes[0].time,
        until=writes[-1].time,
        commits=len(writes),
        clusterings=sum(write.is_clustering for write in writes),
        arrived_bytes=sum(day.arrived_bytes for day in days),
        applied_limits=applied.sizing,
        declared_limits=None if declared is None else declared.sizing,
        recorded=summed(day.recorded for day in days),
        applied=summed(day.applied for day in days),
        declared=None if declared is None else summed(d.declared for d in days if d.declared is not None),
        days=tuple(days),
        gaps=history.gaps,
    )


@dataclass(slots=True)
class _ReplayedLayout:
    """A layout under one set of limits, and the bytes written in it on the current day."""

    table: LaidOutTable
    limits: LayoutLimits
    written: int = field(default=0)
    clustered: int = field(default=0)

    def figures(self, *, has_cleans: bool) -> ReplayedFigures:
        """Return the figures of the day, and start the next day."""
        table = self.table
        figures = ReplayedFigures(
            files=table.files,
            small_files=table.small_files,
            size_bytes=table.size_bytes,
            superseded_bytes=table.superseded_bytes if has_cleans else None,
            written_bytes=self.written,
            clustered_bytes=self.clustered,
        )
        self.written = self.clustered = 0
        return figures


def _day(
    day: str,
    events: list[RecordedWrite | RecordedClean],
    recorded: RecordedTable,
    layouts: list[_ReplayedLayout],
    *,
    has_cleans: bool,
) -> ReplayedDay:
    """Apply the events of one day to the recorded table and to the layouts, and return the day's figures."""
    arrived = 0.0
    written = clustered = commits = 0
    for event in events:
        if isinstance(event, RecordedClean):
            last = recorded.clean(event.deleted)
            for layout in layouts:
                layout.table.clean(earliest=event.earliest or "", last=last)
            continue
        commits += 1
        arrived += arrived_bytes(event)
        size = sum(_sizes(event))
        if event.is_clustering:
            clustered += size
            regroupings = recorded.cluster(event, layouts[0].limits.sizes)
            for layout in layouts:
                layout.clustered += layout.table.cluster(event.time, regroupings)
        else:
            written += size
            arrivals = recorded.write(event)
            for layout in layouts:
                layout.written += layout.table.write(event.time, event.operation, arrivals)
    limit = layouts[0].limits.sizing
    return ReplayedDay(
        day=f"{day[:4]}-{day[4:6]}-{day[6:]}",
        commits=commits,
        arrived_bytes=round(arrived),
        recorded=ReplayedFigures(
            files=recorded.files,
            small_files=recorded.count_small(min(limit.small_file_limit_bytes, full_file_bytes(limit))),
            size_bytes=recorded.size_bytes,
            superseded_bytes=recorded.superseded_bytes if has_cleans else None,
            written_bytes=written,
            clustered_bytes=clustered,
        ),
        applied=layouts[0].figures(has_cleans=has_cleans),
        declared=layouts[1].figures(has_cleans=has_cleans) if len(layouts) > 1 else None,
    )


def _sizes(write: RecordedWrite) -> Iterator[int]:
    """Yield the sizes of the files that a write made."""
    return (file.size_bytes for files in write.partitions for file in files)
