"""What the pages share: tables, the middle of repetitions, the words for a goal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

Row = dict[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """The lines of a Markdown table and the empty line behind it."""
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return [*lines, ""]


def verdict(*, reached: bool) -> str:
    """The word for a goal."""
    return "reached" if reached else "**not reached**"


def middle(rows: Sequence[Row], figure: str) -> float:
    """The median of a figure."""
    return float(median(row[figure] for row in rows))


def spread(values: Sequence[float]) -> str:
    """Minimum, median and maximum."""
    return f"{min(values):.1f} / {median(values):.1f} / {max(values):.1f}"
