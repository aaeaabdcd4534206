"""The clusterings that a table's active timeline remembers: what they cost, and how they were predicted.

Rounds that published nothing leave no instant: writers won every group of the plan, or a group failed.
Their groups are in files of their own; what was lost beside something that was published is in the
replacecommit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from parquetry.runtime.clustering.forecast.queries import Deviation, MeasuredQuery
from parquetry.runtime.clustering.forecast.records import read_measured
from parquetry.runtime.clustering.forecast.work import ClusteringWork, read_work
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.layout.clustering.model import FileKey
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.instant import Action, Instant, State, parse_instant_ms
from parquetry.runtime.timeline.sidecars import UNPUBLISHED_FOLDER

MOST: Final = 10
"""How many of the newest ones are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedClustering:
    """One replacecommit; ``seconds`` are from when it was begun to its completion, None where unknown.

    ``work`` is what it recorded of what it took.
    """

    instant: str
    written_bytes: int
    seconds: float | None
    queries: tuple[MeasuredQuery, ...]
    work: ClusteringWork | None = None


def completed_clusterings(
    handle: TableHandle, timeline: Timeline, *, most: int = MOST
) -> tuple[CompletedClustering, ...]:
    """The newest completed ones, oldest first; one request for each replacecommit that is looked at."""
    found: list[CompletedClustering] = []
    for write in reversed(timeline.completed_writes):
        if len(found) == most:
            break
        if write.action is not Action.REPLACECOMMIT:
            continue
        metadata = timeline.commit_metadata(write.time)
        if metadata.operation != CLUSTER:
            continue
        found.append(
            CompletedClustering(
                instant=write.time,
                written_bytes=sum(stat.file_size_bytes for stat in metadata.all_stats()),
                seconds=_seconds(handle, timeline, write),
                queries=read_measured(metadata.extra),
                work=read_work(metadata.extra),
            )
        )
    return tuple(reversed(found))


def past_work(handle: TableHandle, timeline: Timeline) -> tuple[ClusteringWork, ...]:
    """What the newest clusterings took, of those that recorded it, oldest first."""
    return tuple(one.work for one in completed_clusterings(handle, timeline) if one.work is not None)


def throughput(handle: TableHandle, timeline: Timeline) -> float | None:
    """How many bytes a second past clusterings wrote, before the first one all writes; None without any."""
    return bytes_per_second(completed_clusterings(handle, timeline)) or bytes_per_second(
        CompletedClustering(
            instant=write.time,
            written_bytes=_written_bytes(timeline, write),
            seconds=_seconds(handle, timeline, write),
            queries=(),
        )
        for write in timeline.completed_writes[-MOST:]
    )


def bytes_per_second(past: Iterable[CompletedClustering]) -> float | None:
    """How fast they wrote, in the median; None without any."""
    rates = [one.written_bytes / one.seconds for one in past if one.seconds and one.written_bytes]
    return median(rates) if rates else None


def _written_bytes(timeline: Timeline, write: Instant) -> int:
    return sum(stat.file_size_bytes for stat in timeline.commit_metadata(write.time).all_stats())


def _seconds(handle: TableHandle, timeline: Timeline, write: Instant) -> float | None:
    """From a write's instant to its completion; of a clustering from its beginning, as its plan may wait."""
    finished = timeline.files.get(write.file_name)
    if finished is None:
        return None
    begun_ms = parse_instant_ms(write.time, handle.config.timezone)
    inflight = timeline.files.get(write.with_state(State.INFLIGHT).file_name)
    if inflight is not None and write.action is Action.REPLACECOMMIT:
        begun_ms = inflight.modified_ms
    spent_ms = finished.modified_ms - begun_ms
    return spent_ms / 1000 if spent_ms > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastErrorSummary:
    """How far off the predictions of some clusterings were, in the median of their queries, as shares."""

    clusterings: int
    predictions: int
    error: Deviation


def forecast_error(past: Iterable[CompletedClustering]) -> ForecastErrorSummary | None:
    """How good predictions were; None when none was made."""
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
    known = [abs(error) for error in errors if error is not None]
    return median(known) if known else None


def note_unpublished(timeline: Timeline, instant: str, groups: Iterable[FileKey]) -> None:
    """Record that the clustering of that instant lost all its file groups; forget what is long ago."""
    content = json.dumps(sorted(groups), separators=(",", ":"))
    timeline.store.put(f"{UNPUBLISHED_FOLDER}/{instant}.json", content.encode())
    known = _rounds(timeline.store)
    timeline.store.delete_all([path for time, path in known if time < _since(timeline)])


def unpublished_rounds(timeline: Timeline) -> Iterator[tuple[str, set[FileKey]]]:
    """By instant the file groups that were lost, as far back as the active timeline goes."""
    for time, path in _rounds(timeline.store):
        if time < _since(timeline):
            continue
        try:
            listed = parsed_json(timeline.store.read(path))
            yield time, {(partition, file_id) for partition, file_id in listed}
        except (NotFoundError, ValueError, TypeError):
            # It says only when to try again: without it that is now.
            continue


def _rounds(store: ObjectStore) -> list[tuple[str, str]]:
    paths = sorted(info.path for info in store.list(UNPUBLISHED_FOLDER))
    named = ((path.rpartition("/")[2].removesuffix(".json"), path) for path in paths)
    return [(time, path) for time, path in named if time.isdigit()]


def _since(timeline: Timeline) -> str:
    writes = timeline.completed_writes
    return writes[0].time if writes else ""
