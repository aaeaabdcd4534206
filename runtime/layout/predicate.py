"""Conditions on columns, and whether anything within known bounds can fulfil them.

Three-valued logic is kept simple: a condition that is not understood may always hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from parquetry.runtime.layout.file_statistics import Scalar

_FLOATS = frozenset({"float", "double"})


class Operator(StrEnum):
    """How a column is compared with a literal."""

    EQUAL = "="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A column compared with a value that is not null."""

    column: str
    operator: Operator
    value: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsWith:
    """A text column that begins with a text."""

    column: str
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """A column that is null, or with ``negated`` that is not."""

    column: str
    negated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """Every part holds."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """One part holds."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A condition that bounds say nothing about."""


Predicate: TypeAlias = Comparison | StartsWith | Null | AllOf | AnyOf | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is known of a column's values in some rows; None is unknown.

    Bounds need not be attained. NaN may be among floating-point values and lies outside of them.
    """

    type: str
    minimum: Scalar | None
    maximum: Scalar | None
    has_nulls: bool = True
    has_values: bool = True


def may_hold(predicate: Predicate, bounds: Mapping[str, Bounds]) -> bool:
    """Whether a row within the bounds may fulfil the condition; columns without bounds may be anything."""
    match predicate:
        case AllOf(parts=parts):
            return all(may_hold(part, bounds) for part in parts)
        case AnyOf(parts=parts):
            return any(may_hold(part, bounds) for part in parts)
        case Unknown():
            return True
        case _:
            known = bounds.get(predicate.column)
            return known is None or _column_may_hold(predicate, known)


def _column_may_hold(predicate: Comparison | StartsWith | Null, known: Bounds) -> bool:
    match predicate:
        case Null(negated=negated):
            return known.has_values if negated else known.has_nulls
        case _ if not known.has_values:
            return False
        case StartsWith(prefix=prefix):
            return _begins(prefix, known)
        case Comparison(operator=operator, value=value):
            return _compares(operator, value, known)


def _compares(operator: Operator, value: Scalar, known: Bounds) -> bool:  # noqa: PLR0911 - a case, an answer
    low, high = known.minimum, known.maximum
    if value != value:  # noqa: PLR0124 - NaN
        return True
    match operator:
        case Operator.EQUAL:
            return _at_most(low, value) and _at_most(value, high)
        case Operator.LESS:
            return low is None or not _comparable(low, value) or low < value  # type: ignore[operator]  # comparable
        case Operator.AT_MOST:
            return _at_most(low, value)
        case Operator.GREATER:
            # Spark takes NaN for the greatest value, and bounds leave it out.
            if known.type in _FLOATS:
                return True
            return high is None or not _comparable(high, value) or high > value  # type: ignore[operator]  # comparable
        case Operator.AT_LEAST:
            return known.type in _FLOATS or _at_most(value, high)


def _begins(prefix: str, known: Bounds) -> bool:
    low, high = known.minimum, known.maximum
    if isinstance(high, str) and high < prefix:
        return False
    return not (isinstance(low, str) and low > prefix and not low.startswith(prefix))


def _at_most(one: Scalar | None, other: Scalar | None) -> bool:
    if one is None or other is None or not _comparable(one, other):
        return True
    return bool(one <= other)  # type: ignore[operator]  # comparable


def _comparable(one: Scalar, other: Scalar) -> bool:
    """Whether the two have an order: both text, both bytes, or both numbers."""
    for kind in (str, bytes):
        if isinstance(one, kind) or isinstance(other, kind):
            return isinstance(one, kind) and isinstance(other, kind)
    return True
