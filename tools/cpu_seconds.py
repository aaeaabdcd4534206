"""Run a command, then write to a file how many CPU seconds it and all that it started have taken.

``python -m tools.cpu_seconds FILE COMMAND...``. A child that nobody waits for, such as Spark's JVM, becomes a child of
this process (Linux: prctl(2), PR_SET_CHILD_SUBREAPER), which counts it when it ends. On other systems it is not counted.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_SECONDS = 30


def main() -> int:
    """Run the command and return its exit code."""
    file, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = os.spawnvp(os.P_NOWAIT, command[0], command)
    code = _ended(child)
    _wait_for_others()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(file).write_text(f"{used.ru_utime + used.ru_stime:.1f}\n", encoding="utf-8")
    return code


def _ended(child: int) -> int:
    """Return the exit code of the child; other processes that end before it are counted on the way."""
    while True:
        process, status = os.wait()
        if process == child:
            return abs(os.waitstatus_to_exitcode(status))


def _wait_for_others() -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            process, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if process == 0:
            time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
