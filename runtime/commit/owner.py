"""Who writes: a process on a machine, recognisable by others there after it has died."""

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
    """One piece of work of one process.

    ``boot_id`` and ``pid_namespace`` say whether a pid means anything to the reader (they are
    empty where the system has no /proc), ``process_start`` tells a process from a later one with
    its pid, ``nonce`` tells two pieces of work of one process apart.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    process_start: str
    nonce: str

    @classmethod
    def here(cls) -> Owner:
        """A new piece of work of this process; it counts as alive until :meth:`finish`."""
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
        """Declare the work over, done or not: this process will not go on with it."""
        _LIVE_NONCES.discard(self.nonce)

    @property
    def is_known_gone(self) -> bool:
        """Whether the process, or its work, is provably over as seen from here.

        False means unknown: another machine, another boot, or a process that is there.
        """
        if self.is_process_gone:
            return True
        here = (self.host, self.boot_id, self.pid_namespace) == _machine()
        return here and self.pid == os.getpid() and self.nonce not in _LIVE_NONCES

    @property
    def is_alive_here(self) -> bool:
        """Whether the process is there, as far as this machine can know."""
        here = bool(self.boot_id) and (self.host, self.boot_id, self.pid_namespace) == _machine()
        return here and not self.is_process_gone

    @property
    def is_process_gone(self) -> bool:
        """Whether the process is provably over as seen from here."""
        if not self.boot_id or (self.host, self.boot_id, self.pid_namespace) != _machine():
            return False
        started = _process_start(self.pid)
        return started != self.process_start and (started is not None or _sees_processes())

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Owner:
        """The owner that :meth:`to_json` wrote; ValueError for anything else."""
        try:
            return from_json_value(cls, document, place="owner")
        except InvalidDataError as error:
            raise ValueError(str(error)) from error


@cache
def _machine() -> tuple[str, str, str]:
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot_id = namespace = ""
    return socket.gethostname(), boot_id, namespace


def _sees_processes() -> bool:
    """Whether other users' processes are in sight, of which there is always one: ``hidepid`` hides them."""
    return _process_start(1) is not None


def _process_start(pid: int) -> str | None:
    """When the process started, in clock ticks since boot; None when there is no such process."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    values = status.rpartition(")")[2].split()
    return None if values[0] in _DEAD_STATES else values[_FIELDS_BEFORE_START]
