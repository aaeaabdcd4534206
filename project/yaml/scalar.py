"""The value of a plain (unquoted) scalar by YAML 1.2's core schema."""

from __future__ import annotations

import math
import re
from typing import Final

_MAX_DIGITS = 18
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAYBE_TYPED = frozenset("0123456789+-.~nNtTfF")


class NotUsable:
    """A marker for a number that is not finite or has more than 18 digits."""


NOT_USABLE: Final = NotUsable()

Scalar = str | int | float | bool | None


def scalar(text: str) -> Scalar | NotUsable:
    """Return the value of an unquoted text: None, a boolean, a number, or the text itself.

    There are no dates, no base-60 numbers, and no booleans but ``true`` and ``false``. A leading 0 does not
    make an octal number; ``0o17`` is one. A number that is not finite or too long returns ``NOT_USABLE``.
    """
    if text in _NULLS:
        return None
    if text[0] not in _MAYBE_TYPED:
        return text
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _NUMBER.fullmatch(text) or _INTEGER.fullmatch(text):
        return _number(text)
    return NOT_USABLE if _NOT_FINITE.fullmatch(text) else text


def _number(text: str) -> int | float | NotUsable:
    """Return the number in a text, or ``NOT_USABLE`` for one that is too long or not finite."""
    if _INTEGER.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            return NOT_USABLE
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    number = float(text)
    return number if math.isfinite(number) else NOT_USABLE
