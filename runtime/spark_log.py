"""Where the words of Spark, its JVM and its workers go: into a file of the run, not onto the terminal.

They lose secrets on their way there. Where rows hold personal data, messages are left out as a whole, as
Spark quotes rows in many of them: what stays is what :func:`without_messages` knows to be none.
"""

from __future__ import annotations

import builtins
import functools
import os
import re
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parquetry.confined_folder import ConfinedFolder
from parquetry.runtime.quoting import CONDITION
from parquetry.runtime.redaction import without_secrets
from parquetry.secret_names import MASK

NAME = "spark.log"

_kept: list[Path] = []
_pipes: list[LogPipe] = []
_STDERR: Final = 2
_PATIENCE_SECONDS: Final = 2.0
_PIECE_BYTES: Final = 1 << 16
_LONGEST_LINE_BYTES: Final = 1 << 20
_OF_JAVA: Final = (
    r"(?:org\.apache|org\.sparkproject|javax?|jdk|sun|com\.sun|scala|py4j|io\.netty|com\.univocity|com\.fasterxml"
    r"|org\.codehaus|org\.xerial|shaded\.parquet|net\.razorvine)\.[\w.$<>]{1,300}"
)
_BUILT_IN: Final = "|".join(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
)
_OF_PYTHON: Final = rf"(?:py4j|pyspark|pyarrow|parquetry|pandas|numpy)(?:\.\w+)*\.[A-Z]\w{{1,60}}|{_BUILT_IN}"
_FRAME: Final = re.compile(
    rf"\s+at (?:[\w.]+(?:@[\w.]+)?/{{1,2}})?{_OF_JAVA}"
    r"\((?:[\w$]+\.(?:java|scala)(?::\d+)?|Native Method|Unknown Source|<generated>)\)"
)
_MORE: Final = re.compile(r"\s*\.\.\. \d+ (?:more|elided)")
_OF_TRACE: Final = re.compile(
    r'\s*(?:Traceback \(most recent call last\):|File "[^"\n]+\.py", line \d+, in [\w<>]+)'
)
_LOGGED: Final = re.compile(
    r"\d{2,4}[/-]\d\d[/-]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)? (?:FATAL|ERROR|WARN|INFO|DEBUG) [\w.$]+:"
)
_RAISED: Final = re.compile(
    rf"\s*(?:Caused by: |Suppressed: |Exception in thread \"[\w -]+\" )?(?:{_OF_JAVA}|{_OF_PYTHON})(?=: |:?$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRules:
    """What may be written of what Spark says: no ``secrets``, and no messages where rows are ``personal``."""

    secrets: frozenset[str] = frozenset()
    personal: bool = False

    def __or__(self, other: LogRules) -> LogRules:
        return LogRules(secrets=self.secrets | other.secrets, personal=self.personal or other.personal)

    def shown(self, text: str) -> str:
        """The line, or lines, as they may be written; empty where nothing of them may."""
        if self.personal:
            text = without_messages(text)
        return without_secrets(text, values=self.secrets)


ANYTHING: Final = LogRules()


def without_messages(text: str) -> str:
    """Of lines of a log their time, level and logger, the classes and conditions of errors, and their stack.

    Everything else may be a row, or a part of one, and is left out.
    """
    found = (_without_message(line) for line in text.splitlines())
    return "".join(f"{line}\n" for line in found if line)


def _without_message(line: str) -> str:
    if _FRAME.fullmatch(line) or _MORE.fullmatch(line):
        return line
    if of_trace := _OF_TRACE.match(line):
        return of_trace[0]
    if logged := _LOGGED.match(line):
        return f"{logged[0]} {MASK}"
    if raised := _RAISED.match(line):
        condition = CONDITION.match(line, raised.end() + len(": "))
        return f"{raised[0]}: {condition[0]} {MASK}" if condition else f"{raised[0]}: {MASK}"
    return ""


class LogPipe:
    """A pipe whose text goes on into an open file, or to stderr, by the rules that are then in force."""

    def __init__(self, descriptor: int, rules: LogRules) -> None:
        self.rules = rules
        self._into = descriptor
        self._from, self.end = os.pipe()
        self._busy = threading.Lock()
        self._ended = False
        self.thread = threading.Thread(target=self._pump, name="log of Spark", daemon=True)
        self.thread.start()

    def close_end(self) -> None:
        """Close the end that the processes write to, which have it now."""
        os.close(self.end)

    def write(self, text: str, *, prefix: str = "") -> None:
        """Put what came another way into the file, each line behind the prefix."""
        self.drain()
        with self._busy:
            self._show(text, prefix)

    def drain(self) -> None:
        """Wait a moment for what was written to the pipe to be in the file."""
        until = time.monotonic() + _PATIENCE_SECONDS
        waiting = _waiting(self._from)
        while time.monotonic() < until:
            with self._busy:
                if self._ended or not waiting.poll(0):
                    return
            time.sleep(0.01)

    def _pump(self) -> None:
        rest = b""
        waiting = _waiting(self._from)
        while not self._ended:
            waiting.poll()
            with self._busy:
                piece = os.read(self._from, _PIECE_BYTES)
                self._ended = not piece
                lines, newline, rest = (rest + piece).rpartition(b"\n")
                if self._ended or len(rest) > _LONGEST_LINE_BYTES:
                    lines, newline, rest = lines + newline + rest, b"", b""
                self._show((lines + newline).decode(errors="backslashreplace"))
        self._close()

    def _close(self) -> None:
        with self._busy:
            os.close(self._from)
            if self._into != _STDERR:
                os.close(self._into)
            self._into = _STDERR
        with suppress(ValueError):
            _pipes.remove(self)

    def _show(self, text: str, prefix: str = "") -> None:
        if shown := self.rules.shown(text):
            # Where the disk refuses, Spark goes on all the same.
            with suppress(OSError):
                os.write(self._into, f"{prefix}{shown}".encode())


def _waiting(descriptor: int) -> select.poll:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return waiting


@contextmanager
def piped(log: Path | None, rules: LogRules) -> Iterator[LogPipe]:
    """A pipe into the file, else to stderr, for a process that is started within the block."""
    how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    descriptor = _STDERR if log is None else os.open(log, how, 0o600)
    pipe = LogPipe(descriptor, rules)
    _pipes.append(pipe)
    try:
        yield pipe
    finally:
        pipe.close_end()


def obey(rules: LogRules) -> None:
    """Have the rules hold, too, for whatever processes say from now on whose words go through a pipe."""
    for pipe in tuple(_pipes):
        pipe.rules |= rules


def in_force() -> LogRules:
    """The rules of all that is being written in this process."""
    return functools.reduce(LogRules.__or__, (pipe.rules for pipe in tuple(_pipes)), ANYTHING)


def keep_log(file: Path, *, root: Path) -> Path | None:
    """The file, made with its folder below ``root``, for whatever Spark says in this process from now on.

    None where the disk refuses: Spark then talks on stderr. LinkInTheWayError where a link leads elsewhere.
    """
    with suppress(OSError):
        os.close(ConfinedFolder(root).append(file, private=True))
        _kept[:] = [file]
        return file
    return None


def forget_log() -> None:
    """Name that file no more: another command of this process begins."""
    _kept.clear()


def kept_log() -> Path | None:
    """The newest such file, None where there is none or nothing is in it."""
    for pipe in tuple(_pipes):
        pipe.drain()
    with suppress(OSError):
        for file in _kept:
            if file.stat().st_size:
                return file
    return None


def see_log() -> str:
    """The end of a message: where Spark's own words are."""
    file = kept_log()
    return "its own words above say why" if file is None else f"{file} has its own words"
