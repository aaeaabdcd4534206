"""Reading files that somebody else may have put there: no pipe, device or socket, which may never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 1 << 30
"""Of a file that is read whole."""


def read_regular(path: Path, *, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a regular file of at most ``most_bytes``, links followed.

    OSError otherwise: EISDIR for a folder, EFBIG for a larger file, ENXIO for the rest.
    """
    # Without O_NONBLOCK, opening a pipe waits until somebody writes.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        status = os.fstat(file.fileno())
        check_regular(status, path)
        if status.st_size > most_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.read()


def check_regular(status: os.stat_result, path: Path) -> None:
    """OSError where the status is not that of a regular file: EISDIR for a folder, else ENXIO."""
    if not stat.S_ISREG(status.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.ENXIO
        raise OSError(code, os.strerror(code), str(path))
