"""Conversion of a given partition value to the column's type, which determines the folder name."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal as Number
from decimal import InvalidOperation, localcontext
from numbers import Integral
from typing import Any, Final

from parquetry.message import Message
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.types import ColumnType, Decimal

PartitionValue = str | int | bool | dt.date | Number | None

_WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_DIGITS: Final = re.compile(r"-?[0-9]+")
_MOST_DIGITS: Final = 38
_EXPECTED: Final = {
    "string": "text",
    "boolean": "True or False",
    "date": "a date",
    "timestamp": "a datetime, or microseconds since 1970 in UTC",
    "float": "the number's text in the folder's name",
    "double": "the number's text in the folder's name",
}


def partition_value(column: str, kind: ColumnType, value: Any) -> PartitionValue:
    """Return ``value`` as a value of the column's type ``kind``. None stands for null.

    Values of any class are accepted, and also their texts, if the value determines the folder name.

    Raises:
        InvalidDataError: If the value does not have that type, such as ``1.555`` for ``decimal(10,2)``, or
            could have several folder names.

    """
    if value is None:
        return None
    converted = _of_decimal(kind, value) if isinstance(kind, Decimal) else _of_primitive(str(kind), value)
    if converted is None:
        expected = f"a number that {kind} holds" if isinstance(kind, Decimal) else _expected(str(kind))
        raise InvalidDataError(
            Message(
                f"partition column {column!r} is {kind} and cannot hold ",
                quoted_library_text(repr(value)),
                f" of type {type(value).__name__}; pass {expected}, or give the partition by its path",
            )
        )
    return converted


def _expected(kind: str) -> str:
    """Return a phrase for the values that the type accepts, for errors."""
    return _EXPECTED.get(kind, "a whole number" if kind in _WHOLE else "what it holds")


def _of_primitive(kind: str, value: Any) -> PartitionValue:  # noqa: PLR0911 - a type, an answer
    text = isinstance(value, str)
    whole = _whole(value)
    day = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    if text and (kind in ("string", "float", "double")):
        return str(value)
    if kind == "string":
        return str(value) if day else _plain_text(value)
    if kind == "timestamp" and isinstance(value, dt.datetime):
        return value
    if kind in _WHOLE or kind == "timestamp":
        return int(value) if text and _DIGITS.fullmatch(value) else whole
    if kind == "boolean" and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    if kind == "date" and (day or text):
        return value if day else _day(value)
    return None


def _whole(value: Any) -> int | None:
    """Return a number of any class as an int. Booleans and numbers that are not whole give None."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, Number) and value.is_finite() and value.adjusted() < _MOST_DIGITS:
        return int(value) if value == int(value) else None
    return None


def _plain_text(value: Any) -> str | None:
    """Return the text of a number or a boolean as Spark spells it.

    The result is None if Python writes the number with an exponent, or if the value is of another class.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Number):
        return str(value) if value.is_finite() and "E" not in str(value) else None
    return str(value) if isinstance(value, Integral) else None


def _day(text: str) -> dt.date | None:
    try:
        return dt.datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 - a day has no zone
    except ValueError:
        return None


def _of_decimal(kind: Decimal, value: Any) -> Number | None:
    if isinstance(value, bool) or not isinstance(value, str | Integral | Number):
        return None
    with localcontext(prec=kind.precision) as context:
        context.traps[InvalidOperation] = True
        try:
            exact = Number(value if isinstance(value, str | Number) else int(value))
            stored = exact.quantize(Number(1).scaleb(-kind.scale))
        except InvalidOperation:
            return None
    # Decimals in rows have no negative zero.
    return (stored or stored.copy_abs()) if stored == exact else None
