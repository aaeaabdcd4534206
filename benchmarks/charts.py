"""Bar charts as SVG text: groups of horizontal bars on a logarithmic axis, each with its figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

COLORS = ("#9aa7b5", "#1f6f8b")
MARK = "#b3541e"
WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 760, 150, 90, 15, 12, 58
LETTER = 6.6
"""The width of a letter, about, in the size of the labels."""


def bars(
    title: str,
    axis: str,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    start: float | None = None,
    goals: Sequence[float | None] = (),
) -> str:
    """A group of bars per label, a bar per series; all values are positive.

    Bars begin at the left, or at the value ``start``, so that what lies below it points the other way. A goal is a
    line across the bars of its label.
    """
    values = [value for each in series.values() for value in each]
    values += [goal for goal in goals if goal is not None] + ([start] if start is not None else [])
    low = 10 ** math.floor(math.log10(min(values)))
    high = max(10 ** math.ceil(math.log10(max(values))), low * 10)
    left = max(LEFT, round(max(map(len, labels)) * LETTER) + 16)
    room = WIDTH - left - RIGHT

    def x(value: float) -> float:
        return left + room * math.log10(value / low) / math.log10(high / low)

    step = len(series) * BAR + GAP
    height = TOP + len(labels) * step + 34
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    keys = [*zip(series, COLORS, strict=False), *([("goal", MARK)] if any(goals) else [])]
    for number, (name, color) in enumerate(keys):
        at = 12 + number * 150
        out.append(f'<rect x="{at}" y="33" width="11" height="11" fill="{color}"/>')
        out.append(f'<text x="{at + 16}" y="43">{escape(name)}</text>')
    tick = low
    while tick <= high * 1.0001:
        out.append(
            f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP - 6}" y2="{height - 30}" stroke="#dddddd"/>'
        )
        out.append(f'<text x="{x(tick):.1f}" y="{height - 16}" text-anchor="middle">{tick:g}</text>')
        tick *= 10
    out.append(f'<text x="{left + room / 2:.0f}" y="{height - 3}" text-anchor="middle">{escape(axis)}</text>')
    begin = x(low if start is None else start)
    if start is not None:
        out.append(
            f'<line x1="{begin:.1f}" x2="{begin:.1f}" y1="{TOP - 6}" y2="{height - 30}" stroke="#333333"/>'
        )
    for row, label in enumerate(labels):
        top = TOP + row * step
        middle = top + len(series) * BAR / 2 + 4
        out.append(f'<text x="{left - 8}" y="{middle:.1f}" text-anchor="end">{escape(label)}</text>')
        for number, each in enumerate(series.values()):
            y, end = top + number * BAR, x(each[row])
            first, last = sorted((begin, end))
            out.append(
                f'<rect x="{first:.1f}" y="{y}" width="{max(last - first, 1):.1f}" height="{BAR - 2}" fill="{COLORS[number]}"/>'
            )
            out.append(f'<text x="{last + 5:.1f}" y="{y + BAR - 4}">{each[row]:,.3g}</text>')
        if row < len(goals) and (goal := goals[row]) is not None:
            out.append(
                f'<line x1="{x(goal):.1f}" x2="{x(goal):.1f}" y1="{top - 2}" y2="{top + len(series) * BAR}" stroke="{MARK}" stroke-width="2"/>'
            )
    return "\n".join([*out, "</svg>", ""])
