"""A parser of the part of Spark SQL conditions that file skipping can use.

It understands AND, OR, NOT, parentheses, comparisons between a column and a literal, IN, BETWEEN, IS NULL,
LIKE 'prefix%' and bare boolean columns. Any other term counts as true for any row. If the structure of a text
is not certain (CASE, comments, escapes, ...), the whole text counts as true for any row. A text is divided
into tokens only as far as these are certain.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from parquetry.runtime.layout.skipping.condition import (
    Comparator,
    Compared,
    Condition,
    Conjunction,
    Disjunction,
    IsNull,
    Like,
    Literal,
    Opaque,
    TimestampLiteral,
    negation,
)
from parquetry.text.sql_tokens import Token, TokenKind, lexed

_DEEPEST = 100
_COMPARISONS = {
    "=": Comparator.EQUAL,
    "==": Comparator.EQUAL,
    "<=>": Comparator.NULL_SAFE_EQUAL,
    "<>": Comparator.NOT_EQUAL,
    "!=": Comparator.NOT_EQUAL,
    "<": Comparator.LESS,
    "<=": Comparator.LESS_OR_EQUAL,
    ">": Comparator.GREATER,
    ">=": Comparator.GREATER_OR_EQUAL,
    "!>": Comparator.LESS_OR_EQUAL,
    "!<": Comparator.GREATER_OR_EQUAL,
}
_MIRRORED = {
    Comparator.LESS: Comparator.GREATER,
    Comparator.LESS_OR_EQUAL: Comparator.GREATER_OR_EQUAL,
    Comparator.GREATER: Comparator.LESS,
    Comparator.GREATER_OR_EQUAL: Comparator.LESS_OR_EQUAL,
}
_CLOSING = {"(": ")", "[": "]"}
_OPERATORS_IN_WORDS = frozenset({"NOT", "IN", "IS", "LIKE", "BETWEEN"})
_WITH_INNER_AND = frozenset({"CASE", "WHEN", "THEN", "ELSE", "END", "SELECT", "FROM", "WHERE", "WITH"})
NO_COLUMNS = (
    _OPERATORS_IN_WORDS
    | _WITH_INNER_AND
    | {"AND", "OR", "NULL", "TRUE", "FALSE", "RLIKE", "EXISTS", "INTERVAL"}
)
"""Words that are no column without backticks."""

_TIMESTAMP_KEYWORDS = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_TIMESTAMP = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})?)?", re.ASCII
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def parse_condition(where: str, *, today: date | None = None) -> Condition:
    """Return the condition, as far as it is understood; never raise an error.

    If ``today`` is given, ``current_date`` and days before and after it are dates; otherwise they are not
    understood.
    """
    try:
        parser = _Parser(tokens(where), today)
        condition = parser.disjunction()
        parser.expect_end()
    except NotUnderstoodError:
        return Opaque()
    return condition


def parse_date(text: str) -> date | None:
    """Return a date written as ``yyyy-MM-dd``, or None for anything else, although Spark reads more forms."""
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def parse_timestamp(text: str) -> datetime | None:
    """Return a timestamp with up to microseconds and an optional offset, or a date; None for other texts."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    whole, dot, fraction = text.partition(".")
    digits = re.match(r"\d*", fraction)
    if dot and digits is not None:
        text = f"{whole}.{digits[0]:0<6}{fraction[digits.end() :]}"
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def spaced(texts: Iterable[str]) -> str:
    """Return the texts of tokens with one blank between them, and none within calls and around dots."""
    found: list[str] = []
    before = ""
    for text in texts:
        is_call = (
            text == "(" and re.search(r"[\w`]\Z", before) is not None and before.upper() not in NO_COLUMNS
        )
        is_tight = before in ("", "(", ".") or text in (")", ",", ".") or is_call
        found.append(text if is_tight else f" {text}")
        before = text
    return "".join(found)


def _typed_literal(keyword: str, text: str) -> Literal | None:
    if keyword == "DATE":
        return parse_date(text)
    moment = parse_timestamp(text) if keyword in _TIMESTAMP_KEYWORDS else None
    without_zone = keyword == "TIMESTAMP_NTZ"
    if moment is None or (without_zone and moment.tzinfo is not None):
        return None
    return TimestampLiteral(value=moment, without_zone=without_zone)


class _Parser:
    """A recursive-descent parser; NOT binds more tightly than AND, and AND more tightly than OR."""

    def __init__(self, found: list[Token], today: date | None) -> None:
        self._tokens = found
        self._today = today
        self._position = 0
        self._depth = 0

    def disjunction(self) -> Condition:
        parts = [self._conjunction()]
        while self._take("OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Disjunction(tuple(parts))

    def expect_end(self) -> None:
        if self._token is not END:
            raise NotUnderstoodError

    def _conjunction(self) -> Condition:
        parts = [self._negation()]
        while self._take("AND"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else Conjunction(tuple(parts))

    def _negation(self) -> Condition:
        negate = False
        while self._take("NOT") or self._take("!"):
            negate = not negate
        condition = self._term()
        return negation(condition) if negate else condition

    def _term(self) -> Condition:
        start = self._position
        for read in (self._parenthesised, self._about_column, self._mirrored, self._constant):
            condition = read()
            if condition is not None and self._at_end_of_term():
                return condition
            self._position = start
        self._pass_over_term()
        return Opaque(spaced(token.written for token in self._tokens[start : self._position]))

    def _parenthesised(self) -> Condition | None:
        if not self._take("("):
            return None
        self._depth += 1
        if self._depth > _DEEPEST:
            raise NotUnderstoodError
        condition = self.disjunction()
        self._depth -= 1
        return condition if self._take(")") else None

    def _about_column(self) -> Condition | None:
        column = self._column()
        if column is None:
            return None
        if self._at_end_of_term():
            return Compared(column=column, operator=Comparator.EQUAL, literal=True)
        if self._take("IS"):
            inverted = self._take("NOT")
            if not self._take("NULL"):
                return None
            return IsNull(column=column, negated=True) if inverted else IsNull(column=column)
        if self._token.kind is TokenKind.SYMBOL:
            return self._comparison(column)
        inverted = self._take("NOT")
        keyword = word(self._next())
        readers: dict[str, Callable[[str], Condition | None]] = {
            "IN": self._in,
            "BETWEEN": self._between,
            "LIKE": self._like,
        }
        condition = readers[keyword](column) if keyword in readers else None
        return negation(condition) if inverted and condition is not None else condition

    def _comparison(self, column: str) -> Condition | None:
        operator = _COMPARISONS.get(word(self._next()))
        literal = self._literal()
        if operator is None or literal is None:
            return None
        return Compared(column=column, operator=operator, literal=literal)

    def _in(self, column: str) -> Condition | None:
        literals: list[Literal] = []
        if not self._take("("):
            return None
        while not literals or self._take(","):
            literal = self._literal()
            if literal is None:
                return None
            literals.append(literal)
        kinds = {type(literal) for literal in literals}
        if not self._take(")") or (len(kinds) > 1 and kinds != {int, Decimal}):
            return None
        return Disjunction(
            tuple(
                Compared(column=column, operator=Comparator.EQUAL, literal=literal, listed=True)
                for literal in literals
            )
        )

    def _between(self, column: str) -> Condition | None:
        low = self._literal()
        if low is None or not self._take("AND"):
            return None
        high = self._literal()
        if high is None:
            return None
        return Conjunction(
            (
                Compared(column=column, operator=Comparator.GREATER_OR_EQUAL, literal=low),
                Compared(column=column, operator=Comparator.LESS_OR_EQUAL, literal=high),
            )
        )

    def _like(self, column: str) -> Condition | None:
        pattern = text_of(self._next())
        if pattern is None:
            return None
        prefix = re.split(r"[%_]", pattern, maxsplit=1)[0]
        if prefix == pattern:
            return Compared(column=column, operator=Comparator.EQUAL, literal=prefix)
        return Like(column=column, pattern=pattern, prefix=prefix)

    def _mirrored(self) -> Condition | None:
        """Return the condition ``literal operator column`` with exchanged sides, or None for other terms."""
        literal = self._literal()
        operator = _COMPARISONS.get(word(self._next()))
        column = self._column()
        if literal is None or operator is None or column is None:
            return None
        return Compared(column=column, operator=_MIRRORED.get(operator, operator), literal=literal)

    def _constant(self) -> Condition | None:
        if self._take("TRUE"):
            return Opaque()
        return Disjunction(()) if self._take("FALSE") else None

    def _column(self) -> str | None:
        names = []
        while True:
            token = self._next()
            if (token.kind is TokenKind.WORD and word(token) not in NO_COLUMNS) or (
                token.kind is TokenKind.QUOTED and "." not in token.text
            ):
                names.append(token.text)
            else:
                return None
            if not self._take("."):
                return ".".join(names)

    def _literal(self) -> Literal | None:
        negative = self._take("-")
        token = self._next()
        literal: Literal | None = None
        if token.kind is TokenKind.NUMBER:
            value = number(token.text)
            literal = -value if negative and value is not None else value
        elif negative:
            literal = None
        elif token.kind is TokenKind.STRING:
            literal = text_of(token)
        elif word(token) in ("TRUE", "FALSE"):
            literal = word(token) == "TRUE"
        elif word(token) == "CURRENT_DATE" and self._today is not None:
            literal = self._day(self._today)
        elif token.kind is TokenKind.WORD:
            text = text_of(self._next())
            literal = None if text is None else _typed_literal(word(token), text)
        return literal

    def _day(self, today: date) -> date | None:
        """Return the date of ``current_date``, plus or minus days.

        Parentheses after the name are optional.
        """
        if self._take("(") and not self._take(")"):
            return None
        sign = 1 if self._take("+") else -1 if self._take("-") else 0
        if not sign:
            return today
        token = self._next()
        days = number(token.text) if token.kind is TokenKind.NUMBER else None
        try:
            return today + timedelta(days=sign * days) if isinstance(days, int) else None
        except OverflowError:
            return None

    def _pass_over_term(self) -> None:
        """Skip a term that is not understood, up to AND, OR, a closing parenthesis or the end."""
        if self._at_end_of_term():
            raise NotUnderstoodError
        ands_to_pass = 0
        bounded = False
        while not self._at_end_of_term() or (ands_to_pass and word(self._token) == "AND"):
            found = word(self._next())
            if found in _WITH_INNER_AND:
                raise NotUnderstoodError
            if bounded and (found in _COMPARISONS or found in _OPERATORS_IN_WORDS):
                # It is not certain here where the upper bound of BETWEEN ends.
                raise NotUnderstoodError
            if found == "AND":
                ands_to_pass -= 1
            elif found == "BETWEEN":
                ands_to_pass += 1
                bounded = True
            elif found in _CLOSING:
                self._pass_over_group(_CLOSING[found])
        if ands_to_pass:
            raise NotUnderstoodError

    def _pass_over_group(self, closing: str) -> None:
        expected = [closing]
        while expected:
            token = self._next()
            if token is END:
                raise NotUnderstoodError
            found = word(token)
            if found in _CLOSING:
                expected.append(_CLOSING[found])
            elif found in _CLOSING.values() and found != expected.pop():
                raise NotUnderstoodError

    def _at_end_of_term(self) -> bool:
        return self._token is END or word(self._token) in ("AND", "OR", ")")

    @property
    def _token(self) -> Token:
        return self._tokens[self._position]

    def _next(self) -> Token:
        token = self._token
        if token is not END:
            self._position += 1
        return token

    def _take(self, wanted: str) -> bool:
        if word(self._token) == wanted:
            self._position += 1
            return True
        return False


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
