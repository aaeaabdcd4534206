"""Tests need no file to survive a power failure: `skip_fsync` lets `os.fsync` return at once.

Processes are killed in tests, machines are not: the kernel keeps what a killed process has written. A wait for the
disk takes milliseconds, and the suites would make some hundred thousand of them.
"""

from __future__ import annotations

import os


def skip_fsync() -> None:
    """Let `os.fsync` of this process, and of those that it forks, check the descriptor and do no more."""
    os.fsync = _checked


def _checked(fd: int) -> None:
    os.fstat(fd)
