"""The output of Spark, its JVM and its workers, which goes to a file of the run, not to the terminal.

Secrets are removed from it. If rows contain personal data, complete messages are removed, as Spark quotes
rows in many of them: only the parts that :func:`without_messages` recognises as safe are kept.
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
from parquetry.text.secret_names import MASK

NAME = "spark.log"

_log_files: list[Path] = []
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
    """The rules for the output of Spark: ``secrets`` to remove, and whether rows are ``personal``.

    If they are, messages are removed.
    """

    secrets: frozenset[str] = frozenset()
    personal: bool = False

    def __or__(self, other: LogRules) -> LogRules:
        return LogRules(secrets=self.secrets | other.secrets, personal=self.personal or other.personal)

    def shown(self, text: str) -> str:
        """Return the line, or lines, as they may be written. The result may be empty."""
        if self.personal:
            text = without_messages(text)
        return without_secrets(text, values=self.secrets)


NO_RULES: Final = LogRules()


def without_messages(text: str) -> str:
    """Return the lines of a log with only the parts that cannot be data.

    These are the time, level and logger, the classes and conditions of errors, and the stack. All other text
    may be a row or a part of one.
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
    """A pipe whose text is copied to an open file, or to stderr, under the current rules."""

    def __init__(self, descriptor: int, rules: LogRules) -> None:
        self.rules = rules
        self._into = descriptor
        self._from, self.end = os.pipe()
        self._busy = threading.Lock()
        self._ended = False
        self.thread = threading.Thread(target=self._pump, name="log of Spark", daemon=True)
        self.thread.start()

    def close_end(self) -> None:
        """Close the writing end in this process. The processes that write to it have their own copy."""
        os.close(self.end)

    def write(self, text: str, *, prefix: str = "") -> None:
        """Write a text from another origin to the file, with a prefix before it."""
        self.drain()
        with self._busy:
            self._write_shown(text, prefix)

    def drain(self) -> None:
        """Wait a moment until the file contains the text that was written to the pipe."""
        until = time.monotonic() + _PATIENCE_SECONDS
        readable = _readable_poll(self._from)
        while time.monotonic() < until:
            with self._busy:
                if self._ended or not readable.poll(0):
                    return
            time.sleep(0.01)

    def _pump(self) -> None:
        rest = b""
        readable = _readable_poll(self._from)
        while not self._ended:
            readable.poll()
            with self._busy:
                piece = os.read(self._from, _PIECE_BYTES)
                self._ended = not piece
                lines, newline, rest = (rest + piece).rpartition(b"\n")
                if self._ended or len(rest) > _LONGEST_LINE_BYTES:
                    lines, newline, rest = lines + newline + rest, b"", b""
                self._write_shown((lines + newline).decode(errors="backslashreplace"))
        self._close()

    def _close(self) -> None:
        with self._busy:
            os.close(self._from)
            if self._into != _STDERR:
                os.close(self._into)
            self._into = _STDERR
        with suppress(ValueError):
            _pipes.remove(self)

    def _write_shown(self, text: str, prefix: str = "") -> None:
        if shown := self.rules.shown(text):
            # If the disk is full, Spark must continue.
            with suppress(OSError):
                os.write(self._into, f"{prefix}{shown}".encode())


def _readable_poll(descriptor: int) -> select.poll:
    readable = select.poll()
    readable.register(descriptor, select.POLLIN)
    return readable


@contextmanager
def log_pipe(log: Path | None, rules: LogRules) -> Iterator[LogPipe]:
    """Yield a pipe into the file, or to stderr, for a process that is started within the block."""
    how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    descriptor = _STDERR if log is None else os.open(log, how, 0o600)
    pipe = LogPipe(descriptor, rules)
    _pipes.append(pipe)
    try:
        yield pipe
    finally:
        pipe.close_end()


def add_rules(rules: LogRules) -> None:
    """Add the rules to all pipes of this process, for all later output."""
    for pipe in tuple(_pipes):
        pipe.rules |= rules


def current_rules() -> LogRules:
    """Return the combined rules of all pipes of this process."""
    return functools.reduce(LogRules.__or__, (pipe.rules for pipe in tuple(_pipes)), NO_RULES)


def open_log(file: Path, *, root: Path) -> Path | None:
    """Create the file, with its folder below ``root``, for Spark's later output in this process.

    Returns:
        The file, or None if it cannot be created. The output of Spark then goes to stderr.

    Raises:
        LinkInTheWayError: If the path contains a symbolic link.

    """
    with suppress(OSError):
        os.close(ConfinedFolder(root).append(file, private=True))
        _log_files[:] = [file]
        return file
    return None


def close_log() -> None:
    """Forget the log file, because another command of this process starts."""
    _log_files.clear()


def current_log() -> Path | None:
    """Return the log file, or None if there is none or it is empty."""
    for pipe in tuple(_pipes):
        pipe.drain()
    with suppress(OSError):
        for file in _log_files:
            if file.stat().st_size:
                return file
    return None


def log_hint() -> str:
    """Return the end of a message: the place of Spark's own output."""
    file = current_log()
    return "see its output above" if file is None else f"see its output in {file}"
