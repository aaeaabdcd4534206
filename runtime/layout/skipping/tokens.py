"""The tokens of Spark SQL conditions, as far as they are certain."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from parquetry.text.sql_tokens import Token, TokenKind, lexed


class NotUnderstoodError(Exception):
    """The text contains something that is not understood, so no part of it may be used."""


END: Final = Token(TokenKind.SYMBOL, "", "")
"""The token after the last one; no other token is empty."""

_MOST_DIGITS: Final = 100
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SYMBOLS: Final = frozenset(
    {"<=>", "<>", "!=", "<=", ">=", "==", "!>", "!<", "=>", "||", "::", "->", *"=<>!+-*/%&|^~().,[]"}
)


def tokens(text: str) -> list[Token]:
    """Return the tokens of a condition without whitespace, followed by END.

    Raises:
        NotUnderstoodError: If the text contains comments, escapes, adjacent strings, or anything else that
            versions of Spark may read differently.

    """
    found: list[Token] = []
    for token in lexed(text):
        if token.kind is TokenKind.BLANK and not token.text.strip(" \t\r\n"):
            continue
        last = found[-1] if found else END
        if not _is_plain(token) or _are_adjacent(last, token):
            raise NotUnderstoodError
        found.append(token)
    return [*found, END]


def word(token: Token) -> str:
    """Return a word in upper case, or a symbol; the empty string for literals and names in backticks."""
    return token.text.upper() if token.kind in (TokenKind.WORD, TokenKind.SYMBOL) else ""


def text_of(token: Token) -> str | None:
    """Return the content of a string in single quotes, or None for any other token."""
    return token.text[1:-1] if token.kind is TokenKind.STRING and token.text[0] == "'" else None


def _is_plain(token: Token) -> bool:
    match token.kind:
        case TokenKind.WORD:
            return _NAME.fullmatch(token.text) is not None
        case TokenKind.SYMBOL:
            return token.text in _SYMBOLS
        case TokenKind.STRING:
            # Spark's version and settings decide how doubled quotes and backslashes are read.
            return "\\" not in token.text and token.text.count(token.text[-1]) == 2  # noqa: PLR2004
        case TokenKind.QUOTED:
            return token.text != ""
    return token.kind is TokenKind.NUMBER


def _are_adjacent(last: Token, token: Token) -> bool:
    """Return whether the tokens are strings that Spark joins, or parts of a malformed number."""
    if last.kind is TokenKind.NUMBER:
        return token.text.startswith(".")
    both = last.kind is token.kind is TokenKind.STRING
    return both and last.text[0] == token.text[0]


def number(written: str) -> int | float | Decimal | None:
    """Return the value of a numeric literal of Spark SQL, or None if it is not supported.

    None means that the number is not finite, is longer than any of Spark's, or has the suffix ``F``, for
    which Spark rounds the other side to a float.
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
