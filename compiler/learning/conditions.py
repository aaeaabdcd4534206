"""Conditions of recorded scans as SQL for ``queries``, and their shapes, which have no values.

The model of a condition is that of :mod:`parquetry.runtime.layout.skipping.condition`, and the text of a
condition is parsed by that package into an equal condition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from itertools import pairwise
from typing import Final, TypeAlias

from parquetry.project.validation.template_syntax import is_template
from parquetry.runtime.layout.skipping.condition import (
    Compared,
    Condition,
    Conjunction,
    Disjunction,
    IsNull,
    Like,
    Literal,
    Opaque,
    TimestampLiteral,
)
from parquetry.runtime.layout.skipping.parser import END, NO_COLUMNS, parse_condition, spaced, tokens
from parquetry.text.sql_tokens import TokenKind

VALUE: Final = "?"
"""The sign of a value in a shape."""

_PLAIN_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
_REFUSED: Final = ("'", "\\", "${")
_Shown: TypeAlias = Callable[[Literal], str]


class UndeclarableError(Exception):
    """A value or a name that a condition of a spec cannot have."""


def conjuncts(condition: Condition) -> Iterator[Condition]:
    """Yield the parts that are joined by AND, at any depth; NOT IN is one part."""
    if isinstance(condition, Conjunction) and not _is_list(condition.parts):
        for part in condition.parts:
            yield from conjuncts(part)
    else:
        yield condition


def columns_in(condition: Condition) -> frozenset[str]:
    """Return the columns of a condition in lower case, fields of structs with dots."""
    match condition:
        case Conjunction(parts=parts) | Disjunction(parts=parts):
            return frozenset[str]().union(*map(columns_in, parts))
        case Compared() | Like() | IsNull():
            return frozenset({condition.column.lower()})
        case Opaque(sql=sql):
            return frozenset(text.lower() for piece, text in _pieces(sql) if piece is _Piece.NAME)
    return frozenset()


def renamed(condition: Condition, names: Mapping[str, str]) -> Condition:
    """Return the condition with other names of columns.

    Args:
        condition: The condition.
        names: The names by lower-case name.

    Raises:
        KeyError: If a column is not among them.

    """
    match condition:
        case Conjunction(parts=parts):
            return Conjunction(tuple(renamed(part, names) for part in parts))
        case Disjunction(parts=parts):
            return Disjunction(tuple(renamed(part, names) for part in parts))
        case Compared() | Like() | IsNull():
            return replace(condition, column=names[condition.column.lower()])
        case Opaque(sql=sql):
            return Opaque(
                spaced(
                    column_sql(names[text.lower()]) if piece is _Piece.NAME else text
                    for piece, text in _pieces(sql)
                )
            )


def has_text(condition: Condition) -> bool:
    """Return whether a condition has a value that is a text."""
    match condition:
        case Conjunction(parts=parts) | Disjunction(parts=parts):
            return any(map(has_text, parts))
        case Compared(literal=str()) | Like():
            return True
    return False


def has_term(condition: Condition) -> bool:
    """Return whether a condition has a term that statistics cannot answer."""
    match condition:
        case Conjunction(parts=parts) | Disjunction(parts=parts):
            return any(map(has_term, parts))
    return isinstance(condition, Opaque)


def filtering(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return the parts that select rows by their values, each once, ordered by their SQL.

    Spark adds ``IS NOT NULL`` for each column that a filter or a join compares. These are left out.

    Raises:
        UndeclarableError: If a value cannot be written.

    """
    parts = {sql_of(part): part for condition in conditions for part in conjuncts(condition)}
    kept = {text: part for text, part in parts.items() if not (isinstance(part, IsNull) and part.negated)}
    return tuple(kept[text] for text in sorted(kept, key=lambda text: (shape_of(kept[text]), text)))


def joined_sql(parts: Iterable[Condition]) -> str:
    """Return the SQL of parts joined by AND.

    Raises:
        UndeclarableError: If a value cannot be written.

    """
    return _joined(tuple(parts), shown=literal_sql)


def joined_shape(parts: Iterable[Condition]) -> str:
    """Return the shape of parts joined by AND, which is equal for each order of the parts."""
    return _joined(tuple(parts), shown=_no_value)


def sql_of(condition: Condition) -> str:
    """Return the SQL of a condition.

    Raises:
        UndeclarableError: If a value or a name cannot be written, or if the text would mean something else.

    """
    text = _text(condition, in_and=False, shown=literal_sql)
    if parse_condition(text) != condition:
        raise UndeclarableError
    return text


def shape_of(condition: Condition) -> str:
    """Return the condition without values; parts of OR that differ by values alone are one."""
    return _text(condition, in_and=False, shown=_no_value)


def shape_of_text(where: str, *, without: Callable[[Condition], bool] = lambda _: False) -> str:
    """Return the shape of a declared condition; an empty text if a part of it is not understood.

    Args:
        where: The SQL.
        without: The parts that are left out.

    """
    parts = tuple(conjuncts(parse_condition(where)))
    if not all(map(_is_understood, parts)):
        return ""
    return joined_shape(
        part for part in parts if not (isinstance(part, IsNull) and part.negated) and not without(part)
    )


def _joined(parts: tuple[Condition, ...], *, shown: _Shown) -> str:
    return " and ".join(_distinct(parts, in_and=len(parts) > 1, in_brackets=False, shown=shown))


def _is_understood(condition: Condition) -> bool:
    match condition:
        case Conjunction(parts=parts) | Disjunction(parts=parts):
            return bool(parts) and all(map(_is_understood, parts))
    return isinstance(condition, Compared | Like | IsNull) or condition != Opaque()


def _text(condition: Condition, *, in_and: bool, shown: _Shown) -> str:  # noqa: PLR0911 - a kind, an answer
    match condition:
        case Conjunction(parts=parts) | Disjunction(parts=parts) if _is_list(parts):
            return _listed(parts, is_in=isinstance(condition, Disjunction), shown=shown)
        case Conjunction(parts=parts):
            return " and ".join(_distinct(parts, in_and=True, in_brackets=False, shown=shown))
        case Disjunction(parts=parts) if parts:
            texts = _distinct(parts, in_and=False, in_brackets=True, shown=shown)
            text = " or ".join(texts)
            return f"({text})" if in_and and len(texts) > 1 else text
        case Compared(column=column, operator=operator, literal=literal):
            return f"{column_sql(column)} {operator} {shown(literal)}"
        case Like(column=column, pattern=pattern):
            return f"{column_sql(column)} like {shown(pattern)}"
        case IsNull(column=column, negated=negated):
            return f"{column_sql(column)} is {'not ' if negated else ''}null"
        case Opaque(sql=sql) if sql:
            return _term_shape(sql) if shown is _no_value else sql
    raise UndeclarableError


class _Piece(Enum):
    NAME = "name"
    VALUE = "value"
    TYPE = "type of a value"
    OTHER = "other"


def _pieces(sql: str) -> Iterator[tuple[_Piece, str]]:
    """Yield the names of columns in a term, its values, and what is between them."""
    column: list[str] = []
    before = END
    for token, after in pairwise(tokens(sql)):
        is_keyword = "as" in (before.keyword, token.keyword) or token.text.upper() in NO_COLUMNS
        before = token
        if token.kind in (TokenKind.STRING, TokenKind.NUMBER):
            yield _Piece.VALUE, token.written
        elif token.kind is TokenKind.WORD and after.kind is TokenKind.STRING and not is_keyword:
            yield _Piece.TYPE, token.written
        elif token.is_name and after.text != "(" and (token.kind is TokenKind.QUOTED or not is_keyword):
            column.append(token.text)
            if after.text != ".":
                yield _Piece.NAME, ".".join(column)
                column = []
        elif not column:
            yield _Piece.OTHER, token.written


def _term_shape(sql: str) -> str:
    return spaced(
        VALUE if piece is _Piece.VALUE else column_sql(text) if piece is _Piece.NAME else text
        for piece, text in _pieces(sql)
        if piece is not _Piece.TYPE
    )


def _distinct(parts: Iterable[Condition], *, in_and: bool, in_brackets: bool, shown: _Shown) -> Sequence[str]:
    """Return the texts of parts; those of shapes are sorted, and each is there once.

    If ``in_brackets``, parts that are joined by AND get brackets.
    """
    texts = []
    for part in parts:
        text = _text(part, in_and=in_and, shown=shown)
        is_joined = isinstance(part, Conjunction) and not _is_list(part.parts)
        texts.append(f"({text})" if is_joined and in_brackets else text)
    return sorted(set(texts)) if shown is _no_value else texts


def _is_list(parts: tuple[Condition, ...]) -> bool:
    """Return whether the parts are those of an IN or NOT IN on one column."""
    listed = [part for part in parts if isinstance(part, Compared) and part.listed]
    return bool(parts) and len(listed) == len(parts) and len({part.column for part in listed}) == 1


def _listed(parts: Iterable[Condition], *, is_in: bool, shown: _Shown) -> str:
    compared = [part for part in parts if isinstance(part, Compared)]
    texts = [shown(part.literal) for part in compared]
    values = VALUE if shown is _no_value else ", ".join(texts)
    return f"{column_sql(compared[0].column)} {'in' if is_in else 'not in'} ({values})"


def _no_value(literal: Literal) -> str:  # noqa: ARG001 - the signature of what shows values
    return VALUE


def literal_sql(literal: Literal) -> str:  # noqa: PLR0911 - a type, an answer
    """Return a value as SQL; raise UndeclarableError if that is not possible."""
    match literal:
        case bool():
            return "true" if literal else "false"
        case int():
            return str(literal)
        case float() if math.isfinite(literal):
            return f"{literal!r}D"
        case Decimal() if literal.is_finite():
            text = format(literal, "f")
            return text if "." in text else f"{text}BD"
        case str() if _is_plain_text(literal):
            return f"'{literal}'"
        case TimestampLiteral(value=value, without_zone=without_zone):
            return _timestamp(value, without_zone=without_zone)
        case date():
            return f"date '{literal.isoformat()}'"
    raise UndeclarableError


def _timestamp(value: datetime, *, without_zone: bool) -> str:
    if without_zone:
        return f"timestamp_ntz '{value.isoformat(sep=' ')}'"
    text = value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
    return f"timestamp '{text}Z'"


def column_sql(column: str) -> str:
    """Return a name, in backticks unless it is plain; fields of structs have dots between them."""
    parts = column.split(".")
    if not all(parts) or any("`" in part or not _is_plain_text(part) for part in parts):
        raise UndeclarableError
    return ".".join(part if _is_plain(part) else f"`{part}`" for part in parts)


def _is_plain(name: str) -> bool:
    return _PLAIN_NAME.fullmatch(name) is not None and name.upper() not in NO_COLUMNS


def _is_plain_text(text: str) -> bool:
    """Return whether a text can stand in a spec as it is: no quotes, escapes, templates or hidden signs."""
    return text.isprintable() and not is_template(text) and not any(sign in text for sign in _REFUSED)
