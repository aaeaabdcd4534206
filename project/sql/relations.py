"""The relations and table functions that a text reads, found in its tokens alone.

Anybody may write the texts, so this does not depend on a parser: a text that no parser understands is
searched too. Nearly every keyword of Spark is also a name. A word that may be either is taken for what it is
nearly always, and Spark's own parse decides before rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from parquetry.text.sql_rules import SOURCE, shown_name, why_table_function_is_refused
from parquetry.text.sql_tokens import Token, TokenKind

QUERY = "a query"
"""The result of :func:`stray_relation` for a subquery in an expression."""

_Scope = tuple[str, int, int]
_INFIX = frozenset(
    """
    and as between collate desc div else end escape from ilike in is like or regexp rlike then when
    """.split()  # noqa: SIM905 - a dozen words read better as a text
)
"""Words between or after operands: before one of them, a keyword is the name of a column."""
_ENDS_FROM = frozenset(
    """
    cluster distribute except group having intersect lateral limit minus offset order qualify select setminus
    sort union where window
    """.split()  # noqa: SIM905 - twenty words read better as a text
)
_BEFORE_OPERANDS = frozenset({"all", "by", "case", "distinct", "not", "on"})
_COMBINING = frozenset({"except", "intersect", "minus", "setminus", "union"})


_FOLLOWED = frozenset({"(", ")", "[", "]", ",", "|>", "from", "join", "table", "view"}) | _ENDS_FROM
"""Keywords and symbols that matter where no relation is expected."""
_TESTING = frozenset({"between", "ilike", "in", "like", "regexp", "rlike"})


class _Text:
    """The tokens of a text, and the keyword or symbol at each position in lower case.

    ``words`` is empty at positions of other tokens, and at the two positions before and after the text.
    """

    def __init__(self, found: Sequence[Token]) -> None:
        self.found = found
        plain = (TokenKind.WORD, TokenKind.SYMBOL)
        self.words = [token.text.lower() if token.kind in plain else "" for token in found] + [""] * 4

    def is_name(self, at: int) -> bool:
        return at < len(self.found) and self.found[at].is_name

    def is_operand(self, at: int) -> bool:
        """Return whether an operand is at a position: a name, number or string, or a word before one."""
        if at >= len(self.found) or self.found[at].kind is TokenKind.SYMBOL:
            return False
        if self.words[at] == "not":
            return self.words[at + 1] not in _TESTING
        return self.words[at] not in _INFIX or self.words[at + 1] == "."

    def ends_operand(self, at: int) -> bool:
        """Return whether an operand ends at a position, so that the next word is no operand."""
        if self.words[at] in (")", "]", "*"):
            return True
        keyword = (
            self.words[at] in _INFIX or self.words[at] in _ENDS_FROM or self.words[at] in _BEFORE_OPERANDS
        )
        return at >= 0 and self.found[at].kind is not TokenKind.SYMBOL and not keyword

    def chain(self, at: int) -> tuple[tuple[str, ...], int]:
        """Return the dotted names from a name on, and the position after them."""
        names = [self.found[at].text]
        at += 1
        while self.words[at] == "." and self.is_name(at + 1):
            names.append(self.found[at + 1].text)
            at += 2
        return tuple(names), at

    def begins_query(self, at: int) -> bool:
        """Return whether the text after a bracket is a query, and no expression of a column so named."""
        word, following = self.words[at], self.words[at + 1]
        if word == "select":
            begins = self.is_operand(at + 1) or following in ("(", "*", "-", "+", "~", "!")
            return begins or self.words[at + 2] == "from"
        if word == "from":
            return (self.is_operand(at + 1) or following == "(") and self.words[at - 2] != "trim"
        return word in ("table", "values", "with") and self.is_operand(at + 1)


@dataclass(slots=True)
class _Group:
    """A pair of brackets, or the whole text.

    Attributes:
        queried: True if it contains a query or a join, so that FROM and JOIN are keywords.
        listing: True within the relations of FROM, which commas separate.
        rows: True within the rows of VALUES, which commas separate too.

    """

    queried: bool = False
    listing: bool = False
    rows: bool = False


def stray_relation(found: Sequence[Token], *, query: bool) -> str | None:
    """Return the relation or table function that a text reads without permission, or None.

    A query may read ``source``, and the names of its WITH within their scope. An expression may read no
    relation; for a subquery in it, the result is ``QUERY``. The brackets must be in pairs.
    """
    text = _Text(found)
    if not query:
        queries = (at for at, word in enumerate(text.words) if word == "(" and text.begins_query(at + 1))
        return None if next(queries, None) is None else QUERY
    scopes = _scopes(text) if "with" in text.words else ()
    for at in _relations(text):
        names, end = text.chain(at)
        if text.words[end] == "(":
            if why_table_function_is_refused(names) is not None:
                return f"{shown_name(names)}()"
        elif len(names) > 1 or not _is_readable(names[0].lower(), at, scopes):
            return shown_name(names)
    return None


def _is_readable(name: str, at: int, scopes: Sequence[_Scope]) -> bool:
    return name == SOURCE or any(bound == name and start < at < end for bound, start, end in scopes)


def _relations(text: _Text) -> Iterator[int]:
    """Yield the position of each name of a relation or table function in a query."""
    groups = [_Group(queried=True)]
    expected = False
    for at, token in enumerate(text.found):
        word, group = text.words[at], groups[-1]
        if not expected and not group.rows and word not in _FOLLOWED:
            continue
        if word in (")", "]"):
            groups.pop()
            expected = False
        elif word in ("(", "["):
            begins = text.begins_query(at + 1)
            groups.append(_Group(queried=expected or begins, listing=expected and not begins))
            expected = expected and not begins
        elif expected and word == "values" and text.words[at + 1] not in (".", ",", ")"):
            group.rows, expected = True, False
        elif not (expected and token.is_name):
            expected = _introduces(text, at, group)
        elif not _precedes_relation(text, at):
            yield at
            expected = False
        _follow(text, at, group)


def _precedes_relation(text: _Text, at: int) -> bool:
    """Return whether the name at a position is LATERAL, or OUTER after LATERAL VIEW, before a relation."""
    word = text.words[at]
    if word == "lateral" and text.words[at + 1] == "(":
        return True
    return (word == "lateral" or (word == "outer" and text.words[at - 1] == "view")) and text.is_operand(
        at + 1
    )


def _introduces(text: _Text, at: int, group: _Group) -> bool:
    """Return whether a relation or table function follows a token."""
    word, before, following = text.words[at], text.words[at - 1], text.words[at + 1]
    if word == ",":
        return group.listing and not group.rows
    if not group.queried or before == ".":
        return False
    if word == "view" and before == "lateral":
        name = at + 1 + (following == "outer" and text.words[at + 2] != "(")
        return text.is_name(name) and text.words[text.chain(name)[1]] == "("
    if word == "table":
        combined = text.words[at - 2] if before in ("all", "distinct") else before
        return text.is_operand(at + 1) and (combined == "(" or combined in _COMBINING)
    compares = before == "distinct" and text.words[at - 2] in ("is", "not")
    if word != "join" and (word != "from" or compares):
        return False
    named = text.is_operand(at + 1) or following == "("
    return named or (word == "from" and following in _INFIX and text.ends_operand(at - 1))


def _follow(text: _Text, at: int, group: _Group) -> None:
    """Keep in ``group`` whether commas separate relations or rows after this token."""
    word, following = text.words[at], text.words[at + 1]
    if group.rows and text.found[at].is_name and _follows_row(text, at):
        group.rows = False
    if word == "from" and _introduces(text, at, group):
        group.listing = True
    elif word == "lateral":
        group.listing = group.listing and following != "view"
    elif word == "|>" or (word in _ENDS_FROM and following not in (",", ")", ".")):
        group.listing = False


def _follows_row(text: _Text, at: int) -> bool:
    """Return whether the name at a position comes after a row of VALUES: it is an alias or a keyword."""
    ends = at > 0 and text.found[at - 1].kind in (TokenKind.NUMBER, TokenKind.STRING)
    return ends or text.words[at - 1] in (")", "]") or text.words[at] == "as"


def _scopes(text: _Text) -> Sequence[_Scope]:
    """Return the lower-cased names of each WITH, with the range of positions in which they are valid."""
    closing: dict[int, int] = {}
    around: list[int] = []
    opened: list[int] = []
    for at, word in enumerate(text.words):
        around.append(opened[-1] if opened else -1)
        if word == "(":
            opened.append(at)
        elif word == ")" and opened:
            closing[opened.pop()] = at
    scopes: list[_Scope] = []
    for at, word in enumerate(text.words):
        if word == "with":
            end = closing.get(around[at], len(text.found))
            scopes += [(name, start, end) for name, start in _named_queries(text, at + 1, closing)]
    return scopes


def _named_queries(text: _Text, at: int, closing: Mapping[int, int]) -> Iterator[tuple[str, int]]:
    """Yield the names after a WITH, and where each scope starts: after its query, or in it if recursive."""
    recursive = text.words[at] == "recursive" and text.words[at + 1] not in ("as", "(")
    at += recursive
    while text.is_name(at):
        name, at = text.found[at].text.lower(), at + 1
        opened = -1
        while at in closing or _is_between_name_and_query(text, at):
            if at in closing:
                opened, at = at, closing[at]
            at += 1
        if opened < 0:
            return
        yield name, opened if recursive else closing[opened]
        if text.words[at] != ",":
            return
        at += 1


def _is_between_name_and_query(text: _Text, at: int) -> bool:
    is_number = at < len(text.found) and text.found[at].kind is TokenKind.NUMBER
    return is_number or text.words[at] in ("as", "max", "recursion", "level")
