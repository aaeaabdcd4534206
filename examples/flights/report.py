"""The demo's report: a table for the terminal and one self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The sizes of a table's live files at one moment."""

    sizes_bytes: tuple[int, ...]
    small_limit_bytes: int

    @property
    def files(self) -> int:
        """Number of live files."""
        return len(self.sizes_bytes)

    @property
    def small_files(self) -> int:
        """Number of live files below the small-file limit."""
        return sum(size < self.small_limit_bytes for size in self.sizes_bytes)

    def percentile(self, share: float) -> float:
        """Return a percentile of the file sizes, in KiB."""
        return float(np.percentile(self.sizes_bytes, share)) / 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one delivery left behind, in the sized table and in the plain one."""

    batch: int
    rows: int
    inserted: int
    updated: int
    deleted: int
    sized: Layout
    plain: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison of the whole table with the independent pandas result."""

    reader: str
    rows: int
    different: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a declared query reads of one kind: before clustering, as it was expected, and after it."""

    query: str
    kind: str
    before: int
    expected: int
    after: int


def reads(queries: Sequence[Mapping[str, Any]]) -> list[Read]:
    """Return the files, row groups and rows of the queries that a replacecommit measured."""
    return [
        Read(
            query=query["query"],
            kind=kind.replace("_", " "),
            **{when: query[when][kind] for when in ("before", "expected", "after")},
        )
        for query in queries
        for kind in ("files", "row_groups", "rows")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything the demo shows."""

    steps: Sequence[Step]
    reads: Sequence[Read]
    checks: Sequence[Check]
    limits: str
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every reader saw exactly the expected rows."""
        return all(check.different == 0 for check in self.checks)


def print_report(report: Report, console: Console) -> None:
    """Print the report as tables."""
    table = Table(
        title=f"Twelve monthly deliveries of flights: {report.limits}",
        caption="sizes: p5/p50/p95 in KiB",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title_style="bold",
        header_style="dim",
    )
    for heading in ("batch", "new", "upd.", "del."):
        table.add_column(heading, justify="right", no_wrap=True)
    for side in ("parquetry", "plain"):
        for heading in (f"{side}\nfiles", "\nsmall", "\nsizes"):
            table.add_column(heading, justify="right", no_wrap=True)
    for step in report.steps:
        cells = [str(step.batch), f"{step.inserted:,}", f"{step.updated:,}", f"{step.deleted:,}"]
        for layout in (step.sized, step.plain):
            sizes = "/".join(f"{layout.percentile(share):.0f}" for share in (5, 50, 95))
            cells += [str(layout.files), str(layout.small_files), sizes]
        table.add_row(*cells)
    console.print(table)
    console.print(_reads_table(report.reads))
    for check in report.checks:
        verdict = (
            "equal to pandas" if check.different == 0 else f"{check.different:,} rows DIFFER from pandas"
        )
        console.print(f"read back with {check.reader}: {check.rows:,} rows, {verdict}")


def _reads_table(found: Sequence[Read]) -> Table:
    table = Table(
        title="Clustered for two declared queries: what they read",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        title_style="bold",
        header_style="dim",
    )
    table.add_column("query", no_wrap=True)
    table.add_column("reads", no_wrap=True)
    for heading in ("before", "expected", "measured"):
        table.add_column(heading, justify="right", no_wrap=True)
    for read in found:
        numbers = (f"{number:,}" for number in (read.before, read.expected, read.after))
        table.add_row(read.query if read.kind == "files" else "", read.kind, *numbers)
    return table


def _scale(value: float, maximum: float, length: float) -> float:
    return length * value / maximum if maximum else 0.0


def _ticks(maximum: float) -> list[float]:
    """Round numbers from 0 to the first that is no smaller than ``maximum``, four to seven of them."""
    power = 10.0 ** math.floor(math.log10(max(maximum, 4) / 4))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if 6 * power * factor >= maximum)
    step = max(1, math.ceil(step))
    return [float(number * step) for number in range(math.ceil(maximum / step) + 1)]


def write_html(report: Report, path: Path) -> None:
    """Write the page; charts are inline SVG, nothing is loaded from elsewhere."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, autoescape=True
    )
    environment.globals["scale"] = _scale
    environment.globals["ticks"] = _ticks
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(environment.get_template("report.html.j2").render(report=report), encoding="utf-8")
