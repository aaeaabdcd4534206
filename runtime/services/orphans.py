"""The removal of orphan files: files that dead writers left and that no commit names.

Files are listed first, and the timeline is read afterwards. A write announces itself before its first file.
So if the instant of a listed file is then neither pending nor completed, the write was rolled back, and the
rollback should have deleted the file: a task that outlived its write has made it. The same applies to a file
of a completed clustering that abandoned groups, if its replacecommit does not name the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from parquetry.runtime.commit.abandoned_buckets import instants_with_abandoned
from parquetry.runtime.commit.claims import HEARTBEAT_FOLDER, Claim, heartbeat_path, is_alive, read_claim
from parquetry.runtime.errors import CorruptTableError, NotFoundError, StaleTimelineError
from parquetry.runtime.sources.ledger import is_ledger_entry
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.storage.paths import finished_name
from parquetry.runtime.table.file_names import instant_of_file
from parquetry.runtime.table.partition_metadata import PARTITION_METADATA
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Action, Timezone, parse_instant_ms
from parquetry.runtime.timeline.layout import DAY_MS
from parquetry.runtime.timeline.markers import MARKER_FOLDER
from parquetry.runtime.timeline.sidecars import (
    ABANDONED_FOLDER,
    BREAKING_FOLDER,
    CLAIMS_FOLDER,
    PROBE_PREFIX,
    REPORTS_FOLDER,
    STAGE_FOLDER,
    STATISTICS_FOLDER,
    claim_path,
    is_statistics,
    quarantine_path,
    quarantined_file,
)
from parquetry.runtime.timing import Timing

_GRACE_FACTOR: Final = 20
_STATISTICS_AT_ONCE: Final = 16
"""The number of statistics files that are deleted at once.

This frees at least as many blocks of a disk; the claims, locks and plans of a recovery and a clean take about
ten.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanCleanup:
    """The numbers of orphan files that were deleted and moved, and the instants with files in partitions.

    ``deleted`` includes those that have left the quarantine.
    """

    deleted: int
    moved: int
    instants: frozenset[str]


def remove_orphans(
    files: Sequence[ObjectInfo],
    below_hoodie: Collection[ObjectInfo],
    timeline: Timeline,
    *,
    quarantine_seconds: int | None,
    listed_ms: int,
    timing: Timing,
) -> OrphanCleanup:
    """Remove the orphan files among the ``files`` of partitions, and those whose quarantine is over.

    Data files are moved to the quarantine, or deleted if ``quarantine_seconds`` is None. Then what is in the
    quarantine is deleted too. Unfinished files are always deleted. If the process dies, each file is in its
    partition or in the quarantine, and the next clean goes on. A file that has just been moved stays, also if
    it replaced an older copy; without a quarantine, one that another clean moves meanwhile is deleted there.

    Args:
        files: The files of partitions, listed before the timeline was read.
        below_hoodie: The files below ``.hoodie``, listed then too.
        timeline: The timeline.
        quarantine_seconds: The time in the quarantine, or None.
        listed_ms: The time before the files below ``.hoodie`` were listed, by the store's clock.
        timing: The periods of the commit protocol.
    """
    store = timeline.store
    orphans = find_orphans(files, timeline, notes=below_hoodie)
    complete = [path for path in orphans if finished_name(path) is None]
    moved = [] if quarantine_seconds is None else complete
    map_each(moved, lambda path: store.move(path, quarantine_path(path)))
    orphans = sorted({*orphans}.difference(moved))
    over = quarantine_over(below_hoodie, quarantine_seconds=quarantine_seconds, now_ms=listed_ms)
    orphans += sorted({*over}.difference(map(quarantine_path, moved)))
    unfinished_before_ms = store.now_ms() - _grace_ms(timing)
    orphans += [
        info.path
        for info in files
        if finished_name(info.path) == PARTITION_METADATA and info.modified_ms < unfinished_before_ms
    ]
    store.delete_all(orphans)
    if quarantine_seconds is None:
        store.delete_all(sorted({*map(quarantine_path, complete)}.difference(over)))
    instants = (instant_of_file(info.path) for info in files)
    return OrphanCleanup(
        deleted=len(orphans), moved=len(moved), instants=frozenset(time for time in instants if time)
    )


def quarantine_over(
    below_hoodie: Iterable[ObjectInfo], *, quarantine_seconds: int | None, now_ms: int
) -> list[str]:
    """Return the listed files that have been in the quarantine for long enough; all of them if None."""
    entered_before_ms = now_ms - (quarantine_seconds or 0) * 1000
    return [
        info.path
        for info in below_hoodie
        if quarantined_file(info.path) is not None
        and (quarantine_seconds is None or info.modified_ms <= entered_before_ms)
    ]


def stale_statistics(
    listed: Iterable[ObjectInfo], timeline: Timeline, instants: Collection[str], *, before: str | None = None
) -> list[str]:
    """Return the statistics of writes that have no file left.

    Args:
        listed: The listed files of ``.hoodie``, or those of the statistics.
        timeline: The timeline, read before all partitions were listed. Statistics of later writes stay.
        instants: The instants of the listed files of partitions.
        before: If given, only statistics of writes before this instant are returned.
    """
    if not timeline.completed_writes:
        return []
    newest = timeline.completed_writes[-1].time
    needed = {instant.time for instant in timeline.pending_writes}.union(instants)
    paths = []
    for info in listed:
        folder, _, name = info.path.rpartition("/")
        time = name.partition(".")[0]
        is_checked = folder == STATISTICS_FOLDER and time.isdigit() and time <= newest
        if is_checked and time not in needed and (before is None or time < before):
            paths.append(info.path)
    return paths


def drop_statistics(store: ObjectStore) -> int:
    """Delete some of the oldest statistics, and return their number.

    A clean uses this if it has no room for its own small files, as it needs no claim and no lock. Statistics
    are derived data, which footers contain too.
    """
    # The folder also contains samples of plans and decisions of commits, which are stored nowhere else.
    paths = [info.path for info in store.list(STATISTICS_FOLDER) if is_statistics(info.path)]
    oldest = sorted(paths)[:_STATISTICS_AT_ONCE]
    store.delete_all(oldest)
    return len(oldest)


def stale_ledger_entries(entries: Iterable[ObjectInfo], timeline: Timeline) -> list[str]:
    """Return those of the listed ledger entries that belong to rolled back writes.

    A suspended write stored such an entry after its rollback. The entry must be deleted before the timeline
    begins after its instant, because then entries count. ``entries`` were listed before the timeline was
    read.
    """
    if not timeline.completed_writes:
        return []
    times = ((info.path, info.path.rpartition("/")[2].partition(".")[0]) for info in entries)
    return [
        path
        for path, time in times
        if is_ledger_entry(path) and not timeline.contains(time) and not timeline.counts_as_archived(time)
    ]


def find_orphans(
    files: Iterable[ObjectInfo], timeline: Timeline, *, notes: Iterable[ObjectInfo] | None = None
) -> list[str]:
    """Return the orphan files among ``files``, which were listed before the timeline was read.

    ``notes`` are the listed notes of abandoned buckets, among other files. If they are None, they are listed.
    Files older than the active timeline are no orphans, because their commits were archived. An unfinished
    file is an orphan as soon as its write is no longer pending.
    """
    if not timeline.completed_writes:
        return []
    pending = {instant.time for instant in timeline.pending_writes}
    notes = timeline.store.list(ABANDONED_FOLDER) if notes is None else notes
    published = _published_beside_abandoned(timeline, notes)
    orphans = []
    for info in files:
        time = instant_of_file(info.path)
        if time is None or time in pending:
            continue
        is_unfinished = finished_name(info.path) is not None
        is_rolled_back = not timeline.is_completed(time) and not timeline.counts_as_archived(time)
        if is_unfinished or is_rolled_back or (time in published and info.path not in published[time]):
            orphans.append(info.path)
    return orphans


def _published_beside_abandoned(timeline: Timeline, notes: Iterable[ObjectInfo]) -> dict[str, set[str]]:
    """Return the files that completed clusterings with abandoned buckets have published, by instant."""
    published = {}
    for time in instants_with_abandoned(notes):
        # If an instant has just left the timeline, the next clean checks it.
        with suppress(StaleTimelineError):
            if timeline.is_completed(time):
                published[time] = {stat.path for stat in timeline.commit_metadata(time).all_stats()}
    return published


def delete_leftovers(
    below_hoodie: Iterable[ObjectInfo],
    timeline: Timeline,
    *,
    listed_ms: int,
    further: Iterable[str] = (),
    timing: Timing,
) -> int:
    """Delete markers, heartbeats, claims, stages, sidecars and unfinished files of writes that have ended.

    A claim stays for a day after its write was rolled back. A job's report stays for a day if no launcher
    reads it.

    Args:
        below_hoodie: All files below ``.hoodie``, listed before the timeline was read.
        timeline: The timeline.
        listed_ms: The time of that listing by the store's clock, in milliseconds: files have the age of then.
        further: The paths of further files to delete.
        timing: The periods of the commit protocol.

    Returns:
        The number of files and folders deleted.
    """
    store = timeline.store
    leftovers = _Leftovers(
        store, below_hoodie, timeline, listed_ms=listed_ms, zone=timeline.layout.timezone, timing=timing
    )
    paths = sorted({*leftovers.files(), *leftovers.unfinished(), *further})
    folders = sorted({*leftovers.marker_folders(), *leftovers.stages()})
    store.delete_all(paths)
    for folder in folders:
        store.delete_folder(folder)
    return len(paths) + len(folders)


def _grace_ms(timing: Timing) -> float:
    """Return the age in milliseconds from which an unfinished file no longer belongs to a live process.

    A process may have been suspended while it wrote the file.
    """
    return timing.dead_after_seconds * 1000 * _GRACE_FACTOR


class _Leftovers:
    """The deletable files of a listing of ``.hoodie`` that was made before the timeline was read."""

    def __init__(
        self,
        store: ObjectStore,
        files: Iterable[ObjectInfo],
        timeline: Timeline,
        *,
        listed_ms: int,
        zone: Timezone,
        timing: Timing,
    ) -> None:
        self._store = store
        self._timing = timing
        self._files = {info.path: info for info in files}
        self._timeline = timeline
        self._zone = zone
        self._listed_ms = listed_ms
        self._grace_ms = _grace_ms(timing)
        self._claimed = {time for time in self._direct_children(CLAIMS_FOLDER) if time.isdigit()}
        # A living writer has a heartbeat, except for a moment after it has put its claim.
        candidates = [
            time
            for time in self._claimed
            if heartbeat_path(time) in self._files
            or self._age_ms(claim_path(time)) <= timing.dead_after_seconds * 1000
        ]
        self._claims = dict(
            zip(candidates, map_each(candidates, lambda time: read_claim(store, time)), strict=True)
        )
        self._alive = {
            time
            for time, claim in self._claims.items()
            if claim is not None and is_alive(store, claim, timing)
        }
        self._pending = {
            instant.time
            for instant in timeline.instants
            if not instant.is_completed and instant.action is not Action.SAVEPOINT
        }
        self._completed = {instant.time for instant in timeline.instants if instant.is_completed}

    def files(self) -> Iterable[str]:
        """Yield heartbeats, claims, notes, reports, savepoint files and sidecars that may be deleted."""
        for time in self._direct_children(HEARTBEAT_FOLDER):
            path = heartbeat_path(time)
            known = time in self._claimed or time in self._completed
            if not self._is_busy(time) and (known or self._age_ms(path) > DAY_MS):
                yield path
        for time in self._claimed:
            if not self._is_busy(time) and (time in self._completed or self._is_old(time)):
                yield claim_path(time)
        for path in self._files:
            if path.startswith((f"{BREAKING_FOLDER}/", PROBE_PREFIX)) and self._age_ms(path) > self._grace_ms:
                yield path
        for name in self._direct_children(ABANDONED_FOLDER):
            time = name.partition(".")[0]
            if not self._is_busy(time) and time not in self._completed:
                yield f"{ABANDONED_FOLDER}/{name}"
        for name in self._direct_children(REPORTS_FOLDER):
            if self._age_ms(f"{REPORTS_FOLDER}/{name}") > DAY_MS:
                yield f"{REPORTS_FOLDER}/{name}"
        for instant in self._timeline.of(Action.SAVEPOINT):
            if not instant.is_completed and self._is_abandoned(instant.path):
                yield instant.path
        yield from self._sidecars()

    def unfinished(self) -> Iterable[str]:
        """Yield the temporary files of processes that have died."""
        return (
            path
            for path in self._files
            if finished_name(path) is not None and self._age_ms(path) > self._grace_ms
        )

    def marker_folders(self) -> Iterable[str]:
        """Yield the marker folders of writes that have ended."""
        for time in self._folders(MARKER_FOLDER):
            if not self._is_busy(time):
                yield f"{MARKER_FOLDER}/{time}"

    def stages(self) -> Iterable[str]:
        """Yield the stages of runs that have ended and do not continue."""
        runs = {claim.run for time in self._alive if (claim := self._claims[time]) is not None}
        for run in self._folders(STAGE_FOLDER):
            claim = read_claim(self._store, run)
            newest_ms = max(
                i.modified_ms for p, i in self._files.items() if p.startswith(f"{STAGE_FOLDER}/{run}/")
            )
            is_over = claim is None or claim.owner.has_process_ended or self._listed_ms - newest_ms > DAY_MS
            if run not in runs and not self._is_busy(run) and is_over:
                yield f"{STAGE_FOLDER}/{run}"

    def _sidecars(self) -> Iterable[str]:
        """Yield the statistics and ledger entries of writes that were not committed."""
        timeline = self._timeline
        if not timeline.completed_writes:
            return
        for path in self._files:
            time = path.rpartition("/")[2].partition(".")[0]
            is_statistics = path.startswith(f"{STATISTICS_FOLDER}/") and time.isdigit()
            is_entry = is_statistics or is_ledger_entry(path)
            is_valid = timeline.is_completed(time) or self._is_busy(time) or timeline.counts_as_archived(time)
            if is_entry and not is_valid:
                yield path

    def _is_abandoned(self, path: str) -> bool:
        """Return whether the unfinished savepoint was begun by a writer of this project that has died.

        A file of another program is empty, so that it never counts.
        """
        try:
            claim = Claim.from_bytes(self._store.read(path), uri=path)
        except (NotFoundError, CorruptTableError):
            return False
        return not is_alive(self._store, claim, self._timing)

    def _is_busy(self, time: str) -> bool:
        return time in self._alive or time in self._pending

    def _is_old(self, time: str) -> bool:
        return self._listed_ms - parse_instant_ms(time, self._zone) > DAY_MS

    def _age_ms(self, path: str) -> int:
        """Return the age of a file, or 0 if it was not listed."""
        info = self._files.get(path)
        return 0 if info is None else self._listed_ms - info.modified_ms

    def _direct_children(self, folder: str) -> list[str]:
        names = (path.removeprefix(f"{folder}/") for path in self._files if path.startswith(f"{folder}/"))
        return [name for name in names if "/" not in name]

    def _folders(self, folder: str) -> list[str]:
        names = (path.removeprefix(f"{folder}/") for path in self._files if path.startswith(f"{folder}/"))
        return sorted({name.partition("/")[0] for name in names if "/" in name})
