"""From how a command ended to its exit code, with the message on stderr."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

import click

from parquetry.errors import ParquetryError

DIAGNOSED = 1
INTERRUPTED = 130
BUG = 70


def guarded(body: Callable[[], Any]) -> int:
    """Run ``body``; returns the exit code, which is what the body returned when that is a number."""
    try:
        code = body()
        sys.stdout.flush()
    except (click.exceptions.Exit, click.ClickException, click.Abort, KeyboardInterrupt) as stop:
        return _stopped(stop)
    except ParquetryError as failure:
        return _say(f"error: {failure}", failure.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`| head`); keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DIAGNOSED
    except Exception as bug:  # noqa: BLE001  # the boundary: everything else is a bug of ours
        return _report(bug)
    return code if isinstance(code, int) else 0


def _stopped(stop: BaseException) -> int:
    match stop:
        case click.exceptions.Exit():
            return stop.exit_code
        case click.ClickException():
            stop.show()
            return stop.exit_code
        case click.Abort() if not isinstance(stop.__cause__ or stop.__context__, KeyboardInterrupt):
            return _say("declined", DIAGNOSED)
        case _:
            return _say("interrupted", INTERRUPTED)


def _say(message: str, code: int) -> int:
    click.echo(message, err=True)
    return code


def _report(bug: Exception) -> int:
    with tempfile.NamedTemporaryFile(
        "w", prefix="parquetry-", suffix=".traceback", delete=False, encoding="utf-8"
    ) as report:
        report.write(f"parquetry {' '.join(sys.argv[1:])}\n")
        traceback.print_exception(bug, file=report)
    first = (str(bug) or "no message").splitlines()[0]
    return _say(
        f"error: a bug of parquetry ({type(bug).__name__}: {first}); "
        f"please report it with the traceback in {report.name}",
        BUG,
    )
