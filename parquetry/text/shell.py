"""Commands that are printed for the user to type. Only this module quotes their words.

Names of files, locations and variables come from the author of a branch or a table. A command is put together
from its words here, so that a shell takes each word as one word, whatever it contains.
"""

from __future__ import annotations

import shlex
from typing import Final

_WORKFLOW_COMMAND: Final = "##["
"""Characters that begin a command of GitHub Actions anywhere in a line of its log."""


def line(*words: str) -> str:
    """Return the command as one line to type, whatever its words contain."""
    return " ".join(map(_quoted, words))


def named(*words: str) -> str:
    """Return the command between backticks, for a sentence; its words contain no backtick."""
    return f"`{' '.join(_quoted(word, unwanted='`') for word in words)}`"


def path_word(path: str) -> str:
    """Return a path as a word of a command that does not look like an option."""
    return f"./{path}" if path.startswith("-") else path


def is_plain(word: str) -> bool:
    """Return whether a shell takes the word without quotes, and no command takes it for an option."""
    return shlex.quote(word) == word and path_word(word) == word


def words_of(text: str) -> tuple[str, ...] | None:
    """Return the words of a command line, or None if a quote in it does not end."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return None


def _quoted(word: str, unwanted: str = "") -> str:
    """Return the word quoted for a POSIX shell, or as `$'...'` if a line cannot show all of it."""
    if word.isprintable() and not set(word) & set(unwanted):
        return shlex.quote(word).replace(_WORKFLOW_COMMAND, "#''#[")
    escaped = "".join(
        _escaped(character) if character in f"'\\#{unwanted}" else _visible(character) for character in word
    )
    return f"$'{escaped}'"


def _visible(character: str) -> str:
    return character if character.isprintable() else _escaped(character)


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # noqa: PLR2004 - a byte of a file name that is not UTF-8
        return f"\\x{number - 0xDC00:02x}"
    return f"\\x{number:02x}" if number < 0x80 else f"\\U{number:08x}"  # noqa: PLR2004 - ASCII
