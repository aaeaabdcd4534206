"""Money is exact: recomputed here with decimals, digit by digit."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.compiler.evidence.money import (
    AmountRange,
    CostForecast,
    PayBack,
    PlanPrices,
    QueryScan,
    pay_back,
    table_costs,
)
from parquetry.project.model.prices import Prices, cents
from parquetry.runtime.clustering.forecast.intervals import PredictionInterval
from parquetry.runtime.clustering.forecast.work import WorkBasis, WorkForecast

GIB, TIB = 2**30, 2**40
PRICES = PlanPrices.of(
    Prices.of(
        {
            "currency": "EUR",
            "storage_gib_month": 0.02,
            "read_requests_million": 0.4,
            "write_requests_million": 5,
            "core_hour": 0.05,
            "scanned_tib": 5,
        }
    )
)


def forecast(**changes):
    values = {
        "work": WorkForecast(
            read_bytes=100 * GIB,
            written_bytes=PredictionInterval(low=70 * GIB, high=90 * GIB),
            core_milliseconds=PredictionInterval(low=3_600_000, high=7_200_000),
            read_requests=PredictionInterval.exactly(1_000_000),
            write_requests=PredictionInterval(low=100_000, high=200_000),
            basis=WorkBasis(past_bytes=0, past_throughputs=0, throughput=1, sampled=False),
        ),
        "storage_bytes": PredictionInterval(low=-30 * GIB, high=-10 * GIB),
        "kept_bytes": 100 * GIB,
        "kept_seconds": PredictionInterval.exactly(15 * 86_400),
        "queries": (
            QueryScan(
                query="q",
                runs_per_day=10,
                now_bytes=TIB,
                expected_bytes=PredictionInterval(low=TIB // 4, high=TIB // 2),
                now_requests=2_000,
                expected_requests=PredictionInterval(low=500, high=1_000),
                past=0,
            ),
        ),
    }
    return CostForecast(**(values | changes))


def test_every_part_by_hand():
    costs = table_costs(forecast(), PRICES)
    assert costs.compute == AmountRange(low_micros=50_000, high_micros=100_000)
    assert costs.requests == AmountRange(low_micros=900_000, high_micros=1_400_000)
    assert costs.old_versions == AmountRange(low_micros=1_000_000, high_micros=1_000_000)
    assert costs.one_off == AmountRange(low_micros=1_950_000, high_micros=2_500_000)
    assert costs.storage == AmountRange(low_micros=-600_000, high_micros=-200_000)
    # 300 runs a month: 5 EUR and 0.0008 EUR of requests each, then 1.25 and 0.0002 to 2.5 and 0.0004.
    assert costs.queries == AmountRange(low_micros=-1_125_180_000, high_micros=-750_120_000)
    assert costs.monthly == AmountRange(low_micros=-1_125_780_000, high_micros=-750_320_000)
    assert costs.pay_back == PayBack(low_days=0, high_days=1)


def test_versions_that_no_rule_deletes_are_stored_for_good():
    costs = table_costs(forecast(kept_seconds=None), PRICES)
    assert costs.old_versions == AmountRange(low_micros=0, high_micros=0)
    assert costs.storage == AmountRange(low_micros=1_400_000, high_micros=1_800_000)


@pytest.mark.parametrize(
    ("one_off", "monthly", "expected"),
    [
        ((10, 20), (-30, -15), PayBack(low_days=10, high_days=40)),
        ((10, 20), (-30, 0), PayBack(low_days=10, high_days=None)),
        ((10, 20), (-30, 5), PayBack(low_days=10, high_days=None)),
        ((10, 20), (0, 5), None),
        ((0, 0), (-30, -15), None),
        ((0, 1), (-30, -15), PayBack(low_days=0, high_days=2)),
    ],
)
def test_pay_back(one_off, monthly, expected):
    ranges = (AmountRange(low_micros=low, high_micros=high) for low, high in (one_off, monthly))
    assert pay_back(*ranges) == expected


@pytest.mark.parametrize(
    ("micros", "down", "up"),
    [
        (12_345_678, "12.34", "12.35"),
        (-12_345_678, "-12.35", "-12.34"),
        (1, "0.00", "0.01"),
        (-1, "-0.01", "0.00"),
        (1_234_567_890_000, "1,234,567.89", "1,234,567.89"),
    ],
)
def test_cents(micros, down, up):
    assert (cents(micros, up=False), cents(micros, up=True)) == (down, up)


@given(
    price=st.decimals(min_value=0, max_value=1_000_000, places=9),
    size_bytes=st.integers(0, 2**60),
    core_ms=st.integers(0, 10**15),
)
def test_no_float_is_between_a_price_and_an_amount(price, size_bytes, core_ms):
    written = float(price)
    exact = Decimal(repr(written))
    prices = PlanPrices.of(Prices.of({"currency": "EUR", "storage_gib_month": written, "core_hour": written}))
    prices.check()
    numerator, denominator = exact.as_integer_ratio()
    assert prices.storage(size_bytes) == Fraction(numerator * size_bytes, denominator * GIB)
    assert prices.compute(core_ms) == Fraction(numerator * core_ms, denominator * 3_600_000)
