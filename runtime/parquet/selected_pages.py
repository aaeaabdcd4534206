"""The pages of a row group that contain some of its rows, as a parquet file in memory.

Arrow skips row groups, not pages. A page can be decoded anywhere with the dictionary of its chunk
(:mod:`parquetry.runtime.parquet.joined_pages`), so that the pages to read and a footer for them are a file
for Arrow, with fewer rows.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

import pyarrow as pa

from parquetry.runtime.parquet.announcement import announce_ranges
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.fields import (
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    PageLocation,
    RowGroup,
)
from parquetry.runtime.parquet.joined_pages import ChunkPages, chunk_pages, leaf_columns
from parquetry.runtime.parquet.tail import MAGIC
from parquetry.runtime.parquet.thrift import (
    I64,
    LIST,
    STRUCT,
    List,
    ThriftStruct,
    encode_struct,
)

_WORTH_SHARE: Final = 0.5
"""Pages are chosen if they have at most this share of the rows; otherwise the whole row group is as cheap."""

_KEPT: Final = (
    ColumnMetaData.TYPE,
    ColumnMetaData.ENCODINGS,
    ColumnMetaData.PATH,
    ColumnMetaData.CODEC,
    ColumnMetaData.BYTES,
)


def file_of_pages(
    parts: ParquetParts, group: int, names: Collection[str], ranges: Sequence[range]
) -> pa.Buffer | None:
    """Return a parquet file with one row group: whole pages that contain all rows of the ranges.

    The columns have the same rows, in their order. Columns other than ``names`` cannot be read from the file.
    The result is None if that is not possible or not worthwhile: a column is nested in lists or has no page
    index, or pages that begin at the same row in all columns have more than half of the rows.

    Args:
        parts: The file that contains the row group.
        group: The number of the row group.
        names: The names of the columns to read.
        ranges: Ranges of row numbers of the row group, ascending.
    """
    rows = parts.rows(group)
    wanted: dict[int, ChunkPages] = {}
    for number, (chunk, (_, flat)) in enumerate(
        zip(parts.chunks(group), leaf_columns(parts.columns), strict=True)
    ):
        if chunk.name.split(".")[0] not in names:
            continue
        pages = chunk_pages(chunk, rows, flat=flat) if flat else None
        if pages is None:
            return None
        wanted[number] = pages
    spans = _spans(list(wanted.values()), rows, ranges)
    if not wanted or sum(map(len, spans)) > _WORTH_SHARE * rows:
        return None
    return _assembled(parts, group, wanted, spans)


def _spans(columns: Sequence[ChunkPages], rows: int, ranges: Sequence[range]) -> list[range]:
    """Return the smallest ranges of whole pages, in all columns, that contain the given rows."""
    starts = [{page[PageLocation.FIRST_ROW][1] for page in pages.locations} for pages in columns]
    common = sorted(set.intersection(*starts)) if starts else [0]
    spans: list[range] = []
    left = iter(part for part in ranges if part)
    part = next(left, None)
    for start, end in pairwise([*common, rows]):
        while part is not None and part.stop <= start:
            part = next(left, None)
        if part is not None and part.start < end:
            if spans and spans[-1].stop == start:
                spans[-1] = range(spans[-1].start, end)
            else:
                spans.append(range(start, end))
    return spans


def _assembled(
    parts: ParquetParts, group: int, wanted: dict[int, ChunkPages], spans: Sequence[range]
) -> pa.Buffer:
    places = {number: _byte_ranges(pages, spans) for number, pages in wanted.items()}
    announce_ranges(parts.content, [part for ranges in places.values() for part in ranges])
    content = bytearray(MAGIC)
    chunks = [dict(chunk.chunk) for chunk in parts.chunks(group)]
    rows = sum(map(len, spans))
    for number, pages in wanted.items():
        start = len(content)
        for part in places[number]:
            content += parts.content.read_at(len(part), part.start)
        chunks[number] = _chunk(pages, start, len(content) - start, rows)
    row_group = {
        RowGroup.COLUMNS: (LIST, List(STRUCT, chunks)),
        RowGroup.BYTES: (I64, len(content)),
        RowGroup.ROWS: (I64, rows),
    }
    footer = {
        **parts.footer,
        FileMetaData.ROWS: (I64, rows),
        FileMetaData.ROW_GROUPS: (LIST, List(STRUCT, [dict(sorted(row_group.items()))])),
    }
    encoded = encode_struct(footer)
    return pa.py_buffer(bytes(content) + encoded + struct.pack("<I", len(encoded)) + MAGIC)


def _byte_ranges(pages: ChunkPages, spans: Sequence[range]) -> list[range]:
    """Return the byte ranges of the dictionary, if there is one, and of the pages of the spans."""
    first_rows = [page[PageLocation.FIRST_ROW][1] for page in pages.locations]
    offsets = [page[PageLocation.OFFSET][1] for page in pages.locations]
    ends = dict(zip(first_rows[1:], offsets[1:], strict=True))
    begins = dict(zip(first_rows, offsets, strict=True))
    chunk = pages.chunk
    found = [range(chunk.start, chunk.start + pages.dictionary_bytes)] if pages.dictionary_bytes else []
    end = chunk.start + chunk.size_bytes
    return found + [range(begins[span.start], ends.get(span.stop, end)) for span in spans]


def _chunk(pages: ChunkPages, start: int, size_bytes: int, rows: int) -> ThriftStruct:
    """Return the footer entry of a chunk of flat values that begins at ``start``."""
    metadata = {number: pages.chunk.metadata[number] for number in _KEPT}
    metadata[ColumnMetaData.VALUES] = (I64, rows)
    metadata[ColumnMetaData.COMPRESSED_BYTES] = (I64, size_bytes)
    metadata[ColumnMetaData.DATA_PAGE] = (I64, start + pages.dictionary_bytes)
    if pages.dictionary_bytes:
        metadata[ColumnMetaData.DICTIONARY_PAGE] = (I64, start)
    return {
        ColumnChunk.FILE_OFFSET: (I64, 0),
        ColumnChunk.METADATA: (STRUCT, dict(sorted(metadata.items()))),
    }
