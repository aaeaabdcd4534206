"""Consistent listings of the files to read, while writers clean the table."""

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

    If a clean deletes file slices between the reading of the timeline and the listing of their folder, the
    result would silently lack rows. ``read`` is then called again, up to five times.

    Raises:
        ConflictError: If a clean interfered each time.
        StaleTimelineError: If the table got another timeline layout since it was opened.

    """
    for _ in range(_ATTEMPTS):
        view = handle.view(handle.timeline())
        changes, result = read(view)
        if not _was_cleaned_meanwhile(view, changes.as_of):
            handle.check_layout()
            return changes, result
    raise ConflictError(
        "{table} was cleaned {attempts} times while its folders were listed, so that rows might be "
        "missing; read again, or keep more with retention.clean",
        table=handle.store.uri,
        attempts=_ATTEMPTS,
    )


def _was_cleaned_meanwhile(view: FileSystemView, time: str) -> bool:
    """Return whether slices of that time may have been deleted since the view's snapshot was read.

    If retention counts versions, each deleted file is checked.
    """
    for clean in view.timeline.reload().cleans_since(view.timeline):
        if clean is None:
            return True
        limit = clean.earliest_commit_to_retain
        taken = clean.files.items()
        if time < limit if limit else any(view.is_needed_at(path, names, time) for path, names in taken):
            return True
    return False
