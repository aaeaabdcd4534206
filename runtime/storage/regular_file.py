"""Reading files whole or in part, and how large what is read whole may be, in any store."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

from parquetry.confined_folder import open_regular
from parquetry.message import Message, Value
from parquetry.runtime.errors import TooLargeError

MOST_BYTES: Final = 1 << 30
"""Of an object that is read whole."""

MOST_RECORD_BYTES: Final = MOST_BYTES // 4
"""Of an object that is read whole and parsed, which takes some ten times its bytes.

The largest are commits, with about 1 KiB for each file that they wrote: these are 250,000 files.
"""


def check_size(where: Value, size_bytes: int, *, most_bytes: int) -> None:
    """Raise TooLargeError for an object of more bytes than are read."""
    if size_bytes > most_bytes:
        what = f"it has {size_bytes:,} bytes or more, and at most {most_bytes:,} are read"
        raise TooLargeError(Message("cannot read ", where, f": {what}; restore it from a copy"))


class _Reads:
    """What this process has read of stores, and what is done when that is too much."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._left: int | None = None
        self._refuse: Callable[[], object] = lambda: None

    def limit(self, most_bytes: int | None, refuse: Callable[[], object]) -> None:
        """Count from now on, and call ``refuse`` once more bytes were read; None counts no longer."""
        self._left, self._refuse = most_bytes, refuse

    def count(self, size_bytes: int) -> None:
        """Count so many bytes."""
        with self._lock:
            if self._left is None:
                return
            self._left -= size_bytes
            if self._left >= 0:
                return
        self._refuse()


_READS: Final = _Reads()
limit_reads = _READS.limit
count_read = _READS.count


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
        count_read(len(part))
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
