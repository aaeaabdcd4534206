"""What the statistics of parquet files let a reader skip for one value: by row group, and by page.

Page indexes are read here with the project's own Thrift decoder, as pyarrow does not show them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parquetry.runtime.parquet_thrift import decode_struct


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
        for group in _items(footer, 4):
            chunk = next(each for each in _items(group, 1) if _path(each) == column)
            kind = _value(_value(chunk, 3), 1)
            statistics = _value(_value(chunk, 3), 12)
            pages = None
            if 6 in chunk and 4 in chunk:
                file.seek(_value(chunk, 6))
                column_index, _ = decode_struct(file.read(_value(chunk, 7)))
                file.seek(_value(chunk, 4))
                offset_index, _ = decode_struct(file.read(_value(chunk, 5)))
                firsts = [_value(each, 3) for each in _items(offset_index, 1)] + [_value(group, 3)]
                ends = zip(_items(column_index, 2), _items(column_index, 3), strict=True)
                pages = [
                    Page(rows=firsts[n + 1] - firsts[n], low=_bound(kind, low), high=_bound(kind, high))
                    for n, (low, high) in enumerate(ends)
                ]
            found.append(
                RowGroup(
                    rows=_value(group, 3),
                    low=_bound(kind, _value(statistics, 6)),
                    high=_bound(kind, _value(statistics, 5)),
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


def _value(fields: Any, number: int) -> Any:
    return fields[number][1]


def _items(fields: Any, number: int) -> list[Any]:
    return _value(fields, number).items


def _path(chunk: Any) -> str:
    return b".".join(_items(_value(chunk, 3), 3)).decode()


def _bound(kind: int, raw: bytes) -> Any:
    """A bound by the physical type: INT32 is 1, INT64 is 2, all else is compared as bytes."""
    return struct.unpack("<i" if kind == 1 else "<q", raw)[0] if kind in (1, 2) else raw
