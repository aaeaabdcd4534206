"""SQL conditions as written: the part of their syntax that statistics of files can answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias


class Comparator(StrEnum):
    """Operators between a column and a literal."""

    EQUAL = "="
    NULL_SAFE_EQUAL = "<=>"
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampLiteral:
    """``TIMESTAMP '...'``: aware with an offset written in it, else in the session's time zone."""

    value: datetime
    without_zone: bool


Literal: TypeAlias = bool | int | float | Decimal | str | date | TimestampLiteral


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """``column operator literal``; columns are dotted for fields of structs.

    ``listed``: one of an IN list, all of which Spark brings to one type before it compares.
    """

    column: str
    operator: Comparator
    literal: Literal
    listed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    """``column LIKE 'prefix%...'``."""

    column: str
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """``column IS NULL``, with ``negated`` IS NOT NULL."""

    column: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Parts joined by AND."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Disjunction:
    """Parts joined by OR; FALSE when there are none."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A term that was not understood."""


Condition: TypeAlias = Compared | Like | IsNull | Conjunction | Disjunction | Opaque

_OPPOSITES = {
    Comparator.EQUAL: Comparator.NOT_EQUAL,
    Comparator.NOT_EQUAL: Comparator.EQUAL,
    Comparator.LESS: Comparator.GREATER_OR_EQUAL,
    Comparator.GREATER_OR_EQUAL: Comparator.LESS,
    Comparator.GREATER: Comparator.LESS_OR_EQUAL,
    Comparator.LESS_OR_EQUAL: Comparator.GREATER,
}


def negation(condition: Condition) -> Condition:
    """What is true where the condition is false; where it is unknown (null) neither is."""
    match condition:
        case Compared(operator=operator) if operator in _OPPOSITES:
            return replace(condition, operator=_OPPOSITES[operator])
        case IsNull():
            return IsNull(column=condition.column, negated=not condition.negated)
        case Conjunction():
            return Disjunction(tuple(negation(part) for part in condition.parts))
        case Disjunction() if condition.parts:
            return Conjunction(tuple(negation(part) for part in condition.parts))
    return Opaque()
