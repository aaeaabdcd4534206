"""The estimate of the files after a clustering, by statistics alone.

Plans that may read no rows use it; ``plan --due`` reads a sample instead. The estimate assumes that values
are spread evenly over the range of each column. The range of a text is not divided, so the figures for it are
an upper bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from parquetry.runtime.base_file.sizing import default_row_group_bytes
from parquetry.runtime.clustering.forecast.queries import DeclaredQueries, GroupForecast
from parquetry.runtime.clustering.forecast.tried_encoding import PageShape
from parquetry.runtime.layout.clustering.model import PlannedGroup
from parquetry.runtime.layout.skipping.files import may_match
from parquetry.runtime.layout.skipping.statistics import (
    ColumnStatistics,
    FileStatistics,
    RowGroupStatistics,
    merge_columns,
)
from parquetry.runtime.parquet.page_index import ORDERED_PAGE_ROWS, USUAL_PAGE_ROWS
from parquetry.runtime.spec.clustering import STITCH, ExecutionPolicy
from parquetry.runtime.spec.table_spec import FilesPolicy

_LINEAR = "sort"


def estimate(
    group: PlannedGroup,
    files: Sequence[FileStatistics],
    queries: DeclaredQueries,
    execution: ExecutionPolicy,
    policy: FilesPolicy,
) -> GroupForecast:
    """Return the forecast of a group with these ``files``.

    The predicted files have row groups as the writer makes them under the ``policy`` and, if rows are
    ordered, pages.
    """
    return queries.forecast(files, list(estimated_files(group, files, queries, execution, policy)))


def estimated_files(
    group: PlannedGroup,
    files: Sequence[FileStatistics],
    queries: DeclaredQueries,
    execution: ExecutionPolicy,
    policy: FilesPolicy,
) -> Iterator[FileStatistics]:
    """Yield the files that a group becomes, in as much detail as the queries need.

    A row group has pages if a query reads it. A file that no query reads has a single row group.

    Args:
        group: The group.
        files: The statistics of its files.
        queries: The declared queries.
        execution: The execution policy.
        policy: The file settings of the writer.

    """
    if not files:
        return
    whole = _merged(files)
    spread = _Spread(whole, execution)
    pages = ORDERED_PAGE_ROWS if policy.page_size_bytes is None else USUAL_PAGE_ROWS
    shape = PageShape(usual_rows=pages) if spread.arranges else None
    size_bytes = group.size_bytes // group.output_files
    row_group_bytes = policy.row_group_size_bytes or default_row_group_bytes(size_bytes)
    per_file = max(round(whole.data_bytes / group.output_files / row_group_bytes), 1)
    count = group.output_files * per_file
    data_bytes = whole.data_bytes // count
    predicates, types, columns = queries.predicates, queries.types, queries.columns

    def rows_of_part(part: int) -> range:
        """Return the rows of a row group."""
        first, end = whole.rows * part // count, whole.rows * (part + 1) // count
        return range(first, max(end, first + 1))

    for number in range(group.output_files):
        parts = range(number * per_file, (number + 1) * per_file)
        of_file = range(rows_of_part(parts[0]).start, rows_of_part(parts[-1]).stop)
        as_one = spread.row_group(of_file, per_file * data_bytes)
        row_groups: tuple[RowGroupStatistics, ...] = (as_one,)
        if not spread.is_linear or may_match(as_one, predicates, types):
            row_ranges = [rows_of_part(part) for part in parts]
            row_groups = tuple(spread.row_group(rows, data_bytes) for rows in row_ranges)
            if shape is not None:
                row_groups = tuple(
                    spread.divided(row_group, rows, shape, columns)
                    if may_match(row_group, predicates, types)
                    else row_group
                    for row_group, rows in zip(row_groups, row_ranges, strict=True)
                )
        yield FileStatistics(path=f"{group.partition}/{number}", size_bytes=size_bytes, row_groups=row_groups)


class _Spread:
    """The rows of a group in their new order: a sort divides the first column, a curve all of its columns."""

    def __init__(self, whole: RowGroupStatistics, execution: ExecutionPolicy) -> None:
        self._whole = whole
        wanted = () if execution.strategy == STITCH else execution.columns
        wanted = wanted[:1] if execution.strategy == _LINEAR else wanted
        names = {name.lower(): name for name in whole.columns}
        self._divided_columns = [names.get(column.lower()) for column in wanted]

    @property
    def arranges(self) -> bool:
        """True if the rows are ordered at all."""
        return bool(self._divided_columns)

    @property
    def is_linear(self) -> bool:
        """True if the bounds of some rows are also bounds of each part of these rows.

        False for cells of a curve.
        """
        return len(self._divided_columns) <= 1

    def row_group(self, of_rows: range, data_bytes: int) -> RowGroupStatistics:
        """Return some of the rows as a row group without pages."""
        return RowGroupStatistics(
            rows=len(of_rows),
            data_bytes=data_bytes,
            columns={name: self._bounds(name, of_rows) for name in self._whole.columns},
        )

    def divided(
        self, group: RowGroupStatistics, of_rows: range, shape: PageShape, columns: Collection[str]
    ) -> RowGroupStatistics:
        """Return the row group with pages of that shape, and the bounds of the ``columns`` in them."""
        return shape.divided(group, self._bounds, first=of_rows.start, columns=columns)

    def _bounds(self, name: str, of_rows: range) -> ColumnStatistics:
        column, whole = self._whole.columns[name], self._whole.rows
        # The distribution of nulls is only known if there are none, or nothing else.
        nulls = len(of_rows) if column.nulls == whole else column.nulls and None
        if name not in self._divided_columns:
            return replace(column, nulls=nulls)
        if len(self._divided_columns) == 1:
            return _part(column, of_rows.start, of_rows.stop, whole, nulls=nulls)
        # Each column is divided into steps. The rows count as the cell at their middle.
        steps = max(round((whole / len(of_rows)) ** (1 / len(self._divided_columns))), 1)
        cell = (of_rows.start + of_rows.stop) * steps ** len(self._divided_columns) // (2 * max(whole, 1))
        step = cell // steps ** self._divided_columns.index(name) % steps
        return _part(column, step, step + 1, steps, nulls=nulls)


def _merged(files: Sequence[FileStatistics]) -> RowGroupStatistics:
    groups: Iterable[RowGroupStatistics] = [group for file in files for group in file.row_groups]
    return RowGroupStatistics(
        rows=sum(file.rows for file in files),
        data_bytes=sum(file.data_bytes for file in files),
        columns=merge_columns(groups),
    )


def _part(
    column: ColumnStatistics, first: int, end: int, parts: int, *, nulls: int | None
) -> ColumnStatistics:
    """Return the bounds of parts ``first`` to ``end`` of a range that is divided into ``parts`` parts.

    If the bounds are not numbers, return those of the whole range.
    """
    low, high = column.minimum, column.maximum
    if isinstance(low, bool) or isinstance(high, bool):
        return replace(column, nulls=nulls)
    if isinstance(low, int) and isinstance(high, int):
        width = high - low
        low, high = low + width * first // parts, low + width * end // parts
    elif isinstance(low, float) and isinstance(high, float):
        part = (high - low) / parts
        low, high = low + part * first, low + part * end
    elif isinstance(low, Decimal) and isinstance(high, Decimal):
        step = (high - low) / parts
        low, high = low + step * first, low + step * end
    return replace(column, minimum=low, maximum=high, nulls=nulls)
