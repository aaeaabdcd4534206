"""What a target pays for storage, requests, compute and scans: exact decimals, as they are declared."""

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
    """Prices in one currency; a month has 30 days. What no price is declared for costs nothing."""

    currency: str
    storage_gib_month: Decimal = ZERO
    read_requests_million: Decimal = ZERO
    write_requests_million: Decimal = ZERO
    core_hour: Decimal = ZERO
    scanned_tib: Decimal = ZERO

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Those of the YAML, which has numbers.

        A number is the decimal that is written: the shortest one that has its binary value, which up to 15
        digits is the one in the file. ``-0.0`` is 0.
        """
        amounts = {name: Decimal(str(amount)) + ZERO for name, amount in value.items() if name != "currency"}
        return cls(currency=str(value["currency"]), **amounts)


def cents(micros: int, *, up: bool) -> str:
    """Millionths of the currency in hundredths, rounded up or down."""
    return _hundredths(micros, ROUND_CEILING if up else ROUND_FLOOR)


def nearest_cents(micros: int) -> str:
    """The same to the nearest hundredth; of two that are equally near, the even one."""
    return _hundredths(micros, ROUND_HALF_EVEN)


def _hundredths(micros: int, rounding: str) -> str:
    rounded = (micros * _MICRO).quantize(_CENT, rounding=rounding)
    return f"{rounded or Decimal('0.00'):,}"
