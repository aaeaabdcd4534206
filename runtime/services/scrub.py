"""The removal of row values from the files beside the data: key ranges, statistics and samples.

It needs no list of values, so it misses nothing, and a second run finds nothing to do. Readers need none of
the removed data: the inflight file of a completed write is never read again, statistics are derived from
footers, and samples belong to clusterings that have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from parquetry.runtime.commit.recovery import recovered_timeline
from parquetry.runtime.commit.table_lock import locked_session
from parquetry.runtime.commit.workload_profile import INSERTED_KEYS
from parquetry.runtime.errors import CorruptTableError, NotFoundError, TooLargeError
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.table.handle import TableHandle, with_masked_failures
from parquetry.runtime.table.statistics import decode_statistics, encode_statistics
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.sidecars import STATISTICS_FOLDER, is_sample, is_statistics
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

_COMMITS: Final = ("hoodieCommitMetadata", "hoodieReplaceCommitMetadata", "HoodieInflightReplaceMetadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubResult(Brief):
    """The number of files of each kind that were deleted or rewritten."""

    timeline_files: int = 0
    archive_files: int = 0
    statistics_files: int = 0
    samples: int = 0


@with_masked_failures
def scrub(table: TableHandle, *, timing: Timing = DEFAULT_TIMING) -> ScrubResult:
    """Remove the key ranges of completed writes, and the statistics and samples of deleted files.

    If the process dies, the next run removes the rest.

    Raises:
        CorruptTableError: If an archive log cannot be read.
        ConflictError: As in :func:`parquetry.runtime.commit.recovery.recover`.
    """
    timeline = recovered_timeline(table, timing=timing)
    with locked_session(table, timeline, purpose="purge", timing=timing):
        timeline = timeline.reload()
        return ScrubResult(
            timeline_files=_delete_profiles(timeline),
            archive_files=_change_logs(table),
            statistics_files=_drop_stale_lines(table, timeline),
            samples=_delete_samples(timeline),
        )


def _delete_profiles(timeline: Timeline) -> int:
    """Delete the inflight files that contain key ranges, and return their number.

    Hudi's readers and writers do not need these files. Rewriting them is unsafe: a rewrite could put back a
    file that an archival has just deleted, and the write would look pending.
    """
    paths = [
        inflight.path
        for write in timeline.completed_writes
        if (inflight := write.inflight).file_name in timeline.files
    ]

    def has_keys(path: str) -> bool:
        try:
            return INSERTED_KEYS.encode() in timeline.store.read(path)
        except NotFoundError:
            return False

    found = [path for path, is_found in zip(paths, map_each(paths, has_keys), strict=True) if is_found]
    timeline.store.delete_all(found)
    return len(found)


def _change_logs(table: TableHandle) -> int:
    """Remove the key ranges from the archive, and return the number of files rewritten."""
    return table.config.timeline_layout.change_archived(table.store, _without_keys)


def _without_keys(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an archived entry without the key range of its write."""
    return dict(_without_range(entry))


def _without_range(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an archived entry, without the key range in the metadata of a commit."""
    for name, value in entry.items():
        extra = value.get("extraMetadata") if name in _COMMITS and value else None
        if extra and INSERTED_KEYS in extra:
            kept = {key: text for key, text in extra.items() if key != INSERTED_KEYS}
            yield name, {**value, "extraMetadata": kept}
        else:
            yield name, value


def _drop_stale_lines(table: TableHandle, timeline: Timeline) -> int:
    """Remove the lines of deleted files from recorded statistics, and return the number of files changed.

    Unreadable statistics are deleted.
    """
    store, view = table.store, table.view(timeline)
    listings = map_each(view.partitions(), store.list)
    present = {info.path for listing in listings for info in listing}
    changes = 0
    for path in _statistics_of_finished_writes(timeline):
        if not is_statistics(path):
            continue
        try:
            files = decode_statistics(store.read(path, most_bytes=MOST_BYTES), location=f"{store.uri}/{path}")
        except NotFoundError:
            continue
        except (CorruptTableError, TooLargeError):
            files = ()
        remaining = [file for file in files if file.path in present]
        if files and len(remaining) == len(files):
            continue
        if remaining:
            store.put(path, encode_statistics(remaining))
        else:
            store.delete(path)
        changes += 1
    return changes


def _delete_samples(timeline: Timeline) -> int:
    """Delete the samples of clusterings that have ended, and return their number."""
    samples = [path for path in _statistics_of_finished_writes(timeline) if is_sample(path)]
    timeline.store.delete_all(samples)
    return len(samples)


def _statistics_of_finished_writes(timeline: Timeline) -> list[str]:
    """Return the statistics and samples of writes that are not pending, except of writes that began later."""
    pending = {write.time for write in timeline.pending_writes}
    newest = max((write.time for write in timeline.completed_writes), default="")
    paths = [info.path for info in timeline.store.list(STATISTICS_FOLDER)]
    times = [path.rpartition("/")[2].partition(".")[0] for path in paths]
    return [path for path, time in zip(paths, times, strict=True) if time <= newest and time not in pending]
