"""SQL conditions as written, limited to the syntax that file statistics can answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias


class Comparator(StrEnum):
    """An operator between a column and a literal."""

    EQUAL = "="
    NULL_SAFE_EQUAL = "<=>"
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampLiteral:
    """``TIMESTAMP '...'``; without an offset, ``value`` is naive and in the session's time zone."""

    value: datetime
    without_zone: bool


Literal: TypeAlias = bool | int | float | Decimal | str | date | TimestampLiteral


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """``column operator literal``; fields of structs have dotted names.

    ``listed`` marks a literal of an IN list, because Spark casts all of these to one type before it compares.
    """

    column: str
    operator: Comparator
    literal: Literal
    listed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    """``column LIKE pattern``; ``prefix`` is the text before the first wildcard of the pattern."""

    column: str
    pattern: str
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """``column IS NULL``, or ``column IS NOT NULL`` if ``negated``."""

    column: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Parts joined by AND."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Disjunction:
    """Parts joined by OR; FALSE if there are none."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A term that was not understood, such as ``a + 1 = 2``; ``sql`` is empty if its end is not certain."""

    sql: str = ""


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
    """Return the condition that is true where this one is false; both are unknown (null) in the same rows."""
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
