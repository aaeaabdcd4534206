"""Spark SQL conditions cut into tokens, or refused."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class NotUnderstoodError(Exception):
    """The text goes beyond what is understood: nothing may be concluded from any part of it."""


class TokenKind(StrEnum):
    """What a token is."""

    TEXT = "text"
    NUMBER = "number"
    NAME = "name"
    QUOTED_NAME = "quoted_name"
    SIGN = "sign"
    OTHER = "other"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """``text`` is upper case for names, without quotes for texts and quoted names."""

    kind: TokenKind
    text: str
    written: str


_MOST_DIGITS = 100
_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<text>'[^'\\]*'(?![ \t\r\n]*'))
    | (?P<other>"[^"\\]*"(?![ \t\r\n]*"))
    | `(?P<quoted_name>(?:[^`]|``)+)`
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|bd|[LlSsYyDdFf])?(?![A-Za-z0-9_.]))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign><=>|<>|!=|<=|>=|==|\|\||::|->|(?!--|/\*)[=<>!+\-*/%&|^~().,\[\]])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)


def tokens(text: str) -> list[Token]:
    """The tokens, an END last.

    NotUnderstoodError for comments, escapes, adjacent strings, and anything that is none.
    """
    found: list[Token] = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise NotUnderstoodError
        kind = TokenKind(match.lastgroup)
        written = match[match.lastgroup]
        found.append(Token(kind=kind, text=_text(kind, written), written=written))
        if kind is TokenKind.END:
            return found
        position = match.end()


def number(written: str) -> int | float | Decimal | None:
    """The value of a numeric literal of Spark SQL.

    None when it is no finite number or longer than any of Spark's, and for ``F``: with it Spark rounds the
    other side to a float.
    """
    match = re.fullmatch(r"(?P<digits>.*?)(?P<suffix>BD|[LSYDF])?", written.upper())
    assert match is not None
    digits, suffix = match["digits"], match["suffix"]
    value: int | float | Decimal | None = None
    if suffix == "BD" or (suffix is None and "." in digits and "E" not in digits):
        value = Decimal(digits)
    elif suffix == "D" or (suffix is None and "E" in digits):
        double = float(digits)
        value = double if math.isfinite(double) else None
    elif suffix != "F" and digits.isdecimal() and len(digits) <= _MOST_DIGITS:
        value = int(digits)
    return value


def _text(kind: TokenKind, written: str) -> str:
    match kind:
        case TokenKind.TEXT:
            return written[1:-1]
        case TokenKind.NAME:
            return written.upper()
        case TokenKind.QUOTED_NAME:
            return written.replace("``", "`")
    return written
