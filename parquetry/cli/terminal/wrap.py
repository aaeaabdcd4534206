"""Wrapping of lines to the width of the terminal."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Final

_IN_A_PIPE: Final = 80
_WIDEST: Final = 100
_HANG: Final = 2
_COMMAND: Final = re.compile(r"\s*\$ |.*\bNext: (?:parquetry|cd) ")
_FIGURE: Final = re.compile(r"(?<=\d) (?=(?:B|[KMGTP]B|h|min|s)\b)")
_BOUND: Final = "\N{NO-BREAK SPACE}"
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")


def terminal_width() -> int:
    """Return the width for prose: the terminal's or COLUMNS, 80 in a pipe, and at most 100."""
    return min(_columns(), _WIDEST)


def wrap_lines(text: str) -> str:
    """Return the text with lines that are too wide for the terminal broken between words and indented.

    Words stay whole, so that paths can be copied, and so do lines with a command to type (``$ ...``, ``Next:
    ...``).
    """
    width = _columns()
    return "\n".join(
        split_units(part) for line in text.split("\n") for part in _broken(join_units(line), width)
    )


def join_units(text: str) -> str:
    """Return the text with no-break spaces between figures and units, such as ``492 KB``."""
    return _FIGURE.sub(_BOUND, text)


def split_units(line: str) -> str:
    """Return the line with normal blanks in place of the no-break spaces of ``join_units``."""
    return line.replace(_BOUND, " ")


def _columns() -> int:
    return shutil.get_terminal_size((_IN_A_PIPE, 24)).columns


def _broken(line: str, width: int) -> Iterator[str]:
    """Yield a line broken to the width, with the rest indented; a command stays on one line."""
    if len(line) <= width or _COMMAND.match(line):
        yield line
        return
    line = line.rstrip()
    margin = " " * (len(line) - len(line.lstrip(" ")) + _HANG)
    start, indent = 0, ""
    while (index := _break_index(line, start, width - len(indent))) is not None:
        yield indent + line[start:index].rstrip()
        start, indent = index, margin
        while line[start] == " ":
            start += 1
    yield indent + line[start:]


def _break_index(line: str, start: int, room: int) -> int | None:
    """Return the index at which to break the text from ``start`` on, or None if it fits or is one word.

    It is the last blank after a word that fits, else the first blank after a word. Escape sequences take no
    room.
    """
    at, seen, last, is_behind_a_word = start, 0, None, False
    while at < len(line):
        if style := _STYLE.match(line, at):
            at = style.end()
            continue
        if line[at] != " ":
            if seen >= room and last is not None:
                return last
            is_behind_a_word = True
        elif is_behind_a_word and seen > room:
            return at if last is None else last
        elif is_behind_a_word:
            last = at
        seen += 1
        at += 1
    return None
