"""Ranges from past errors hold as often as they say, and become narrower with more of them."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.clustering.forecast.intervals import PredictionInterval, Prior, error_of, interval

PRIOR = Prior(mean=0.0, deviation=0.2, weight=4)


@pytest.mark.parametrize("known", [0, 1, 3, 10, 40])
def test_80_of_100_lie_within_if_the_prior_is_right(known):
    """Each table has a deviation of its own, about that of the prior."""
    rng = np.random.default_rng(known)
    within = 0
    for _ in range(2_000):
        deviation = PRIOR.deviation * (PRIOR.weight / rng.chisquare(PRIOR.weight)) ** 0.5
        errors = rng.normal(0, deviation, known + 1)
        found = interval(10**9, list(errors[1:]), PRIOR)
        within += round(10**9 * exp(errors[0])) in found
    assert 0.77 < within / 2_000 < 0.87


@pytest.mark.parametrize(("bias", "deviation"), [(-0.5, 0.1), (0.3, 0.02), (0.0, 0.6)])
def test_errors_outweigh_a_wrong_prior(bias, deviation):
    rng = np.random.default_rng(7)
    within = 0
    for _ in range(1_000):
        errors = rng.normal(bias, deviation, 31)
        within += round(10**9 * exp(errors[0])) in interval(10**9, list(errors[1:]), PRIOR)
    assert within > 700


def test_more_errors_make_a_narrower_range():
    widths = []
    for count in (0, 2, 5, 10, 20):
        found = interval(10**9, [0.01, -0.01] * (count // 2) + [0.0] * (count % 2), PRIOR)
        widths.append(found.high - found.low)
    assert widths == sorted(widths, reverse=True)


@given(
    expected=st.integers(0, 2**50),
    errors=st.lists(st.floats(-40, 40), max_size=30),
    floor=st.sampled_from([1, 100, 65536]),
)
def test_a_range_is_one(expected, errors, floor):
    found = interval(expected, errors, PRIOR, floor_at=floor)
    assert 0 <= found.low <= found.high < 2**63


def test_nothing_expected_of_nothing_is_certain():
    assert interval(0, [], PRIOR) == PredictionInterval.exactly(0)


def test_an_error_is_the_logarithm_of_measured_over_expected():
    assert error_of(expected=99, measured=199) == pytest.approx(log(2))
    assert error_of(expected=5, measured=5, floor=64) == 0
