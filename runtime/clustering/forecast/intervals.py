"""Prediction intervals that contain 80 of 100 measured values, from the errors of past predictions.

An error is the logarithm of the measured value divided by the expected one. Errors are assumed to be normally
distributed. Their mean and deviation are more certain the more errors are known, so the interval is that of
Student's t-distribution. A prior counts like a number of additional errors (Gelman et al., Bayesian Data
Analysis, 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, floor, inf, log, sqrt
from statistics import fmean
from typing import Final

_T: Final = (
    inf, 3.0777, 1.8856, 1.6377, 1.5332, 1.4759, 1.4398, 1.4149, 1.3968, 1.3830, 1.3722,
    1.3634, 1.3562, 1.3502, 1.3450, 1.3406, 1.3368, 1.3334, 1.3304, 1.3277, 1.3253,
)  # fmt: skip
"""The 90th percentile of Student's t-distribution, by degrees of freedom."""

_MOST_LOG: Final = 50.0
_MOST: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionInterval:
    """The interval from ``low`` to ``high``, both included; whole numbers of some unit."""

    low: int
    high: int

    @classmethod
    def exactly(cls, value: int) -> PredictionInterval:
        """Return the interval of a known or measured value."""
        return cls(low=value, high=value)

    def __add__(self, other: PredictionInterval) -> PredictionInterval:
        """Return the interval of the sum. It is too wide if the errors of the two are independent."""
        return PredictionInterval(low=self.low + other.low, high=self.high + other.high)

    def plus(self, value: int) -> PredictionInterval:
        """Return the interval with a known value added to both ends."""
        return PredictionInterval(low=self.low + value, high=self.high + value)

    def at_most(self, value: int) -> PredictionInterval:
        """Return the interval capped at a value that cannot be exceeded."""
        return PredictionInterval(low=min(self.low, value), high=min(self.high, value))

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """The errors on other tables, which count as ``weight`` errors of this table.

    ``mean`` and ``deviation`` are of logarithms.
    """

    mean: float
    deviation: float
    weight: int


def error_of(*, expected: float, measured: float, floor: float = 1.0) -> float:
    """Return the error of a prediction: the logarithm of measured divided by expected.

    ``floor`` is added to both, so that small numbers have small errors.
    """
    return log((measured + floor) / (expected + floor))


def interval(
    expected: float, errors: Sequence[float], prior: Prior, *, floor_at: float = 1.0
) -> PredictionInterval:
    """Return the prediction interval of a value, from its prediction and past errors.

    Args:
        expected: The predicted value.
        errors: The errors of past predictions, see :func:`error_of`.
        prior: The prior of the errors.
        floor_at: The ``floor`` of :func:`error_of`.

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
    # Without errors, the deviation of the prior already includes the uncertainty of its mean.
    unknown = 1 + 1 / (1 + count) if count else 1.0
    reach = _T[min(freedom, len(_T) - 1)] * scale * sqrt(unknown)
    low, high = (exp(max(min(side, _MOST_LOG), -_MOST_LOG)) for side in (centre - reach, centre + reach))
    return PredictionInterval(
        low=min(max(floor(low * (expected + floor_at) - floor_at), 0), _MOST),
        high=min(max(ceil(high * (expected + floor_at) - floor_at), 0), _MOST),
    )
