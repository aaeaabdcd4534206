"""Lines on stderr: text for people, or one JSON object per line for log collectors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from parquetry.cli.terminal.styles import printable
from parquetry.text.printable import json_text

_OPTION = "--log-format"
_VARIABLE = "PARQUETRY_LOG_FORMAT"


def write_message(message: str, *, log_format: str, level: str = "info", **facts: Any) -> None:
    """Write one line to stderr; in JSON it has the time (UTC), level, message and facts."""
    if log_format == "json":
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json_text({"time": now, "level": level, "message": message, **facts})
        click.echo(line, err=True)
    else:
        # Indent the lines of a longer message, so that none of them looks like a message of its own.
        text = message if level == "info" else f"{level}: " + message.replace("\n", "\n  ")
        click.echo(printable(text), err=True)


def requested_format(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """Return the log format that a command line asks for, even if the line cannot be parsed."""
    asked = environment.get(_VARIABLE, "text")
    words = iter(arguments)
    for word in words:
        if word == _OPTION:
            asked = next(words, asked)
        elif word.startswith(f"{_OPTION}="):
            asked = word.partition("=")[2]
    return "json" if asked == "json" else "text"
