"""Texts of others, as they may be printed: what nobody sees or types is written as an escape.

What a branch, a table or a library says may hold escapes of terminals, signs that turn a line round,
ends of lines, and what GitHub Actions takes for commands in its log.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_WORKFLOW_COMMAND: Final = re.compile(r"^([^\S\n]*):(?=:)|##(?=\[)", re.MULTILINE)
"""A colon that begins a command at the start of a line, and the older form anywhere in one."""

_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with its lines and tabs, and every other sign that cannot be seen as an escape."""
    return "\n".join(_seen(line) for line in text.split("\n"))


def without_escapes(text: str) -> str:
    """The text for a program: as it is but for what terminals obey and for what turns a line round."""
    return _OBEYED.sub(lambda found: _escaped(found[0]), text)


def one_line(text: str) -> str:
    """The same on one line, blanks instead of its ends."""
    return visible(" ".join(text.split()))


def without_commands(text: str) -> str:
    """The text with nothing that GitHub Actions would execute where it reads it in a log."""
    return _WORKFLOW_COMMAND.sub(lambda found: r"#\x23" if found[1] is None else rf"{found[1]}\x3a", text)


def quoted(text: str) -> str:
    """The text between double quotes, for YAML and for terminals: what cannot be seen is escaped."""
    escaped = json.dumps(text, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in escaped)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON that people read too: what cannot be seen is escaped as JSON does."""
    text = json.dumps(value, indent=indent, ensure_ascii=False).replace("##[", r"##\u005b")
    return "\n".join(
        line if line.isprintable() else "".join(map(_in_json, line)) for line in text.split("\n")
    )


def _seen(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(sign if sign.isprintable() or sign == "\t" else _escaped(sign) for sign in line)


def _escaped(sign: str) -> str:
    number = ord(sign)
    if number < 0x100:  # noqa: PLR2004 - two digits
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"  # noqa: PLR2004 - four digits


def _in_json(sign: str) -> str:
    """The sign in a text of JSON, as the one or two units that it has there."""
    if sign.isprintable():
        return sign
    units = sign.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
