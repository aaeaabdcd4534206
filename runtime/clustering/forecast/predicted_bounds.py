"""The predicted bounds of ranges of ordered rows, from the sampled rows among them.

If the order arranges a column, its sampled values describe the rows around them. If it does not, any rows of
the sample describe a range equally well. Then as many sampled rows are used as the range has rows, and not
only those sampled from the range, because these contain few of the rare values.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.layout.skipping.predicate import StartsWith, ValueCondition
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics

Numbers = npt.NDArray[np.int64]

_NEIGHBOURS: Final = 5
_MOST_ROWS: Final = 16_384
_FEWEST_PARTS: Final = 4

_AS_SPREAD: Final = 2 / 3
"""Rows count as spread by chance if they are in at least this share of the parts that chance would fill."""


class DrawnColumn:
    """The sampled values of a column in the order of the rows; each represents ``weight`` rows.

    ``limits`` are the bounds of all rows, sampled or not. ``ordered`` shows whether the order uses the
    column.
    """

    def __init__(
        self, values: pa.Array, *, kind: str, weight: float, limits: ColumnStatistics | None, ordered: bool
    ) -> None:
        self._kind = kind
        self._weight = weight
        self._limits = limits
        self._rows = len(values)
        self._values = values
        self._ordered = ordered
        self._sides: dict[ValueCondition, _Side] = {}
        encoded = values.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary)
        self._distinct = encoded.dictionary.take(order)
        no_value = len(order)
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        numbers = (
            np.argsort(order.to_numpy())[encoded.indices.fill_null(0).to_numpy()] if no_value else no_value
        )
        nan = np.zeros(self._rows, bool)
        if pa.types.is_floating(values.type):
            nan = np.isnan(values.to_numpy(zero_copy_only=False)) & ~is_null
        has_value = ~(is_null | nan)
        self._nulls = _Side(np.where(is_null, 0, 1), missing=1, ordered=ordered)
        self._valued = _Side(np.where(is_null, 1, 0), missing=1, ordered=ordered)
        self._nan = _Side(np.where(nan, 0, 1), missing=1, ordered=ordered)
        self._least = _Side(np.where(has_value, numbers, no_value), missing=no_value, ordered=ordered)
        self._greatest = _Side(
            np.where(has_value, no_value - 1 - numbers, no_value), missing=no_value, ordered=ordered
        )

    def bounds(self, of_rows: range) -> ColumnStatistics:
        """Return the expected bounds of a range of rows, which may include rows that were not sampled."""
        rows = len(of_rows)
        ends = (of_rows.start, of_rows.stop)
        first, end = (min(round(row / self._weight), self._rows) for row in ends)
        none_drawn = end == first
        if none_drawn:
            # The values lie between those of the last sampled row before and the first one after the range.
            first, end = max(first - 1, 0), min(end + 1, self._rows)
        drawn = range(first, end)
        if not self._valued.count(self._valued.window(drawn, rows)):
            return ColumnStatistics(type=self._kind, nulls=rows)
        window = self._nulls.window(drawn, rows)
        nulls = self._nulls.count(window)
        plain = ColumnStatistics(
            type=self._kind, nulls=min(max(round(nulls * rows / len(window)), min(nulls, 1)), rows - 1)
        )
        # The writer records no bounds for a column with a NaN.
        if self._nan.count(self._nan.window(drawn, rows)):
            return plain
        plain = replace(plain, nan_free=True)
        low, high = (
            self._outermost(side, side.window(drawn, rows), 0 if none_drawn else rows)
            for side in (self._least, self._greatest)
        )
        return _within(replace(plain, minimum=low, maximum=high), self._limits)

    def lacks(self, condition: ValueCondition, of_rows: range) -> bool:
        """Return whether the range of rows is expected to have no value that fulfils the condition."""
        first, end = (min(round(row / self._weight), self._rows) for row in (of_rows.start, of_rows.stop))
        if condition not in self._sides:
            fulfils = _fulfilling(self._values, condition).fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value
            self._sides[condition] = _Side(np.where(fulfils, 0, 1), missing=1, ordered=self._ordered)
        side = self._sides[condition]
        return first < end and not side.count(side.window(range(first, end), len(of_rows)))

    def _outermost(self, side: _Side, window: range, rows: int) -> Any:
        """Return the expected outermost value on a side of a range of rows, or None if none is known.

        Unsampled values are assumed to lie further out by the distance between the outermost sampled ones.
        """
        numbers = side.outermost(window, _NEIGHBOURS)
        if not len(numbers):
            return None
        positions = numbers if side is self._least else len(self._distinct) - 1 - numbers
        outermost, inner = (self._distinct[int(positions[index])].as_py() for index in (0, -1))
        share = (1 - len(window) / rows) / max(len(numbers) - 1, 1) if len(window) < rows else 0.0
        if not share or isinstance(outermost, bool):
            return outermost
        if isinstance(outermost, int):
            return outermost + round((outermost - inner) * share)
        if isinstance(outermost, Decimal):
            return outermost + (outermost - inner) * Decimal(share)
        # Texts have no distance, and that of infinities is meaningless.
        return (
            outermost + (outermost - inner) * share
            if isinstance(outermost, float) and isfinite(outermost - inner)
            else outermost
        )


class _Side:
    """The ``numbers`` of rows, smaller for rows further out on one side; ``missing`` for rows without any."""

    def __init__(self, numbers: Numbers, *, missing: int, ordered: bool) -> None:
        self._numbers = numbers
        self._missing = missing
        self._ordered = ordered
        self._spread: dict[int, bool] = {}

    def window(self, drawn: range, rows: int) -> range:
        """Return the range of sampled rows that represent ``rows`` rows, some of which were ``drawn``.

        If the outermost values are spread by chance over all rows, the range also has sampled rows around the
        drawn ones, so that it has as many rows as expected. Otherwise it has only the drawn ones.
        """
        size = max(min(rows, _MOST_ROWS, len(self._numbers)), len(drawn))
        part_rows = 1 << (len(drawn).bit_length() - 1)
        if part_rows not in self._spread:
            self._spread[part_rows] = self._is_spread(part_rows)
        if not self._spread[part_rows]:
            return drawn
        start = min(max((drawn.start + drawn.stop - size) // 2, 0), len(self._numbers) - size)
        return range(start, start + size)

    def outermost(self, window: range, most: int) -> Numbers:
        """Return at most ``most`` of the smallest numbers in the window, in ascending order."""
        numbers = self._numbers[window.start : window.stop]
        if len(numbers) > most:
            numbers = np.partition(numbers, most - 1)[:most]
        return np.sort(numbers[numbers < self._missing])

    def count(self, window: range) -> int:
        """Return how many rows in the window have a number."""
        return int(np.count_nonzero(self._numbers[window.start : window.stop] < self._missing))

    def _is_spread(self, part_rows: int) -> bool:
        """Return whether the outermost rows are spread by chance over parts of ``part_rows`` rows.

        For some of these rows, then for twice as many and so on, the parts that contain them are counted. If
        there are too few rows to count, the result is whether the order does not use the column.
        """
        parts = len(self._numbers) // part_rows
        if parts < _FEWEST_PARTS:
            return False
        numbers = self._numbers[: parts * part_rows]
        outermost = numbers.reshape(parts, part_rows).min(axis=1)
        upto = np.cumsum(np.bincount(numbers, minlength=self._missing)[: self._missing])
        wanted = 2
        while self._missing and wanted <= min(int(upto[-1]), _FEWEST_PARTS * parts):
            number = int(np.searchsorted(upto, wanted))
            by_chance = parts * (1 - (1 - 1 / parts) ** int(upto[number]))
            if np.count_nonzero(outermost <= number) < _AS_SPREAD * by_chance:
                return False
            wanted = 2 * int(upto[number])
        return wanted > 2 or not self._ordered  # noqa: PLR2004 - nothing was counted


def _fulfilling(values: pa.Array, condition: ValueCondition) -> pa.BooleanArray:
    """Return a mask of the values that fulfil the condition; all are set if Arrow cannot compare them."""
    try:
        if isinstance(condition, StartsWith):
            return pc.starts_with(values, condition.prefix)
        return pc.equal(values, pa.scalar(condition.value, values.type))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array(np.ones(len(values), bool))


def _within(bounds: ColumnStatistics, limits: ColumnStatistics | None) -> ColumnStatistics:
    """Return the bounds, limited to those of all rows if these are known."""
    if limits is None or limits.minimum is None or limits.maximum is None or limits.type != bounds.type:
        return bounds
    if bounds.minimum is None or bounds.maximum is None:
        return bounds
    return replace(
        bounds,
        minimum=max(bounds.minimum, limits.minimum),
        maximum=min(bounds.maximum, limits.maximum),
    )
