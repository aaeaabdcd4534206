"""Operating-system errors in words: which object, which reason, which remedy."""

from __future__ import annotations

import errno
import os

from parquetry.runtime.errors import NotFoundError, StorageError

_REMEDIES = {
    errno.ENOSPC: "free space on the file system that holds it, or choose another location",
    errno.EDQUOT: "free space within the quota, or have it raised",
    errno.EROFS: "mount the file system read-write, or choose another location",
    errno.EACCES: "grant this user the permission, or run as a user who has it",
    errno.EPERM: "grant this user the permission, or run as a user who has it",
    errno.ENOTDIR: "remove the file that stands where a folder is needed",
    errno.EISDIR: "remove the folder that stands where a file is needed",
    errno.ENAMETOOLONG: "shorten the location or the partition values",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit of open files",
    errno.ELOOP: "remove the circle of symbolic links",
    errno.ENOENT: "check the path",
    errno.EIO: "check the disk, then run again",
}
_DEFAULT_REMEDY = "check the storage, then run again"

WRITE_FAILURES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG})
"""Reasons with which writing into an open file fails."""


def storage_error(doing: str, where: object, error: OSError) -> StorageError:
    """``cannot <doing> <where>: <reason>; <remedy>``; NotFoundError when there is no object."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno is None and str(error) == "":
        reason = type(error).__name__
    remedy = _REMEDIES.get(error.errno or 0, _DEFAULT_REMEDY)
    kind = NotFoundError if isinstance(error, FileNotFoundError) else StorageError
    return kind(f"cannot {doing} {where}: {reason}; {remedy}")
