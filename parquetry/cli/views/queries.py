"""What declared queries read before clustering, are expected to read after it, and read: in text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from parquetry.cli.terminal.format import columns, count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.runtime.clustering.forecast.by_sample import QueryForecast
from parquetry.runtime.clustering.forecast.queries import Deviation, MeasuredQuery
from parquetry.runtime.clustering.plan.history import Hindsight
from parquetry.runtime.layout.skipping.files import Touched

MEASURED_HEADER = ("query", "reads", "before", "expected", "after", "off by")
_FORESEEN_HEADER = ("query", "reads", "now", "expected")
_LONGEST_NAME = 24


def measured_table(queries: Iterable[MeasuredQuery], paint: Paint) -> str:
    """Four lines for each query: files, row groups, rows and bytes."""
    return columns(MEASURED_HEADER, measured_rows(queries), paint=paint, right=frozenset({2, 3, 4, 5}))


def measured_rows(queries: Iterable[MeasuredQuery]) -> list[tuple[str, ...]]:
    """The cells below :data:`MEASURED_HEADER`."""
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


def foreseen_table(queries: Sequence[tuple[str, Touched, Touched]], paint: Paint) -> str:
    """Four lines for each query, by name: what it reads now and is expected to read."""
    rows = [
        (_name(name, number), *cells)
        for name, now, expected in queries
        for number, cells in enumerate(zip(_KINDS, touched_cells(now), touched_cells(expected), strict=True))
    ]
    return columns(_FORESEEN_HEADER, rows, paint=paint, right=frozenset({2, 3}))


def foreseen_lines(queries: Sequence[QueryForecast], past: Hindsight | None, paint: Paint) -> list[str]:
    """What is foreseen of a plan, below an empty line, and how good that was before; nothing of nothing."""
    figures = [(query.query, query.before, query.expected) for query in queries]
    lines = [f"\n{foreseen_table(figures, paint)}"] if figures else []
    return lines if past is None else [*lines, hindsight_lines(past)]


def foreseen_json(queries: Iterable[QueryForecast]) -> list[dict[str, Any]]:
    """The same figures; conditions are left out, as they may hold personal data."""
    return [
        {"query": query.query, "now": asdict(query.before), "expected": asdict(query.expected)}
        for query in queries
    ]


def hindsight_lines(past: Hindsight) -> str:
    """How good predictions were."""
    shares = zip(_KINDS, _errors(past.error), strict=True)
    said = ", ".join(f"{kind} {share.lstrip('+-')}" for kind, share in shares if share)
    predictions = count(past.predictions, "past prediction")
    return f"{predictions} of {count(past.clusterings, 'clustering')}, off by in the median:\n  {said}"


_KINDS = ("files", "row groups", "rows", "bytes")


def _name(name: str, line: int) -> str:
    if line:
        return ""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."


def touched_cells(touched: Touched) -> list[str]:
    """Files, row groups, rows and bytes, as cells."""
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
