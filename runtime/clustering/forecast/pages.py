"""The predicted pages of row groups that clustering encodes, from its own encoder tried on some rows.

Readers skip pages by their bounds. These are predicted from the sample, as the bounds of row groups are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final

import numpy as np

from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.layout.skipping.statistics import (
    ColumnPages,
    ColumnStatistics,
    PageSizes,
    RowGroupPages,
    RowGroupStatistics,
)
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.page_index import ORDERED_PAGE_ROWS, USUAL_PAGE_ROWS, page_locations
from parquetry.runtime.spec.table_spec import FilesPolicy

_FEWEST_DRAWN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PageShape:
    """The way an encoder divides row groups into pages.

    ``rows`` is the number of rows per page of each tried column, ``usual_rows`` that of all other columns.
    ``shares`` maps a number of rows per page to the share of all page bytes in such pages.
    ``dictionary_bytes`` of a row group are read with any page. ``dictionaries`` are the columns with a
    dictionary.
    """

    usual_rows: int
    rows: Mapping[str, int] = field(default_factory=dict)
    shares: Mapping[int, float] = field(default_factory=dict)
    dictionary_bytes: int = 0
    dictionaries: frozenset[str] = frozenset()

    def divided(
        self,
        group: RowGroupStatistics,
        bounds: Callable[[str, range], ColumnStatistics],
        *,
        first: int = 0,
        weight: float = 1.0,
        columns: Collection[str] | None = None,
    ) -> RowGroupStatistics:
        """Return the row group with its pages, or unchanged if no column has several pages.

        Args:
            group: The row group.
            bounds: Returns the bounds of a column in a range of rows.
            first: The number of the row group's first row in these ranges.
            weight: The number of rows that each sampled row represents. If a page would contain too few
                sampled rows, several pages count as one.
            columns: The columns that get bounds, or None for all.

        """
        rows, data_bytes = group.rows, group.data_bytes
        grids = {
            name: _grid(rows, _rows_per_sampled_page(self.rows.get(name, self.usual_rows), weight))
            for name, column in group.columns.items()
            # Columns without bounds, such as those with a NaN, have no page index.
            if column.minimum is not None or column.nulls == rows
        }
        if all(len(firsts) == 1 for firsts in grids.values()):
            return group
        fixed = min(self.dictionary_bytes, data_bytes)
        pages = RowGroupPages(
            columns={
                name: ColumnPages(
                    firsts=firsts,
                    bounds=[
                        bounds(name, range(first + begin, first + end))
                        for begin, end in zip(firsts, (*firsts[1:], rows), strict=True)
                    ],
                )
                for name, firsts in grids.items()
                if columns is None or name in columns
            },
            chunks=tuple(
                _pages_of_equal_rows(rows, step, (data_bytes - fixed) * share, fixed * share)
                for step, share in (self.shares or {self.usual_rows: 1.0}).items()
            ),
        )
        return replace(group, pages=pages)


class TriedPages:
    """Learns the shape of pages from encoded row groups, each the only one of its file."""

    def __init__(self, usual_rows: int) -> None:
        self._usual_rows = usual_rows
        self._rows: dict[str, int] = {}
        self._page_bytes: Counter[str] = Counter()
        self._dictionary_bytes = 0
        self._dictionaries: frozenset[str] | None = None
        self._groups = 0

    def add(self, parts: ParquetParts) -> None:
        """Add the page index of a row group."""
        rows = parts.rows(0)
        self._groups += 1
        columns = frozenset(parts.dictionaries(0))
        self._dictionaries = columns if self._dictionaries is None else self._dictionaries & columns
        for chunk in parts.chunks(0):
            index = chunk.offset_index(0)
            if index is None:
                continue
            firsts, sizes = page_locations(index)
            # The last page ends with the row group, so a full page may have more rows.
            longest = int(np.diff(firsts).max()) if len(firsts) > 1 else max(rows, self._usual_rows)
            self._rows[chunk.name] = max(self._rows.get(chunk.name, 1), longest)
            self._page_bytes[chunk.name] += int(sizes.sum())
            self._dictionary_bytes += max(chunk.size_bytes - int(sizes.sum()), 0)

    @property
    def shape(self) -> PageShape:
        """The page shape that fits all row groups so far."""
        total = sum(self._page_bytes.values())
        shares: Counter[int] = Counter()
        for name, size in self._page_bytes.items():
            shares[self._rows[name]] += size
        return PageShape(
            usual_rows=self._usual_rows,
            rows=self._rows,
            shares={step: size / total for step, size in shares.items()} if total else {},
            dictionary_bytes=self._dictionary_bytes // max(self._groups, 1),
            dictionaries=self._dictionaries or frozenset(),
        )


def usual_page_rows(policy: FilesPolicy, order: RowOrder | None) -> int:
    """Return the number of rows after which the writer ends a page at the latest."""
    ordered = order is not None and policy.page_size_bytes is None
    return ORDERED_PAGE_ROWS if ordered else USUAL_PAGE_ROWS


def _rows_per_sampled_page(page_rows: int, weight: float) -> int:
    """Return the rows of a page, or of several pages together if one has too few sampled rows."""
    return page_rows * max(ceil(_FEWEST_DRAWN * weight / page_rows), 1)


def _grid(rows: int, step: int) -> list[int]:
    return list(range(0, max(rows, 1), step))


def _pages_of_equal_rows(rows: int, step: int, page_bytes: float, other_bytes: float) -> PageSizes:
    """Return pages of ``step`` rows with sizes in proportion to their rows."""
    firsts = _grid(rows, step)
    counts = np.diff([*firsts, rows])
    return PageSizes(
        firsts=firsts,
        sizes=(counts * (page_bytes / max(rows, 1))).round().astype(int).tolist(),
        other_bytes=round(other_bytes),
    )
