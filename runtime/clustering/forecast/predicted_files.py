"""The predicted files of a group after clustering, from a sample of its rows.

The functions that order the rows and divide them into row groups and files in the rewrite do the same here
with the sample. The statistics of each predicted row group come from its sampled rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from parquetry.runtime.base_file.sizing import default_row_group_bytes
from parquetry.runtime.clustering.forecast.compression_ratio import CompressionRatio
from parquetry.runtime.clustering.forecast.file_boundaries import RowSizes, expected_row_groups
from parquetry.runtime.clustering.forecast.predicted_bounds import DrawnColumn
from parquetry.runtime.clustering.forecast.sample import GroupSample
from parquetry.runtime.clustering.rewrite.order import OrderKeys, RowOrder, sort_indices, split_starts
from parquetry.runtime.clustering.rewrite.strategies import as_one_array, values_of
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.packing import outputs_of
from parquetry.runtime.layout.skipping.files import Types, may_match
from parquetry.runtime.layout.skipping.predicate import Predicate, ValueCondition, value_conditions
from parquetry.runtime.layout.skipping.statistics import (
    ColumnStatistics,
    FileStatistics,
    RowGroupStatistics,
    merge_columns,
    truncated,
)

_COPIED_SHARE: Final = 0.5
"""Stitching copies row groups of at least this share of the usual size unchanged."""


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
