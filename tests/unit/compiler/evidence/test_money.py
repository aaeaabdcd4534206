"""Money is exact: recomputed here with decimals, digit by digit."""

from __future__ import annotations

from dataclasses import replace
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
from parquetry.compiler.reports.costs import cost_row
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


@pytest.mark.parametrize(
    ("number", "text"), [(-0.0, "0.0"), (5e-324, f"0.{'0' * 323}5"), (1e-40, f"0.{'0' * 39}1")]
)
def test_a_price_that_may_be_declared_is_one_in_a_saved_plan(number, text):
    prices = PlanPrices.of(Prices.of({"currency": "EUR", "core_hour": number}))
    prices.check()
    assert prices.core_hour == text


@pytest.mark.parametrize(
    ("grown", "expected"), [((1, 2), "never"), ((-2, -1), "at once"), ((-1, 1), "at once, or never")]
)
def test_what_costs_nothing_once_pays_back_only_if_it_saves(grown, expected):
    low, high = (gib * GIB for gib in grown)
    nothing = PredictionInterval.exactly(0)
    free = replace(
        forecast().work,
        core_milliseconds=nothing,
        read_requests=nothing,
        write_requests=nothing,
    )
    costs = table_costs(
        forecast(work=free, storage_bytes=PredictionInterval(low=low, high=high), kept_bytes=0, queries=()),
        PRICES,
    )
    assert cost_row("events", costs).pay_back == expected


def test_one_day_is_no_plural():
    costs = replace(table_costs(forecast(), PRICES), pay_back=PayBack(low_days=0, high_days=1))
    assert cost_row("events", costs).pay_back == "after 0 to 1 day"
