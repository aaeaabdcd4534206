"""The budget of a command on untrusted files: seconds, memory, and bytes read from tables.

The command works in a child of this process, which waits for it: code that does not return to Python, or has
no memory left, could not end itself and report why.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from parquetry.cli.terminal.messages import requested_format, write_message
from parquetry.errors import UsageError
from parquetry.runtime.storage.regular_file import limit_reads

UNTRUSTED: Final = "PARQUETRY_UNTRUSTED"
"""The variable that marks the project as untrusted."""

VARIABLE: Final = "PARQUETRY_BUDGET"
"""The variable that changes the budget, such as ``seconds=900,memory=8GiB,read=64GiB``."""

_GRACE_SECONDS: Final = 60
_POLL_SECONDS: Final = 0.05
_MOST_SECONDS: Final = 10**6
_REFUSED: Final = 1
_FORWARDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandBudget:
    """The limits of a command: seconds, bytes of memory at any time, and bytes read from tables."""

    seconds: float = 600.0
    memory: int = 4 << 30
    read: int = 16 << 30

    @classmethod
    def of(cls, text: str) -> CommandBudget:
        """Parse the text of the variable and return the budget.

        Raises:
            UsageError: The text has another form.

        """
        from parquetry.project.validation.units import size_bytes

        kinds: Mapping[str, Callable[[str], Any]] = {
            "seconds": _seconds,
            "memory": size_bytes,
            "read": size_bytes,
        }
        given = [part.strip().partition("=") for part in text.split(",") if part.strip()]
        try:
            return cls(**{name: kinds[name](value) for name, _, value in given})
        except (KeyError, ValueError) as error:
            raise UsageError(
                "{variable} is {text!r}; write seconds=NUMBER, memory=SIZE and read=SIZE, or some of "
                "them, with commas between, such as seconds=900,memory=8GiB",
                variable=VARIABLE,
                text=text,
            ) from error


def has_budget(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether the command line or the environment marks the project as untrusted."""
    value = environment.get(UNTRUSTED, "")
    return "--untrusted" in arguments or (value != "" and click.BOOL.str_to_bool(value) is not False)


def fork_within_budget(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Fork, and return in the child, where the command is to work; this process ends as the child does.

    If the child exceeds the budget, it is killed, and this process reports the reason and exits with 1.

    Args:
        arguments: The command line, for the format of messages.
        environment: The environment variables, with the budget.

    Raises:
        UsageError: The variable is not a budget.

    """
    budget = CommandBudget.of(environment.get(VARIABLE, ""))
    log_format = requested_format(arguments)

    def refuse(what: str) -> NoReturn:
        write_message(
            f"the command {what}, the limit for an untrusted project; check its files, or raise the limit in "
            f"{VARIABLE}",
            log_format=log_format,
            level="error",
            exit_code=_REFUSED,
        )
        sys.stderr.flush()
        os._exit(_REFUSED)

    ended, held = os.pipe()
    # Block signals until they can be forwarded: otherwise one would end this process alone.
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    child = os.fork()
    # The child gets its own process group, so that programs it starts, such as git, end with it.
    with suppress(ProcessLookupError):
        os.setpgid(child, child)
    if not child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        os.close(ended)
        # If the waiting process is killed, only the alarm ends this one.
        signal.alarm(int(budget.seconds) + _GRACE_SECONDS)
        # The end of this process closes `held`, as no program that it starts inherits it.
        limit_reads(budget.read, lambda: refuse(f"read more than {budget.read:,} bytes of tables"))
        return
    os.close(held)

    def stop(number: int, _: object = None) -> None:
        with suppress(ProcessLookupError):
            os.killpg(child, number)

    for number in _FORWARDED:
        signal.signal(number, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    deadline = time.monotonic() + budget.seconds
    while not select.select([ended], [], [], _POLL_SECONDS)[0]:
        spent = None
        if time.monotonic() > deadline:
            spent = f"took more than {budget.seconds:g} seconds"
        elif _peak_bytes(child) > budget.memory:
            spent = f"took more than {budget.memory:,} bytes of memory"
        if spent is not None:
            stop(signal.SIGKILL)
            os.waitpid(child, 0)
            refuse(spent)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    stop(signal.SIGKILL)
    os._exit(code if code >= 0 else 128 - code)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < _MOST_SECONDS:
        raise ValueError(text)
    return seconds


def _peak_bytes(process: int) -> int:
    """Return the peak memory of a process in bytes, or 0 if the system does not report it."""
    try:
        lines = Path(f"/proc/{process}/status").read_bytes().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"VmHWM:")), 0)
