"""What files will look like when clustering has rewritten them, by statistics alone.

For plans that may read no rows; `plan --due` looks at a sample of them. An estimate: values are taken
to be spread evenly over the range of each column. A text's range is not divided, so that what is said
of it is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from parquetry.runtime.base_file.sizing import default_row_group_bytes
from parquetry.runtime.clustering.forecast.pages import PageShape
from parquetry.runtime.clustering.forecast.queries import DeclaredQueries, GroupForecast
from parquetry.runtime.layout.clustering.model import PlannedGroup
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
    """The forecast for a group with these ``files``.

    Those that they become have row groups and, where rows are put in order, pages as the writer makes them by
    the ``policy``.
    """
    return queries.forecast(files, list(estimated_files(group, files, execution, policy)))


def estimated_files(
    group: PlannedGroup, files: Sequence[FileStatistics], execution: ExecutionPolicy, policy: FilesPolicy
) -> Iterator[FileStatistics]:
    """The files that these of a group become."""
    if not files:
        return
    whole = _merged(files)
    spread = _Spread(whole, execution)
    pages = ORDERED_PAGE_ROWS if policy.page_size_bytes is None else USUAL_PAGE_ROWS
    shape = PageShape(usual_rows=pages) if spread.arranges else None
    size_bytes = group.size_bytes // group.output_files
    row_group_bytes = policy.row_group_size_bytes or default_row_group_bytes(size_bytes)
    count = group.output_files * max(round(whole.data_bytes / group.output_files / row_group_bytes), 1)
    ends = [whole.rows * number // count for number in range(count + 1)]
    made = [
        spread.row_group(range(first, max(end, first + 1)), whole.data_bytes // count, shape)
        for first, end in pairwise(ends)
    ]
    per_file = count // group.output_files
    for number in range(group.output_files):
        row_groups = tuple(made[number * per_file : (number + 1) * per_file])
        yield FileStatistics(path=f"{group.partition}/{number}", size_bytes=size_bytes, row_groups=row_groups)


class _Spread:
    """The rows of a group in their new order: a sort cuts its first column, a curve all of its columns."""

    def __init__(self, whole: RowGroupStatistics, execution: ExecutionPolicy) -> None:
        self._whole = whole
        wanted = () if execution.strategy == STITCH else execution.columns
        wanted = wanted[:1] if execution.strategy == _LINEAR else wanted
        names = {name.lower(): name for name in whole.columns}
        self._cut = [names.get(column.lower()) for column in wanted]

    @property
    def arranges(self) -> bool:
        """Whether rows are put in order at all."""
        return bool(self._cut)

    def row_group(self, of_rows: range, data_bytes: int, shape: PageShape | None) -> RowGroupStatistics:
        """Some of the rows as a row group, with pages of that shape."""
        group = RowGroupStatistics(
            rows=len(of_rows),
            data_bytes=data_bytes,
            columns={name: self._bounds(name, of_rows) for name in self._whole.columns},
        )
        return group if shape is None else shape.divided(group, self._bounds, first=of_rows.start)

    def _bounds(self, name: str, of_rows: range) -> ColumnStatistics:
        column, whole = self._whole.columns[name], self._whole.rows
        # How nulls are spread is not known, but where there is none or nothing else.
        column = replace(column, nulls=len(of_rows) if column.nulls == whole else column.nulls and None)
        if name not in self._cut:
            return column
        if len(self._cut) == 1:
            return _part(column, of_rows.start, of_rows.stop, whole)
        # A cell of the curve: of so many steps in each column, the one in the middle of the rows.
        steps = max(round((whole / len(of_rows)) ** (1 / len(self._cut))), 1)
        cell = (of_rows.start + of_rows.stop) * steps ** len(self._cut) // (2 * max(whole, 1))
        step = cell // steps ** self._cut.index(name) % steps
        return _part(column, step, step + 1, steps)


def _merged(files: Sequence[FileStatistics]) -> RowGroupStatistics:
    groups: Iterable[RowGroupStatistics] = [group for file in files for group in file.row_groups]
    return RowGroupStatistics(
        rows=sum(file.rows for file in files),
        data_bytes=sum(file.data_bytes for file in files),
        columns=merge_columns(groups),
    )


def _part(column: ColumnStatistics, first: int, end: int, parts: int) -> ColumnStatistics:
    """The bounds of some of equal parts of a range of numbers; of anything else the whole."""
    low, high = column.minimum, column.maximum
    if isinstance(low, bool) or isinstance(high, bool):
        return column
    if isinstance(low, int) and isinstance(high, int):
        width = high - low
        return replace(column, minimum=low + width * first // parts, maximum=low + width * end // parts)
    if isinstance(low, float) and isinstance(high, float):
        part = (high - low) / parts
        return replace(column, minimum=low + part * first, maximum=low + part * end)
    if isinstance(low, Decimal) and isinstance(high, Decimal):
        step = (high - low) / parts
        return replace(column, minimum=low + step * first, maximum=low + step * end)
    return column
