"""A target's prices of storage, requests, compute and scans, as exact decimals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any, Final, Self

ZERO: Final = Decimal(0)
_CENT: Final = Decimal("0.01")
_MICRO: Final = Decimal("0.000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices in one currency; a month has 30 days. A resource without a declared price is free."""

    currency: str
    storage_gib_month: Decimal = ZERO
    read_requests_million: Decimal = ZERO
    write_requests_million: Decimal = ZERO
    core_hour: Decimal = ZERO
    scanned_tib: Decimal = ZERO

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Read prices from YAML values.

        A YAML number becomes the shortest decimal with its binary value; up to 15 digits, this is the decimal
        in the file. ``-0.0`` becomes 0.
        """
        amounts = {name: Decimal(str(amount)) + ZERO for name, amount in value.items() if name != "currency"}
        return cls(currency=str(value["currency"]), **amounts)


def cents(micros: int, *, up: bool) -> str:
    """Return millionths of the currency as hundredths, rounded up or down."""
    return _hundredths(micros, ROUND_CEILING if up else ROUND_FLOOR)


def nearest_cents(micros: int) -> str:
    """Return millionths of the currency as hundredths, rounded to the nearest one (half to even)."""
    return _hundredths(micros, ROUND_HALF_EVEN)


def _hundredths(micros: int, rounding: str) -> str:
    rounded = (micros * _MICRO).quantize(_CENT, rounding=rounding)
    return f"{rounded or Decimal('0.00'):,}"
