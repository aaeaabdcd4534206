"""Finding the files to read beside writers that clean the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from parquetry.runtime.errors import ConflictError
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.table.view import FileSystemView, IncrementalSlices

_ATTEMPTS: Final = 5

_Found = TypeVar("_Found")


def read_consistently(
    handle: TableHandle, read: Callable[[FileSystemView], tuple[IncrementalSlices, _Found]]
) -> tuple[IncrementalSlices, _Found]:
    """What ``read`` finds in the table as it is now, none of it cleaned before its folder was listed.

    The versions that a clean took between the reading of the timeline and that listing would be missing
    without a word: ``read`` is then asked again. ConflictError when that happens each time.
    """
    for _ in range(_ATTEMPTS):
        view = handle.view(handle.timeline())
        changes, found = read(view)
        if not _is_lacking(view, changes.end):
            return changes, found
    raise ConflictError(
        f"{handle.store.uri} was cleaned {_ATTEMPTS} times while its folders were listed, so that rows might "
        "be missing; read again, or keep more with retention.clean"
    )


def _is_lacking(view: FileSystemView, time: str) -> bool:
    """Whether a clean begun after the view's snapshot may have taken versions that readers see at that time.

    Where versions are kept by number, what it takes is looked at file by file.
    """
    for clean in view.timeline.reload().cleans_since(view.timeline):
        if clean is None:
            return True
        limit = clean.earliest_commit_to_retain
        taken = clean.files.items()
        if time < limit if limit else any(view.needs(path, names, time) for path, names in taken):
            return True
    return False
