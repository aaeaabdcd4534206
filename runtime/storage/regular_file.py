"""Complete and partial reads of files, and the size limits of complete reads in all stores."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

from parquetry.confined_folder import open_regular
from parquetry.message import Value
from parquetry.runtime.errors import TooLargeError

MOST_BYTES: Final = 1 << 30
"""The size limit of a file that is read completely."""

MOST_RECORD_BYTES: Final = MOST_BYTES // 4
"""The size limit of an object that is read completely and parsed, which takes about ten times its bytes.

The largest such objects are commits, with about 1 KiB for each file that they wrote: the limit allows 250,000
files.
"""


def check_size(where: Value, size_bytes: int, *, most_bytes: int) -> None:
    """Raise TooLargeError if the object has more than ``most_bytes`` bytes."""
    if size_bytes > most_bytes:
        raise TooLargeError(
            "cannot read {uri}: it has {found_bytes:,} bytes or more, and at most {limit_bytes:,} are read; "
            "restore it from a copy",
            uri=where,
            found_bytes=size_bytes,
            limit_bytes=most_bytes,
        )


class _ReadBudget:
    """The number of bytes that this process may still read from stores, and the action when none are left."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._left: int | None = None
        self._refuse: Callable[[], object] = lambda: None

    def limit(self, most_bytes: int | None, refuse: Callable[[], object]) -> None:
        """Start to count, and call ``refuse`` after more than ``most_bytes`` bytes. None stops the count."""
        self._left, self._refuse = most_bytes, refuse

    def count(self, size_bytes: int) -> None:
        """Count bytes that were read, and call ``refuse`` if they exceed the limit."""
        with self._lock:
            if self._left is None:
                return
            self._left -= size_bytes
            if self._left >= 0:
                return
        self._refuse()


_READS: Final = _ReadBudget()
limit_reads = _READS.limit
count_read = _READS.count


def read_regular(path: Path, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file. Symbolic links are followed.

    Raises:
        OSError: EISDIR if the path is a folder, EFBIG if the file has more than ``most_bytes`` bytes, ENXIO
            if it is a pipe, socket or device.

    """
    file = open_regular(path, follows=True)
    try:
        return read_whole(file, most_bytes=most_bytes)
    finally:
        os.close(file)


def read_whole(file: int, *, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of an open file.

    Raises:
        OSError: EFBIG if the file has more than ``most_bytes`` bytes.

    """
    size_bytes = os.fstat(file).st_size
    if size_bytes > most_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return read_between(file, 0, size_bytes)


def read_between(file: int, start: int, stop: int) -> bytes:
    """Return bytes ``start`` to ``stop`` (exclusive) of an open file, or fewer if the file ends earlier."""
    parts = []
    while start < stop and (part := os.pread(file, stop - start, start)):
        count_read(len(part))
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
