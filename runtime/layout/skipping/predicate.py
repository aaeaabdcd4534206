"""Conditions on columns, and whether anything within known bounds can fulfil them.

Three-valued logic is kept simple: a condition that is not understood may always hold.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from parquetry.runtime.layout.skipping.statistics import StatisticValue

_FLOATS = frozenset({"float", "double"})


class Operator(StrEnum):
    """How a column is compared with a literal."""

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

ValueCondition: TypeAlias = Comparison | StartsWith
"""A condition that a list of values answers better than their bounds: equality, or a prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is known of a column's values in some rows; None is unknown.

    Bounds need not be attained. NaN lies outside of them, unless it is a bound itself, and may be among
    floating-point values that are not ``nan_free``: of those, bounds are as good as none.
    """

    type: str
    minimum: StatisticValue | None
    maximum: StatisticValue | None
    has_nulls: bool = True
    has_values: bool = True
    nan_free: bool = False


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


def value_conditions(predicate: Predicate) -> frozenset[ValueCondition]:
    """Return the parts of a condition that a list of a column's values answers better than their bounds."""
    match predicate:
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return frozenset[ValueCondition]().union(*map(value_conditions, parts))
        case Comparison(operator=Operator.EQUAL) | StartsWith():
            return frozenset({predicate})
    return frozenset()


def may_hold_without(predicate: Predicate, lacking: Collection[Hashable]) -> bool:
    """Return whether rows may fulfil the condition of which none fulfils the parts that are ``lacking``."""
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
    # Spark takes NaN for the greatest value.
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
    """Whether one is no greater than the other, NaN being the greatest; so too where it is not known."""
    if type(one) is int and type(other) is int:
        return one <= other
    if one is None or other is None or not _comparable(one, other):
        return True
    if _is_nan(one) or _is_nan(other):
        return _is_nan(other)
    return bool(one <= other)  # type: ignore[operator]  # comparable


def _is_certain(bound: StatisticValue | None, value: StatisticValue) -> bool:
    """Whether a bound is this value; 0.0 and -0.0 are one."""
    return bound is not None and (bound == value or (_is_nan(bound) and _is_nan(value)))


def _is_nan(value: StatisticValue) -> bool:
    return value != value  # noqa: PLR0124 - NaN alone


def _comparable(one: StatisticValue, other: StatisticValue) -> bool:
    """Whether the two have an order: both text, both bytes, or both numbers."""
    for kind in (str, bytes):
        if isinstance(one, kind) or isinstance(other, kind):
            return isinstance(one, kind) and isinstance(other, kind)
    return True
