"""The predicted boundaries of the row groups and files that a clustering will write.

The prediction uses the sizer of the writer, with the expected bytes per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from parquetry.runtime.base_file.sizing import SMALL_REST_FACTOR, default_row_group_bytes
from parquetry.runtime.clustering.rewrite.writer import spreading_sizer

_NO_LIMIT: Final = 2**62


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
