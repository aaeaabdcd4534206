"""Conversion of sizes to bytes and durations to seconds, in the notation of specs."""

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
DAY_SECONDS = 86_400
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": DAY_SECONDS, "w": 604_800}
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
    """Return the bytes of a size such as ``120MiB``, ``1.5 GB`` or 0; a fraction of a byte is dropped.

    Raises:
        ValueError: if the unit is missing or unknown.

    """
    if text in (0, "0"):
        return 0
    match = _SIZE.fullmatch(str(text))
    if match is None or match[2] not in _BYTES:
        message = f"{text!r} is not a size such as 120MiB"
        raise ValueError(message)
    return int(Decimal(match[1]) * _BYTES[match[2]])


def duration_seconds(text: str) -> int:
    """Return the seconds of a duration such as ``25d``.

    Raises:
        ValueError: if the text is not a whole number followed by one of s, m, h, d and w.

    """
    match = _DURATION.fullmatch(text)
    if match is None or match[2] not in _SECONDS:
        message = f"{text!r} is not a duration such as 25d"
        raise ValueError(message)
    return int(match[1]) * _SECONDS[match[2]]


def unit_hint(text: str, expected: str) -> str | None:
    """Return a hint for a size or duration with a misspelt unit, or None without a good guess.

    ``expected`` is the title of the value's schema, such as "a size".
    """
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
