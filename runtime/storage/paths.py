"""Valid object paths below the root of a store, and the names of temporary files."""

from __future__ import annotations

import re
import uuid

from parquetry.message import Value
from parquetry.runtime.errors import StorageError

_GLOB_CHARACTERS = re.compile(r"([{}\[\]*?\\])")
_TEMPORARY = re.compile(r"^\.(?P<name>[^.]+)\.[0-9a-f]{32}\.tmp\Z")


def checked_path(path: str, *, root: str, folder: bool = False) -> str:
    """Return ``path`` if it stays below the root. A folder may be empty, which is the root.

    A folder loses its trailing ``/``.

    Raises:
        StorageError: If the path is absolute, or contains an empty, ``.`` or ``..`` segment or a NUL byte.

    """
    if folder and path == "":
        return path
    trimmed = path.removesuffix("/") if folder else path
    segments = trimmed.split("/")
    if "\0" in trimmed or any(segment in ("", ".", "..") for segment in segments):
        raise StorageError(
            "the path {file} does not stay below {location}; use a relative path whose parts are neither "
            "empty nor '.' nor '..'",
            file=Value.file(path, quoted=True),
            location=root,
        )
    return trimmed


def temporary_path(path: str) -> str:
    """Return a new hidden name in the folder of ``path``, for a file that is still being written.

    The name starts with a dot, ends in ``.tmp``, and spells the dots of the final name as ``%2E``. Hudi takes
    every file whose name contains ``.parquet`` for a base file, and treats markers and archives alike
    (AbstractTableFileSystemView, DirectWriteMarkers).
    """
    folder, _, name = path.rpartition("/")
    hidden = name.replace("%", "%25").replace(".", "%2E")
    return f"{folder}/.{hidden}.{uuid.uuid4().hex}.tmp".removeprefix("/")


def finished_name(path: str) -> str | None:
    """Return the final file name of a temporary file, or None if ``path`` is not a temporary file."""
    match = _TEMPORARY.match(path.rpartition("/")[2])
    return match["name"].replace("%2E", ".").replace("%25", "%") if match else None


def escape_glob(path: str) -> str:
    """Return ``path`` with a backslash before each character that Hadoop's glob syntax interprets."""
    return _GLOB_CHARACTERS.sub(r"\\\1", path)
