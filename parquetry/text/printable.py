"""Texts of others in a printable form: characters that cannot be seen or typed become escapes.

The texts of a branch, a table or a library may contain terminal escapes, characters that reverse a line, line
ends, and commands that GitHub Actions would execute from its log.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_WORKFLOW_COMMAND: Final = re.compile(r"^([^\S\n]*):(?=:)|##(?=\[)", re.MULTILINE)
"""A colon that begins a command at the start of a line, and the older form anywhere in a line."""

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Return the text with its line ends and tabs; every other invisible character becomes an escape."""
    return "\n".join(_visible_line(line) for line in text.split("\n"))


def without_escapes(text: str) -> str:
    """Return the text for a program; only control characters and those that reverse a line become escapes."""
    return _CONTROL.sub(lambda found: _escaped(found[0]), text)


def one_line(text: str) -> str:
    """Return the text on one line, with single blanks between its words and invisible characters escaped."""
    return visible(" ".join(text.split()))


def without_commands(text: str) -> str:
    """Return the text without anything that GitHub Actions would execute from a log."""
    return _WORKFLOW_COMMAND.sub(lambda found: r"#\x23" if found[1] is None else rf"{found[1]}\x3a", text)


def quoted(text: str) -> str:
    """Return the text between double quotes, for YAML and terminals, with invisible characters escaped."""
    escaped = json.dumps(text, ensure_ascii=False)
    return "".join(
        character if character.isprintable() else f"\\U{ord(character):08x}" for character in escaped
    )


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return the value as JSON for people and programs, with invisible characters escaped as JSON does."""
    text = json.dumps(value, indent=indent, ensure_ascii=False).replace("##[", r"##\u005b")
    return "\n".join(
        line if line.isprintable() else "".join(map(_in_json, line)) for line in text.split("\n")
    )


def _visible_line(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(
        character if character.isprintable() or character == "\t" else _escaped(character)
        for character in line
    )


def _escaped(character: str) -> str:
    number = ord(character)
    if number < 0x100:  # noqa: PLR2004 - two digits
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"  # noqa: PLR2004 - four digits


def _in_json(character: str) -> str:
    """Return a character as it is in JSON text, escaped as one or two UTF-16 units if it is invisible."""
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
