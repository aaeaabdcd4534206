"""The relations and table functions that a text reads, found in its tokens alone.

Anybody may write the texts, so this does not depend on a parser: a text that no parser understands is
searched too. Nearly every keyword of Spark is also a name. A word that may be either is taken for what it is
nearly always, and Spark's own parse decides before rows are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from parquetry.text.sql_rules import SOURCE, shown_name, why_table_function_is_refused
from parquetry.text.sql_tokens import Token, TokenKind

QUERY = "a query"
"""The result of :func:`stray_relation` for a subquery in an expression."""

_Scopes = Mapping[str, Sequence[tuple[int, int]]]
_INFIX = frozenset(
    """
    and as between collate desc div else end escape from ilike in is like or regexp rlike then when
    """.split()  # noqa: SIM905 - a dozen words read better as a text
)
"""Words between or after operands: before one of them, a keyword is the name of a column."""
_NO_OPERATORS = frozenset({"desc", "else", "end", "escape", "from", "then", "when"})
"""Words of ``_INFIX`` that cannot follow the first operand within brackets."""
_ENDS_FROM = frozenset(
    """
    cluster distribute except group having intersect lateral limit minus offset order qualify select setminus
    sort union where window
    """.split()  # noqa: SIM905 - twenty words read better as a text
)
_BEFORE_OPERANDS = frozenset({"all", "by", "case", "distinct", "not", "on"})
_COMBINING = frozenset({"except", "intersect", "minus", "setminus", "union"})
_WITH_BY = frozenset({"cluster", "distribute", "group", "order", "sort"})
_JOINING = frozenset(
    {"anti", "cross", "full", "inner", "join", "left", "natural", "on", "right", "semi", "using"}
)
_AFTER_RELATION = _JOINING | _ENDS_FROM | {"as"}
_SIGNS_OF_OPERANDS = frozenset({"(", "*", "-", "+", "~", "!"})
_NAMED_IN_CALL = frozenset({"cast", "struct", "try_cast"})
"""Functions in whose brackets AS follows the first operand."""
_QUERIES = frozenset({"(", "from", "map", "reduce", "select", "table", "values", "with"})
_PAST = frozenset({"system_time", "system_version", "timestamp", "version"})


_FOLLOWED = frozenset({"(", ")", "[", "]", ",", "|>", "=>", "from", "join", "table", "view"}) | _ENDS_FROM
"""Keywords and symbols that matter where no relation is expected."""
_TESTING = frozenset({"between", "ilike", "in", "like", "regexp", "rlike"})


class _Text:
    """The tokens of a text, and the keyword or symbol at each position in lower case.

    ``words`` is empty at positions of other tokens, and at the two positions before and after the text.
    """

    def __init__(self, found: Sequence[Token]) -> None:
        self.found = found
        words = [token.text if token.kind is TokenKind.SYMBOL else token.keyword for token in found]
        self.words = [*words, *[""] * 4]
        # False if WITH gives the name `values` to a query.
        self.has_rows = True
        self._ending: list[bool] = []
        for at in range(len(found)):
            self._ending.append(self._is_ending(at))
        self._ending += [False] * 4

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
        return self._ending[at]

    def _is_ending(self, at: int) -> bool:
        word = self.words[at]
        if self.found[at].kind is TokenKind.SYMBOL:
            return word in (")", "]", "*")
        if word not in _INFIX and word not in _ENDS_FROM and word not in _BEFORE_OPERANDS:
            return True
        # Where a keyword cannot be, the word is a column or an alias.
        before = self.words[at - 1] if at else "|>"
        if word == "end":
            return True
        if word == "select":
            return before in ("select", ",")
        keyword = before in ("|>", "case", "all", "distinct", "not") or word in _BEFORE_OPERANDS
        return not keyword and not self._ending[at - 1]

    def names_relation(self, at: int) -> bool:
        """Return whether the name at a position can only be a relation after FROM: no operand follows it."""
        word, following = self.words[at], self.words[at + 1]
        if not self.is_name(at):
            return False
        if word not in _INFIX or following in _ENDS_FROM or following in _JOINING:
            return True
        return not self.is_operand(at + 1) and following not in _SIGNS_OF_OPERANDS and following != "not"

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
        if following == "as" and self.words[at - 2] in _NAMED_IN_CALL:
            return False
        if word == "select":
            is_followed = at + 1 < len(self.found) and self.found[at + 1].kind is not TokenKind.SYMBOL
            return is_followed or following in _SIGNS_OF_OPERANDS
        if word == "from":
            named = self.is_operand(at + 1) or self.names_relation(at + 1) or following in _NO_OPERATORS
            named = named or (following == "(" and self.words[at + 2] != ")")
            return named and self.words[at - 2] != "trim"
        if word == "with":
            return self.is_name(at + 1)
        return word in ("table", "values") and (self.is_operand(at + 1) or self.names_relation(at + 1))


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
    scopes, bodies = _scopes(text) if "with" in text.words else ({}, frozenset())
    text.has_rows = "values" not in scopes
    for at in _relations(text, bodies):
        names, end = text.chain(at)
        if text.words[end] == "(":
            if why_table_function_is_refused(names) is not None:
                return f"{shown_name(names)}()"
        elif len(names) > 1 or not _is_readable(names[0].lower(), at, scopes):
            return shown_name(names)
        elif _is_past(text, end):
            return shown_name([f"{names[0]} {text.words[end]}"])
        elif text.words[at] == "stream" and text.is_name(end) and text.words[end] not in _AFTER_RELATION:
            return shown_name([f"stream {text.found[end].text}"])
    return None


def _is_past(text: _Text, at: int) -> bool:
    """Return whether the words after a relation name an earlier state of it."""
    at += text.words[at] == "for"
    return text.words[at] in _PAST and text.words[at + 1] == "as" and text.words[at + 2] == "of"


def _is_readable(name: str, at: int, scopes: _Scopes) -> bool:
    return name == SOURCE or any(start < at < end for start, end in scopes.get(name, ()))


def _relations(text: _Text, bodies: Collection[int]) -> Iterator[int]:
    """Yield the position of each name of a relation or table function in a query.

    ``bodies`` are the positions at which the queries of WITH, and those after them, begin.
    """
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
            begins = text.begins_query(at + 1) or at + 1 in bodies
            groups.append(_Group(queried=expected or begins, listing=expected and not begins))
            expected = expected and not begins
        elif expected and word == "values" and text.has_rows and _begins_rows(text, at + 1):
            group.rows, expected = True, False
        elif not (expected and token.is_name):
            expected = _introduces(text, at, group, bodies)
        elif not _precedes_relation(text, at):
            yield at
            expected = False
        _follow(text, at, group, bodies)


def _begins_rows(text: _Text, at: int) -> bool:
    """Return whether the word VALUES before a position is no relation of that name, with an alias."""
    word, following = text.words[at], text.words[at + 1]
    if text.is_name(at):
        is_alone = at + 1 >= len(text.found) or following == ")" or following in _AFTER_RELATION
        if is_alone or (following == "," and text.is_name(at + 2)):
            return False
    is_signed = word in _SIGNS_OF_OPERANDS or word == "["
    return is_signed or (text.is_operand(at) and word not in _AFTER_RELATION)


def _precedes_relation(text: _Text, at: int) -> bool:
    """Return whether the name at a position is LATERAL, or OUTER after LATERAL VIEW, before a relation."""
    word = text.words[at]
    if word == "lateral" and text.words[at + 1] == "(":
        return text.words[at + 2] in _QUERIES
    precedes = word == "lateral" or (word == "outer" and text.words[at - 1] == "view")
    return precedes and text.is_operand(at + 1) and text.words[at + 1] not in _AFTER_RELATION


def _introduces(text: _Text, at: int, group: _Group, bodies: Collection[int]) -> bool:
    """Return whether a relation or table function follows a token."""
    word, before, following = text.words[at], text.words[at - 1], text.words[at + 1]
    if word == ",":
        return group.listing and not group.rows
    if word == "table":
        return _is_table(text, at, group, bodies)
    if not group.queried or before == ".":
        return False
    if word == "view" and before == "lateral":
        return _is_lateral_view(text, at)
    if word == "join":
        return text.is_name(at + 1) or following == "("
    return word == "from" and not _compares(text, at) and _is_from(text, at)


def _is_from(text: _Text, at: int) -> bool:
    if text.is_operand(at + 1) or text.words[at + 1] == "(":
        return True
    return text.is_name(at + 1) and (text.ends_operand(at - 1) or text.names_relation(at + 1))


def _is_table(text: _Text, at: int, group: _Group, bodies: Collection[int]) -> bool:
    """Return whether the TABLE at a position begins a query, or an argument of a table function."""
    before, following = text.words[at - 1], text.words[at + 1]
    if before in ("all", "distinct"):
        before = text.words[at - 2]
    begins = at in bodies or before == "(" or before in _COMBINING
    is_argument = before in ("(", "=>") or (before == "," and not group.queried)
    return (begins and text.is_name(at + 1)) or (is_argument and following == "(")


def _is_lateral_view(text: _Text, at: int) -> bool:
    """Return whether the VIEW at a position, after LATERAL, is followed by a function."""
    name = at + 1 + (text.words[at + 1] == "outer" and text.words[at + 2] != "(")
    return text.is_name(name) and text.words[text.chain(name)[1]] == "("


def _compares(text: _Text, at: int) -> bool:
    """Return whether the FROM at a position is that of ``a IS [NOT] DISTINCT FROM b``."""
    if text.words[at - 1] != "distinct":
        return False
    at -= 3 if text.words[at - 2] in ("not", "!") else 2
    return at > 0 and text.words[at] == "is" and text.ends_operand(at - 1)


def _follow(text: _Text, at: int, group: _Group, bodies: Collection[int]) -> None:
    """Keep in ``group`` whether commas separate relations or rows after this token."""
    word, before, following = text.words[at], text.words[at - 1], text.words[at + 1]
    if group.rows and text.found[at].is_name and _follows_row(text, at):
        group.rows = False
    if word == "|>" or (word in _COMBINING and before == ")"):
        group.queried, group.listing = True, False
    elif word == "from" and _introduces(text, at, group, bodies):
        group.listing = True
    elif word == "lateral":
        group.listing = group.listing and not (following == "view" and _is_lateral_view(text, at + 1))
    elif before != "as" and _ends_listing(text, at):
        group.listing = False


def _ends_listing(text: _Text, at: int) -> bool:
    """Return whether a clause begins at a position after which commas separate no relations.

    After other clauses, such as WHERE, no comma can be, so that the word before one is an alias.
    """
    word, following = text.words[at], text.words[at + 1]
    if word in _WITH_BY:
        return following == "by"
    if word == "window":
        return text.words[at + 2] == "as" and following not in _JOINING
    return (word == "select" and text.begins_query(at)) or (
        word in _COMBINING and following in ("all", "distinct", "select", "from", "table", "values", "(")
    )


def _follows_row(text: _Text, at: int) -> bool:
    """Return whether the name at a position comes after a row of VALUES: it is an alias or a keyword."""
    if text.words[at] == "as":
        return True
    number_or_string = at > 0 and text.found[at - 1].kind in (TokenKind.NUMBER, TokenKind.STRING)
    if number_or_string or text.words[at - 1] in (")", "]"):
        return True
    return text.ends_operand(at - 1) and text.words[at - 1] != "values" and text.names_relation(at)


def _scopes(text: _Text) -> tuple[_Scopes, Collection[int]]:
    """Return the lower-cased names of each WITH, with the range of positions in which they are valid.

    The second part of the result has the positions at which their queries, and those after them, begin.
    """
    closing: dict[int, int] = {}
    around: list[int] = []
    opened: list[int] = []
    for at, word in enumerate(text.words):
        around.append(opened[-1] if opened else -1)
        if word == "(":
            opened.append(at)
        elif word == ")" and opened:
            closing[opened.pop()] = at
    scopes: dict[str, list[tuple[int, int]]] = {}
    bodies: set[int] = set()
    named: set[int] = set()
    for at, word in enumerate(text.words):
        # The name of a query may be `with`: its list was read before, and reading it again would take long.
        if word == "with" and at not in named:
            end = closing.get(around[at], len(text.found))
            for name, start, bracket in _named_queries(text, at + 1, closing):
                named.add(name)
                bound = text.found[name].text.lower()
                scopes.setdefault(bound, []).append((start, end))
                bodies |= {bracket + 1, closing[bracket] + 1}
    return scopes, bodies


def _named_queries(text: _Text, at: int, closing: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
    """Yield the positions of names after a WITH, where each scope starts, and where its query is opened.

    A scope starts after the query, or in it if WITH is recursive.
    """
    recursive = text.words[at] == "recursive" and text.words[at + 1] not in ("as", "(")
    at += recursive
    while text.is_name(at):
        name, at = at, at + 1
        opened = -1
        while at in closing or _is_between_name_and_query(text, at):
            if at in closing:
                opened, at = at, closing[at]
            at += 1
        if opened < 0 or text.words[opened + 1] not in _QUERIES:
            return
        yield name, opened if recursive else closing[opened], opened
        if text.words[at] != ",":
            return
        at += 1


def _is_between_name_and_query(text: _Text, at: int) -> bool:
    is_number = at < len(text.found) and text.found[at].kind is TokenKind.NUMBER
    return is_number or text.words[at] in ("as", "max", "recursion", "level")
