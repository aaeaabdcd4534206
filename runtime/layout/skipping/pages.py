"""The rows of a row group that a reader with the page index has to read for a condition.

Each part of a condition selects the pages of its own column that may contain a matching row. The row ranges
of the pages are intersected for AND and united for OR, as in parquet-mr (ColumnIndexFilter, RowRanges).
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
    """The rows of a row group that have to be read, and the bytes of all columns' pages with one of them."""

    ranges: tuple[range, ...]
    data_bytes: int

    @property
    def rows(self) -> int:
        """The number of these rows."""
        return sum(map(len, self.ranges))


def rows_left(
    predicate: Predicate,
    pages: RowGroupPages,
    *,
    rows: int,
    known: Mapping[str, Bounds],
    by_page: Mapping[str, Sequence[Bounds]],
) -> RowsLeft:
    """Return the rows of a row group to read; they include every row for which the condition is true.

    Args:
        predicate: The condition.
        pages: The page index of the row group.
        rows: The number of rows in the row group.
        known: Bounds of columns in the whole row group.
        by_page: Bounds of each page of a column.

    """
    grid = np.unique(np.concatenate([[0, rows], *(pages.columns[name].firsts for name in by_page)]))
    starts: _Rows = grid[:-1].astype(np.int64)

    def matching(part: Predicate) -> _Mask:
        match part:
            case AllOf(parts=parts):
                return np.asarray(np.all([np.ones(len(starts), bool), *map(matching, parts)], axis=0))
            case AnyOf(parts=parts):
                return np.asarray(np.any([np.zeros(len(starts), bool), *map(matching, parts)], axis=0))
            case Unknown():
                return np.ones(len(starts), bool)
        column = part.column
        if column not in by_page:
            return np.full(len(starts), may_hold(part, known))
        of_pages = np.array([may_hold(part, {column: bounds}) for bounds in by_page[column]], bool)
        firsts = np.asarray(pages.columns[column].firsts)
        return np.asarray(of_pages[np.searchsorted(firsts, starts, side="right") - 1])

    left = matching(predicate)
    changes = np.diff(np.concatenate([[False], left, [False]]).astype(np.int8))
    begins, ends = grid[np.flatnonzero(changes == 1)].tolist(), grid[np.flatnonzero(changes == -1)].tolist()
    counted = np.concatenate([[0], np.cumsum(left)])
    data_bytes = 0
    for chunk in pages.chunks:
        firsts = np.asarray(chunk.firsts)
        begin = np.searchsorted(grid, firsts, side="right") - 1
        end = np.searchsorted(grid, np.append(firsts[1:], rows), side="left")
        is_read = counted[end] > counted[begin]
        if is_read.any():
            data_bytes += chunk.other_bytes + int(np.asarray(chunk.sizes)[is_read].sum())
    return RowsLeft(ranges=tuple(map(range, begins, ends)), data_bytes=data_bytes)
