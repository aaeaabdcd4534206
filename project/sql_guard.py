"""SQL in specs is one expression or one SELECT, and cannot run code: checked without Spark.

The tokens are those of Spark's SqlBaseLexer.g4. The check errs on the side of refusing; the
job checks Spark's own parse tree again before anything is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from parquetry.project.diagnostics import Problem, did_you_mean

_REFUSED_FUNCTIONS = frozenset({"reflect", "java_method", "try_reflect"})
_BRACKETS = {")": "(", "]": "["}
_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\r\n]*)
  | (?P<comment>/\*)
  | (?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)+`)
  | (?P<word>[^\W\d]\w*)
  | (?P<number>\d\w*(?:\.\w*)?|\.\d\w*)
  | (?P<symbol>[^\s'"`])
    """,
    re.VERBOSE | re.DOTALL,
)
# Words of expressions that look like names: keywords, types, units of time.
_KNOWN_WORDS = frozenset(
    """
    all and any array as asc at between bigint binary boolean by case cast current_date
    current_timestamp current_user date datetime day days decimal desc distinct div double else end
    escape exists extract false filter first float for from hour hours if ilike in int integer interval
    is last leading like long map microsecond microseconds millisecond milliseconds minute minutes mod
    month months not null nulls on or order over partition position quarter quarters range regexp rlike
    row rows second seconds short similar smallint some string struct substr substring then time
    timestamp timestamp_ltz timestamp_ntz tinyint to trailing trim true week weeks when where window
    year years zone
    """.split()  # noqa: SIM905 - sixty words read better as a text
)


# Beyond these, looking for misspelt columns costs more than it tells.
_MOST_WORDS = 30
_MOST_COLUMNS = 500


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


def tokens(text: str) -> list[Token]:
    """The tokens of an SQL text without blanks and comments.

    Raises:
        SqlProblem: a string, a quoted name or a comment does not end.

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
        elif kind != "blank" and kind is not None:
            found.append(Token(TokenKind(kind), match.group()))
    return found


def check_expression(text: str) -> list[Token]:
    """The tokens of exactly one expression.

    Raises:
        SqlProblem: it is something else, or calls what is refused.

    """
    if "--" in _without_strings(text):
        raise SqlProblem("PQ601", "'--' begins a comment that would swallow what follows", "write /* ... */")
    found = _checked(text)
    for token, depth in _with_depth(found):
        word = token.text.lower() if token.kind is TokenKind.WORD else ""
        if word == "select":
            raise SqlProblem(
                "PQ601", "an expression is needed, not a SELECT", "compute it in the source's select"
            )
        if depth == 0 and token.text == ",":
            raise SqlProblem("PQ601", "more than one expression", "join them, or remove the comma")
        if depth == 0 and word == "as":
            raise SqlProblem("PQ601", "an expression has no AS name", "remove AS and the name")
    return found


def check_select(text: str) -> list[Token]:
    """The tokens of exactly one SELECT, which may begin with WITH.

    Raises:
        SqlProblem: it is something else, or calls what is refused.

    """
    found = _checked(text)
    first = found[0]
    if first.kind is not TokenKind.WORD or first.text.lower() not in ("select", "with"):
        raise SqlProblem("PQ601", "a SELECT is needed", "begin with SELECT ... FROM source")
    for token, following in pairwise(found):
        statement = token.kind is TokenKind.WORD and token.text.lower() == "insert"
        if statement and following.text.lower() in ("into", "overwrite"):
            raise SqlProblem("PQ601", "a SELECT is needed, not an INSERT", "remove the INSERT")
    return found


def column_names(found: Sequence[Token]) -> frozenset[str]:
    """The lower-cased words that an expression can mean columns by.

    Functions (``year(at)``), types (``AS date``), units (``1 day``, ``day FROM at``), typed literals and
    parts behind a point are none; keywords are not told apart.
    """
    names = set()
    for before, token, after in zip([None, *found], found, [*found[1:], None], strict=False):
        quoted = token.kind is TokenKind.QUOTED
        follows = "" if after is None else after.text.lower()
        called = follows == "(" or (after is not None and after.kind is TokenKind.STRING)
        unit = follows in ("from", "to") or (
            before is not None and before.kind in (TokenKind.NUMBER, TokenKind.STRING)
        )
        is_type = before is not None and before.text.lower() == "as"
        part = before is not None and before.text == "."
        if token.is_name and not part and (quoted or not (called or unit or is_type)):
            names.add(token.text.lower())
    return frozenset(names)


def suspicious_names(found: Sequence[Token], columns: Sequence[str]) -> Mapping[str, str]:
    """Words that are no column but nearly one, each with the hint that names the column."""
    known = {column.lower() for column in columns}
    passed = known | _lambda_names(found)
    words: dict[str, None] = {}
    for before, token, after in zip([None, *found], found, [*found[1:], None], strict=False):
        name = token.text.lower()
        called = after is not None and (after.text in ("(", ".") or after.kind is TokenKind.STRING)
        part = before is not None and before.text == "."
        keyword = token.kind is TokenKind.WORD and name in _KNOWN_WORDS
        if token.is_name and not (called or part or keyword or name in passed):
            words[token.text] = None
    if len(words) > _MOST_WORDS or len(known) > _MOST_COLUMNS:
        return {}
    hints = {word: did_you_mean(word, columns) for word in words}
    return {word: hint for word, hint in hints.items() if hint}


def _lambda_names(found: Sequence[Token]) -> set[str]:
    """Names that lambdas of the SQL bind, lower-cased: ``x -> ...`` and ``(x, y) -> ...``."""
    bound: set[str] = set()
    for place in range(1, len(found) - 1):
        if found[place].text == "-" and found[place + 1].text == ">":
            bound |= {token.text.lower() for token in found[max(0, place - 5) : place] if token.is_name}
    return bound


def _checked(text: str) -> list[Token]:
    if "${" in text:
        hint = "Spark would replace it before it reads the SQL; use {{ var('name') }}"
        raise SqlProblem("PQ601", "'${' is not accepted in SQL", hint)
    found = tokens(text)
    if not found:
        raise SqlProblem("PQ601", "the SQL is empty", "write an expression")
    for index, token in enumerate(found):
        following = found[index + 1] if index + 1 < len(found) else None
        if token.text == ";" and token.kind is TokenKind.SYMBOL:
            raise SqlProblem("PQ601", "';' is not accepted", "write one statement without ';'")
        if following is None:
            continue
        name = token.text.lower()
        if token.is_name and following.text == "(" and following.kind is TokenKind.SYMBOL:
            if name in _REFUSED_FUNCTIONS:
                raise SqlProblem(
                    "PQ602",
                    f"the function {name} is refused, as it runs code of the cluster's Java",
                    "use a function of Spark SQL",
                )
            if name == "identifier" and token.kind is TokenKind.WORD:
                raise SqlProblem(
                    "PQ602", "IDENTIFIER() is refused, as it hides what is called", "write the name"
                )
        if token.kind is TokenKind.WORD and name == "using" and following.kind is TokenKind.STRING:
            summary = "TRANSFORM ... USING is refused, as it runs a program on the cluster"
            raise SqlProblem("PQ602", summary, "use functions of Spark SQL")
    for _ in _with_depth(found):
        pass
    return found


def _with_depth(found: Sequence[Token]) -> Iterator[tuple[Token, int]]:
    """Each token and how many brackets are open before it.

    Raises:
        SqlProblem: the brackets are not in pairs.

    """
    opened: list[str] = []
    for token in found:
        yield token, len(opened)
        if token.kind is not TokenKind.SYMBOL:
            continue
        if token.text in "([":
            opened.append(token.text)
        elif token.text in _BRACKETS and (not opened or opened.pop() != _BRACKETS[token.text]):
            raise SqlProblem("PQ601", f"'{token.text}' closes nothing", "put brackets in pairs")
    if opened:
        raise SqlProblem("PQ601", f"'{opened[-1]}' is not closed", "put brackets in pairs")


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


def _without_strings(text: str) -> str:
    """The text with strings, quoted names and bracketed comments taken out."""
    kept = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return text
        position = match.end()
        if match.lastgroup == "comment":
            position = _comment_end(text, match.start())
        elif match.lastgroup not in ("string", "quoted"):
            kept.append(match.group())
    return " ".join(kept)
