"""Markers: the names of data files that a write may create, stored before the write creates the files.

These are Hudi's DIRECT markers: empty files ``.hoodie/.temp/<T>/<partition>/<file>.marker.<kind>``. Without a
``MARKERS.type`` file, Hudi assumes this form. Its rollback of a pending write deletes only the files that the
markers name. Source: WriteMarkers, DirectWriteMarkers and MarkerUtils of Hudi 0.15.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import for_each

MARKER_FOLDER: Final = ".hoodie/.temp"

_MARKER = re.compile(r"^(?P<path>.+)\.marker\.(?:CREATE|MERGE|APPEND)\Z")
_BATCH_FILE = re.compile(r"^MARKERS[0-9]+\Z")


class MarkerKind(StrEnum):
    """CREATE if the file starts a file group, MERGE if it is the next slice of one."""

    CREATE = "CREATE"
    MERGE = "MERGE"


def marker_path(instant: str, path: str, kind: MarkerKind) -> str:
    """Return the path of the marker for the data file ``path``. Both are relative to the table."""
    return f"{MARKER_FOLDER}/{instant}/{path}.marker.{kind}"


def put_marker(store: ObjectStore, instant: str, path: str, kind: MarkerKind) -> None:
    """Write the marker of one file. Tasks call this before they create a file whose name was not planned."""
    store.put(marker_path(instant, path, kind), b"")


def put_markers(store: ObjectStore, instant: str, files: Mapping[MarkerKind, Iterable[str]]) -> None:
    """Write the markers of all the files."""
    named = [(path, kind) for kind, paths in files.items() for path in paths]
    for_each(named, lambda item: put_marker(store, instant, *item))


def marked_files(store: ObjectStore, instant: str) -> tuple[str, ...]:
    """Return the data files that the markers of the instant name, in either of Hudi's forms, sorted."""
    folder = f"{MARKER_FOLDER}/{instant}"
    names: set[str] = set()
    for info in store.list(folder, recursive=True):
        relative = info.path.removeprefix(f"{folder}/")
        if _BATCH_FILE.match(relative):
            names.update(_lines(store, info.path))
        else:
            names.add(relative)
    found = (_MARKER.match(name) for name in names)
    return tuple(sorted({match["path"] for match in found if match is not None}))


def remove_markers(store: ObjectStore, instant: str, *, known: Iterable[str] | None = None) -> None:
    """Delete the markers of the instant: those at the ``known`` paths, or all that a listing finds."""
    store.delete_folder(f"{MARKER_FOLDER}/{instant}", objects=known)


def _lines(store: ObjectStore, path: str) -> list[str]:
    """Return the lines of a file, or an empty list if it is absent."""
    try:
        return store.read(path).decode().splitlines()
    except NotFoundError:
        return []
