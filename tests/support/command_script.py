"""The installed `parquetry` script as a process."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from tests.support.repository import ROOT

SCRIPT = Path(sys.executable).parent / "parquetry"
AT_THE_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_", "ARROW_")
"""Variables that a process obeys when it starts or imports."""

_BY_THEMSELVES = 2
_with_path: Counter[str] = Counter()


def environment(**changes) -> dict[str, str]:
    """This process's environment without the script's own variables; a None takes one away."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PARQUETRY_")}
    merged = kept | {"PYSPARK_PYTHON": sys.executable} | changes
    return {name: value for name, value in merged.items() if value is not None}


def parquetry(*arguments, cwd=None, **changes) -> subprocess.CompletedProcess[str]:
    """Run the script in a process of its own; ``changes`` are variables of its environment.

    The process is forked from one that has imported the script's modules, unless a variable asks for another start.
    Of commands with the same `PYTHONPATH` of their own, all after the second are forked from one that has it too.
    """
    command = [str(SCRIPT), *map(str, arguments)]
    wanted = environment(**changes)
    if _starts_alike(wanted):
        return _forked(_server(), command, cwd, wanted)
    path = wanted.get("PYTHONPATH")
    if path is not None and _starts_alike({**wanted, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}):
        _with_path[path] += 1
        if _with_path[path] > _BY_THEMSELVES:
            return _forked(_server(path), command, cwd, wanted)
    return subprocess.run(
        command, cwd=cwd, env=wanted, capture_output=True, text=True, check=False, timeout=600
    )


def _starts_alike(wanted: Mapping[str, str]) -> bool:
    return _at_the_start(wanted) == _at_the_start(os.environ)


def _at_the_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if value and name.startswith(AT_THE_START)}


def _forked(
    server: socket.socket, command: list[str], cwd: os.PathLike[str] | None, wanted: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    request = {"arguments": command, "environment": wanted, "folder": str(cwd or os.getcwd())}
    answer, theirs = socket.socketpair()
    with answer, theirs, TemporaryFile() as out, TemporaryFile() as err, open(os.devnull) as nothing:
        handles = [nothing.fileno(), out.fileno(), err.fileno(), theirs.fileno()]
        socket.send_fds(server, [json.dumps(request).encode()], handles)
        theirs.close()
        answer.settimeout(600)
        with answer.makefile() as lines:
            pid = int(lines.readline())
            try:
                code = int(lines.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(command, code, _text(out), _text(err))


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode().replace("\r\n", "\n")


@functools.cache
def _server(path: str | None = None) -> socket.socket:
    """Where `tests.support.command_server`, with this `PYTHONPATH`, takes requests; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.command_server"],
            cwd=ROOT,
            stdin=theirs,
            env=environment() if path is None else environment(PYTHONPATH=path),
        )
    return ours
