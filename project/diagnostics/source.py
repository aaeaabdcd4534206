"""The text of one project file, and positions in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

# The line ends of libyaml, so that line numbers agree with its marks.
LINE_END = re.compile("\r\n|[\r\n\x85\u2028\u2029]")

SQL_KEY = re.compile(r"""(?<![\w-])["']?(?:select|where|generated|delete_when|expression)["']?\s*:(?=\s|$)""")
"""A key whose value is SQL. The literals of that SQL may be values of columns."""
_PII = re.compile(r"""\bpii["']?\s*:\s*(?!["']?false\b)""")


class Position(NamedTuple):
    """A position between two characters; line and column count from 1."""

    line: int
    column: int


class Span(NamedTuple):
    """A range of text from ``start`` up to, but not including, ``end``."""

    start: Position
    end: Position


START = Span(Position(1, 1), Position(1, 1))


class _Opened(NamedTuple):
    """A line that may have nested lines below it; list items of a bare key may have the key's own indent."""

    indent: int
    is_sql: bool
    is_bare: bool

    def holds(self, indent: int, *, is_item: bool) -> bool:
        return self.indent < indent or (self.indent == indent and is_item and self.is_bare)


@dataclass(frozen=True, kw_only=True)
class SourceText:
    """A file's path relative to the project ('/'-separated) and its decoded text."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return LINE_END.split(self.text)

    @cached_property
    def declares_pii(self) -> bool:
        """True if the file marks a column as personal data; known even if the file cannot be parsed."""
        return _PII.search(self.text) is not None

    @cached_property
    def lines_within_sql(self) -> frozenset[int]:
        """The lines below an SQL key that belong to its value.

        Indentation decides, so that the lines of a file that cannot be parsed are known too.
        """
        found: list[int] = []
        above: list[_Opened] = []
        for number, line in enumerate(self.lines, start=1):
            text = line.lstrip(" ")
            if not text:
                continue
            indent, is_item = len(line) - len(text), text.startswith("-")
            while above and not above[-1].holds(indent, is_item=is_item):
                above.pop()
            is_within = bool(above) and above[-1].is_sql
            if is_within:
                found.append(number)
            key = SQL_KEY.search(line)
            is_bare = key is not None and not line[key.end() :].strip()
            above.append(_Opened(indent, is_within or key is not None, is_bare))
        return frozenset(found)

    def position(self, offset: int) -> Position:
        """Return the position of the character at ``offset``."""
        before = LINE_END.split(self.text[:offset])
        return Position(len(before), len(before[-1]) + 1)
