"""Announcing the column chunks that will be read, so that those of a bucket come by few requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.storage.ranged_input import KEPT_BYTES, RangedInput


def announce_chunks(
    content: pa.NativeFile,
    metadata: pq.FileMetaData,
    names: Collection[str],
    *,
    row_groups: Iterable[int] | None = None,
    most_bytes: int | None = None,
) -> None:
    """Announce which column chunks of an open file will be read. A local file is not announced.

    Args:
        content: The file.
        metadata: Its footer.
        names: The columns, by the first part of their dotted names.
        row_groups: The row groups, or None for all.
        most_bytes: The bytes at the start of each chunk that will be read, or None for all.

    """
    if isinstance(content, RangedInput):
        numbers = range(metadata.num_row_groups) if row_groups is None else row_groups
        announce_ranges(content, _chunk_ranges(metadata, frozenset(names), numbers, most_bytes))


def announce_ranges(content: pa.NativeFile, ranges: Iterable[range]) -> None:
    """Announce which bytes of an open file will be read. A local file is not announced."""
    if isinstance(content, RangedInput):
        content.announce(ranges)


def _chunk_ranges(
    metadata: pq.FileMetaData, names: frozenset[str], row_groups: Iterable[int], most_bytes: int | None
) -> Iterator[range]:
    leaves = [metadata.schema.column(number).path.partition(".")[0] for number in range(metadata.num_columns)]
    wanted = [number for number, name in enumerate(leaves) if name in names]
    for group in map(metadata.row_group, row_groups):
        for chunk in map(group.column, wanted):
            dictionary = chunk.dictionary_page_offset or chunk.data_page_offset
            start = min(dictionary, chunk.data_page_offset)
            size = chunk.total_compressed_size
            if most_bytes is not None:
                size = min(size, most_bytes)
            if size <= KEPT_BYTES:
                yield range(start, start + size)
