"""Savepoints: a commit whose files no clean may touch, until the savepoint is deleted.

Source: SavepointActionExecutor and SavepointHelpers of Hudi 0.15.
"""

from __future__ import annotations

import getpass
from dataclasses import dataclass

from parquetry.runtime.claims import open_session
from parquetry.runtime.errors import ConflictError, InvalidDataError
from parquetry.runtime.parallel import map_each
from parquetry.runtime.pending import settle
from parquetry.runtime.services.cleaning import finish_cleans, pending_cleans
from parquetry.runtime.services.locking import table_lock
from parquetry.runtime.table import TableHandle, check_writable
from parquetry.runtime.timeline.avro_records import SavepointMetadata
from parquetry.runtime.timeline.instant import Action, Instant, State
from parquetry.runtime.timeline.timeline import Timeline
from parquetry.runtime.timing import DEFAULT_TIMING, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointResult:
    """The commit that is savepointed, and how many files that protects."""

    instant: str
    files: int


def create_savepoint(
    table: TableHandle,
    instant: str | None = None,
    *,
    user: str | None = None,
    comment: str = "",
    timing: Timing = DEFAULT_TIMING,
) -> SavepointResult:
    """Protect the table as of a completed write, by default the newest; doing it twice changes nothing.

    Raises InvalidDataError when there is no such write, or when some of its files were cleaned;
    ConflictError while another program may be cleaning them.
    """
    store, zone = table.store, table.config.timezone
    timeline = Timeline.load(store)
    check_writable(table, timeline, store.now_ms())
    timeline, _ = settle(table, timeline, timing=timing)
    with open_session(
        store, purpose="savepoint", after=timeline.last_instant, zone=zone, timing=timing
    ) as session:
        with table_lock(table, session) as lock:
            while True:
                timeline = timeline.reload()
                finish_cleans(table, timeline)
                timeline = timeline.reload()
                time = _checked(table, timeline, instant)
                if time in timeline.savepoints:
                    files = timeline.savepoint_metadata(time).files
                    break
                files = _files_as_of(table, timeline, time)
                metadata = SavepointMetadata(
                    by=user or getpass.getuser(), at_ms=store.now_ms(), comments=comment, files=files
                )
                inflight = Instant(time=time, action=Action.SAVEPOINT, state=State.INFLIGHT)
                # Hudi leaves this file empty and never reads it: here it says whose it is.
                store.put_if_absent(inflight.path, session.claim.to_bytes())
                store.put_if_absent(inflight.with_state(State.COMPLETED).path, metadata.encode())
                # Who took the lock from a holder that slept may have cleaned what the savepoint names.
                if lock.is_held() or _files_are_there(table, timeline.reload(), time):
                    break
                delete_files(table, time)
                lock.release()
                lock.acquire()
        session.acknowledge()
    return SavepointResult(instant=time, files=sum(len(names) for names in files.values()))


def delete_savepoint(table: TableHandle, instant: str, *, timing: Timing = DEFAULT_TIMING) -> None:
    """Give a savepoint up; its files go with the next clean. InvalidDataError when there is none."""
    store, zone = table.store, table.config.timezone
    timeline = Timeline.load(store)
    with open_session(
        store, purpose="savepoint", after=timeline.last_instant, zone=zone, timing=timing
    ) as session:
        with table_lock(table, session):
            if not timeline.reload().contains(instant, Action.SAVEPOINT):
                raise InvalidDataError(
                    f"{store.uri}: there is no savepoint of {instant}; the savepoints are "
                    f"{', '.join(timeline.savepoints) or 'none'}"
                )
            delete_files(table, instant)
        session.acknowledge()


def delete_files(table: TableHandle, time: str) -> None:
    """Remove the state files of a savepoint, the completed one first."""
    for state in (State.COMPLETED, State.INFLIGHT):
        table.store.delete(Instant(time=time, action=Action.SAVEPOINT, state=state).path)


def _checked(table: TableHandle, timeline: Timeline, instant: str | None) -> str:
    """The time of the write to protect; InvalidDataError when it cannot be protected whole."""
    uri = table.store.uri
    if not timeline.completed_writes:
        raise InvalidDataError(f"{uri}: nothing was committed yet; write to the table first")
    time = instant or timeline.completed_writes[-1].time
    if not timeline.is_completed(time):
        raise InvalidDataError(
            f"{uri}: there is no completed write {time} on the active timeline; "
            "see `parquetry timeline` for those there are"
        )
    earliest = timeline.earliest_retained
    if earliest is not None and time < earliest and time not in timeline.savepoints:
        raise InvalidDataError(
            f"{uri}: versions before {earliest} were cleaned, {time} cannot be savepointed; "
            f"choose {earliest} or a later write"
        )
    for clean in pending_cleans(timeline, ours=False):
        retained = timeline.cleaner_plan(clean.time).earliest_commit_to_retain
        if retained is None or time < retained:
            raise ConflictError(
                f"{uri}: another program is cleaning (clean {clean.time}), perhaps files of {time}; "
                "try again when it has ended"
            )
    return time


def _files_as_of(table: TableHandle, timeline: Timeline, time: str) -> dict[str, tuple[str, ...]]:
    view = table.view(timeline)
    partitions = view.partitions()
    listed = map_each(partitions, lambda partition: view.slices(partition, time))
    found = {version.path for slices in listed for version in slices}
    if missing := sorted(_expected_as_of(timeline, time) - found):
        raise InvalidDataError(
            f"{table.store.uri}: {time} cannot be savepointed, {missing[0]} and {len(missing) - 1} more "
            "of its files were cleaned; choose a later write"
        )
    names = {
        partition: tuple(version.path.rpartition("/")[2] for version in slices)
        for partition, slices in zip(partitions, listed, strict=True)
    }
    return {partition: files for partition, files in names.items() if files}


def _expected_as_of(timeline: Timeline, time: str) -> set[str]:
    """The files that the writes of the active timeline left as the current ones of that time."""
    current: dict[tuple[str, str], str] = {}
    for write in timeline.completed_writes:
        if write.time <= time:
            metadata = timeline.commit_metadata(write.time)
            for stat in metadata.all_stats():
                current[stat.partition_path, stat.file_id] = stat.path
            for partition, file_ids in metadata.replaced.items():
                for file_id in file_ids:
                    current.pop((partition, file_id), None)
    return {path for path in current.values() if path}


def _files_are_there(table: TableHandle, timeline: Timeline, time: str) -> bool:
    finish_cleans(table, timeline)
    saved = timeline.savepoint_metadata(time).files
    view = table.view(Timeline.load(table.store))
    there = {(p, version.path.rpartition("/")[2]) for p in saved for version in view.slices(p, time)}
    return all((partition, name) in there for partition, names in saved.items() for name in names)
