"""Consistent listings of the files to read, while writers clean the table or roll writes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from parquetry.runtime.errors import ConflictError
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.view import FileSystemView, IncrementalSlices

_ATTEMPTS: Final = 5

_Result = TypeVar("_Result")


def read_consistently(
    handle: TableHandle, read: Callable[[FileSystemView], tuple[IncrementalSlices, _Result]]
) -> tuple[IncrementalSlices, _Result]:
    """Return the result of ``read`` for the current table, and make sure that no slice is missing.

    If a clean or a rollback deletes file slices between the reading of the timeline and the listing of their
    folder, the result would silently lack rows. ``read`` is then called again, up to five times.

    Raises:
        ConflictError: If a clean or a rollback interfered each time.
        StaleTimelineError: If the table got another timeline layout since it was opened.

    """
    for _ in range(_ATTEMPTS):
        view = handle.view(handle.timeline())
        changes, result = read(view)
        if not _were_slices_deleted(view, changes.as_of):
            handle.check_layout()
            return changes, result
    raise ConflictError(
        "{table} was cleaned or rolled back {attempts} times while its folders were listed, so that rows "
        "might be missing; read again, or keep more with retention.clean",
        table=handle.store.uri,
        attempts=_ATTEMPTS,
    )


def _were_slices_deleted(view: FileSystemView, time: str) -> bool:
    """Return whether slices of that time may have been deleted since the view's snapshot was read.

    A rollback takes its write from the timeline before it deletes the first file. If retention counts
    versions, each file that a clean has deleted is checked.
    """
    now = view.timeline.reload()
    for write in view.timeline.completed_writes:
        is_left = now.is_completed(write.time) or now.counts_as_archived(write.time)
        if write.time <= time and not is_left:
            return True
    for clean in now.cleans_since(view.timeline):
        if clean is None:
            return True
        limit = clean.earliest_commit_to_retain
        taken = clean.files.items()
        if time < limit if limit else any(view.is_needed_at(path, names, time) for path, names in taken):
            return True
    return False
