"""Checks that SQL in specs is one expression or one SELECT and reads only its source, without Spark.

A call of other people's code is refused even if the text only looks like one. A read of another relation and
invalid SQL are refused if they are certain. Before the job computes anything, it checks Spark's own parse by
the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from parquetry.project.diagnostics.model import Problem
from parquetry.project.sql.grammar import Effort, misfit, stray_relation
from parquetry.text.sql_rules import MOST_CHARACTERS, SOURCE, shown_name, why_function_is_refused
from parquetry.text.sql_tokens import Token, TokenKind, lexed

_BRACKETS = {")": "(", "]": "["}
_PASSED_OVER = (TokenKind.BLANK, TokenKind.COMMENT, TokenKind.HINT)


class SqlProblem(Problem):
    """An error in an SQL text."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """The fields of a :class:`SqlProblem`, for the cache."""

    code: str
    summary: str
    hint: str | None


_Check: TypeAlias = Callable[[str, Effort | None], Sequence[Token]]


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


def check_expression(text: str, effort: Effort | None = None) -> list[Token]:
    """Return the tokens of a text that is exactly one expression.

    Raises:
        SqlProblem: if the text is something else, or calls a refused function.

    """
    return list(_once(_expression, text, effort))


def check_select(text: str, effort: Effort | None = None) -> list[Token]:
    """Return the tokens of a text that is exactly one SELECT, which may begin with WITH.

    Raises:
        SqlProblem: if the text is something else, calls a refused function, or reads another relation.

    """
    return list(_once(_select, text, effort))


def _expression(text: str, effort: Effort | None) -> Sequence[Token]:
    found = _checked(text, line_comments=False)
    for token, depth in _with_depth(found):
        word = token.text.lower() if token.kind is TokenKind.WORD else ""
        if depth == 0 and token.text == ",":
            raise SqlProblem("PQ601", "more than one expression", "join them, or remove the comma")
        if depth == 0 and word == "as":
            raise SqlProblem("PQ601", "an expression has no AS name", "remove AS and the name")
    _check_grammar(found, effort)
    return found


def _select(text: str, effort: Effort | None) -> Sequence[Token]:
    found = _checked(text)
    first = found[0]
    if first.kind is not TokenKind.WORD or first.text.lower() not in ("select", "with"):
        raise SqlProblem("PQ601", "a SELECT is needed", "begin with SELECT ... FROM source")
    for token, following in pairwise(found):
        statement = token.kind is TokenKind.WORD and token.text.lower() == "insert"
        if statement and following.text.lower() in ("into", "overwrite"):
            raise SqlProblem("PQ601", "a SELECT is needed, not an INSERT", "remove the INSERT")
    _check_grammar(found, effort, query=True)
    return found


def _once(check: _Check, text: str, effort: Effort | None) -> Sequence[Token]:
    """Run ``check`` through a cache, as many tables of a project have equal texts."""
    if effort is None:
        return check(text, None)
    outcome, effort.left = _checked_before(check, text, effort.left)
    if isinstance(outcome, tuple):
        return outcome
    raise SqlProblem(outcome.code, outcome.summary, outcome.hint)


@lru_cache(maxsize=256)
def _checked_before(check: _Check, text: str, steps: int) -> tuple[tuple[Token, ...] | _Finding, int]:
    """Return the outcome of a check that may take ``steps`` steps, and the steps that are left."""
    effort = Effort(left=steps)
    try:
        return tuple(check(text, effort)), effort.left
    except SqlProblem as problem:
        return _Finding(problem.code, problem.summary, problem.hint), effort.left


def _check_grammar(found: Sequence[Token], effort: Effort | None, *, query: bool = False) -> None:
    wrong = misfit(found, query=query, effort=effort)
    if wrong is None:
        _check_relations(found, effort, query=query)
        return
    before = f" after {_shown(found[wrong - 1])}" if wrong else ""
    if wrong == len(found):
        raise SqlProblem("PQ601", f"the SQL ends{before}, where more is needed", "complete it")
    raise SqlProblem(
        "PQ601",
        f"{_shown(found[wrong])} does not fit{before}",
        "fix the SQL: an operator or a comma may be missing",
    )


def _check_relations(found: Sequence[Token], effort: Effort | None, *, query: bool) -> None:
    stray = stray_relation(found, query=query, effort=effort)
    if stray is None:
        return
    if query:
        summary = f"'{stray}' is refused: a select reads {SOURCE} and what it names in WITH, nothing else"
        raise SqlProblem("PQ602", summary, "join it where the source is produced")
    summary = f"{stray} within an expression is refused: it reads no other rows"
    raise SqlProblem("PQ602", summary, "compute it in the source's select")


def _shown(token: Token) -> str:
    return token.text if token.kind is TokenKind.STRING else f"'{token.text}'"


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
        if token.text == ";" and token.kind is TokenKind.SYMBOL:
            raise SqlProblem("PQ601", "';' is not accepted", "write one statement without ';'")
        if following is None:
            continue
        name = token.text.lower()
        if token.is_name and following.text == "(" and following.kind is TokenKind.SYMBOL:
            _check_call(found, index, arguments.get(index + 1, 0))
        if token.kind is TokenKind.WORD and name == "using" and following.kind is TokenKind.STRING:
            summary = "TRANSFORM ... USING is refused, as it runs a program on the cluster"
            raise SqlProblem("PQ602", summary, "use functions of Spark SQL")
    for _ in _with_depth(found):
        pass
    return found


def _check_call(found: Sequence[Token], index: int, arguments: int) -> None:
    """Raise SqlProblem if the name at ``index``, which a bracket follows, is that of a refused function."""
    if found[index].text.lower() == "identifier" and found[index].kind is TokenKind.WORD:
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
