"""Checks that SQL in specs is one expression or one SELECT and reads only its source, without Spark.

A call of other people's code is refused even if the text only looks like one. A read of another relation is
refused if it is certain. SQL that cannot be parsed here is not refused. Before the job computes anything, it
checks Spark's own parse by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from parquetry.message import Text
from parquetry.project.diagnostics.model import Problem
from parquetry.project.sql.checked import Sql
from parquetry.project.sql.relations import stray_relation
from parquetry.text.sql_rules import MOST_CHARACTERS, SOURCE, shown_name, why_function_is_refused
from parquetry.text.sql_tokens import Token, TokenKind, lexed

_BRACKETS = {")": "(", "]": "["}
_PASSED_OVER = (TokenKind.BLANK, TokenKind.COMMENT, TokenKind.HINT)
_SIGNS = frozenset(
    "( ) [ ] , . : :: -> => |> = == <=> <> != < <= !> > >= !< + - * / % || & | ^ ~ !".split()  # noqa: SIM905
)
"""The symbols of Spark's expressions and queries. Others are those of parameters and templates."""

_BEFORE_VALUES = frozenset(
    """
    and between by case distinct div else having ilike in interval like limit not offset on or qualify regexp
    rlike select then when where
    """.split()  # noqa: SIM905 - twenty words read better as a text
)
"""Words before an operand: a colon after one of them begins a parameter."""


class SqlProblem(Problem):
    """An error in an SQL text."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """The fields of a :class:`SqlProblem`, for the cache."""

    code: str
    summary: Text
    hint: Text | None


def tokens(text: str, *, line_comments: bool = True) -> list[Token]:
    """Return the tokens of an SQL text without blanks, comments and hints.

    Raises:
        SqlProblem: if a string, quoted name or comment does not end, or if there is a ``--`` comment although
        ``line_comments`` is False.

    """
    found = []
    for token in lexed(text):
        if token.kind is TokenKind.OPEN:
            if token.text.startswith("/*"):
                raise SqlProblem("PQ601", "a comment does not end", "close it with */")
            raise SqlProblem("PQ601", f"the quote {token.text[0]} does not end", "close it")
        if token.kind is TokenKind.QUOTED and not token.text:
            raise SqlProblem("PQ601", "a name in backticks is empty", "write the name")
        if token.kind is TokenKind.COMMENT and token.text.startswith("--") and not line_comments:
            raise SqlProblem(
                "PQ601", "'--' begins a comment that would swallow what follows", "write /* ... */"
            )
        if token.kind not in _PASSED_OVER:
            found.append(token)
    return found


def check_expression(text: str) -> Sql:
    """Return a text that is exactly one expression.

    Raises:
        SqlProblem: if the text is something else, or calls a refused function.

    """
    return _once(text, query=False)


def check_select(text: str) -> Sql:
    """Return a text that is exactly one SELECT, which may begin with WITH.

    Raises:
        SqlProblem: if the text is something else, calls a refused function, or reads another relation.

    """
    return _once(text, query=True)


def _once(text: str, *, query: bool) -> Sql:
    outcome = _outcome(text, query=query)
    if isinstance(outcome, Sql):
        return outcome
    raise SqlProblem(outcome.code, outcome.summary, outcome.hint)


@lru_cache(maxsize=256)
def _outcome(text: str, *, query: bool) -> Sql | _Finding:
    """Return the outcome of a check. It is cached, as many tables of a project have equal texts."""
    try:
        return _select(text) if query else _expression(text)
    except SqlProblem as problem:
        return _Finding(problem.code, problem.summary, problem.hint)


def _expression(text: str) -> Sql:
    found = _checked(text, line_comments=False)
    for index, (token, depth) in enumerate(_with_depth(found)):
        word = token.keyword if index else ""
        if depth == 0 and token.text == ",":
            raise SqlProblem("PQ601", "more than one expression", "join them, or remove the comma")
        if depth == 0 and word == "as":
            raise SqlProblem("PQ601", "an expression has no AS name", "remove AS and the name")
    return _read(text, found, query=False)


def _select(text: str) -> Sql:
    found = _checked(text)
    first = found[0]
    if first.keyword not in ("select", "with"):
        raise SqlProblem("PQ601", "a SELECT is needed", "begin with SELECT ... FROM source")
    for token, following in pairwise(found):
        if token.keyword == "insert" and following.keyword in ("into", "overwrite"):
            raise SqlProblem("PQ601", "a SELECT is needed, not an INSERT", "remove the INSERT")
    return _read(text, found, query=True)


def _read(text: str, found: Sequence[Token], *, query: bool) -> Sql:
    """Parse a text, and refuse what it must not read by its tokens or by its tree."""
    from parquetry.project.sql.parser import parsed  # noqa: PLC0415 - sqlglot, only for tables with SQL

    _check_relations(stray_relation(found, query=query), query=query)
    sql = parsed(text, found, query=query)
    _check_relations(sql.unlisted, query=query)
    return sql


def _check_relations(stray: str | None, *, query: bool) -> None:
    if stray is None:
        return
    if query:
        summary = f"'{stray}' is refused: a select reads {SOURCE} and what it names in WITH, nothing else"
        raise SqlProblem("PQ602", summary, "join it where the source is produced")
    summary = f"{stray} within an expression is refused: it reads no other rows"
    raise SqlProblem("PQ602", summary, "compute it in the source's select")


def _checked(text: str, *, line_comments: bool = True) -> list[Token]:
    if len(text) > MOST_CHARACTERS:
        summary = f"the SQL has {len(text):,} characters, and {MOST_CHARACTERS:,} are read at most"
        raise SqlProblem("PQ601", summary, "join with a table of the values instead")
    if "${" in text:
        hint = "Spark would replace it before it reads the SQL; use {{ var('name') }}"
        raise SqlProblem("PQ601", "'${' is not accepted in SQL", hint)
    found = tokens(text, line_comments=line_comments)
    if not found:
        raise SqlProblem("PQ601", "the SQL is empty", "write an expression")
    arguments = _arguments(found)
    for index, token in enumerate(found):
        following = found[index + 1] if index + 1 < len(found) else None
        _check_sign(found, index)
        if following is None:
            continue
        if token.is_name and following.text == "(" and following.kind is TokenKind.SYMBOL:
            _check_call(found, index, arguments.get(index + 1, 0))
        if token.keyword == "using" and following.kind is TokenKind.STRING:
            summary = "TRANSFORM ... USING is refused, as it runs a program on the cluster"
            raise SqlProblem("PQ602", summary, "use functions of Spark SQL")
    for _ in _with_depth(found):
        pass
    return found


def _check_sign(found: Sequence[Token], index: int) -> None:
    """Raise SqlProblem if the token at ``index`` cannot be in Spark's SQL there."""
    token = found[index]
    if token.kind is TokenKind.VERSION_DEPENDENT:
        raise SqlProblem("PQ601", "'://' and '$$' are not accepted in SQL", "put the text in quotes")
    if token.kind is not TokenKind.SYMBOL:
        return
    if token.text == ";":
        raise SqlProblem("PQ601", "';' is not accepted", "write one statement without ';'")
    before = found[index - 1] if index else None
    begins = before is None or (
        before.text not in (")", "]") if before.kind is TokenKind.SYMBOL else before.keyword in _BEFORE_VALUES
    )
    if token.text not in _SIGNS or (token.text == ":" and begins):
        hint = "write the value: SQL in specs has no parameters" if token.text in ("?", ":") else "remove it"
        raise SqlProblem("PQ601", f"'{token.text}' is not accepted here in SQL", hint)


def _check_call(found: Sequence[Token], index: int, arguments: int) -> None:
    """Raise SqlProblem if the name at ``index``, which a bracket follows, is that of a refused function."""
    if found[index].keyword == "identifier":
        summary = "IDENTIFIER() is refused, as it hides what is called"
        raise SqlProblem("PQ602", summary, "write the name")
    first = index
    while first >= 2 and found[first - 1].text == "." and found[first - 2].is_name:  # noqa: PLR2004
        first -= 2
    if first and found[first - 1].text == ".":
        return
    name = [token.text for token in found[first : index + 1 : 2]]
    refused = why_function_is_refused(name, arguments)
    if refused is not None:
        summary = f"the function {shown_name(name)} is refused, as {refused}"
        raise SqlProblem("PQ602", summary, "use a function of Spark SQL")


def _arguments(found: Sequence[Token]) -> Mapping[int, int]:
    """Return the number of arguments in the brackets that open at each position."""
    commas: dict[int, int] = {}
    opened: list[int] = []
    for at, token in enumerate(found):
        if token.kind is not TokenKind.SYMBOL:
            continue
        if token.text in ("(", "["):
            commas[at] = 0
            opened.append(at)
        elif token.text in _BRACKETS and opened:
            opened.pop()
        elif token.text == "," and opened:
            commas[opened[-1]] += 1
    return {at: count + 1 for at, count in commas.items()}


def _with_depth(found: Sequence[Token]) -> Iterator[tuple[Token, int]]:
    """Yield each token with the number of brackets that are open before it.

    Raises:
        SqlProblem: if the brackets are not in pairs.

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
