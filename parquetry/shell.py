"""Commands that are printed to be typed: the one place where their words are quoted.

Names of files, places and variables are written by whoever made a branch or a table. A command is
put together from its words here, so that a shell takes each of them as one word, whatever it holds.
"""

from __future__ import annotations

import shlex
from typing import Final

_WORKFLOW_COMMAND: Final = "##["
"""What the log of GitHub Actions takes for a command of its own, wherever a line has it."""


def line(*words: str) -> str:
    """The command as a line to type, in one line whatever the words hold."""
    return " ".join(map(_quoted, words))


def named(*words: str) -> str:
    """The command as a sentence names it: between backticks, of which it holds none itself."""
    return f"`{' '.join(_quoted(word, unwanted='`') for word in words)}`"


def place(path: str) -> str:
    """A path as a word of a command that does not look like an option."""
    return f"./{path}" if path.startswith("-") else path


def is_plain(word: str) -> bool:
    """Whether a shell takes the word as it stands, and no command for an option."""
    return shlex.quote(word) == word and place(word) == word


def words_of(text: str) -> tuple[str, ...] | None:
    """The words of a command line, None where a quote in it does not end."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return None


def _quoted(word: str, unwanted: str = "") -> str:
    """The word for a POSIX shell; as bash and zsh write it where it holds what a line cannot show."""
    if word.isprintable() and not set(word) & set(unwanted):
        return shlex.quote(word).replace(_WORKFLOW_COMMAND, "#''#[")
    escaped = "".join(_escaped(sign) if sign in f"'\\#{unwanted}" else _shown(sign) for sign in word)
    return f"$'{escaped}'"


def _shown(sign: str) -> str:
    return sign if sign.isprintable() else _escaped(sign)


def _escaped(sign: str) -> str:
    number = ord(sign)
    if 0xDC80 <= number <= 0xDCFF:  # noqa: PLR2004 - a byte of a file name that is not UTF-8
        return f"\\x{number - 0xDC00:02x}"
    return f"\\x{number:02x}" if number < 0x80 else f"\\U{number:08x}"  # noqa: PLR2004 - ASCII
