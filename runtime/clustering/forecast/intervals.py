"""Ranges in which what is measured lies in 80 of 100 cases, from the errors of past predictions.

An error is the logarithm of what was measured over what was expected. Errors count as normally distributed,
with a mean and a deviation that are known the better the more errors there are, so the range is that of
Student's t. A prior counts as if it were some errors more (Gelman et al., Bayesian Data Analysis, 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, floor, inf, log, sqrt
from statistics import fmean
from typing import Final

SHARE: Final = 0.8
"""How often what is measured lies within a range."""

_T: Final = (
    inf, 3.0777, 1.8856, 1.6377, 1.5332, 1.4759, 1.4398, 1.4149, 1.3968, 1.3830, 1.3722,
    1.3634, 1.3562, 1.3502, 1.3450, 1.3406, 1.3368, 1.3334, 1.3304, 1.3277, 1.3253,
)  # fmt: skip
"""The 90th percentile of Student's t, by degrees of freedom."""

_MOST_LOG: Final = 50.0
_MOST: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionInterval:
    """From ``low`` to ``high``, both included; whole numbers of some unit."""

    low: int
    high: int

    @classmethod
    def exactly(cls, value: int) -> PredictionInterval:
        """What is known, or measured."""
        return cls(low=value, high=value)

    def __add__(self, other: PredictionInterval) -> PredictionInterval:
        """Of both together. It is too wide if their errors do not depend on each other."""
        return PredictionInterval(low=self.low + other.low, high=self.high + other.high)

    def plus(self, value: int) -> PredictionInterval:
        """With what is known besides."""
        return PredictionInterval(low=self.low + value, high=self.high + value)

    def at_most(self, value: int) -> PredictionInterval:
        """With nothing above a value that cannot be exceeded."""
        return PredictionInterval(low=min(self.low, value), high=min(self.high, value))

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What errors are like that nobody measured on this table: as many of them as ``weight``.

    ``mean`` and ``deviation`` are of logarithms.
    """

    mean: float
    deviation: float
    weight: int


def error_of(*, expected: float, measured: float, floor: float = 1.0) -> float:
    """The error of a prediction; ``floor`` is added to both, so that small numbers have small errors."""
    return log((measured + floor) / (expected + floor))


def interval(
    expected: float, errors: Sequence[float], prior: Prior, *, floor_at: float = 1.0
) -> PredictionInterval:
    """The range of what will be measured, where ``expected`` is predicted and past errors are known.

    ``floor_at`` is that of :func:`error_of`.
    """
    if expected <= 0 and floor_at <= 1:
        return PredictionInterval.exactly(0)
    count = len(errors)
    mean = fmean(errors) if errors else prior.mean
    spread = sum((error - mean) ** 2 for error in errors)
    between = count / (1 + count) * (mean - prior.mean) ** 2
    freedom = prior.weight + count
    scale = sqrt((prior.weight * prior.deviation**2 + spread + between) / freedom)
    centre = (prior.mean + count * mean) / (1 + count)
    # A deviation of the prior is that of measured errors already: its mean is not unknown besides.
    unknown = 1 + 1 / (1 + count) if count else 1.0
    reach = _T[min(freedom, len(_T) - 1)] * scale * sqrt(unknown)
    low, high = (exp(max(min(side, _MOST_LOG), -_MOST_LOG)) for side in (centre - reach, centre + reach))
    return PredictionInterval(
        low=min(max(floor(low * (expected + floor_at) - floor_at), 0), _MOST),
        high=min(max(ceil(high * (expected + floor_at) - floor_at), 0), _MOST),
    )
