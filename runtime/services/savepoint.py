"""Savepoints: commits whose files no clean may delete until the savepoint is deleted.

Source: SavepointActionExecutor and SavepointHelpers of Hudi 0.15.
"""

from __future__ import annotations

import getpass
from dataclasses import dataclass

from parquetry.message import Value, command
from parquetry.runtime.commit.claims import read_claim
from parquetry.runtime.commit.damaged_files import damaged_as_of, raise_if_damaged, remedy
from parquetry.runtime.commit.lock import TableLock
from parquetry.runtime.commit.recovery import recover, recovered_timeline, withdraw_pending
from parquetry.runtime.commit.table_lock import locked_session
from parquetry.runtime.errors import ConflictError, InvalidDataError
from parquetry.runtime.services.clean_plan import check_no_foreign_clean, finish_cleans
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.storage.os_errors import logging_failures
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.handle import TableHandle, with_masked_failures
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.effective_writes import invalid_completed_writes
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.restore import SavepointMetadata
from parquetry.runtime.timing import DEFAULT_TIMING, Timing


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SavepointResult(Brief):
    """The savepointed commit, and the number of files that it protects."""

    instant: str
    files: int


@with_masked_failures
def create_savepoint(
    table: TableHandle,
    instant: str | None = None,
    *,
    comment: str = "",
    timing: Timing = DEFAULT_TIMING,
) -> SavepointResult:
    """Protect the table as of a completed write; a repeated call changes nothing.

    By default this is the newest write that follows no unfinished write. An unfinished older write may still
    complete; its rows would then belong to the table as of the savepoint, but would not be protected. Older
    clustering plans of this project are withdrawn.

    Args:
        table: The table to protect.
        instant: The write to protect, or None for the default.
        comment: A comment, to be recorded in the savepoint.
        timing: The waiting periods for locks.

    Raises:
        InvalidDataError: If there is no such write, or if some of its files were cleaned.
        CorruptTableError: If some of its files are damaged.
        ConflictError: If an older write is unfinished, or another program may be cleaning its files.
    """
    store = table.store
    timeline = recovered_timeline(table, timing=timing)
    with locked_session(table, timeline, purpose="savepoint", timing=timing) as (session, lock):
        while True:
            timeline = timeline.reload()
            if invalid_completed_writes(timeline):
                lock.release()
                recover(table, timeline, timing=timing)
                lock.acquire()
                continue
            finish_cleans(table, timeline)
            timeline = timeline.reload()
            time = _protectable_write(table, timeline, instant)
            files = _files_as_of(table, timeline, time)
            if time in timeline.savepoints:
                files = dict(timeline.savepoint_metadata(time).files)
                break
            _withdraw_plans_before(timeline, time)
            metadata = SavepointMetadata(
                created_by=getpass.getuser(), created_at_ms=store.now_ms(), comments=comment, files=files
            )
            inflight = timeline.layout.requested(time, Action.SAVEPOINT).inflight
            # Hudi leaves this file empty and never reads it. Here it contains the claim of its writer.
            store.put_if_absent(inflight.path, session.claim.to_bytes())
            timeline.layout.complete(store, inflight, metadata.encode())
            # If this process was suspended and lost the lock, another one may have cleaned files that the
            # savepoint names, or published an older write.
            if _is_valid(table, timeline, time, lock):
                break
            delete_state_files(table, time)
            lock.release()
            lock.acquire()
    return SavepointResult(instant=time, files=sum(len(names) for names in files.values()))


@with_masked_failures
def delete_savepoint(table: TableHandle, instant: str, *, timing: Timing = DEFAULT_TIMING) -> None:
    """Delete a savepoint; the next clean may delete its files.

    Raises:
        InvalidDataError: If there is no such savepoint.
    """
    store = table.store
    timeline = table.timeline()
    with locked_session(table, timeline, purpose="savepoint", timing=timing, allows_metadata_table=True):
        if not timeline.reload().contains(instant, Action.SAVEPOINT):
            raise InvalidDataError(
                "{table}: there is no savepoint of {savepoint}; the savepoints are {savepoints}",
                table=store.uri,
                savepoint=instant,
                savepoints=timeline.savepoints or None,
            )
        delete_state_files(table, instant)


def delete_state_files(table: TableHandle, time: str) -> None:
    """Delete the state files of a savepoint, the completed one first."""
    store = table.store
    for instant in table.config.timeline_layout.files_of(store, time, Action.SAVEPOINT):
        if instant.is_completed:
            store.delete(instant.path)
        else:
            with logging_failures(store.uri, f"{instant.file_name} is left behind"):
                store.delete(instant.path)


def _protectable_write(table: TableHandle, timeline: Timeline, instant: str | None) -> str:
    """Return the time of the write to protect; raise an error if it cannot be protected completely."""
    uri = table.store.uri
    if not timeline.completed_writes:
        raise InvalidDataError("{table}: the table has no commit yet; write to it first", table=uri)
    time = instant or timeline.last_before_pending() or timeline.completed_writes[-1].time
    if not timeline.is_completed(time):
        raise InvalidDataError(
            "{table}: there is no completed write {instant} on the active timeline; "
            "see its writes with {command}",
            table=uri,
            instant=time,
            command=command("timeline", table.name),
        )
    if time in timeline.savepoints:
        return time
    earliest, newest = timeline.earliest_retained, timeline.completed_writes[-1].time
    if earliest is not None and time < min(earliest, newest):
        whole = next((write.time for write in timeline.completed_writes if write.time >= earliest), newest)
        raise InvalidDataError(
            "{table}: {instant} cannot be savepointed, as versions before {earliest_instant} were cleaned; "
            "choose {earliest_instant} or a later write",
            table=uri,
            instant=time,
            earliest_instant=whole,
        )
    for pending in timeline.pending_writes:
        if pending.time < time and not _is_own_clustering(timeline, pending.time):
            before = [write.time for write in timeline.completed_writes if write.time < pending.time]
            older = f"or choose {before[-1]}" if before else "or, if its program has ended, roll it back"
            raise ConflictError(
                "{table}: {instant} cannot be savepointed while the older write {pending_instant} is "
                "unfinished, "
                "because it would not protect the rows of that write; try again when that write has "
                "ended, {remedy}",
                table=uri,
                instant=time,
                pending_instant=pending.time,
                remedy=older,
            )
    check_no_foreign_clean(timeline, time)
    return time


def _is_own_clustering(timeline: Timeline, pending: str) -> bool:
    """Return whether the pending write is a clustering of this project.

    Such a clustering is never published with an instant before a savepoint.
    """
    return pending in timeline.pending_clusterings and read_claim(timeline.store, pending) is not None


def _withdraw_plans_before(timeline: Timeline, time: str) -> None:
    """Withdraw clustering plans that are older than ``time``.

    A process that ignores savepoints might execute them.
    """
    groups = timeline.groups_in_pending_clustering
    withdraw_pending(
        {group for group, planned in groups.items() if planned < time}, timeline, except_instant=""
    )


def _files_as_of(table: TableHandle, timeline: Timeline, time: str) -> dict[str, tuple[str, ...]]:
    """Return the names of the files to protect, by partition; raise an error if any is missing or damaged."""
    view = table.view(timeline)
    refused = f"{time} cannot be savepointed"
    is_newest = time == view.newest
    if not is_newest and (lost := view.cleaned_as_of(time)):
        partition, file_id = lost[0]
        more = f" and {len(lost) - 1:,} more of its files were" if len(lost) > 1 else " was"
        raise InvalidDataError(
            "{table}: {outcome}, as {file_group}{others} cleaned or deleted; choose a later write",
            table=table.store.uri,
            outcome=refused,
            file_group=Value.file(f"{partition}/{file_id}"),
            others=more,
        )
    advice = remedy(table) if is_newest else "restore the file from a copy, or choose a later write"
    raise_if_damaged(table, damaged_as_of(view, time), refused, advice)
    return _names_as_of(view, time)


def _names_as_of(view: FileSystemView, time: str) -> dict[str, tuple[str, ...]]:
    """Return the names of the files that readers see at that time, by partition."""
    partitions = view.partitions()
    listed = map_each(partitions, lambda partition: view.slices(partition, time))
    names = {
        partition: tuple(version.path.rpartition("/")[2] for version in slices)
        for partition, slices in zip(partitions, listed, strict=True)
    }
    return {partition: files for partition, files in names.items() if files}


def _is_valid(table: TableHandle, timeline: Timeline, time: str, lock: TableLock) -> bool:
    """Return whether the new savepoint is valid: the lock is still held, or it names what readers see.

    If the state of the lock cannot be read, the lock counts as held. If it was lost, the timeline is read
    again.
    """
    is_held = True
    what = f"the savepoint of {time} is complete, but could not be checked again"
    with logging_failures(table.store.uri, what, shown=table.cleared):
        is_held = lock.is_held()
    return is_held or _matches_view(table, timeline.reload(), time)


def _matches_view(table: TableHandle, timeline: Timeline, time: str) -> bool:
    """Return whether the savepoint names exactly the files that readers see at its time."""
    finish_cleans(table, timeline)
    current = timeline.reload()
    return dict(current.savepoint_metadata(time).files) == _names_as_of(table.view(current), time)
