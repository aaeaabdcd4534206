"""The costs of a plan as rows of text, for the terminal, comments and pages alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from parquetry.compiler.evidence.money import AmountRange, MeasuredCosts, PlanCosts, TableCosts
from parquetry.compiler.plan.model import PlanDocument
from parquetry.project.model.prices import cents, nearest_cents

COST_HEADER: Final = ("costs", "one-off", "storage a month", "queries a month", "pays back")
ALL_TABLES: Final = "all"
COST_NOTE: Final = "ranges that hold in 80 of 100 cases; a minus is a saving"

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """The costs of one table, or of :data:`ALL_TABLES`, as texts; ``note`` names the basis of the ranges."""

    table: str
    one_off: str
    storage: str
    queries: str
    pay_back: str
    has_queries: bool = False
    note: str = ""

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """The cells below :data:`COST_HEADER`."""
        return self.table, self.one_off, self.storage, self.queries, self.pay_back


def cost_rows(plan: PlanDocument) -> tuple[CostRow, ...]:
    """Return a row for each table with costs, and a total for more than one; nothing without prices."""
    if plan.evidence.costs is None:
        return ()
    rows = tuple(_rows(plan))
    if len(rows) < 2:  # noqa: PLR2004 - one row is all there is
        return rows
    total, currency = plan.evidence.costs, plan.evidence.costs.prices.currency
    return (
        *rows,
        CostRow(
            table=ALL_TABLES,
            one_off=amount_text(total.one_off, currency),
            storage=amount_text(total.storage, currency),
            queries=amount_text(total.queries, currency),
            pay_back=_pay_back(total, has_queries=any(row.has_queries for row in rows)),
        ),
    )


def cost_row(table: str, costs: TableCosts) -> CostRow:
    """Return the costs of a table as the texts of one row."""
    return CostRow(
        table=table,
        one_off=amount_text(costs.one_off, costs.currency),
        storage=amount_text(costs.storage, costs.currency),
        queries=amount_text(costs.queries, costs.currency),
        pay_back=_pay_back(costs, has_queries=bool(costs.forecast.queries)),
        has_queries=bool(costs.forecast.queries),
        note=basis_text(costs),
    )


def cost_lines(costs: TableCosts) -> list[str]:
    """Return the costs of one table as lines of text, or nothing if no cost changes."""
    if costs.is_nothing:
        return []
    row = cost_row("", costs)
    change = f"in a month storage {row.storage}, queries {row.queries}"
    return [
        f"costs {row.one_off} once; {change}; pays back {row.pay_back}",
        f"costs: {COST_NOTE}; {row.note}",
    ]


def total_line(plan: PlanDocument) -> str:
    """Return the costs of all tables as a sentence; empty for a single table and without prices."""
    rows = cost_rows(plan)
    if not rows or rows[-1].table != ALL_TABLES:
        return ""
    row = rows[-1]
    return (
        f"All tables cost {row.one_off} once; in a month storage {row.storage}, queries {row.queries}; "
        f"pays back {row.pay_back}."
    )


def amount_text(amount: AmountRange, currency: str) -> str:
    """Return a range in hundredths of the currency, its low end rounded down and its high end up."""
    low, high = cents(amount.low_micros, up=False), cents(amount.high_micros, up=True)
    return f"{low} {currency}" if low == high else f"{low} to {high} {currency}"


def _pay_back(costs: TableCosts | PlanCosts, *, has_queries: bool) -> str:
    """Return after how many days the costs pay back, or why that is not known."""
    found, monthly = costs.pay_back, costs.monthly
    if found is None:
        if costs.one_off.high_micros > 0:
            return "never" if has_queries else "unknown, as no query declares runs_per_day"
        if monthly.low_micros >= 0:
            return "never"
        return "at once" if monthly.high_micros <= 0 else "at once, or never"
    low, high = found.low_days, found.high_days
    if high is None:
        return f"after {_days(low)} at the earliest, perhaps never"
    return f"after {_days(high)}" if low == high else f"after {low:,} to {_days(high)}"


def _days(number: int) -> str:
    """Return a number of days in words, such as ``1 day``."""
    return f"{number:,} day{'' if number == 1 else 's'}"


def basis_text(costs: TableCosts) -> str:
    """Return in words what the ranges of a table are based on."""
    work, queries = costs.forecast.work.basis, costs.forecast.queries
    source = "a sample of the rows" if work.sampled else "the sizes of files"
    throughput = f"{work.throughput / _MIB:,.1f} MiB per core and second"
    parts = [
        f"bytes from {source} and {_past(work.past_bytes)}",
        f"{throughput}, from {_past(work.past_throughputs)}"
        if work.past_throughputs
        else f"{throughput}, assumed",
    ]
    if queries:
        parts.append(f"queries from {_past(min(query.past for query in queries))}")
    if costs.forecast.kept_seconds is None and costs.forecast.kept_bytes:
        parts.append("old versions stay, as no rule says when they go")
    return "; ".join(parts)


MEASURED_COSTS_HEADER: Final = ("costs", "expected", "measured", "")


def measured_cost_rows(costs: MeasuredCosts) -> list[tuple[str, str, str, str]]:
    """Return the cells below :data:`MEASURED_COSTS_HEADER`: the expected and the measured costs by part."""
    return [
        (
            part.part,
            amount_text(part.expected, costs.currency),
            f"{nearest_cents(part.measured_micros)} {costs.currency}",
            "within" if part.is_within else "outside",
        )
        for part in costs.parts
    ]


def _past(number: int) -> str:
    """Return the number of past predictions in words; for none, that errors of other tables are used."""
    if not number:
        return "no past prediction of the table (a prior)"
    return f"{number:,} past prediction{'s' if number > 1 else ''}"


def _rows(plan: PlanDocument) -> Iterator[CostRow]:
    """Yield the row of each table of the plan that has costs."""
    for action in plan.intent.actions:
        figures = plan.evidence.figures.get(action.table)
        if figures is not None and figures.costs is not None and not figures.costs.is_nothing:
            yield cost_row(action.table, figures.costs)
