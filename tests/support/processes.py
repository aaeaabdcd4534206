"""Processes that belong together, and how they end."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """For ``preexec_fn``: the process is killed when the one that starts it ends, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_session(leader: int) -> None:
    """End every process of the leader's session at once, the leader first and this one last of those there are.

    A leader that ended is passed over: its number may by now be that of a thread, and a signal to a
    thread ends the process it belongs to.
    """
    members = in_session(leader)
    for pid in sorted(members, key=lambda pid: pid != leader):
        if pid == os.getpid():
            continue
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if os.getpid() in members:
        os.kill(os.getpid(), signal.SIGKILL)


def in_session(leader: int) -> list[int]:
    """The processes of the leader's session that still run."""
    return [pid for pid in _processes() if _session(pid) == leader]


def sleeps(pid: int) -> bool:
    """Whether the first thread of a process waits for something, input for example."""
    return _status(pid)[:1] == ["S"]


def parent(pid: int) -> int:
    """The process that started ``pid``."""
    return int(_status(pid)[1])


def descendants(of: int | None = None) -> list[int]:
    """Every process that ``of``, or else this one, has started, or one of these."""
    children: dict[int, list[int]] = {}
    for pid in _processes():
        if status := _status(pid):
            children.setdefault(int(status[1]), []).append(pid)
    found = list(children.get(os.getpid() if of is None else of, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def kill_with_descendants(pid: int) -> None:
    """End a process and all that it has started at once, it first and this one last of those there are."""
    below = descendants(pid)
    for each in sorted((pid, *below), key=lambda one: (one == os.getpid(), one != pid)):
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            continue


def running(*words: str) -> list[int]:
    """The processes whose command lines have all these words."""
    return [pid for pid in _processes() if all(word in _command_line(pid) for word in words)]


def compute_in_java(started: int, *, seconds: float = 2.0) -> int:
    """Wait until tasks in the Spark of a process have taken so much CPU time; the pid of its Java."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        for pid in _children(started):
            if sum(_cpu_seconds(thread) for thread in _task_threads(pid)) >= seconds:
                return pid
        time.sleep(0.1)
    raise AssertionError(f"no task computes below process {started}")


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _task_threads(pid: int) -> Iterator[Path]:
    """The threads of a Java in which Spark runs tasks; the kernel keeps 15 letters of a name."""
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            name = (thread / "comm").read_text()
        except OSError:
            continue
        if name.startswith("Executor task l"):
            yield thread


def _cpu_seconds(thread: Path) -> float:
    try:
        after_name = (thread / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def peak_of(pid: int, *, command: str) -> float | None:
    """The largest resident set of a process so far, in MiB; None unless its command is called so."""
    try:
        called = Path(f"/proc/{pid}/comm").read_text()
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    peaks = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")]
    return peaks[0] if command in called and peaks else None


def _processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _session(pid: int) -> int | None:
    status = _status(pid)
    return int(status[3]) if status and status[0] not in "ZX" else None


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _status(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
