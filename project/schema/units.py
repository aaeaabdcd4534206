"""Sizes in bytes and durations in seconds, as specs write them."""

from __future__ import annotations

import re
from decimal import Decimal

_BYTES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]+)")
_DURATION = re.compile(r"([0-9]{1,9})(\w)")
_SPELLINGS = {unit.lower(): unit for unit in _BYTES} | {
    "k": "KiB",
    "m": "MiB",
    "g": "GiB",
    "t": "TiB",
    "b": "B",
}


def size_bytes(text: str | int) -> int:
    """Bytes of a size such as ``120MiB``, ``1.5 GB`` or 0; fractions of a byte are dropped.

    Raises:
        ValueError: it has no unit, or one that is not known.

    """
    if text in (0, "0"):
        return 0
    match = _SIZE.fullmatch(str(text))
    if match is None or match[2] not in _BYTES:
        message = f"{text!r} is not a size such as 120MiB"
        raise ValueError(message)
    return int(Decimal(match[1]) * _BYTES[match[2]])


def duration_seconds(text: str) -> int:
    """Seconds of a duration such as ``25d``.

    Raises:
        ValueError: it is not a whole number and one of s, m, h, d, w.

    """
    match = _DURATION.fullmatch(text)
    if match is None or match[2] not in _SECONDS:
        message = f"{text!r} is not a duration such as 25d"
        raise ValueError(message)
    return int(match[1]) * _SECONDS[match[2]]


def unit_hint(text: str, expected: str) -> str | None:
    """How a size or duration with a misspelt unit is written, where that can be guessed."""
    if expected.startswith("a size"):
        if text.strip() == "0":
            return "write a size such as 120MiB"
        match = _SIZE.fullmatch(text.strip())
        unit = _SPELLINGS.get(match[2].lower()) if match else None
        return f"write {match[1]}{unit}" if match and unit and f"{match[1]}{unit}" != text else None
    if expected.startswith("a duration"):
        match = re.fullmatch(r"([0-9]{1,9}) ?(?:(s|m|h|d|w)[a-z]*)?", text.strip().lower())
        return f"write {match[1]}{match[2] or 'd'}" if match else None
    return None
