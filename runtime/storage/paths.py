"""The names objects may have below a store's root, and the names of files not finished yet."""

from __future__ import annotations

import re
import uuid

from parquetry.message import Message, Value
from parquetry.runtime.errors import StorageError

_GLOB_CHARACTERS = re.compile(r"([{}\[\]*?\\])")
_TEMPORARY = re.compile(r"^\.(?P<name>[^.]+)\.[0-9a-f]{32}\.tmp\Z")


def checked_path(path: str, *, root: str, folder: bool = False) -> str:
    """``path`` as it is, when it stays below the root; a folder may be empty (the root).

    Raises StorageError for absolute paths, empty, ``.`` and ``..`` segments and NUL bytes.
    """
    if folder and path == "":
        return path
    trimmed = path.removesuffix("/") if folder else path
    segments = trimmed.split("/")
    if "\0" in trimmed or any(segment in ("", ".", "..") for segment in segments):
        raise StorageError(
            Message(
                "the path ",
                Value.file(path, quoted=True),
                f" does not stay below {root}; use a relative path whose parts "
                "are neither empty nor '.' nor '..'",
            )
        )
    return trimmed


def temporary_path(path: str) -> str:
    """A fresh hidden name beside ``path`` for its unfinished content.

    The name starts with a dot and ends in ``.tmp``, and has the dots of the finished name as
    ``%2E``: Hudi takes every file for a base file whose name has ``.parquet`` anywhere in it, and
    likewise for markers and archives (AbstractTableFileSystemView, DirectWriteMarkers).
    """
    folder, _, name = path.rpartition("/")
    hidden = name.replace("%", "%25").replace(".", "%2E")
    return f"{folder}/.{hidden}.{uuid.uuid4().hex}.tmp".removeprefix("/")


def finished_name(path: str) -> str | None:
    """The file name that a temporary file was to get; None when ``path`` is not temporary."""
    match = _TEMPORARY.match(path.rpartition("/")[2])
    return match["name"].replace("%2E", ".").replace("%25", "%") if match else None


def escape_glob(path: str) -> str:
    """``path`` with a backslash before each character that Hadoop's globbing interprets."""
    return _GLOB_CHARACTERS.sub(r"\\\1", path)
