"""Formats of sizes, counts and tables in text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.wrap import terminal_width

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_COUNTS = ((10**9, "B"), (10**6, "M"), (10**3, "K"))
_STEP = 1000
_WHOLE = 100
_NARROWEST = 20
_LONG_NAME, _BEGINNING, _ENDING = 16, 8, 6


def human_size(size_bytes: float) -> str:
    """Return a size in a decimal unit with at most one decimal, such as ``1.2 MB`` or ``120 MB``."""
    value = float(size_bytes)
    for unit in _UNITS:
        if abs(value) < _STEP or unit == _UNITS[-1]:
            digits = 0 if unit == "B" or value == int(value) or abs(value) >= _WHOLE else 1
            return f"{value:.{digits}f} {unit}"
        value /= _STEP
    raise AssertionError


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 file`` or ``1,200 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short_count(number: int) -> str:
    """Return a number, rounded down, in at most four characters below 10^12, such as ``1.2K`` or ``34M``."""
    size, unit = next(((size, unit) for size, unit in _COUNTS if number >= size), (1, ""))
    if unit and number < 10 * size:
        return f"{number * 10 // size / 10:.1f}{unit}"
    return f"{number // size}{unit}"


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return a short form of each name for a table; long names are cut to prefixes that differ.

    If prefixes are equal, the forms also have the ends of the names. If these are equal too, the forms are
    the whole names.
    """
    distinct = dict.fromkeys(names)
    for ending in (0, _ENDING):
        shown = {name: _short(name, ending=ending) for name in distinct}
        if len(set(shown.values())) == len(shown):
            return shown
    return {name: name for name in distinct}


def _short(name: str, *, ending: int) -> str:
    """Return the beginning of a long name and its last ``ending`` characters."""
    if len(name) <= _LONG_NAME:
        return name
    return f"{name[:_BEGINNING]}..{name[-ending:]}" if ending else name[:_BEGINNING]


def wrapped(text: str, *, indent: int = 0, hang: int = 0) -> str:
    """Return prose in lines that fit the terminal; lines after the first get ``hang`` more blanks."""
    margin = " " * indent
    return textwrap.fill(
        text,
        width=terminal_width(),
        initial_indent=margin,
        subsequent_indent=margin + " " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def columns(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, paint: Paint, right: frozenset[int] = frozenset()
) -> str:
    """Return rows in aligned columns below a header.

    If a row does not fit the terminal, the text of its last column is wrapped within the column.

    Args:
        header: The titles of the columns.
        rows: The cells of each row.
        paint: The colours.
        right: The indexes of columns that are aligned right.

    """
    cells = [tuple(row) for row in rows]
    widths = [max(len(row[i]) for row in [tuple(header), *cells]) for i in range(len(header))]
    before = sum(widths[:-1]) + 2 * (len(widths) - 1)
    room = terminal_width() - before
    is_prose = len(header) - 1 not in right and _NARROWEST <= room < widths[-1]

    def render(row: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if i in right else text.ljust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        line = "  ".join(padded).rstrip()
        if not is_prose or len(row[-1]) <= room:
            return line
        first, *below = textwrap.wrap(row[-1], room, break_long_words=False, break_on_hyphens=False)
        return "\n".join([line[:before] + first, *(" " * before + text for text in below)])

    return "\n".join([paint.bold(render(header)), *(render(row) for row in cells)])
