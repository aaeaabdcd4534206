"""Reading files whole or in part: those that are read whole are not of any size."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from parquetry.confined_folder import open_regular

MOST_BYTES: Final = 1 << 30
"""Of a file that is read whole."""


def read_regular(path: Path, *, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a regular file of at most ``most_bytes``, links followed.

    OSError otherwise: EISDIR for a folder, EFBIG for a larger file, ENXIO for the rest.
    """
    file = open_regular(path, follows=True)
    try:
        return read_whole(file, most_bytes=most_bytes)
    finally:
        os.close(file)


def read_whole(file: int, *, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of an open file of at most ``most_bytes``; OSError (EFBIG) for a larger one."""
    size_bytes = os.fstat(file).st_size
    if size_bytes > most_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return read_between(file, 0, size_bytes)


def read_between(file: int, start: int, stop: int) -> bytes:
    """The bytes of an open file from ``start`` to ``stop`` (exclusive), as far as it has them."""
    parts = []
    while start < stop and (part := os.pread(file, stop - start, start)):
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
