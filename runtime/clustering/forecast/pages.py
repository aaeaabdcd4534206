"""Which pages row groups will have that clustering encodes: by its own encoder, tried on some rows.

What a reader skips by is the bounds of these pages, predicted from the sample as those of row groups are.
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
    """How an encoder divides row groups: the ``rows`` of a page of each column, ``usual_rows`` of others.

    ``shares`` says which part of the bytes of all pages lies in pages of so many rows;
    ``dictionary_bytes`` of a row group are read with any page. ``dictionaries`` are the columns with one.
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
        """The row group with its pages; without any where none of its columns has several.

        ``bounds`` are those of a column's values in some rows, counted from where it itself has the
        ``first``; they are asked for of all columns, or of these ``columns`` alone. Of a sample each row of
        which stands for ``weight``, several pages count as one where it has too few rows for each.
        """
        rows, data_bytes = group.rows, group.data_bytes
        grids = {
            name: _grid(rows, _drawn(self.rows.get(name, self.usual_rows), weight))
            for name, column in group.columns.items()
            # Of columns without bounds, as those with a NaN, there is no page index.
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
                _even(rows, step, (data_bytes - fixed) * share, fixed * share)
                for step, share in (self.shares or {self.usual_rows: 1.0}).items()
            ),
        )
        return replace(group, pages=pages)


class TriedPages:
    """Learns the shape of pages from row groups that were encoded, each the only one of its file."""

    def __init__(self, usual_rows: int) -> None:
        self._usual_rows = usual_rows
        self._rows: dict[str, int] = {}
        self._page_bytes: Counter[str] = Counter()
        self._dictionary_bytes = 0
        self._dictionaries: frozenset[str] | None = None
        self._groups = 0

    def add(self, parts: ParquetParts) -> None:
        """Look at the page index of a row group."""
        rows = parts.rows(0)
        self._groups += 1
        columns = frozenset(parts.dictionaries(0))
        self._dictionaries = columns if self._dictionaries is None else self._dictionaries & columns
        for chunk in parts.chunks(0):
            index = chunk.offset_index(0)
            if index is None:
                continue
            firsts, sizes = page_locations(index)
            # A page that ends with the row group could have become larger.
            longest = int(np.diff(firsts).max()) if len(firsts) > 1 else max(rows, self._usual_rows)
            self._rows[chunk.name] = max(self._rows.get(chunk.name, 1), longest)
            self._page_bytes[chunk.name] += int(sizes.sum())
            self._dictionary_bytes += max(chunk.size_bytes - int(sizes.sum()), 0)

    @property
    def shape(self) -> PageShape:
        """What the row groups so far have in common."""
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
    """Behind how many rows the writer ends a page at the latest."""
    ordered = order is not None and policy.page_size_bytes is None
    return ORDERED_PAGE_ROWS if ordered else USUAL_PAGE_ROWS


def _drawn(page_rows: int, weight: float) -> int:
    """The rows of a page, or of several that have a few rows of the sample together."""
    return page_rows * max(ceil(_FEWEST_DRAWN * weight / page_rows), 1)


def _grid(rows: int, step: int) -> list[int]:
    return list(range(0, max(rows, 1), step))


def _even(rows: int, step: int, page_bytes: float, other_bytes: float) -> PageSizes:
    firsts = _grid(rows, step)
    counts = np.diff([*firsts, rows])
    return PageSizes(
        firsts=firsts,
        sizes=(counts * (page_bytes / max(rows, 1))).round().astype(int).tolist(),
        other_bytes=round(other_bytes),
    )
