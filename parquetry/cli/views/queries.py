"""The reads of declared queries before and after clustering, and their forecast, in text and JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from parquetry.cli.terminal.format import columns, count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.compiler.evidence.money import MeasuredCosts
from parquetry.compiler.reports.costs import MEASURED_COSTS_HEADER, measured_cost_rows
from parquetry.compiler.reports.page import DataTable
from parquetry.runtime.clustering.forecast.queries import Deviation, MeasuredQuery, QueryForecast
from parquetry.runtime.clustering.plan.due import ClusteringForecast
from parquetry.runtime.clustering.plan.history import ForecastErrorSummary
from parquetry.runtime.layout.skipping.files import Reads

MEASURED_HEADER = ("query", "reads", "before", "expected", "after", "error")
_FORECAST_HEADER = ("query", "reads", "now", "expected")
_LONGEST_NAME = 24


def measured_table(queries: Iterable[MeasuredQuery], paint: Paint) -> str:
    """Return four lines for each query: files, row groups, rows and bytes."""
    return columns(MEASURED_HEADER, measured_rows(queries), paint=paint, right=frozenset({2, 3, 4, 5}))


def measured_cost_table(costs: MeasuredCosts, paint: Paint) -> str:
    """Return a line for each part of the costs of a clustering."""
    rows = measured_cost_rows(costs)
    return columns(MEASURED_COSTS_HEADER, rows, paint=paint, right=frozenset({1, 2}))


def measured_rows(queries: Iterable[MeasuredQuery]) -> list[tuple[str, ...]]:
    """Return the cells below :data:`MEASURED_HEADER`."""
    rows: list[tuple[str, ...]] = []
    for query in queries:
        expected = [""] * 4 if query.expected is None else touched_cells(query.expected)
        parts = zip(
            _KINDS,
            touched_cells(query.before),
            expected,
            touched_cells(query.after),
            _errors(query.error),
            strict=True,
        )
        rows += [(_name(query.query, number), *cells) for number, cells in enumerate(parts)]
    return rows


def measured_block(queries: Iterable[MeasuredQuery]) -> DataTable:
    """Return the measurements of queries as a table for a page."""
    return DataTable(
        caption="What queries read before and after clustering",
        header=MEASURED_HEADER,
        rows=tuple(measured_rows(queries)),
        numbers=frozenset({2, 3, 4, 5}),
    )


def forecast_table(queries: Iterable[QueryForecast], paint: Paint) -> str:
    """Return four lines for each query, now and expected, or five if dictionaries leave fewer rows."""
    rows: list[tuple[str, ...]] = []
    for one in queries:
        cells: list[tuple[str, ...]] = list(
            zip(_KINDS, touched_cells(one.now), touched_cells(one.expected), strict=True)
        )
        fewest = (one.now.fewest_rows, one.expected.fewest_rows)
        if fewest != (one.now.rows, one.expected.rows):
            cells.insert(_KINDS.index("bytes"), ("  by dictionaries", *(f"{rows:,}" for rows in fewest)))
        rows += [(_name(one.query, number), *line) for number, line in enumerate(cells)]
    return columns(_FORECAST_HEADER, rows, paint=paint, right=frozenset({2, 3}))


def forecast_lines(forecast: ClusteringForecast, paint: Paint) -> list[str]:
    """Return the forecast for queries, below an empty line, and the error of past forecasts, if known."""
    lines = [f"\n{forecast_table(forecast.queries, paint)}"] if forecast.queries else []
    return (
        lines if forecast.forecast_error is None else [*lines, forecast_error_lines(forecast.forecast_error)]
    )


def forecast_json(forecast: ClusteringForecast) -> dict[str, Any]:
    """Return the forecast and the error of past forecasts as plain values."""
    return {
        "queries": [asdict(query) for query in forecast.queries],
        "forecast_error": None if forecast.forecast_error is None else asdict(forecast.forecast_error),
    }


def forecast_error_lines(past: ForecastErrorSummary) -> str:
    """Return the median error of past forecasts, in two lines."""
    shares = zip(_KINDS, _errors(past.error), strict=True)
    errors = ", ".join(f"{kind} {share.lstrip('+-')}" for kind, share in shares if share)
    predictions = count(past.predictions, "prediction")
    return f"median forecast error of {predictions} ({count(past.clusterings, 'clustering')}):\n  {errors}"


_KINDS = ("files", "row groups", "rows", "bytes")


def _name(name: str, line: int) -> str:
    if line:
        return ""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def touched_cells(touched: Reads) -> list[str]:
    """Return the files, row groups, rows and bytes as cells."""
    return [
        f"{touched.files:,}",
        f"{touched.row_groups:,}",
        f"{touched.rows:,}",
        human_size(touched.data_bytes),
    ]


def _errors(error: Deviation | None) -> list[str]:
    if error is None:
        return [""] * 4
    return [_share(part) for part in (error.files, error.row_groups, error.rows, error.data_bytes)]


def _share(error: float | None) -> str:
    if error is None:
        return "?"
    return "0 %" if error == 0 else f"{100 * error:+.1f} %"
