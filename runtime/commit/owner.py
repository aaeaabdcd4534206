"""The owner of a write: a process on a machine, whose death other processes there can detect."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.codec import from_json_value

_LIVE_NONCES: set[str] = set()

_DEAD_STATES = frozenset("ZX")
_FIELDS_BEFORE_START = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One unit of work of one process.

    ``boot_id`` and ``pid_namespace`` show whether the pid is valid for the reader; they are empty on systems
    without /proc. ``process_start`` distinguishes a process from a later one with the same pid. ``nonce``
    distinguishes two units of work of one process.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    process_start: str
    nonce: str

    @classmethod
    def here(cls) -> Owner:
        """Return a new unit of work of this process, which counts as alive until :meth:`finish`."""
        host, boot_id, namespace = _machine()
        pid = os.getpid()
        owner = cls(
            host=host,
            boot_id=boot_id,
            pid_namespace=namespace,
            pid=pid,
            process_start=_process_start(pid) or "",
            nonce=uuid.uuid4().hex,
        )
        _LIVE_NONCES.add(owner.nonce)
        return owner

    def finish(self) -> None:
        """Mark the work as ended, successfully or not: this process will not continue it."""
        _LIVE_NONCES.discard(self.nonce)

    @property
    def has_ended(self) -> bool:
        """True if the process, or its unit of work, has certainly ended.

        False also means unknown: the process runs on another machine or boot, or it still exists.
        """
        if self.has_process_ended:
            return True
        here = (self.host, self.boot_id, self.pid_namespace) == _machine()
        return here and self.pid == os.getpid() and self.nonce not in _LIVE_NONCES

    @property
    def is_alive_here(self) -> bool:
        """True if the process runs on this machine, as far as this can be determined."""
        here = bool(self.boot_id) and (self.host, self.boot_id, self.pid_namespace) == _machine()
        return here and not self.has_process_ended

    @property
    def has_process_ended(self) -> bool:
        """True if the process has certainly ended. False also means unknown."""
        if not self.boot_id or (self.host, self.boot_id, self.pid_namespace) != _machine():
            return False
        started = _process_start(self.pid)
        return started != self.process_start and (started is not None or _sees_processes())

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def to_json(self) -> dict[str, Any]:
        """Return the owner as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Owner:
        """Return the owner that :meth:`to_json` wrote, or raise ValueError for any other document."""
        try:
            return from_json_value(cls, document, place="owner")
        except InvalidDataError as error:
            raise ValueError(error.in_full()) from error


@cache
def _machine() -> tuple[str, str, str]:
    """Return host name, boot id and pid namespace; the last two are empty without /proc."""
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot_id = namespace = ""
    return socket.gethostname(), boot_id, namespace


def _sees_processes() -> bool:
    """Return whether processes of other users are visible; ``hidepid`` hides even process 1."""
    return _process_start(1) is not None


def _process_start(pid: int) -> str | None:
    """Return the start of the process in clock ticks since boot, or None if no such process runs."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    values = status.rpartition(")")[2].split()
    return None if values[0] in _DEAD_STATES else values[_FIELDS_BEFORE_START]
