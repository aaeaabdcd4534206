"""The rollback service: it rolls back one write at the user's request, whoever began it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from parquetry.message import Value, command
from parquetry.runtime.commit.claims import is_alive, read_claim
from parquetry.runtime.commit.damaged_files import damaged_as_of, raise_if_damaged
from parquetry.runtime.commit.rollback import (
    RollbackResult,
    find_rollback_of,
    finish_rollback,
    has_quarantine,
    roll_back,
)
from parquetry.runtime.commit.table_lock import locked_session
from parquetry.runtime.errors import ConflictError, InvalidDataError
from parquetry.runtime.publish.publishing import publish_after
from parquetry.runtime.services.clean_plan import check_no_foreign_clean, finish_cleans
from parquetry.runtime.sources.ledger import read_again
from parquetry.runtime.table.handle import TableHandle, with_masked_failures
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Instant
from parquetry.runtime.timeline.versions import FileGroupId, slices_as_of
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

_REMEDY: Final = "restore the file from a copy, or correct the rows with a new write"


@with_masked_failures
def rollback(table: TableHandle, instant: str, *, timing: Timing = DEFAULT_TIMING) -> RollbackResult:
    """Roll back a pending write, also of another program, or the newest completed write.

    If a rollback of the write was begun and not completed, it is finished. The caller must know that another
    program's write is dead. The files of a pending write are moved to the quarantine if the table has one;
    those of a completed write are deleted.

    Raises:
        InvalidDataError: If there is no such write, if later writes exist, if it is savepointed or the only
            one, or if versions that readers would see afterwards were cleaned.
        CorruptTableError: If these versions have another size than was written.
        ConflictError: If a writer of this project is at work on it, or another program may be cleaning these
            versions.
    """
    result = _rolled_back(table, instant, timing)
    publish_after(table, "rollback")
    return result


def _rolled_back(table: TableHandle, instant: str, timing: Timing) -> RollbackResult:
    """Roll the write back under the lock, or finish a rollback of it that was begun."""
    store = table.store
    timeline = table.timeline()
    with locked_session(table, timeline, purpose="rollback", timing=timing) as (session, lock):
        timeline = timeline.reload()
        pending = find_rollback_of(timeline, instant)
        if pending is not None:
            return finish_rollback(timeline, pending, keeps_files=has_quarantine(store))
        victim = _rollback_target(table, timeline, instant, timing)
        if victim.is_completed:
            finish_cleans(table, timeline)
            timeline = timeline.reload()
            _check_uncovered(table, timeline, victim)
        # Another program may have left no markers.
        partitions = table.view(timeline).partitions()
        reads_again = read_again(store, [instant]) if victim.is_completed else ()
        keeps_files = not victim.is_completed and has_quarantine(store)
        result = roll_back(
            session, timeline, victim, lock=lock, partitions=partitions, keeps_files=keeps_files
        )
    if result is None:
        raise ConflictError(
            "{table}: {instant} was not rolled back because other writers have written meanwhile; run "
            "the command again",
            table=store.uri,
            instant=instant,
        )
    return replace(result, reads_again=reads_again)


def _rollback_target(table: TableHandle, timeline: Timeline, time: str, timing: Timing) -> Instant:
    """Return the write to roll back, or raise an error if it must not be rolled back."""
    store = table.store
    victim = timeline.write_at(time)
    if victim is None:
        raise InvalidDataError(
            "{table}: there is no write {instant} on the active timeline; see {command}",
            table=store.uri,
            instant=time,
            command=command("timeline", table.name),
        )
    if time in timeline.savepoints:
        raise InvalidDataError(
            "{table}: {instant} is savepointed; delete that savepoint before rolling the write back",
            table=store.uri,
            instant=time,
        )
    if victim.is_completed:
        later = [i.time for i in (*timeline.completed_writes, *timeline.pending_writes) if i.time > time]
        if later:
            raise InvalidDataError(
                "{table}: {later_instant} was written after {instant}; roll the later writes back first, or "
                "restore a savepoint",
                table=store.uri,
                later_instant=later[0],
                instant=time,
            )
        if len(timeline.completed_writes) == 1:
            raise InvalidDataError(
                "{table}: {instant} is the only completed write of the table; without it, the table would "
                "have no schema, and readers would see files of unfinished writes; delete its rows "
                "with a new write",
                table=store.uri,
                instant=time,
            )
        return victim
    claim = read_claim(store, time)
    if claim is not None and is_alive(store, claim, timing):
        raise ConflictError(
            "{table}: {owner} is still writing {instant}; stop that process first",
            table=store.uri,
            owner=str(claim.owner),
            instant=time,
        )
    return victim


def _check_uncovered(table: TableHandle, timeline: Timeline, victim: Instant) -> None:
    """Check that the previous version of every file group that the completed write changed still exists.

    Raises:
        InvalidDataError: If a version is missing.
        CorruptTableError: If a version has another size than was written.
    """
    uri = table.store.uri
    before = max(write.time for write in timeline.completed_writes if write.time < victim.time)
    check_no_foreign_clean(timeline, before)
    metadata = timeline.commit_metadata(victim.time)
    versions = slices_as_of(timeline, before)
    uncovered: dict[FileGroupId, str | None] = {
        (partition, file_id): versions[partition, file_id]
        for partition, file_ids in metadata.replaced.items()
        for file_id in file_ids
        if (partition, file_id) in versions
    }
    for stat in metadata.all_stats():
        if stat.prev_commit is not None:
            uncovered[stat.partition_path, stat.file_id] = stat.prev_commit
    view = table.view(timeline)
    if lost := view.missing_slices(uncovered, before):
        partition, file_id = lost[0]
        raise InvalidDataError(
            "{table}: {instant} cannot be rolled back: the previous version of {file_group} was cleaned or "
            "deleted, so rows would be lost; {remedy}",
            table=uri,
            instant=victim.time,
            file_group=Value.file(f"{partition}/{file_id}"),
            remedy=_REMEDY,
        )
    partitions = {partition for partition, _ in uncovered}
    damaged = damaged_as_of(view, before, lambda paths: [path for path in paths if path in partitions])
    raise_if_damaged(
        table,
        [file for file in damaged if (file.partition, file.file_id) in uncovered],
        f"{victim.time} cannot be rolled back, as rows would be lost",
        _REMEDY,
    )
