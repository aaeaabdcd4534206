"""Conditions on columns, and the check whether values within known bounds can fulfil them.

Three-valued logic is simplified: a condition that is not understood may always hold.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from parquetry.runtime.layout.skipping.statistics import StatisticValue

_FLOATS = frozenset({"float", "double"})


class Operator(StrEnum):
    """A comparison operator between a column and a literal."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A column compared with a value that is not null."""

    column: str
    operator: Operator
    value: StatisticValue


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsWith:
    """A text column that starts with a prefix."""

    column: str
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """A column that is null, or that is not null if ``negated``."""

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
    """A condition that bounds cannot answer."""


Predicate: TypeAlias = Comparison | StartsWith | Null | AllOf | AnyOf | Unknown

ValueCondition: TypeAlias = Comparison | StartsWith
"""A condition that a list of values answers better than bounds: equality or a prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The known bounds of a column's values in some rows; None means unknown.

    Bounds need not be attained. NaN lies outside them, unless it is a bound itself. Floating-point values
    that are not ``nan_free`` may include NaN, the greatest value, so their maximum limits only comparisons
    for equality.
    """

    type: str
    minimum: StatisticValue | None
    maximum: StatisticValue | None
    has_nulls: bool = True
    has_values: bool = True
    nan_free: bool = False


def may_hold(predicate: Predicate, bounds: Mapping[str, Bounds]) -> bool:
    """Return whether a row within the bounds may fulfil the condition.

    Columns without bounds may have any value.
    """
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


def value_conditions(predicate: Predicate) -> frozenset[ValueCondition]:
    """Return the parts of a condition that compare a column's values or a prefix of them.

    A list of all values of the column answers these better than bounds.
    """
    match predicate:
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return frozenset[ValueCondition]().union(*map(value_conditions, parts))
        case Comparison(operator=Operator.EQUAL) | StartsWith():
            return frozenset({predicate})
    return frozenset()


def may_hold_without(predicate: Predicate, lacking: Collection[Hashable]) -> bool:
    """Return whether the condition may hold for rows that fulfil none of the parts in ``lacking``."""
    match predicate:
        case AllOf(parts=parts):
            return all(may_hold_without(part, lacking) for part in parts)
        case AnyOf(parts=parts):
            return any(may_hold_without(part, lacking) for part in parts)
    return predicate not in lacking


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


def _compares(operator: Operator, value: StatisticValue, known: Bounds) -> bool:
    low, high = known.minimum, known.maximum
    # Spark treats NaN as the greatest value.
    top = None if known.type in _FLOATS and not known.nan_free else high
    match operator:
        case Operator.EQUAL:
            return _at_most(low, value) and _at_most(value, top if _is_nan(value) else high)
        case Operator.NOT_EQUAL:
            return not (_is_certain(low, value) and _is_certain(top, value))
        case Operator.LESS:
            return not _is_certain(low, value) and _at_most(low, value)
        case Operator.AT_MOST:
            return _at_most(low, value)
        case Operator.GREATER:
            return not _is_certain(top, value) and _at_most(value, top)
        case Operator.AT_LEAST:
            return _at_most(value, top)


def _begins(prefix: str, known: Bounds) -> bool:
    low, high = known.minimum, known.maximum
    if isinstance(high, str) and high < prefix:
        return False
    return not (isinstance(low, str) and low > prefix and not low.startswith(prefix))


def _at_most(one: StatisticValue | None, other: StatisticValue | None) -> bool:
    """Return whether ``one`` is at most ``other``, with NaN as the greatest value; True if it is unknown."""
    if type(one) is int and type(other) is int:
        return one <= other
    if one is None or other is None or not _comparable(one, other):
        return True
    if _is_nan(one) or _is_nan(other):
        return _is_nan(other)
    return bool(one <= other)  # type: ignore[operator]  # comparable


def _is_certain(bound: StatisticValue | None, value: StatisticValue) -> bool:
    """Return whether a bound is this value; 0.0 equals -0.0."""
    return bound is not None and (bound == value or (_is_nan(bound) and _is_nan(value)))


def _is_nan(value: StatisticValue) -> bool:
    return value != value  # noqa: PLR0124 - NaN alone


def _comparable(one: StatisticValue, other: StatisticValue) -> bool:
    """Return whether the two values have an order: both text, both bytes, or both numbers."""
    for kind in (str, bytes):
        if isinstance(one, kind) or isinstance(other, kind):
            return isinstance(one, kind) and isinstance(other, kind)
    return True
