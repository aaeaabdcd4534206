"""The installed `parquetry` script as a process."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import IO, NoReturn

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


_PROGRAM = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
    asked.connect({address!r})
    request = {{"arguments": sys.argv, "environment": dict(os.environ), "folder": os.getcwd()}}
    socket.send_fds(asked, [json.dumps(request).encode()], [0, 1, 2])
    code = int(asked.makefile().read().split()[1])
os._exit(code) if code >= 0 else os.kill(os.getpid(), -code)
"""


@functools.cache
def folder_of_forked_script() -> Path:
    """Return a folder for the `PATH` of shells, whose `parquetry` runs in a process forked from one with its modules."""
    folder = Path(mkdtemp(prefix="forked-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(folder / "requests"))
    listening.listen()
    script = folder / "parquetry"
    script.write_text(_PROGRAM.format(python=sys.executable, address=str(folder / "requests")))
    script.chmod(0o755)
    threading.Thread(target=_pass_on, args=(listening,), daemon=True).start()
    return folder


def _pass_on(listening: socket.socket) -> NoReturn:
    """Hand each request to the server, which answers on the connection."""
    while True:
        connection, _ = listening.accept()
        with connection:
            message, handles, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            socket.send_fds(_server(), [message], [*handles, connection.fileno()])
            for handle in handles:
                os.close(handle)


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
