"""Costs of storage, requests and core time by the prices of a target.

Amounts are exact fractions of whole numbers and are rounded once, to millionths of the currency: the low end
of a range is rounded down, the high end up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor
from typing import Final

from parquetry.project.model.prices import Prices
from parquetry.runtime.clustering.forecast.intervals import PredictionInterval
from parquetry.runtime.clustering.forecast.work import (
    ClusteringWork,
    WorkForecast,
    expected_requests,
    read_requests,
    write_requests,
)
from parquetry.runtime.spec.codec import OMIT_EMPTY

MONTH_DAYS: Final = 30
MICROS: Final = 1_000_000
_PRICE: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{1,350})?")
"""A decimal number as a saved plan may contain it; the least positive float has 324 decimal places."""
_MOST_MICROS: Final = 2**63 - 1
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_GIB: Final = 2**30
_TIB: Final = 2**40
_MILLION: Final = 1_000_000
_MILLISECONDS_AN_HOUR: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountRange:
    """An amount of money from ``low_micros`` to ``high_micros``, in millionths of the currency."""

    low_micros: int
    high_micros: int

    @classmethod
    def of(cls, low: Fraction, high: Fraction) -> AmountRange:
        """Return the range between two exact amounts, with the low end rounded down and the high end up."""
        return cls(low_micros=_clamped(floor(low * MICROS)), high_micros=_clamped(ceil(high * MICROS)))

    def __add__(self, other: AmountRange) -> AmountRange:
        """Return the sum of the low ends and the sum of the high ends."""
        return AmountRange(
            low_micros=_clamped(self.low_micros + other.low_micros),
            high_micros=_clamped(self.high_micros + other.high_micros),
        )


NOTHING: Final = AmountRange(low_micros=0, high_micros=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayBack:
    """The days after which a saving has paid for its one-off costs. ``high_days`` None means never."""

    low_days: int
    high_days: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryScan:
    """The bytes and requests of one run of a query, now and after the change.

    ``past`` is the number of past predictions that the ranges are based on.
    """

    query: str
    runs_per_day: float
    now_bytes: int
    expected_bytes: PredictionInterval
    now_requests: int
    expected_requests: PredictionInterval
    past: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CostForecast:
    """The resources that a change takes and saves, without prices.

    ``storage_bytes`` is the permanent growth of the table. Old versions of the rewritten files,
    ``kept_bytes`` in all, remain for ``kept_seconds``, None if it is unknown when a clean deletes them.
    """

    work: WorkForecast
    storage_bytes: PredictionInterval
    kept_bytes: int
    kept_seconds: PredictionInterval | None
    queries: tuple[QueryScan, ...] = ()

    @property
    def freed_bytes(self) -> int:
        """The existing bytes that a changed retention deletes at once."""
        return self.work.written_bytes.low - self.work.read_bytes - self.storage_bytes.low


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCosts:
    """The costs of a change of a table in ``currency``. Ranges hold in 80 of 100 cases.

    ``one_off`` is the sum of ``compute``, ``requests`` and ``old_versions``. ``monthly`` is the change of the
    monthly costs of ``storage`` and ``queries``. ``pay_back`` is None if nothing is spent or certainly
    nothing is saved.
    """

    currency: str
    one_off: AmountRange
    monthly: AmountRange
    compute: AmountRange
    requests: AmountRange
    old_versions: AmountRange
    storage: AmountRange
    queries: AmountRange
    pay_back: PayBack | None
    forecast: CostForecast

    @property
    def is_nothing(self) -> bool:
        """True if nothing is spent and no monthly cost changes."""
        return self.one_off == NOTHING and self.monthly == NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPrices:
    """The prices of a plan as decimal numbers."""

    currency: str
    storage_gib_month: str
    read_requests_million: str
    write_requests_million: str
    core_hour: str
    scanned_tib: str

    @classmethod
    def of(cls, prices: Prices) -> PlanPrices:
        """Return the prices of a target."""
        return cls(
            currency=prices.currency,
            storage_gib_month=f"{prices.storage_gib_month:f}",
            read_requests_million=f"{prices.read_requests_million:f}",
            write_requests_million=f"{prices.write_requests_million:f}",
            core_hour=f"{prices.core_hour:f}",
            scanned_tib=f"{prices.scanned_tib:f}",
        )

    def check(self) -> None:
        """Raise ValueError if a price or the currency is invalid. A saved plan may have been edited."""
        check_currency(self.currency)
        texts = (self.storage_gib_month, self.read_requests_million, self.write_requests_million)
        for text in (*texts, self.core_hour, self.scanned_tib):
            if not _PRICE.fullmatch(text):
                raise ValueError(f"{text[:20]!r} is not a price")

    def storage(self, size_bytes: int, *, seconds: int = MONTH_DAYS * 86_400) -> Fraction:
        """Return the price of storing bytes for this time, by default for a month."""
        months = Fraction(seconds, MONTH_DAYS * 86_400)
        return Fraction(self.storage_gib_month) * size_bytes / _GIB * months

    def compute(self, core_milliseconds: int) -> Fraction:
        """Return the price of this core time."""
        return Fraction(self.core_hour) * core_milliseconds / _MILLISECONDS_AN_HOUR

    def requests(self, *, reads: int, writes: int = 0) -> Fraction:
        """Return the price of read and write requests."""
        paid = Fraction(self.read_requests_million) * reads + Fraction(self.write_requests_million) * writes
        return paid / _MILLION

    def scans(self, *, size_bytes: int, requests: int) -> Fraction:
        """Return the price of queries that read ``size_bytes`` with these requests."""
        return Fraction(self.scanned_tib) * size_bytes / _TIB + self.requests(reads=requests)

    def monthly_scans(self, runs_per_day: float, *, size_bytes: int, requests: int) -> Fraction:
        """Return the monthly price of a query whose runs each read ``size_bytes`` with these requests."""
        run = self.scans(size_bytes=size_bytes, requests=requests)
        return Fraction(repr(runs_per_day)) * MONTH_DAYS * run


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCosts:
    """The costs of a whole plan: the sums over its tables, by ``prices``."""

    prices: PlanPrices
    one_off: AmountRange
    monthly: AmountRange
    storage: AmountRange
    queries: AmountRange
    pay_back: PayBack | None = field(default=None, metadata=OMIT_EMPTY)


def check_currency(text: str) -> None:
    """Raise ValueError unless the text is a currency code, because other text must not be printed."""
    if not _CURRENCY.fullmatch(text):
        raise ValueError("a currency is a code of three capital letters")


def table_costs(forecast: CostForecast, prices: PlanPrices) -> TableCosts:
    """Return the costs of a forecast by these prices."""
    work, kept = forecast.work, forecast.kept_seconds
    compute = AmountRange.of(
        prices.compute(work.core_milliseconds.low), prices.compute(work.core_milliseconds.high)
    )
    requests = AmountRange.of(
        prices.requests(reads=work.read_requests.low, writes=work.write_requests.low),
        prices.requests(reads=work.read_requests.high, writes=work.write_requests.high),
    )
    old_versions = (
        NOTHING
        if kept is None
        else AmountRange.of(
            prices.storage(forecast.kept_bytes, seconds=kept.low),
            prices.storage(forecast.kept_bytes, seconds=kept.high),
        )
    )
    kept_forever_bytes = forecast.kept_bytes if kept is None else 0
    storage = AmountRange.of(
        prices.storage(forecast.storage_bytes.low + kept_forever_bytes),
        prices.storage(forecast.storage_bytes.high + kept_forever_bytes),
    )
    queries = sum((_change(query, prices) for query in forecast.queries), NOTHING)
    one_off, monthly = compute + requests + old_versions, storage + queries
    return TableCosts(
        currency=prices.currency,
        one_off=one_off,
        monthly=monthly,
        compute=compute,
        requests=requests,
        old_versions=old_versions,
        storage=storage,
        queries=queries,
        pay_back=pay_back(one_off, monthly),
        forecast=forecast,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCost:
    """The predicted and the measured cost of a part, the latter rounded to the nearest millionth."""

    part: str
    expected: AmountRange
    measured_micros: int

    @classmethod
    def of(cls, part: str, expected: AmountRange, measured: Fraction) -> MeasuredCost:
        """Return the cost with its exact measured amount rounded."""
        return cls(part=part, expected=expected, measured_micros=_clamped(round(measured * MICROS)))

    @property
    def is_within(self) -> bool:
        """True if the measured amount lies within the predicted range after rounding."""
        return self.expected.low_micros <= self.measured_micros <= self.expected.high_micros


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCosts:
    """The measured costs of the parts of a change, in ``currency``."""

    currency: str
    parts: tuple[MeasuredCost, ...]


def clustering_costs(work: ClusteringWork, prices: PlanPrices) -> MeasuredCosts:
    """Return the predicted and the measured costs of a clustering."""
    time, request_counts = work.expected_core_milliseconds, expected_requests(work)
    compute = AmountRange.of(prices.compute(time.low), prices.compute(time.high))
    requests = AmountRange.of(
        prices.requests(reads=request_counts.reads.low, writes=request_counts.writes.low),
        prices.requests(reads=request_counts.reads.high, writes=request_counts.writes.high),
    )
    return MeasuredCosts(currency=prices.currency, parts=_one_off((work,), compute, requests, prices))


def followed_costs(
    predicted: TableCosts,
    works: Sequence[ClusteringWork],
    scans: Mapping[str, tuple[int, int]],
    prices: PlanPrices,
) -> MeasuredCosts:
    """Return the costs that a plan predicted for a change, and those measured in its clusterings.

    Old versions are not among the parts, because the next clean may still have to delete them.

    Args:
        predicted: The costs in the plan.
        works: The work of the clusterings that the change caused.
        scans: The bytes and requests of one run of each query now.
        prices: The prices of the plan.
    """
    added_bytes = sum(work.written_bytes - work.read_bytes for work in works) - predicted.forecast.freed_bytes
    if predicted.forecast.kept_seconds is None:
        added_bytes += sum(work.read_bytes for work in works)
    now = Fraction(0)
    for query in predicted.forecast.queries:
        size_bytes, requests = scans.get(query.query, (query.now_bytes, query.now_requests))
        before = prices.monthly_scans(
            query.runs_per_day, size_bytes=query.now_bytes, requests=query.now_requests
        )
        now += prices.monthly_scans(query.runs_per_day, size_bytes=size_bytes, requests=requests) - before
    return MeasuredCosts(
        currency=prices.currency,
        parts=(
            *_one_off(works, predicted.compute, predicted.requests, prices),
            MeasuredCost.of("storage a month", predicted.storage, prices.storage(added_bytes)),
            MeasuredCost.of("queries a month", predicted.queries, now),
        ),
    )


def _one_off(
    works: Sequence[ClusteringWork], compute: AmountRange, requests: AmountRange, prices: PlanPrices
) -> tuple[MeasuredCost, ...]:
    """Return the predicted and measured price of compute and of requests, and of both together."""
    compute_costs = prices.compute(sum(work.core_milliseconds for work in works))
    request_costs = _requests(works, prices)
    return (
        MeasuredCost.of("compute", compute, compute_costs),
        MeasuredCost.of("requests, estimated", requests, request_costs),
        MeasuredCost.of("compute and requests", compute + requests, compute_costs + request_costs),
    )


def _requests(works: Sequence[ClusteringWork], prices: PlanPrices) -> Fraction:
    """Return the price of the requests of clusterings, estimated from their files and bytes."""
    return sum(
        (
            prices.requests(
                reads=read_requests(work.files, work.read_bytes),
                writes=write_requests(work.written_files, work.written_bytes),
            )
            for work in works
        ),
        Fraction(0),
    )


def plan_costs(tables: tuple[TableCosts, ...], prices: PlanPrices) -> PlanCosts:
    """Return the sums over the tables."""
    one_off = sum((table.one_off for table in tables), NOTHING)
    monthly = sum((table.monthly for table in tables), NOTHING)
    return PlanCosts(
        prices=prices,
        one_off=one_off,
        monthly=monthly,
        storage=sum((table.storage for table in tables), NOTHING),
        queries=sum((table.queries for table in tables), NOTHING),
        pay_back=pay_back(one_off, monthly),
    )


def pay_back(one_off: AmountRange, monthly: AmountRange) -> PayBack | None:
    """Return when the saving has paid for the one-off costs.

    The result is None if nothing is spent or certainly nothing is saved.
    """
    if one_off.high_micros <= 0 or monthly.low_micros >= 0:
        return None
    low = floor(Fraction(max(one_off.low_micros, 0) * MONTH_DAYS, -monthly.low_micros))
    if monthly.high_micros >= 0:
        return PayBack(low_days=low, high_days=None)
    return PayBack(
        low_days=low, high_days=ceil(Fraction(one_off.high_micros * MONTH_DAYS, -monthly.high_micros))
    )


def _clamped(micros: int) -> int:
    """Return the amount limited to 64 bits, because JSON readers may not accept larger integers."""
    return max(min(micros, _MOST_MICROS), -_MOST_MICROS)


def _change(query: QueryScan, prices: PlanPrices) -> AmountRange:
    """Return by how much the monthly price of a query changes, as a range."""
    runs = query.runs_per_day
    now = prices.monthly_scans(runs, size_bytes=query.now_bytes, requests=query.now_requests)
    low, high = (
        prices.monthly_scans(runs, size_bytes=size_bytes, requests=requests)
        for size_bytes, requests in (
            (query.expected_bytes.low, query.expected_requests.low),
            (query.expected_bytes.high, query.expected_requests.high),
        )
    )
    return AmountRange.of(low - now, high - now)
