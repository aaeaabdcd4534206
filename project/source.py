"""The text of one project file, and places in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

# What libyaml counts as the end of a line, so that our line numbers and its marks agree.
LINE_END = re.compile("\r\n|[\r\n\x85\u2028\u2029]")


class Position(NamedTuple):
    """A place between two characters; line and column count from 1."""

    line: int
    column: int


class Span(NamedTuple):
    """A stretch of text from ``start`` up to, not including, ``end``."""

    start: Position
    end: Position


START = Span(Position(1, 1), Position(1, 1))


@dataclass(frozen=True, kw_only=True)
class SourceText:
    """A file's path relative to the project ('/'-separated) and its decoded text."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return LINE_END.split(self.text)

    def position(self, offset: int) -> Position:
        """The place of the character at ``offset``."""
        before = LINE_END.split(self.text[:offset])
        return Position(len(before), len(before[-1]) + 1)
