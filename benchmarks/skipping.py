"""What the statistics of parquet files let a reader skip for one value: by row group, and by page.

Page indexes are read here with the project's own Thrift decoder, as pyarrow does not show them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parquetry.runtime.parquet import fields
from parquetry.runtime.parquet.thrift import decode_struct, field_value


@dataclass(slots=True)
class Page:
    rows: int
    low: Any
    high: Any


@dataclass(slots=True)
class RowGroup:
    rows: int
    low: Any
    high: Any
    pages: list[Page] | None


@dataclass(slots=True)
class Covering:
    """What may hold the value, of ``rows`` in ``files``; without page index ``page_rows`` is the row group."""

    files: int = 0
    row_groups: int = 0
    row_group_rows: int = 0
    page_rows: int = 0
    largest_pages: int = 0


def row_groups(path: str, column: str) -> list[RowGroup]:
    """The row groups of a file with the bounds of an integer or text column."""
    with Path(path).open("rb") as file:
        file.seek(-8, 2)
        (length,) = struct.unpack("<I", file.read(4))
        file.seek(-8 - length, 2)
        footer, _ = decode_struct(file.read(length))
        found = []
        for group in _items(footer, fields.FileMetaData.ROW_GROUPS):
            chunk = next(each for each in _items(group, fields.RowGroup.COLUMNS) if _path(each) == column)
            metadata = field_value(chunk, fields.ColumnChunk.METADATA)
            kind = field_value(metadata, fields.ColumnMetaData.TYPE)
            statistics = field_value(metadata, fields.ColumnMetaData.STATISTICS)
            pages = None
            if fields.ColumnChunk.COLUMN_INDEX in chunk and fields.ColumnChunk.OFFSET_INDEX in chunk:
                file.seek(field_value(chunk, fields.ColumnChunk.COLUMN_INDEX))
                column_index, _ = decode_struct(
                    file.read(field_value(chunk, fields.ColumnChunk.COLUMN_INDEX_BYTES))
                )
                file.seek(field_value(chunk, fields.ColumnChunk.OFFSET_INDEX))
                offset_index, _ = decode_struct(
                    file.read(field_value(chunk, fields.ColumnChunk.OFFSET_INDEX_BYTES))
                )
                firsts = [
                    field_value(each, fields.PageLocation.FIRST_ROW)
                    for each in _items(offset_index, fields.OffsetIndex.PAGE_LOCATIONS)
                ] + [field_value(group, fields.RowGroup.ROWS)]
                ends = zip(
                    _items(column_index, fields.ColumnIndex.MIN_VALUES),
                    _items(column_index, fields.ColumnIndex.MAX_VALUES),
                    strict=True,
                )
                pages = [
                    Page(rows=firsts[n + 1] - firsts[n], low=_bound(kind, low), high=_bound(kind, high))
                    for n, (low, high) in enumerate(ends)
                ]
            found.append(
                RowGroup(
                    rows=field_value(group, fields.RowGroup.ROWS),
                    low=_bound(kind, field_value(statistics, fields.Statistics.MIN_VALUE)),
                    high=_bound(kind, field_value(statistics, fields.Statistics.MAX_VALUE)),
                    pages=pages,
                )
            )
    return found


def covering(files: Sequence[list[RowGroup]], value: Any) -> Covering:
    """What of the files a reader of one value has to look at."""
    result = Covering()
    for groups in files:
        hit = [group for group in groups if group.low <= value <= group.high]
        result.files += bool(hit)
        result.row_groups += len(hit)
        result.row_group_rows += sum(group.rows for group in hit)
        for group in hit:
            pages = group.pages or [Page(rows=group.rows, low=group.low, high=group.high)]
            result.page_rows += sum(page.rows for page in pages if page.low <= value <= page.high)
            result.largest_pages += max(page.rows for page in pages)
    return result


def stored_bytes(paths: Iterable[str]) -> int:
    """Compressed bytes of the column chunks alone: no Bloom filters, indexes or footers."""
    import pyarrow.parquet as pq

    total = 0
    for path in paths:
        footer = pq.read_metadata(path)
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            total += sum(group.column(n).total_compressed_size for n in range(group.num_columns))
    return total


def _items(struct: Any, number: int) -> list[Any]:
    return field_value(struct, number).items


def _path(chunk: Any) -> str:
    return b".".join(
        _items(field_value(chunk, fields.ColumnChunk.METADATA), fields.ColumnMetaData.PATH)
    ).decode()


def _bound(kind: int, raw: bytes) -> Any:
    """A bound by the physical type: all but INT32 and INT64 is compared as bytes."""
    layout = {fields.PhysicalType.INT32: "<i", fields.PhysicalType.INT64: "<q"}.get(kind)
    return raw if layout is None else struct.unpack(layout, raw)[0]
