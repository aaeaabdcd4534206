"""The past clusterings on a table's active timeline: their costs and their predictions.

A round that published nothing leaves no instant: writers changed every group of the plan, or a group failed.
Its groups are recorded in a file of their own. If a round published some groups, its replacecommit records
the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from parquetry.runtime.clustering.forecast.queries import Deviation, MeasuredQuery, read_measured
from parquetry.runtime.clustering.forecast.work import ClusteringWork, read_work
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.layout.model import FileKey
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.instant import Action, Instant, parse_instant_ms
from parquetry.runtime.timeline.sidecars import UNPUBLISHED_FOLDER

MOST_CLUSTERINGS: Final = 10
"""The number of newest clusterings that are examined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedClustering:
    """One replacecommit; ``seconds`` is the time from its start to its completion, or None if unknown.

    ``work`` is the recorded work of the clustering.
    """

    instant: str
    written_bytes: int
    seconds: float | None
    queries: tuple[MeasuredQuery, ...]
    work: ClusteringWork | None = None


def completed_clusterings(
    handle: TableHandle, timeline: Timeline, *, most: int = MOST_CLUSTERINGS
) -> tuple[CompletedClustering, ...]:
    """Return the newest completed clusterings, oldest first.

    Each examined replacecommit costs one request.
    """
    newest: list[CompletedClustering] = []
    for write in reversed(timeline.completed_writes):
        if len(newest) == most:
            break
        if write.action is not Action.REPLACECOMMIT:
            continue
        metadata = timeline.commit_metadata(write.time)
        if metadata.operation != CLUSTER:
            continue
        newest.append(
            CompletedClustering(
                instant=write.time,
                written_bytes=sum(stat.file_size_bytes for stat in metadata.all_stats()),
                seconds=_seconds(handle, timeline, write),
                queries=read_measured(metadata.extra),
                work=read_work(metadata.extra),
            )
        )
    return tuple(reversed(newest))


def past_work(handle: TableHandle, timeline: Timeline) -> tuple[ClusteringWork, ...]:
    """Return the recorded work of the newest clusterings, oldest first."""
    return tuple(one.work for one in completed_clusterings(handle, timeline) if one.work is not None)


def throughput(handle: TableHandle, timeline: Timeline) -> float | None:
    """Return the bytes per second that past clusterings wrote, or None if nothing is known.

    Before the first clustering, all writes count.
    """
    clustered = bytes_per_second(completed_clusterings(handle, timeline))
    if clustered:
        return clustered
    writes = timeline.completed_writes[-MOST_CLUSTERINGS:]
    commits = timeline.commits([write.time for write in writes])
    return bytes_per_second(
        CompletedClustering(
            instant=write.time,
            written_bytes=sum(stat.file_size_bytes for stat in commit.all_stats()),
            seconds=_seconds(handle, timeline, write),
            queries=(),
        )
        for write, commit in zip(writes, commits, strict=True)
    )


def bytes_per_second(past: Iterable[CompletedClustering]) -> float | None:
    """Return the median throughput in bytes per second, or None without clusterings of known duration."""
    rates = [one.written_bytes / one.seconds for one in past if one.seconds and one.written_bytes]
    return median(rates) if rates else None


def _seconds(handle: TableHandle, timeline: Timeline, write: Instant) -> float | None:
    """Return the seconds from a write's instant to its completion, or None if they are not known.

    For a clustering they count from its inflight file, because a plan may wait for its execution.
    """
    finished = timeline.files.get(write.file_name)
    if finished is None:
        return None
    begun_ms = parse_instant_ms(write.time, handle.config.timezone)
    inflight = timeline.files.get(write.inflight.file_name)
    if inflight is not None and write.action is Action.REPLACECOMMIT:
        begun_ms = inflight.modified_ms
    spent_ms = finished.modified_ms - begun_ms
    return spent_ms / 1000 if spent_ms > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastErrorSummary:
    """The errors of the predictions of some clusterings, as shares: the medians over their queries."""

    clusterings: int
    predictions: int
    error: Deviation


def forecast_error(past: Iterable[CompletedClustering]) -> ForecastErrorSummary | None:
    """Return a summary of past forecast errors, or None if there was no prediction."""
    predicted = [one for one in past if any(query.error is not None for query in one.queries)]
    errors = [query.error for one in predicted for query in one.queries if query.error is not None]
    if not errors:
        return None
    return ForecastErrorSummary(
        clusterings=len(predicted),
        predictions=len(errors),
        error=Deviation(
            files=_median(error.files for error in errors),
            row_groups=_median(error.row_groups for error in errors),
            rows=_median(error.rows for error in errors),
            data_bytes=_median(error.data_bytes for error in errors),
        ),
    )


def _median(errors: Iterable[float | None]) -> float | None:
    """Return the median of the absolute errors, or None if none is known."""
    known = [abs(error) for error in errors if error is not None]
    return median(known) if known else None


def record_unpublished(timeline: Timeline, instant: str, groups: Iterable[FileKey]) -> None:
    """Record that the clustering of that instant published none of its groups. Old records are deleted."""
    content = json.dumps(sorted(groups), separators=(",", ":"))
    timeline.store.put(f"{UNPUBLISHED_FOLDER}/{instant}.json", content.encode())
    known = _unpublished_records(timeline.store)
    timeline.store.delete_all([path for time, path in known if time < _since(timeline)])


def unpublished_rounds(timeline: Timeline) -> Iterator[tuple[str, set[FileKey]]]:
    """Yield the instant and the unpublished file groups of each round on the active timeline."""
    for time, path in _unpublished_records(timeline.store):
        if time < _since(timeline):
            continue
        try:
            listed = parsed_json(timeline.store.read(path))
            yield time, {(partition, file_id) for partition, file_id in listed}
        except (NotFoundError, ValueError, TypeError):
            # The record only delays the next try. Without it, the groups are tried now.
            continue


def _unpublished_records(store: ObjectStore) -> list[tuple[str, str]]:
    """Return the instants and paths of the records of unpublished rounds."""
    paths = sorted(info.path for info in store.list(UNPUBLISHED_FOLDER))
    named = ((path.rpartition("/")[2].removesuffix(".json"), path) for path in paths)
    return [(time, path) for time, path in named if time.isdigit()]


def _since(timeline: Timeline) -> str:
    """Return the oldest instant of the active timeline."""
    writes = timeline.completed_writes
    return writes[0].time if writes else ""
