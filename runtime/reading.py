"""Finding the files to read beside writers that clean the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from parquetry.runtime.errors import ConflictError
from parquetry.runtime.table import TableHandle
from parquetry.runtime.view import Changes, FileSystemView

_ATTEMPTS: Final = 5

_Found = TypeVar("_Found")


def look_while_whole(
    handle: TableHandle, look: Callable[[FileSystemView], tuple[Changes, _Found]]
) -> tuple[Changes, _Found]:
    """What ``look`` finds in the table as it is now, none of it cleaned before its folder was listed.

    The versions that a clean took between the reading of the timeline and that listing would be missing
    without a word: ``look`` is then asked again. ConflictError when that happens each time.
    """
    for _ in range(_ATTEMPTS):
        timeline = handle.timeline()
        changes, found = look(handle.view(timeline))
        if not timeline.reload().is_cleaned_since(timeline, changes.end):
            return changes, found
    raise ConflictError(
        f"{handle.store.uri} was cleaned {_ATTEMPTS} times while its folders were listed, so that rows might "
        "be missing; read again, or keep more with retention.clean"
    )
