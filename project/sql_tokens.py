"""The tokens of Spark SQL texts, as Spark's SqlBaseLexer.g4 cuts them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from parquetry.project.diagnostics import Problem

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\r\n]*)
  | (?P<comment>/\*)
  | (?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)+`)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[bB][dD]|[lLsSyYdDfF])?(?!\w))
  | (?P<word>\w+)
  | (?P<symbol><=>|<>|<=|>=|!=|==|!>|!<|->|=>|::|\|\||\|>|[^\s'"`])
    """,
    re.VERBOSE | re.DOTALL,
)


class TokenKind(StrEnum):
    """What a token is."""

    STRING = "string"
    QUOTED = "quoted"
    WORD = "word"
    NUMBER = "number"
    SYMBOL = "symbol"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its text; for names in backticks the name itself."""

    kind: TokenKind
    text: str

    @property
    def is_name(self) -> bool:
        """Whether it can name a function or a column."""
        return self.kind in (TokenKind.WORD, TokenKind.QUOTED)


class SqlProblem(Problem):
    """What is wrong with an SQL text."""


def tokens(text: str, *, line_comments: bool = True) -> list[Token]:
    """The tokens of an SQL text without blanks and comments.

    Raises:
        SqlProblem: a string, a quoted name or a comment does not end, or there is a comment from ``--``
            to the end of the line without ``line_comments``.

    """
    found = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            summary = f"the quote {text[position]} does not end"
            raise SqlProblem("PQ601", summary, "close it")
        position = match.end()
        kind = match.lastgroup
        if kind == "comment":
            position = _comment_end(text, match.start())
        elif kind == "quoted":
            found.append(Token(TokenKind.QUOTED, match.group()[1:-1].replace("``", "`")))
        elif kind == "blank" and match.group().startswith("--") and not line_comments:
            raise SqlProblem(
                "PQ601", "'--' begins a comment that would swallow what follows", "write /* ... */"
            )
        elif kind != "blank" and kind is not None:
            found.append(Token(TokenKind(kind), match.group()))
    return found


def _comment_end(text: str, start: int) -> int:
    """Where a bracketed comment ends; they nest, as in Spark."""
    depth = 0
    position = start
    while position < len(text):
        pair = text[position : position + 2]
        if pair == "/*":
            depth += 1
            position += 2
        elif pair == "*/":
            depth -= 1
            position += 2
            if depth == 0:
                return position
        else:
            position += 1
    raise SqlProblem("PQ601", "a comment does not end", "close it with */")
