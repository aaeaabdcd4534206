"""A file that the user named on the command line. It may be a pipe, as in ``<(...)``."""

from __future__ import annotations

from pathlib import Path

from parquetry.errors import UsageError
from parquetry.runtime.storage.regular_file import MOST_BYTES


def read_named(file: Path) -> bytes:
    """Return the content of the file, or raise UsageError if it cannot be read or is too large."""
    try:
        with file.open("rb") as source:
            content = source.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            "{file} cannot be read: {reason}; name a file that can be", file=file, reason=error.strerror
        ) from error
    if len(content) > MOST_BYTES:
        raise UsageError(
            "{file} is larger than {limit_bytes} bytes; name a file that this parquetry wrote",
            file=file,
            limit_bytes=MOST_BYTES,
        )
    return content
