"""SQL in specs is one expression or one SELECT, and cannot run code: checked without Spark.

What could run code is refused even where it only looks so; the job checks Spark's own parse tree again
before anything is executed. What is no SQL of Spark is refused where that is certain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from parquetry.project.sql_grammar import misfit
from parquetry.project.sql_tokens import SqlProblem, Token, TokenKind, tokens

_REFUSED_FUNCTIONS = frozenset({"reflect", "java_method", "try_reflect"})
_BRACKETS = {")": "(", "]": "["}


def check_expression(text: str) -> list[Token]:
    """The tokens of exactly one expression.

    Raises:
        SqlProblem: it is something else, or calls what is refused.

    """
    found = _checked(text, line_comments=False)
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
    _check_grammar(found)
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
    _check_grammar(found, query=True)
    return found


def _check_grammar(found: Sequence[Token], *, query: bool = False) -> None:
    wrong = misfit(found, query=query)
    if wrong is None:
        return
    before = f" after {_shown(found[wrong - 1])}" if wrong else ""
    if wrong == len(found):
        raise SqlProblem("PQ601", f"the SQL ends{before}, where more is needed", "complete it")
    raise SqlProblem(
        "PQ601",
        f"{_shown(found[wrong])} does not fit{before}",
        "mend the SQL: an operator or a comma may be missing",
    )


def _shown(token: Token) -> str:
    return token.text if token.kind is TokenKind.STRING else f"'{token.text}'"


def _checked(text: str, *, line_comments: bool = True) -> list[Token]:
    if "${" in text:
        hint = "Spark would replace it before it reads the SQL; use {{ var('name') }}"
        raise SqlProblem("PQ601", "'${' is not accepted in SQL", hint)
    found = tokens(text, line_comments=line_comments)
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
