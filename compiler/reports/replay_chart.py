"""Charts of a replay: the files at the end of each day, and the bytes written on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

from parquetry.compiler.replay.model import Replay, ReplayedDay, ReplayedFigures
from parquetry.compiler.reports.charts import Chart, Curve, Label, Rectangle

_WIDTH: Final = 420
_LEFT: Final = 10
_TOP: Final = 20
_BASE: Final = 130
_HEIGHT: Final = 150
_WIDEST: Final = 24
_CLASSES: Final = ("old", "new")

_Series = tuple[str, Callable[[ReplayedDay], ReplayedFigures | None]]


def replay_charts(found: Replay, *, size_text: Callable[[float], str]) -> tuple[Chart, ...]:
    """Return a chart of files and one of bytes with two series each, or nothing for a replay without days.

    The series are the applied and the declared limits, or else the recorded figures and the applied limits.
    ``size_text`` formats a number of bytes.
    """
    if not found.days:
        return ()
    series = _series(found)
    return (
        _chart(
            found,
            series,
            title="files at the end of the day",
            number=lambda figures: figures.files,
            text=lambda number: f"{number:,.0f}",
            is_state=True,
        ),
        _chart(
            found,
            series,
            title="bytes written on the day",
            number=lambda figures: figures.all_written_bytes,
            text=size_text,
            is_state=False,
        ),
    )


def _series(found: Replay) -> tuple[_Series, _Series]:
    """Return the two series of a chart, each with its name and the figures of a day."""
    applied: _Series = ("by the applied limits", lambda day: day.applied)
    if found.declared is None:
        return ("recorded", lambda day: day.recorded), applied
    return applied, ("by the declared limits", lambda day: day.declared)


def _chart(
    found: Replay,
    series: Sequence[_Series],
    *,
    title: str,
    number: Callable[[ReplayedFigures], int],
    text: Callable[[float], str],
    is_state: bool,
) -> Chart:
    """Return a chart of two series: step curves for a state that lasts, or else bars side by side."""
    days = [date.fromisoformat(day.day).toordinal() for day in found.days]
    slot = (_WIDTH - 2 * _LEFT) / (days[-1] - days[0] + 1)
    values = [
        [0 if (figures := of(day)) is None else number(figures) for day in found.days] for _, of in series
    ]
    most = max(1, *(value for numbers in values for value in numbers))
    places = [_LEFT + slot * (day - days[0]) for day in days]
    curves = [Curve(points=f"{_LEFT},{_BASE} {_WIDTH - _LEFT},{_BASE}", css="axis")]
    rectangles: list[Rectangle] = []
    for at, (css, (name, _), numbers) in enumerate(zip(_CLASSES, series, values, strict=True)):
        if is_state:
            curves.append(Curve(points=_steps(places, numbers, most), css=css))
            continue
        width = min(slot * 0.4, _WIDEST)
        for place, value, day in zip(places, numbers, found.days, strict=True):
            height = round(value * (_BASE - _TOP) / most, 1)
            rectangles.append(
                Rectangle(
                    x=round(place + slot / 2 - width + at * width, 1),
                    y=round(_BASE - height, 1),
                    width=round(width, 1),
                    height=height,
                    css=css,
                    title=f"{day.day}: {text(value)} {name}",
                )
            )
    summary = "; ".join(
        f"{name}: {text(numbers[0])} on {found.days[0].day}, {text(numbers[-1])} on {found.days[-1].day}, "
        f"at most {text(max(numbers))}"
        for (name, _), numbers in zip(series, values, strict=True)
    )
    labels = [
        Label(x=_LEFT, y=_TOP - 6, text=text(most), anchor="start"),
        Label(x=_LEFT, y=_BASE + 14, text=found.days[0].day, anchor="start"),
    ]
    if len(days) > 1:
        labels.append(Label(x=_WIDTH - _LEFT, y=_BASE + 14, text=found.days[-1].day, anchor="end"))
    return Chart(
        title=title,
        text=f"{title}; {summary}",
        width=_WIDTH,
        height=_HEIGHT,
        legend=tuple((css, name) for css, (name, _) in zip(_CLASSES, series, strict=True)),
        rectangles=tuple(rectangles),
        curves=tuple(curves),
        labels=tuple(labels),
    )


def _steps(places: Sequence[float], numbers: Sequence[int], most: int) -> str:
    """Return the points of a step curve, which keeps its height until the next x position."""
    heights = [round(_BASE - number * (_BASE - _TOP) / most, 1) for number in numbers]
    ends = [*places[1:], _WIDTH - _LEFT]
    return " ".join(
        f"{start:.1f},{height} {end:.1f},{height}"
        for start, end, height in zip(places, ends, heights, strict=True)
    )
