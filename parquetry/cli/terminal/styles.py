"""Colours on a terminal, distinguished from escapes that texts of others may contain."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Final

from parquetry.text.printable import visible, without_commands

_OURS: Final = str(10**9 + secrets.randbelow(10**9))
"""A parameter that terminals ignore and nobody can guess; it never leaves the process."""
_STYLE: Final = re.compile(rf"\x1b\[([0-9]+);{_OURS}m")
_CODES: Final = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33}
_PLAIN: Final = 0


def styled(text: str, style: str) -> str:
    """Return the text between escapes that :func:`printable` keeps."""
    return f"\x1b[{_CODES[style]};{_OURS}m{text}\x1b[{_PLAIN};{_OURS}m"


def printable(text: str, *, escaped: Callable[[str], str] = visible) -> str:
    """Return the text in a printable form, with only those terminal escapes that :func:`styled` added.

    ``escaped`` makes the texts between them visible.
    """
    parts = _STYLE.split(text)  # texts at even indexes, codes at odd ones
    return without_commands(
        "".join(escaped(part) if index % 2 == 0 else f"\x1b[{part}m" for index, part in enumerate(parts))
    )
