"""Messages for errors of the operating system, with the object, the reason and a remedy."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from parquetry.errors import ParquetryError, message_of
from parquetry.message import Message, Text, Value, in_full
from parquetry.runtime.errors import NotFoundError, StorageError
from parquetry.runtime.quoting import quoted_library_text

_LOG = logging.getLogger(__name__)

_REMEDIES = {
    errno.ENOSPC: "free space on the file system that holds it, or choose another location",
    errno.EDQUOT: "free space within the quota, or have it raised",
    errno.EROFS: "mount the file system read-write, or choose another location",
    errno.EACCES: "grant this user the permission, or run as a user who has it",
    errno.EPERM: "grant this user the permission; if lsattr shows it as immutable, run chattr -i on it",
    errno.ENOTDIR: "remove the file: a folder is needed in its place",
    errno.EISDIR: "remove the folder: a file is needed in its place",
    errno.ENAMETOOLONG: "shorten the location or the partition values",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit of open files",
    errno.ELOOP: "remove the loop of symbolic links",
    errno.ENOENT: "check the path",
    errno.ENXIO: "replace the pipe, socket or device there by a file",
    errno.EFBIG: "the file is too large for a file of a table; restore it from a copy",
    errno.EIO: "check the disk, then run again",
}
_DEFAULT_REMEDY = "check the storage, then run again"

WRITE_FAILURES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
"""Error numbers of a failed write to an open file."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)

LATE_FAILURES: Final = (ParquetryError, OSError)
"""Errors that may occur after a commit without invalidating it. Plug-in stores may raise any of them."""


@contextmanager
def logging_failures(where: str, what: str, *, shown: Callable[[Message], Text] = in_full) -> Iterator[None]:
    """Yield to a block of cleanup that follows a commit, and log its failure instead of raising it.

    The next clean or writer repeats the cleanup. The log contains the warning ``<where>: <what>: <reason>``.

    Args:
        where: The location, without personal values.
        what: The consequence of a failure, without personal values.
        shown: Masks personal values in the reason.

    """
    try:
        yield
    except LATE_FAILURES as error:
        _LOG.warning("%s: %s: %s", where, what, shown(message_of(error)))


def storage_error(operation: str, where: Value, error: OSError) -> StorageError:
    """Return a StorageError ``cannot <doing> <where>: <reason>; <remedy>``.

    A FileNotFoundError becomes a NotFoundError.
    """
    reason = (
        os.strerror(error.errno)
        if error.errno
        else quoted_library_text(str(error), kind=type(error).__name__)
    )
    remedy = _REMEDIES.get(error.errno or 0, _DEFAULT_REMEDY)
    kind = NotFoundError if isinstance(error, FileNotFoundError) else StorageError
    failure = kind(
        "cannot {operation} {uri}: {reason}; {remedy}",
        operation=operation,
        uri=where,
        reason=reason,
        remedy=remedy,
    )
    failure.__cause__ = error
    return failure


def is_full(error: BaseException | None) -> bool:
    """Return whether an error of the chain means that the disk or the quota is full.

    Some drivers report this only in the text of their error.
    """
    while error is not None:
        has_code = isinstance(error, OSError) and error.errno in _FULL
        if has_code or any(os.strerror(code) in str(error) for code in _FULL):
            return True
        error = error.__cause__
    return False
