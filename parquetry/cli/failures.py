"""From how a command ended to its exit code, with the message on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from parquetry.cli.telling import tell, wanted_format
from parquetry.errors import ParquetryError

DIAGNOSED = 1
INTERRUPTED = 130
BUG = 70


def guarded(body: Callable[[], Any], *, arguments: Sequence[str] | None = None) -> int:
    """Run ``body``; returns the exit code, which is what the body returned when that is a number.

    ``arguments`` are those of the command line, which say how messages are to look.
    """
    log_format = wanted_format(sys.argv[1:] if arguments is None else arguments)
    try:
        code = body()
        sys.stdout.flush()
    except (click.exceptions.Exit, click.ClickException, click.Abort, KeyboardInterrupt) as stop:
        return _stopped(stop, log_format)
    except ParquetryError as failure:
        return _fail(str(failure), failure.exit_code, log_format)
    except BrokenPipeError:
        # The reader of our output went away (`| head`); keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DIAGNOSED
    except Exception as bug:  # noqa: BLE001  # the boundary: everything else is a bug of ours
        from parquetry.cli.bug_report import report_bug

        return _fail(report_bug(bug), BUG, log_format)
    return code if isinstance(code, int) else 0


def _stopped(stop: BaseException, log_format: str) -> int:
    match stop:
        case click.exceptions.Exit():
            return stop.exit_code
        case click.ClickException() if log_format == "json":
            return _fail(stop.format_message(), stop.exit_code, log_format)
        case click.ClickException():
            stop.show()
            return stop.exit_code
        case click.Abort() if not isinstance(stop.__cause__ or stop.__context__, KeyboardInterrupt):
            tell("declined", log_format=log_format, exit_code=DIAGNOSED)
            return DIAGNOSED
        case _:
            tell("interrupted", log_format=log_format, exit_code=INTERRUPTED)
            return INTERRUPTED


def _fail(message: str, code: int, log_format: str) -> int:
    tell(message, log_format=log_format, level="error", exit_code=code)
    return code
