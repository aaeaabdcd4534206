"""A lexer for Spark SQL that follows Spark's SqlBaseLexer.g4 (3.5 to 4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_BLANK: Final = r" \t\n\x0b\f\r\xa0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000"
_TOKEN: Final = re.compile(
    rf"""
    (?P<blank>[{_BLANK}]+)
  | (?P<comment>--(?:\\\n|[^\r\n])*)
  | (?P<hint>/\*\+)
  | (?P<bracketed>/\*)
  | (?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<number>
        (?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[fFdD])?(?![A-Za-z0-9_])
      | [0-9]+[eE][+-][0-9]+(?:[bB][dD]|[fFdD])?
      | (?:[0-9]+(?:[eE][0-9]+)?(?:[bB][dD]|[fFdD])?|[0-9]+[lLsSyY])(?!\w)
    )
  | (?P<address>[^\W\d_]+://[\w/\-.?=&\#%]+)
  | (?P<word>\w+)
  | (?P<dollars>\$[A-Za-z]*\$)
  | (?P<open>['"`])
  | (?P<symbol><=>|<>|<=|>=|!=|==|!>|!<|->|=>|::|\|\||\|>|\*/|.)
    """,
    re.VERBOSE | re.DOTALL,
)


_KEYWORD_LETTERS: Final = str.maketrans("\u0131\u017f", "is")
"""The letters beyond ASCII (dotless i and long s) that Spark takes for I and S in keywords."""

_BRACKET: Final = re.compile(r"/\*(?!\+)|\*/")


class TokenKind(StrEnum):
    """The kind of a token."""

    BLANK = "blank"
    COMMENT = "comment"
    HINT = "hint"
    """From ``/*+`` to ``*/``, with the text between them."""

    STRING = "string"
    QUOTED = "quoted"
    """A name in backticks."""

    WORD = "word"
    NUMBER = "number"
    SYMBOL = "symbol"
    VERSION_DEPENDENT = "depending"
    """One token in Spark 4, but several in Spark 3.5: ``a://b-c``, and a text between ``$$``."""

    OPEN = "open"
    """A quote, a bracketed comment or a hint that does not end, with the rest of the text."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token. ``written`` is its source text; ``text`` is the same, or the name without its backticks."""

    kind: TokenKind
    text: str
    written: str

    @property
    def is_name(self) -> bool:
        """True if the token can name a function or a column."""
        return self.kind in (TokenKind.WORD, TokenKind.QUOTED)

    @property
    def keyword(self) -> str:
        """The word in the lower case of the keyword that it may be, or an empty string for other tokens."""
        return self.text.translate(_KEYWORD_LETTERS).lower() if self.kind is TokenKind.WORD else ""


def lexed(text: str) -> Iterator[Token]:
    """Yield all tokens of any text; their ``written`` texts joined are the text."""
    position = 0
    while position < len(text):
        kind, end = _kind_and_end(text, position)
        written = text[position:end]
        name = written[1:-1].replace("``", "`") if kind is TokenKind.QUOTED else written
        yield Token(kind, name, written)
        position = end


def _kind_and_end(text: str, position: int) -> tuple[TokenKind, int]:
    """Return the kind of the token at a position, and the position after it."""
    match = _TOKEN.match(text, position)
    assert match is not None, "any one character is a symbol at least"
    found = match.lastgroup
    end: int | None = match.end()
    kind = TokenKind.OPEN
    match found:
        case "bracketed":
            kind, end = TokenKind.COMMENT, _end_of_comment(text, match.end())
        case "hint":
            kind, end = TokenKind.HINT, _end_of_hint(text, match.end())
        case "address":
            kind = TokenKind.VERSION_DEPENDENT
        case "dollars":
            close = text.find(match.group(), match.end())
            kind, end = TokenKind.VERSION_DEPENDENT, None if close < 0 else close + len(match.group())
        case "open" | None:
            end = None
        case _:
            kind = TokenKind(found)
    return (TokenKind.OPEN, len(text)) if end is None else (kind, end)


def _end_of_comment(text: str, position: int) -> int | None:
    """Return the position after a bracketed comment, or None if it does not end.

    Comments nest, but hints within them do not.
    """
    depth = 1
    for bracket in _BRACKET.finditer(text, position):
        depth += 1 if bracket.group() == "/*" else -1
        if depth == 0:
            return bracket.end()
    return None


def _end_of_hint(text: str, position: int) -> int | None:
    """Return the position after a hint, or None if it does not end.

    A hint ends at the first ``*/`` that is a token.
    """
    while position < len(text):
        if text.startswith("/*+", position):
            position += 3
            continue
        kind, end = _kind_and_end(text, position)
        if kind is TokenKind.SYMBOL and text[position:end] == "*/":
            return end
        if kind is TokenKind.OPEN:
            return None
        position = end
    return None
