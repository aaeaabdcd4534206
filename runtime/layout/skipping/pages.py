"""Which rows of a row group a reader with the page index has to read for a condition.

Each part of a condition leaves the pages of its own column that may hold a row for it; the rows in them
are intersected and united as the parts are. That is what parquet-mr does (ColumnIndexFilter, RowRanges).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from parquetry.runtime.layout.skipping.predicate import AllOf, AnyOf, Bounds, Predicate, Unknown, may_hold
from parquetry.runtime.layout.skipping.statistics import RowGroupPages

_Rows: TypeAlias = npt.NDArray[np.int64]
_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsLeft:
    """Which rows of a row group have to be read, and the bytes of all columns' pages with one of them."""

    ranges: tuple[range, ...]
    data_bytes: int

    @property
    def rows(self) -> int:
        """How many they are."""
        return sum(map(len, self.ranges))


def rows_left(
    predicate: Predicate,
    pages: RowGroupPages,
    *,
    rows: int,
    known: Mapping[str, Bounds],
    by_page: Mapping[str, Sequence[Bounds]],
) -> RowsLeft:
    """What is left of a row group of so many ``rows``; never less than the rows for which it is true.

    ``known`` bounds hold for the row group as a whole, those ``by_page`` for each page of a column.
    """
    grid = np.unique(np.concatenate([[0, rows], *(pages.columns[name].firsts for name in by_page)]))
    starts: _Rows = grid[:-1].astype(np.int64)

    def held(part: Predicate) -> _Mask:
        match part:
            case AllOf(parts=parts):
                return np.asarray(np.all([np.ones(len(starts), bool), *map(held, parts)], axis=0))
            case AnyOf(parts=parts):
                return np.asarray(np.any([np.zeros(len(starts), bool), *map(held, parts)], axis=0))
            case Unknown():
                return np.ones(len(starts), bool)
        column = part.column
        if column not in by_page:
            return np.full(len(starts), may_hold(part, known))
        of_pages = np.array([may_hold(part, {column: bounds}) for bounds in by_page[column]], bool)
        firsts = np.asarray(pages.columns[column].firsts)
        return np.asarray(of_pages[np.searchsorted(firsts, starts, side="right") - 1])

    left = held(predicate)
    turns = np.diff(np.concatenate([[False], left, [False]]).astype(np.int8))
    begins, ends = grid[np.flatnonzero(turns == 1)].tolist(), grid[np.flatnonzero(turns == -1)].tolist()
    counted = np.concatenate([[0], np.cumsum(left)])
    data_bytes = 0
    for chunk in pages.chunks:
        firsts = np.asarray(chunk.firsts)
        begin = np.searchsorted(grid, firsts, side="right") - 1
        end = np.searchsorted(grid, np.append(firsts[1:], rows), side="left")
        touched = counted[end] > counted[begin]
        if touched.any():
            data_bytes += chunk.other_bytes + int(np.asarray(chunk.sizes)[touched].sum())
    return RowsLeft(ranges=tuple(map(range, begins, ends)), data_bytes=data_bytes)
