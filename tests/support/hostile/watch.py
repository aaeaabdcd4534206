"""What this process does to the machine, as Python's audit events tell it. Cannot be taken off again."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PROGRAMS = frozenset({"git", "java"})
_STARTS = frozenset(
    {
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "pty.spawn",
        "os.fork",
        "os.forkpty",
    }
)
_CONNECTS = frozenset({"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"})
_LOOKS_UP = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})
_CHANGES = frozenset(
    {
        "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate",
        "os.utime", "os.setxattr", "os.mkfifo", "os.mknod",
    }
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass
class Watch:
    """While it is on, whatever is not allowed is noted, and a connection refused."""

    is_on: bool = False
    may_write: tuple[str, ...] = ()
    hosts: Collection[str] = ()
    seen: list[str] = field(default_factory=list)

    def install(self) -> None:
        sys.addaudithook(self._hear)

    @contextmanager
    def over(self, *, may_write: Collection[Path], hosts: Collection[str]) -> Iterator[list[str]]:
        """Watch the block; yields the list of what it did that it may not."""
        self.seen = []
        self.may_write = tuple(os.path.realpath(path) for path in may_write)
        self.hosts = hosts
        self.is_on = True
        try:
            yield self.seen
        finally:
            self.is_on = False

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event == "open":
            self._opened(*arguments)
        elif event == "subprocess.Popen":
            if os.path.basename(os.fsdecode(arguments[0] or arguments[1][0])) not in _PROGRAMS:
                self.seen.append(f"started {arguments[0]} {arguments[1]!r}")
        elif event in _STARTS:
            self.seen.append(f"{event} {arguments!r:.200}")
        elif event in _CONNECTS:
            self._connects(event, arguments[1])
        elif event in _LOOKS_UP:
            self._connects(event, arguments)
        elif event in _CHANGES:
            self._changed(event, arguments)

    def _opened(self, path: Any, mode: str | None, flags: int) -> None:
        if not isinstance(path, (str, bytes)) or not flags & _WRITING:
            return
        self._changed("open" if mode else "os.open", (path,))

    def _changed(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The last path counts: of a link or a new name, the name that is made."""
        paths = [os.fsdecode(a) for a in arguments[:2] if isinstance(a, (str, bytes, os.PathLike))]
        if not paths or paths[-1] == os.devnull:
            return
        numbers = [a for a in arguments if isinstance(a, int) and not isinstance(a, bool)]
        within = event == "os.open" or (numbers and numbers[-1] >= 0)
        if within and not os.path.isabs(paths[-1]):
            return  # below a folder that was opened: the snapshot tells
        made = self.is_on
        self.is_on = False
        with suppress(OSError):
            path = os.path.abspath(paths[-1])
            place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            is_there = event == "os.mkdir" and os.path.isdir(place)
            if not is_there and not any(
                place == top or place.startswith(f"{top}/") for top in self.may_write
            ):
                self.seen.append(f"{event} {place}")
        self.is_on = made

    def _connects(self, event: str, address: Any) -> None:
        if isinstance(address, (str, bytes)):
            self.seen.append(f"{event} {address!r}")  # a socket of this machine
            return
        if event == "socket.bind" and address[1] == 0:
            return  # urllib3 asks whether there is IPv6
        host = os.fsdecode(address[0]) if isinstance(address[0], (str, bytes)) else address[0]
        if host not in self.hosts:
            self.seen.append(f"{event} {address!r:.200}")
        raise ConnectionRefusedError(111, "refused by the test", str(host))
