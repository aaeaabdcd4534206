"""The exit code of a command, and the message on stderr, for each way in which it can end."""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from parquetry.cli.terminal.messages import requested_format, write_message
from parquetry.cli.terminal.styles import printable
from parquetry.errors import ParquetryError
from parquetry.message import Message, in_full
from parquetry.runtime.spark_log import close_log, current_log

_REMEDIES = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.EROFS: "make it writable, or work in a writable copy",
    errno.EACCES: "get access to it, or work in a copy",
    errno.EPERM: "get access to it, or work in a copy",
    errno.ENAMETOOLONG: "shorten the name, the location or the path",
}

DIAGNOSED = 1
INTERRUPTED = 130


class _Printable(logging.Formatter):
    """A formatter for warnings on stderr that escapes texts of libraries and tables."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def run_guarded(body: Callable[[], Any], *, arguments: Sequence[str] | None = None) -> int:
    """Run ``body`` and return the exit code.

    Args:
        body: The command. If it returns an int, that is the exit code.
        arguments: The command line, for the format of messages; None for that of the process.

    """
    close_log()
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Printable())
    log_format = requested_format(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdin", "stdout", "stderr"):
        # The parent process closed the stream, as `>&-` and some schedulers do.
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123  # the process's own
    try:
        code = body()
        sys.stdout.flush()
    except (click.exceptions.Exit, click.ClickException, click.Abort, KeyboardInterrupt) as stop:
        return _stopped(stop, log_format)
    except ParquetryError as failure:
        return _failed(failure, log_format)
    except BrokenPipeError:
        # The reader of the output has ended (`| head`). Keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DIAGNOSED
    except Exception as failure:  # noqa: BLE001  # the boundary: everything else is a bug of ours
        error = diagnosed(failure)
        return _fail(error.in_full(), error.exit_code, log_format)
    return code if isinstance(code, int) else 0


def diagnosed(failure: Exception) -> ParquetryError:
    """Return the error to report for an unexpected exception; if it is a bug, a report of it is written."""
    from parquetry.cli.bug_report import report_bug
    from parquetry.compiler.errors import UnexpectedError
    from parquetry.runtime.main import spark_ended

    if isinstance(failure, OSError) and failure.errno in _REMEDIES:
        return ParquetryError(_disk_message(failure))
    if (ended := spark_ended()) is not None:
        return ended
    if isinstance(failure, FileNotFoundError) and _is_directory_removed():
        return ParquetryError("the current directory was removed; change to one that exists")
    return UnexpectedError(report_bug(failure))


def _is_directory_removed() -> bool:
    """Return whether the current directory was removed."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _disk_message(error: OSError) -> Message:
    """Return the message for an error that no program can prevent, such as a full or read-only disk."""
    place = "the result" if error.filename is None else os.fspath(error.filename)
    return Message(
        "{file} cannot be written or read: {reason}; {remedy}",
        file=place,
        reason=error.strerror,
        remedy=_REMEDIES[error.errno or 0],
    )


def _stopped(stop: BaseException, log_format: str) -> int:
    match stop:
        case click.exceptions.Exit():
            return stop.exit_code
        case click.ClickException() if log_format == "json":
            return _fail(stop.format_message(), stop.exit_code, log_format)
        case click.ClickException():
            shown = io.StringIO()
            stop.show(shown)
            click.echo(printable(shown.getvalue()), nl=False, err=True)
            return stop.exit_code
        case click.Abort() if not isinstance(stop.__cause__ or stop.__context__, KeyboardInterrupt):
            write_message("declined", log_format=log_format, exit_code=DIAGNOSED)
            return DIAGNOSED
        case _:
            log = current_log()
            text = "interrupted" if log is None else f"interrupted; Spark's log is {log}"
            write_message(text, log_format=log_format, exit_code=INTERRUPTED)
            return INTERRUPTED


def _failed(failure: ParquetryError, log_format: str) -> int:
    """Report the failure and return its exit code.

    Diagnostics are shown with their source lines, or as one JSON line each for log collectors.
    """
    from parquetry.compiler.errors import SpecError

    if not isinstance(failure, SpecError):
        return _fail(failure.in_full(), failure.exit_code, log_format)
    if log_format != "json":
        click.echo(printable(failure.in_full()), err=True)
        return failure.exit_code
    for found in failure.diagnostics:
        place = {"file": found.file, "line": found.line, "column": found.column}
        write_message(
            in_full(found.message), log_format=log_format, level=found.severity.word, code=found.code, **place
        )
    return failure.exit_code


def _fail(message: str, code: int, log_format: str) -> int:
    write_message(message, log_format=log_format, level="error", exit_code=code)
    return code
