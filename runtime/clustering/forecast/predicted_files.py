"""The predicted files of a group after clustering, from a sample of its rows.

The functions that order the rows and divide them into row groups and files in the rewrite do the same here
with the sample. The boundaries of row groups and files come from the sizer of the writer, with the expected
bytes per row.

The statistics of each predicted row group come from its sampled rows. If the order arranges a column, its
sampled values describe the rows around them. If it does not, any rows of the sample describe a range equally
well. Then as many sampled rows are used as the range has rows, and not only those sampled from the range,
because these contain few of the rare values.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import accumulate, pairwise
from math import isfinite
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.base_file.sizing import SMALL_REST_FACTOR, default_row_group_bytes
from parquetry.runtime.clustering.forecast.sample import GroupSample
from parquetry.runtime.clustering.forecast.tried_encoding import CompressionRatio
from parquetry.runtime.clustering.rewrite.order import OrderKeys, RowOrder, sort_indices, split_starts
from parquetry.runtime.clustering.rewrite.strategies import as_one_array, values_of
from parquetry.runtime.clustering.rewrite.writer import spreading_sizer
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.packing import outputs_of
from parquetry.runtime.layout.skipping.files import Types, may_match
from parquetry.runtime.layout.skipping.predicate import (
    Predicate,
    StartsWith,
    ValueCondition,
    value_conditions,
)
from parquetry.runtime.layout.skipping.statistics import (
    ColumnStatistics,
    FileStatistics,
    RowGroupStatistics,
    merge_columns,
    truncated,
)

_COPIED_SHARE: Final = 0.5
"""Stitching copies row groups of at least this share of the usual size unchanged."""

_NO_LIMIT: Final = 2**62

Numbers = npt.NDArray[np.int64]

_NEIGHBOURS: Final = 5
_MOST_ROWS: Final = 16_384
_FEWEST_PARTS: Final = 4

_AS_SPREAD: Final = 2 / 3
"""Rows count as spread by chance if they are in at least this share of the parts that chance would fill."""


def arranged_files(
    files: Sequence[FileStatistics],
    sample: GroupSample,
    order: RowOrder,
    *,
    types: Types,
    target_bytes: int,
    most_bytes: int,
    row_group_size_bytes: int | None,
    compression_ratio: CompressionRatio,
    predicates: Sequence[Predicate] = (),
) -> tuple[FileStatistics, ...]:
    """Return the predicted files that a group becomes if its rows are ordered. Their paths are numbers.

    They have bounds of those columns in ``types`` that the sample has.

    Args:
        files: The statistics of the files of the group.
        sample: The sample of their rows.
        order: The order of the rows.
        types: The Spark types of the columns that queries use.
        target_bytes: The target file size.
        most_bytes: The maximum file size.
        row_group_size_bytes: The size of a row group, or None for the writer's default.
        compression_ratio: The ratio of new to stored bytes.
        predicates: The conditions of queries. Row groups that may match one have pages, and their
            dictionaries lack the values that the sample lacks.

    Raises:
        InvalidDataError: If the sample lacks a column of the order.

    """
    if not sample.of_rows or not sample.rows.num_rows:
        return ()
    rows = sample.rows.take(sort_indices(OrderKeys(order, sample.ranks).of(sample.rows))).combine_chunks()
    row_bytes = sum(file.data_bytes for file in files) / sample.of_rows
    whole_row_bytes = sum(file.size_bytes for file in files) / sample.of_rows
    row_groups = expected_row_groups(
        _segments(rows, order, sample.of_rows),
        RowSizes(before=whole_row_bytes, after=row_bytes * compression_ratio.written),
        target_bytes=target_bytes,
        most_bytes=most_bytes,
        row_group_size_bytes=row_group_size_bytes,
    )
    limits = merge_columns(group for file in files for group in file.row_groups)
    ordered_by = {*order.split_by, *order.columns}
    leaves = {
        name: DrawnColumn(
            values,
            kind=types[name],
            weight=sample.weight,
            limits=limits.get(name),
            ordered=name in ordered_by,
        )
        for name, values in _leaves(rows, types)
    }

    def bounds(name: str, of_rows: range) -> ColumnStatistics:
        return leaves[name].bounds(of_rows)

    pages = compression_ratio.pages
    asked = frozenset[ValueCondition]().union(*map(value_conditions, predicates))
    conditions = [one for one in asked if pages and one.column in pages.dictionaries & leaves.keys()]
    groups = []
    for cut in row_groups:
        of_rows = range(cut.first, cut.end)
        group = RowGroupStatistics(
            rows=cut.end - cut.first,
            data_bytes=round((cut.end - cut.first) * row_bytes * compression_ratio.data),
            columns={name: truncated(bounds(name, of_rows)) for name in leaves},
            lacking=frozenset(one for one in conditions if leaves[one.column].lacks(one, of_rows))
            if pages
            else None,
        )
        if pages is not None and may_match(group, predicates, types):
            group = pages.divided(group, bounds, first=cut.first, weight=sample.weight)
        groups.append(group)
    return _as_files(groups, [cut.file for cut in row_groups], compression_ratio)


def stitched_files(
    files: Sequence[FileStatistics],
    *,
    target_bytes: int,
    most_bytes: int,
    row_group_size_bytes: int | None,
    compression_ratio: CompressionRatio,
) -> tuple[FileStatistics, ...]:
    """Return the predicted files that a group becomes if its rows keep their order. Their paths are numbers.

    Copied row groups keep their size and pages. Small row groups are encoded again.

    Args:
        files: The statistics of the files of the group.
        target_bytes: The target file size.
        most_bytes: The maximum file size.
        row_group_size_bytes: The size of a row group, or None for the writer's default.
        compression_ratio: The ratio of new to stored bytes.

    """
    row_group_bytes = row_group_size_bytes or default_row_group_bytes(target_bytes)
    stored = [group for file in files for group in file.row_groups if group.rows]
    groups = list(_merge_small_row_groups(stored, row_group_bytes, compression_ratio))
    total = sum(group.data_bytes for group in groups)
    outputs = outputs_of(total, target_bytes=target_bytes, most_bytes=most_bytes)
    middles = np.cumsum([group.data_bytes for group in groups]) - [group.data_bytes / 2 for group in groups]
    last = outputs.files - 1
    numbers = [min(int(middle // max(outputs.each_bytes, 1)), last) for middle in middles]
    return _as_files(groups, numbers, compression_ratio)


def _merge_small_row_groups(
    groups: Sequence[RowGroupStatistics], row_group_bytes: int, compression_ratio: CompressionRatio
) -> Iterator[RowGroupStatistics]:
    """Yield the row groups, with small neighbours merged until they have the usual size."""
    held: list[RowGroupStatistics] = []
    for group in groups:
        is_copied = group.data_bytes >= _COPIED_SHARE * row_group_bytes
        if held and (
            is_copied or compression_ratio.written * sum(g.data_bytes for g in held) >= row_group_bytes
        ):
            yield _merged(held, compression_ratio)
            held = []
        if is_copied:
            yield group
        else:
            held.append(group)
    if held:
        yield _merged(held, compression_ratio)


def _merged(groups: Sequence[RowGroupStatistics], compression_ratio: CompressionRatio) -> RowGroupStatistics:
    """Return small row groups as one that is encoded again."""
    whole = RowGroupStatistics(
        rows=sum(group.rows for group in groups),
        data_bytes=round(compression_ratio.data * sum(group.data_bytes for group in groups)),
        columns=merge_columns(groups),
        lacking=_lacking_everywhere(groups),
    )
    if compression_ratio.pages is None:
        return whole
    ends = list(accumulate(group.rows for group in groups))

    def bounds(name: str, of_rows: range) -> ColumnStatistics:
        within = groups[bisect_right(ends, of_rows.start) : bisect_left(ends, of_rows.stop) + 1]
        merged = merge_columns(within)[name]
        is_null = merged.nulls is not None and merged.nulls == sum(group.rows for group in within)
        # The positions of nulls within a row group are not known.
        return replace(merged, nulls=len(of_rows) if is_null else merged.nulls and None)

    return compression_ratio.pages.divided(whole, bounds)


def _lacking_everywhere(groups: Sequence[RowGroupStatistics]) -> frozenset[Hashable] | None:
    """Return the conditions that all row groups lack, or None if those of any are not known."""
    known = [frozenset(group.lacking) for group in groups if group.lacking is not None]
    return frozenset.intersection(*known) if known and len(known) == len(groups) else None


def _as_files(
    groups: Sequence[RowGroupStatistics], numbers: Sequence[int], compression_ratio: CompressionRatio
) -> tuple[FileStatistics, ...]:
    """Return the row groups as files by their numbers, with sizes that include page indexes and footers."""
    whole = compression_ratio.written / compression_ratio.data
    by_file: dict[int, list[RowGroupStatistics]] = {}
    for number, group in zip(numbers, groups, strict=True):
        by_file.setdefault(number, []).append(group)
    return tuple(
        FileStatistics(
            path=str(number),
            size_bytes=round(whole * sum(part.data_bytes for part in parts)),
            row_groups=tuple(parts),
        )
        for number, parts in by_file.items()
    )


def _segments(rows: pa.Table, order: RowOrder, of_rows: int) -> list[int]:
    """Return the estimated number of rows for each combination of values of the ``split_by`` columns."""
    if not rows.num_rows or not order.split_by:
        return [of_rows]
    (batch,) = rows.to_batches()
    bounds = [0, *split_starts(batch, None, order), batch.num_rows]
    ends = [bound * of_rows // batch.num_rows for bound in bounds]
    return [end - first for first, end in pairwise(ends) if end > first]


def _leaves(rows: pa.Table, types: Types) -> Iterator[tuple[str, pa.Array]]:
    """Yield the columns with recorded bounds, as values of the type that bounds have."""
    names = frozenset(rows.column_names)
    for name in types:
        if name.partition(".")[0] not in names:
            continue
        try:
            values = as_one_array(values_of(rows, name))
        except InvalidDataError:
            continue
        if pa.types.is_date(values.type):
            values = values.cast(pa.int32())
        elif pa.types.is_timestamp(values.type):
            values = values.cast(pa.int64())
        yield name, values


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSizes:
    """The bytes per row in the existing files, and in the future ones."""

    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRowGroup:
    """A row group in file number ``file``: the rows from ``first`` to ``end`` (exclusive), in their order."""

    file: int
    first: int
    end: int


def expected_row_groups(
    segments: Sequence[int],
    sizes: RowSizes,
    *,
    target_bytes: int,
    most_bytes: int,
    row_group_size_bytes: int | None,
) -> list[PredictedRowGroup]:
    """Return the predicted row groups of rows that are written segment by segment.

    Args:
        segments: The number of rows of each segment. No file contains rows of two segments.
        sizes: The bytes per row.
        target_bytes: The target file size.
        most_bytes: The maximum file size.
        row_group_size_bytes: The size of a row group, or None for the writer's default.

    """
    first_sizer, later_sizer = (
        spreading_sizer(
            target_bytes,
            most_bytes=most_bytes,
            row_group_bytes=row_group_size_bytes or default_row_group_bytes(target_bytes),
            row_group_arrow_bytes=_NO_LIMIT,
            is_first=is_first,
        )
        for is_first in (True, False)
    )
    row_groups: list[PredictedRowGroup] = []
    file = 0
    total = sum(segments)
    end = 0
    for segment in segments:
        end += segment
        first = file_first = end - segment
        while first < end:
            sizer = later_sizer if file else first_sizer
            # Before its first row group, the writer uses the bytes per row of the files that it reads.
            rate = sizes.after if first else sizes.before
            size = int((first - file_first) * sizes.after)
            remaining = (total - first) * rate
            if first > file_first and sizer.is_full(size, remaining):
                file, file_first = file + 1, first
                continue
            due = sizer.next_arrow_bytes(size, remaining, ratio=1.0, guessed=not first) / rate
            count = end - first if end - first <= SMALL_REST_FACTOR * due else max(int(due), 1)
            if size and not sizer.is_allowed(size + count * sizes.after):
                count = int((sizer.hard_limit_bytes - size) / sizes.after)
                if not count:
                    file, file_first = file + 1, first
                    continue
            row_groups.append(PredictedRowGroup(file=file, first=first, end=first + count))
            first += count
        file += 1
    return row_groups


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
