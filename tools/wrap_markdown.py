"""Wrap the prose of Markdown pages at 120 columns.

``python -m tools.wrap_markdown FILE ...`` fills the paragraphs and list items of these pages. Fenced blocks,
tables, headings and comments stay as they are. Only line breaks change, never words.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

WIDTH = 120
_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"(\s*)((?:[-*+]|\d+\.) +)")
_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1")
# Words that would begin a list, a heading, a quotation or a table at the start of a line.
_MARKUP = re.compile(r"[-+*]$|\d+[.)]$|[#>|]")


def wrapped(page: str) -> str:
    """Return the page with its paragraphs and list items filled up to the width."""
    return "\n".join(_lines(page.split("\n")))


def unbroken(page: str) -> list[str]:
    """Return the lines of prose that are too long although they could be broken."""
    kept, too_long = False, []
    for line in page.split("\n"):
        kept ^= bool(_FENCE.match(line))
        if not kept and _is_prose(line) and len(line) > WIDTH and len(_words(line)) > 1:
            too_long.append(line)
    return too_long


def _lines(lines: list[str]) -> Iterator[str]:
    paragraph: list[str] = []
    kept = False
    for line in lines:
        fence = bool(_FENCE.match(line))
        if kept or fence or not _is_prose(line):
            yield from _filled(paragraph)
            paragraph = []
            yield line
            kept ^= fence
        elif _ITEM.match(line):
            yield from _filled(paragraph)
            paragraph = [line]
        else:
            paragraph.append(line)
    yield from _filled(paragraph)


def _is_prose(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(("|", "#", "<!--", "!["))


def _filled(paragraph: list[str]) -> Iterator[str]:
    if not paragraph:
        return
    item = _ITEM.match(paragraph[0])
    first = item.group() if item else re.match(r"\s*", paragraph[0]).group()  # type: ignore[union-attr]  # matches any line
    rest = " " * len(first)
    line = first
    for word in _words("\n".join(paragraph)[len(first) :]):
        separator = " " if line.strip() and line not in (first, rest) else ""
        if separator and len(line) + 1 + len(word) > WIDTH:
            yield line
            line, separator = rest, ""
        line += separator + word
    yield line


def _words(text: str) -> list[str]:
    """Return the parts that stay on one line: words, pieces of code, and words that must not begin a line."""
    joined = _CODE.sub(lambda code: re.sub(r"\s+", "\0", code.group()), text.replace("\n", " "))
    words: list[str] = []
    for word in joined.split():
        if words and _MARKUP.match(word):
            words[-1] += "\0" + word
        else:
            words.append(word)
    return [word.replace("\0", " ") for word in words]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        file.write_text(wrapped(file.read_text(encoding="utf-8")), encoding="utf-8")
