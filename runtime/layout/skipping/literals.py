"""Literals as values of the compared column's type, under the rules of Spark SQL's comparisons."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal

from parquetry.runtime.layout.skipping.condition import Literal, TimestampLiteral
from parquetry.runtime.layout.skipping.parser import parse_date, parse_timestamp
from parquetry.runtime.layout.skipping.statistics import StatisticValue

_LONG_DIGITS = 20
_MOST_DIGITS = 38
_LISTED_SCALE = 9
_EXACT_IN_FLOAT = 2**24
_EXACT_IN_DOUBLE = 2**53
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_DECIMAL = re.compile(r"decimal\((?P<precision>\d+),(?P<scale>\d+)\)")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local times are counted without a zone
_NAMED_FLOATS = {
    "nan": math.nan,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The range of column values that the literal may equal; the ends differ if that is not certain."""

    low: StatisticValue
    high: StatisticValue

    @property
    def is_one_value(self) -> bool:
        """True if the ends are equal, or both NaN."""
        return self.low == self.high or (self.low != self.low and self.high != self.high)


def interval_of(
    literal: Literal, spark_type: str, *, listed: bool, time_zone: tzinfo | None
) -> Interval | None:
    """Return the literal as a value of that type, or None if the result of Spark's comparison is not certain.

    Dates are in days and timestamps in microseconds since 1970.

    Args:
        literal: The literal of the condition.
        spark_type: The type of the column.
        listed: Whether the literal is from an IN list. Spark casts it to a common type with the others, which
            are not known here.
        time_zone: The time zone of local times, or None if it is not known.

    """
    interval = None
    if listed and isinstance(literal, Decimal) and -int(literal.as_tuple().exponent) > _LISTED_SCALE:
        return None
    if spark_type in _INTEGERS:
        interval = _among_integers(literal, least_scale=_LISTED_SCALE if listed else 0)
    elif decimal := _DECIMAL.fullmatch(spark_type):
        precision, scale = int(decimal["precision"]), int(decimal["scale"])
        least_scale = _LISTED_SCALE if listed else 0
        interval = _among_decimals(literal, precision=precision, scale=scale, least_scale=least_scale)
    elif spark_type in ("float", "double"):
        interval = _among_floats(literal, spark_type, listed=listed)
    elif spark_type == "date":
        interval = _among_dates(literal)
    elif spark_type == "timestamp":
        interval = _among_timestamps(literal, time_zone)
    elif spark_type == "timestamp_ntz":
        interval = _among_local_timestamps(literal)
    elif (spark_type == "string" and isinstance(literal, str)) or (
        spark_type == "boolean" and isinstance(literal, bool)
    ):
        interval = _exactly(literal)
    return interval


def _exactly(value: StatisticValue) -> Interval:
    """Return the interval of a single value."""
    return Interval(low=value, high=value)


def _among_integers(literal: Literal, *, least_scale: int) -> Interval | None:
    """Return the literal as a value to compare with integers, or None if the comparison is not certain."""
    if isinstance(literal, float):
        # Spark casts both sides to double, which keeps their order below 2^53.
        return _exactly(literal) if abs(literal) < _EXACT_IN_DOUBLE else None
    return _among_decimals(literal, precision=_LONG_DIGITS, scale=0, least_scale=least_scale)


def _among_decimals(literal: Literal, *, precision: int, scale: int, least_scale: int) -> Interval | None:
    """Return the literal as a value to compare with decimals, or None if the comparison is not certain.

    If no decimal type holds both sides of the comparison, Spark rounds.
    """
    if isinstance(literal, float):
        # Spark casts both sides to double, so neighbours of the literal may round to it.
        return Interval(
            low=_as_decimal(math.nextafter(literal, -math.inf)),
            high=_as_decimal(math.nextafter(literal, math.inf)),
        )
    if isinstance(literal, bool) or not isinstance(literal, int | Decimal):
        return None
    _, digits, exponent = Decimal(literal).as_tuple()
    assert isinstance(exponent, int)
    # The list may also contain integers of any size.
    with_integers = isinstance(literal, int) or least_scale > 0
    whole = max(len(digits) + exponent, _LONG_DIGITS if with_integers else 0)
    if max(whole, precision - scale) + max(-exponent, scale, least_scale) > _MOST_DIGITS:
        return None
    return _exactly(literal)


def _as_decimal(value: float) -> StatisticValue:
    return Decimal(value) if math.isfinite(value) else value


def _among_floats(literal: Literal, spark_type: str, *, listed: bool) -> Interval | None:
    """Return the literal as a value to compare with floats, or None if the comparison is not certain."""
    if isinstance(literal, str) and not listed:
        # Spark casts the text to a number; in an IN list it casts the numbers to texts.
        named = _NAMED_FLOATS.get(literal.lower())
        return None if named is None else _exactly(named)
    if isinstance(literal, bool) or not isinstance(literal, int | float | Decimal):
        return None
    if isinstance(literal, int) and spark_type == "float" and abs(literal) > _EXACT_IN_FLOAT:
        return None
    try:
        return _exactly(float(literal))
    except OverflowError:
        return None


def _among_dates(literal: Literal) -> Interval | None:
    """Return the literal in days since 1970, to compare with dates, or None if it is not a date."""
    day = parse_date(literal) if isinstance(literal, str) else literal
    return _exactly((day - _EPOCH.date()).days) if isinstance(day, date) else None


def _among_timestamps(literal: Literal, time_zone: tzinfo | None) -> Interval | None:
    """Return the literal in microseconds, to compare with timestamps; None if its time zone is unknown.

    If a local time occurs twice because clocks are set back, the interval contains both instants.
    """
    moment = _moment(literal)
    if moment is None or (moment.tzinfo is None and time_zone is None):
        return None
    # A local time in the hour that the clock repeats has two instants, and both count.
    moments = [moment] if moment.tzinfo else [moment.replace(tzinfo=time_zone, fold=fold) for fold in (0, 1)]
    try:
        counted = [_microseconds(each.astimezone(UTC).replace(tzinfo=None)) for each in moments]
    except OverflowError:
        return None
    return Interval(low=min(counted), high=max(counted))


def _among_local_timestamps(literal: Literal) -> Interval | None:
    """Return the literal in microseconds, to compare with timestamps without a zone.

    The result is None if the literal has a time zone or is not a timestamp or date.
    """
    if isinstance(literal, TimestampLiteral) and not literal.without_zone:
        return None
    moment = _moment(literal)
    return None if moment is None or moment.tzinfo else _exactly(_microseconds(moment))


def _moment(literal: Literal) -> datetime | None:
    """Return the time of a literal, with midnight for dates, or None if the literal is not a time."""
    if isinstance(literal, TimestampLiteral):
        return literal.value
    if isinstance(literal, str):
        return parse_timestamp(literal)
    if isinstance(literal, date):
        return datetime(literal.year, literal.month, literal.day)  # noqa: DTZ001 - local midnight
    return None


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
