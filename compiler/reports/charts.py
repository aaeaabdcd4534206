"""Charts of a page: shapes with coordinates, and a text that describes each chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

_HEIGHT: Final = 110
_BASE: Final = 130
_BELOW: Final = 20
_SLOT: Final = 34
_MARGIN: Final = 10
_GAP: Final = 2
_LONG_LABEL: Final = 5
_PASSED: Final = "passed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """A bar or a dot; ``css`` is the class of its series, and ``title`` its tooltip."""

    x: float
    y: float
    width: float
    height: float
    css: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A line through points, such as ``0,10 5,8.5``."""

    points: str
    css: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A text in a chart."""

    x: float
    y: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Shapes in a frame of ``width`` by ``height``; ``text`` describes them in words.

    ``legend`` has the class and the name of each series. A chart without a ``title`` is part of a line of
    text.
    """

    kind: ClassVar[str] = "chart"
    title: str
    text: str
    width: int
    height: int
    legend: tuple[tuple[str, str], ...] = ()
    rectangles: tuple[Rectangle, ...] = ()
    curves: tuple[Curve, ...] = ()
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """The values above one label: a number for each series."""

    label: str
    values: tuple[int, ...]


def bar_chart(title: str, bars: Sequence[Bars], series: Sequence[str] = ()) -> Chart | None:
    """Return a chart of counts of files, a group of bars for each label, or None if all are 0.

    If labels are long, every second one is shown, and always the last.

    Args:
        title: the heading of the chart.
        bars: the values by label.
        series: the names of the series if there are two: the present state and the expected one.

    """
    most = max((value for group in bars for value in group.values), default=0)
    if not most:
        return None
    classes = ("old", "new") if len(bars[0].values) > 1 else ("new",)
    width = (_SLOT - (len(classes) + 1) * _GAP) / len(classes)
    step = 1 if all(len(group.label) <= _LONG_LABEL for group in bars) else 2
    rectangles, labels = [], []
    for index, group in enumerate(bars):
        left = _MARGIN + _SLOT * index + _GAP
        if (len(bars) - 1 - index) % step == 0:
            labels.append(Label(x=left + (_SLOT - 2 * _GAP) / 2, y=_BASE + 14, text=group.label))
        for number, (value, css) in enumerate(zip(group.values, classes, strict=True)):
            height = round(value * _HEIGHT / most)
            x = left + number * (width + _GAP)
            name = f" {series[number]}" if series else ""
            rectangles.append(
                Rectangle(
                    x=x,
                    y=_BASE - height,
                    width=width,
                    height=height,
                    css=css,
                    title=f"{group.label}: {value:,} files{name}",
                )
            )
            if value:
                labels.append(Label(x=x + width / 2, y=_BASE - height - 4, text=f"{value:,}"))
    axis = Curve(points=f"{_MARGIN},{_BASE} {_MARGIN + _SLOT * len(bars)},{_BASE}", css="axis")
    return Chart(
        title=title,
        text=f"{title}: {_values_text(bars, series)}",
        width=2 * _MARGIN + _SLOT * len(bars),
        height=_BASE + _BELOW,
        legend=tuple(zip(classes, series, strict=True)) if series else (),
        rectangles=tuple(rectangles),
        curves=(axis,),
        labels=tuple(labels),
    )


def _values_text(bars: Sequence[Bars], series: Sequence[str]) -> str:
    """Return the values as words, without the labels that have no value."""
    parts = []
    for group in bars:
        if any(group.values):
            names = series or [""] * len(group.values)
            texts = (f"{v:,} {name}".rstrip() for v, name in zip(group.values, names, strict=True))
            parts.append(f"{group.label}: {', '.join(texts)}")
    return f"files by label; {'; '.join(parts)}"


_SPARK_WIDTH: Final = 120
_SPARK_HEIGHT: Final = 24
_SPARK_EDGE: Final = 4
_DOT: Final = 5


def sparkline(
    values: Sequence[float | None], classes: Sequence[str], *, bound: float | None, text: str
) -> Chart:
    """Return a small line chart of values, the oldest first; None is a gap.

    The newest value, and each value whose class is not ``passed``, gets a square in the colour of its class.

    Args:
        values: the values.
        classes: the class of each value.
        bound: a limit, drawn as a dashed line, or None.
        text: the description of the chart.

    """
    known = [value for value in values if value is not None]
    most = max([*known, bound or 0.0, 0.0])
    least = min([*known, bound or 0.0, 0.0])

    def x_of(index: int) -> float:
        """Return the horizontal position of the value with this index."""
        room = _SPARK_WIDTH - 2 * _SPARK_EDGE
        return round(_SPARK_EDGE + room * index / max(len(values) - 1, 1), 1)

    def y_of(value: float) -> float:
        """Return the vertical position of a value; the highest value is at the top."""
        room = _SPARK_HEIGHT - 2 * _SPARK_EDGE
        return round(_SPARK_EDGE + room * (most - value) / ((most - least) or 1), 1)

    line = " ".join(f"{x_of(index)},{y_of(v)}" for index, v in enumerate(values) if v is not None)
    curves = [Curve(points=line, css="new")] if len(known) > 1 else []
    if bound is not None and known:
        edge = y_of(bound)
        curves.append(Curve(points=f"0,{edge} {_SPARK_WIDTH},{edge}", css="limit"))
    dots = [
        Rectangle(
            x=x_of(index) - _DOT / 2,
            y=y_of(0.0 if value is None else value) - _DOT / 2,
            width=_DOT,
            height=_DOT,
            css=css,
            title=css.replace("_", " "),
        )
        for index, (value, css) in enumerate(zip(values, classes, strict=True))
        if css != _PASSED or index == len(values) - 1
    ]
    return Chart(
        title="",
        text=text,
        width=_SPARK_WIDTH,
        height=_SPARK_HEIGHT,
        rectangles=tuple(dots),
        curves=tuple(curves),
    )
