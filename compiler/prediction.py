"""What files will look like when clustering has rewritten them, by statistics alone.

For plans that may read no rows; `plan --due` looks at a sample of them. An estimate: values are taken
to be spread evenly over the range of each column. A text's range is not divided, so that what is said
of it is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from parquetry.runtime.layout.clustering_model import PlannedGroup
from parquetry.runtime.layout.clustering_policy import STITCH, ExecutionPolicy
from parquetry.runtime.layout.file_statistics import (
    ColumnStatistics,
    FileStatistics,
    RowGroupStatistics,
    merge_columns,
)

_LINEAR = "sort"


def estimated_files(
    statistics: Mapping[str, FileStatistics], groups: Iterable[PlannedGroup], execution: ExecutionPolicy
) -> list[FileStatistics]:
    """The files that groups become; ``statistics`` are those of the files there are, by path."""
    return [made for group in groups for made in _outputs(group, statistics, execution)]


def _outputs(
    group: PlannedGroup, statistics: Mapping[str, FileStatistics], execution: ExecutionPolicy
) -> Iterator[FileStatistics]:
    """The files of a group: a sort cuts its first column, a curve all of its columns alike."""
    inputs = [statistics[file.path] for file in group.files if file.path in statistics]
    if not inputs:
        return
    count = group.output_files
    whole = _merged(inputs)
    cut = () if execution.strategy == STITCH else execution.columns
    cut = cut[:1] if execution.strategy == _LINEAR else cut
    parts = max(1, round(count ** (1 / len(cut)))) if cut else 1
    names = {name.lower(): name for name in whole.columns}
    rows, data_bytes = max(whole.rows // count, 1), whole.data_bytes // count
    # How nulls are spread is not known, but where there is none or nothing else.
    shared = {
        name: replace(column, nulls=rows if column.nulls == whole.rows else column.nulls and None)
        for name, column in whole.columns.items()
    }
    for index in range(count):
        columns = dict(shared)
        for position, name in enumerate(names[c.lower()] for c in cut if c.lower() in names):
            step = index // parts**position % parts
            columns[name] = _part(columns[name], step, parts)
        yield FileStatistics(
            path=f"{group.partition}/{index}",
            size_bytes=group.size_bytes // count,
            row_groups=(RowGroupStatistics(rows=rows, data_bytes=data_bytes, columns=columns),),
        )


def _merged(files: Sequence[FileStatistics]) -> RowGroupStatistics:
    groups: Iterable[RowGroupStatistics] = [group for file in files for group in file.row_groups]
    return RowGroupStatistics(
        rows=sum(file.rows for file in files),
        data_bytes=sum(file.data_bytes for file in files),
        columns=merge_columns(groups),
    )


def _part(column: ColumnStatistics, step: int, parts: int) -> ColumnStatistics:
    """The bounds of one of equal parts of a range of numbers; of anything else the whole."""
    low, high = column.minimum, column.maximum
    if isinstance(low, bool) or isinstance(high, bool):
        return column
    if isinstance(low, int) and isinstance(high, int):
        width = high - low
        return replace(column, minimum=low + width * step // parts, maximum=low + width * (step + 1) // parts)
    if isinstance(low, float) and isinstance(high, float):
        width_of_part = (high - low) / parts
        return replace(column, minimum=low + width_of_part * step, maximum=low + width_of_part * (step + 1))
    if isinstance(low, Decimal) and isinstance(high, Decimal):
        part = (high - low) / parts
        return replace(column, minimum=low + part * step, maximum=low + part * (step + 1))
    return column
