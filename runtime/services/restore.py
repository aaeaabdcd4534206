"""The restore service, which returns the table to a savepoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from parquetry.message import Value, command
from parquetry.runtime.commit.damaged_files import damaged_as_of, raise_if_damaged
from parquetry.runtime.commit.recovery import recovered_timeline
from parquetry.runtime.commit.restore_execution import finish_restore
from parquetry.runtime.commit.rollback import withdraw_request
from parquetry.runtime.commit.table_lock import locked_session
from parquetry.runtime.errors import ConflictError, InvalidDataError
from parquetry.runtime.publish.publishing import publish_after
from parquetry.runtime.services.clean_plan import finish_cleans
from parquetry.runtime.sources.ledger import ReadAgain, read_again
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.table.handle import TableHandle, with_masked_failures
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.restore import RestorePlan
from parquetry.runtime.timeline.rollback import InstantInfo
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

_REFUSED: Final = ("nothing was restored, as rows would be lost", "restore the file from a copy")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RestoreResult(Brief):
    """The result of a restore. ``instant`` is None if there was no write after the savepoint.

    ``reads_again`` lists what the sources of the writes ingest again in the next run.
    """

    savepoint: str
    instant: str | None
    rolled_back: tuple[str, ...] = ()
    files_deleted: int = 0
    reads_again: tuple[ReadAgain, ...] = ()


@with_masked_failures
def restore(table: TableHandle, savepoint: str, *, timing: Timing = DEFAULT_TIMING) -> RestoreResult:
    """Roll back every write after the savepoint, including pending ones; the savepoint stays.

    Raises:
        InvalidDataError: If there is no such savepoint, if a later savepoint exists, or if files of the
            savepoint are missing.
        CorruptTableError: If files of the savepoint have another size than was written.
        ConflictError: If the lock was lost before anything was rolled back.
    """
    result = _restored(table, savepoint, timing)
    publish_after(table, "restore")
    return result


def _restored(table: TableHandle, savepoint: str, timing: Timing) -> RestoreResult:
    """Restore under the lock; a restore that was begun is finished first."""
    store = table.store
    timeline = recovered_timeline(table, timing=timing)
    with locked_session(table, timeline, purpose="restore", timing=timing) as (session, lock):
        timeline = timeline.reload()
        finish_cleans(table, timeline)
        timeline = timeline.reload()
        _check_savepoint(table, timeline, savepoint)
        victims = _victims(timeline, savepoint)
        if not victims:
            return RestoreResult(savepoint=savepoint, instant=None)
        completed = [victim.time for victim in victims if timeline.is_completed(victim.time)]
        reads_again = read_again(store, completed)
        requested = timeline.layout.requested(session.instant, Action.RESTORE)
        plan = RestorePlan(instants=victims, savepoint=savepoint)
        store.put_if_absent(requested.path, plan.encode())
        if not lock.is_held():
            # A write that depends on the state to be rolled back may have been published.
            outcome = "another process executes the restore"
            if withdraw_request(store, requested):
                outcome = "nothing was restored"
            raise ConflictError(
                "{table}: the lock was lost, and {outcome}; run the command again",
                table=store.uri,
                outcome=outcome,
            )
        partitions = table.view(timeline).partitions()
        files = finish_restore(session, timeline.reload(), requested, partitions=partitions)
    return RestoreResult(
        savepoint=savepoint,
        instant=session.instant,
        rolled_back=tuple(victim.time for victim in victims),
        files_deleted=files,
        reads_again=reads_again,
    )


def _check_savepoint(table: TableHandle, timeline: Timeline, savepoint: str) -> None:
    """Raise an error unless the savepoint exists, is the last one, and all its files are intact."""
    uri = table.store.uri
    if savepoint not in timeline.savepoints:
        raise InvalidDataError(
            "{table}: there is no savepoint of {savepoint}; the savepoints are {savepoints}",
            table=uri,
            savepoint=savepoint,
            savepoints=timeline.savepoints or None,
        )
    later = [time for time in timeline.savepoints if time > savepoint]
    if later:
        raise InvalidDataError(
            "{table}: the later savepoint {savepoint} would be rolled back; delete it first with {command}",
            table=uri,
            savepoint=later[-1],
            command=command("service", "savepoint", table.name, "--delete", later[-1]),
        )
    view = table.view(timeline)
    missing = [f"{partition}/{file_id}" for partition, file_id in view.cleaned_as_of(savepoint)]
    for partition, names in timeline.savepoint_metadata(savepoint).files.items():
        present = {version.path.rpartition("/")[2] for version in view.base_files(partition)}
        missing += [f"{partition}/{name}" for name in sorted(set(names) - present)]
    if missing:
        raise InvalidDataError(
            "{table}: {file} of the savepoint {savepoint} is missing; {outcome}; {remedy}",
            table=uri,
            file=Value.file(missing[-1]),
            savepoint=savepoint,
            outcome=_REFUSED[0],
            remedy=_REFUSED[1],
        )
    raise_if_damaged(table, damaged_as_of(view, savepoint), *_REFUSED)


def _victims(timeline: Timeline, savepoint: str) -> tuple[InstantInfo, ...]:
    """Return the writes after the savepoint, in the order in which Hudi rolls them back."""
    later = [
        instant
        for instant in (*timeline.pending_writes, *timeline.completed_writes)
        if instant.time > savepoint
    ]
    later.sort(key=lambda instant: (instant.time in timeline.pending_clusterings, instant.time), reverse=True)
    return tuple(InstantInfo(time=instant.time, action=str(instant.action)) for instant in later)
