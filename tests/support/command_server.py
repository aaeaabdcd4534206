"""Runs the command line in forked processes: each has its own environment, folder and end, but no imports to wait for.

A process of the installed script spends most of its time on imports. This process imports once, then forks for each
command. `tests.support.command_script` starts it, and sends one datagram per command.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, NoReturn

import parquetry
from parquetry.cli.main import entry
from tests.support.no_fsync import skip_fsync

LAZY = (
    "fastavro",
    "jinja2",
    "jsonschema",
    "pyarrow.compute",
    "pyarrow.fs",
    "pyarrow.parquet",
    "rfc3339_validator",
    "s3fs",
)
"""Packages that the product imports inside functions."""


def _import_all() -> None:
    for name in LAZY:
        # A path of the environment may hide packages: commands that need one say so.
        with suppress(ImportError):
            importlib.import_module(name)
    for name in _without_spark(parquetry):
        importlib.import_module(name)


def _without_spark(package: ModuleType) -> Iterator[str]:
    """The modules that need neither Spark nor an optional package; commands import the others themselves."""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if found.name.rsplit(".", 1)[-1] in ("__main__", "spark"):
            continue
        yield found.name
        if found.ispkg:
            yield from _without_spark(importlib.import_module(found.name))


def _serve(requests: socket.socket) -> Mapping[str, Any] | None:
    """Fork for each request; the request in the process that runs it, None when there are no more."""
    while True:
        message, handles, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        _reap()
        if not message:
            return None
        if os.fork():
            for handle in handles:
                os.close(handle)
            continue
        requests.close()
        *streams, answer = handles
        if command := os.fork():
            _watch(command, streams, answer)
        os.close(answer)
        for number, handle in enumerate(streams):
            os.dup2(handle, number)
            os.close(handle)
        return json.loads(message)  # type: ignore[no-any-return]


def _watch(command: int, streams: Sequence[int], answer: int) -> None:
    for handle in streams:
        os.close(handle)
    os.write(answer, f"{command}\n".encode())
    _, status = os.waitpid(command, 0)
    os.write(answer, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _reap() -> None:
    """Take the CPU time of watchers that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _become(request: Mapping[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = request["arguments"]
    sys.path[0] = os.path.dirname(sys.argv[0])


def main() -> None:
    """Serve on standard input until its other end is closed."""
    requests = socket.socket(fileno=os.dup(0))
    _import_all()
    skip_fsync()
    gc.freeze()
    request = _serve(requests)
    if request is not None:
        _become(request)
        _end_with(_exit_code())


def _exit_code() -> int:
    try:
        entry()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _end_with(code: int) -> NoReturn:
    """End as the interpreter does, but leave the modules' memory to the kernel."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
