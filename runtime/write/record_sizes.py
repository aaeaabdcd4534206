"""Record sizes of partitions, learned from the files of recent commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.record_size import FileSample, estimate_record_size
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import WriteStat

_NEWEST_FILES: Final = 16
_NEWEST_COMMITS: Final = 8


def learned_record_size(timeline: Timeline, slices: Sequence[FileSlice]) -> float | None:
    """Return the compressed bytes per row of a partition's newest files, or None if they hold too little."""
    newest = sorted(slices, key=lambda part: part.instant, reverse=True)[:_NEWEST_FILES]
    return estimate_record_size(_samples(timeline, newest))


def table_record_size(timeline: Timeline) -> float | None:
    """Return the compressed bytes per row of the newest commits' files, or None if they hold too little.

    It is used for partitions that have no files of their own.
    """
    commits = reversed(timeline.completed_writes[-_NEWEST_COMMITS:])
    stats = (
        (commit.time, stat)
        for commit in commits
        for stat in timeline.commit_metadata(commit.time).all_stats()
        if stat.num_writes > 0
    )
    return estimate_record_size(_sample(time, stat) for time, stat in islice(stats, _NEWEST_FILES))


def _samples(timeline: Timeline, slices: Iterable[FileSlice]) -> Iterator[FileSample]:
    """Yield the rows and bytes of each file whose number of rows is known."""
    known: dict[str, Mapping[str, WriteStat]] = {}
    for part in slices:
        if part.rows is not None:
            yield FileSample(instant=part.instant, rows=part.rows, data_bytes=part.size_bytes)
        elif timeline.is_completed(part.instant):
            if part.instant not in known:
                stats = timeline.commit_metadata(part.instant).all_stats()
                known[part.instant] = {stat.path: stat for stat in stats}
            stat = known[part.instant].get(part.path)
            if stat is not None:
                yield FileSample(instant=part.instant, rows=stat.num_writes, data_bytes=part.size_bytes)


def _sample(instant: str, stat: WriteStat) -> FileSample:
    return FileSample(instant=instant, rows=stat.num_writes, data_bytes=stat.file_size_bytes)
