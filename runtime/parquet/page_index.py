"""The page index of base files: the pages of their row groups, with bounds and sizes.

The index lies before the footer, and no sidecar records it. So it is read only for row groups that may match
a condition and usually have several pages.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.errors import ParquetryError
from parquetry.runtime.layout.skipping.files import Types, columns_of, may_match
from parquetry.runtime.layout.skipping.predicate import Predicate
from parquetry.runtime.layout.skipping.statistics import (
    ColumnPages,
    FileStatistics,
    PageSizes,
    RowGroupPages,
    RowGroupStatistics,
)
from parquetry.runtime.parquet.assembly import ParquetParts, PartChunk
from parquetry.runtime.parquet.bounds import page_bounds
from parquetry.runtime.parquet.fields import OffsetIndex, PageLocation
from parquetry.runtime.parquet.tail import MAGIC, MOST_FOOTER_BYTES, TAIL_BYTES
from parquetry.runtime.parquet.thrift import (
    I32,
    I64,
    LIST,
    MOST_INTEGER_BYTES,
    STRUCT,
    decode_length,
    decode_struct,
)
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each

MOST_FILES: Final = 512
"""The largest number of files whose page index is read, those with the most pages first."""

_MOST_PAGES: Final = 65_536
"""The approximate total number of pages per column whose index is read."""

ORDERED_PAGE_ROWS: Final = 2048
"""The number of rows per page in files whose rows are sorted, so that readers can skip pages.

With Arrow's 20,000 rows a reader of one value reads more than it needs: on a Z-order curve of two columns of
lineitem 21 and 31 % of the rows, with 2,048 rows per page 7 and 11 %. The file is 5 % larger; Spark scans it
equally fast.
"""

USUAL_PAGE_ROWS: Final = 20_000
"""The default number of rows after which Arrow and parquet-mr end a page."""

_READ_AT_ONCE: Final = 256 * 1024
_TOKENS: Final = 7
_FIELDS: Final = {
    0: PageLocation.OFFSET << 4 | I64,
    2: (PageLocation.COMPRESSED_BYTES - PageLocation.OFFSET) << 4 | I32,
    4: (PageLocation.FIRST_ROW - PageLocation.COMPRESSED_BYTES) << 4 | I64,
    6: 0x00,
}
_CONTINUED: Final = 0x80
UNREADABLE: Final = (
    ParquetryError,
    pa.ArrowException,
    OSError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""The exceptions from reading a file that is gone or whose page index is damaged."""

PageNumbers: TypeAlias = npt.NDArray[np.int64]


def with_pages(
    store: ObjectStore,
    files: Mapping[str, FileStatistics],
    predicates: Iterable[Predicate],
    types: Types,
    *,
    most_files: int = MOST_FILES,
) -> dict[str, FileStatistics]:
    """Return the files, in their order, with the pages of row groups that may match one of the predicates.

    Each file is opened once, and its end is read. The number of files and pages is limited, so that this
    takes seconds for a table of any size. Row groups have no pages if they usually have only one page, if
    they are beyond these limits, if the file is encrypted, or if the page index is absent or unreadable.

    Args:
        store: The store of the table.
        files: The statistics of the files, by path.
        predicates: The filters of the queries.
        types: The Spark types of the columns, by name.
        most_files: The largest number of files to open.
    """
    filters = [predicate for predicate in predicates if columns_of(predicate)]
    names = frozenset[str]().union(*map(columns_of, filters))
    wanted = _row_groups_to_read(files.values(), filters, types, most_files=most_files)
    read = map_each(wanted.items(), lambda item: (item[0], file_pages(store, files[item[0]], item[1], names)))
    result = dict(files)
    for path, pages in read:
        groups = [
            replace(group, pages=pages.get(number)) for number, group in enumerate(files[path].row_groups)
        ]
        result[path] = replace(files[path], row_groups=tuple(groups))
    return result


def file_pages(
    store: ObjectStore, file: FileStatistics, numbers: Sequence[int], names: Collection[str]
) -> dict[int, RowGroupPages]:
    """Return the pages of row groups of a file, by number of the row group.

    The result is empty if the page index is absent or unreadable.

    Args:
        store: The store of the table.
        file: The statistics of the file.
        numbers: The numbers of the row groups.
        names: The columns for which the pages have bounds.
    """
    try:
        with store.open_input(file.path) as content:
            source = FileEnd(content)
            parts = ParquetParts(source)
            metadata = read_footer(source, parts.footer_bytes)
            return pages_of_parts(parts, metadata, file, numbers, names)
    except UNREADABLE:
        return {}


def pages_of_parts(
    parts: ParquetParts,
    metadata: pq.FileMetaData,
    file: FileStatistics,
    numbers: Sequence[int],
    names: Collection[str],
) -> dict[int, RowGroupPages]:
    """Return the pages of row groups of an open file, by number of the row group.

    A page index that is damaged raises one of the exceptions in ``UNREADABLE``.

    Args:
        parts: The file.
        metadata: Its footer.
        file: The statistics of the file.
        numbers: The numbers of the row groups.
        names: The columns for which the pages have bounds.
    """
    # The statistics omit row groups without rows.
    stored = [number for number in range(len(parts.groups)) if parts.rows(number)]
    chunks = {number: parts.chunks(stored[number]) for number in numbers}
    index = _Index(parts.content, chunks.values(), names)
    found = {
        number: _group_pages(file.row_groups[number], chunks[number], index, metadata.schema)
        for number in numbers
        if parts.rows(stored[number]) == file.row_groups[number].rows
    }
    return {number: pages for number, pages in found.items() if pages is not None}


def page_locations(offset_index: bytes) -> tuple[PageNumbers, PageNumbers]:
    """Return the first row numbers and the compressed sizes of the pages of an OffsetIndex.

    If the bytes are not an OffsetIndex, the function raises ValueError, IndexError or KeyError.
    """
    try:
        return _decode_uniform_locations(offset_index)
    except ValueError:
        index, _ = decode_struct(offset_index)
        pages = index[OffsetIndex.PAGE_LOCATIONS][1].items
        rows, sizes = (
            [page[number][1] for page in pages]
            for number in (PageLocation.FIRST_ROW, PageLocation.COMPRESSED_BYTES)
        )
        return np.array(rows, np.int64), np.array(sizes, np.int64)


def _row_groups_to_read(
    files: Iterable[FileStatistics], filters: Sequence[Predicate], types: Types, *, most_files: int
) -> dict[str, list[int]]:
    """Return the numbers of the row groups to read, by file path.

    Files with the most pages in their matching row groups are preferred, up to the limits of files and pages.
    """
    ranked: list[tuple[int, str, list[int]]] = []
    for file in files:
        usual = USUAL_PAGE_ROWS if file.clustering is None else ORDERED_PAGE_ROWS
        numbers = [
            number
            for number, group in enumerate(file.row_groups)
            if group.rows > usual and not file.encrypted and may_match(group, filters, types)
        ]
        if numbers:
            pages = sum(-(-file.row_groups[number].rows // usual) for number in numbers)
            ranked.append((pages, file.path, numbers))
    ranked.sort(key=lambda one: (-one[0], one[1]))
    chosen: dict[str, list[int]] = {}
    total = 0
    for pages, path, numbers in ranked[:most_files]:
        if total + pages <= _MOST_PAGES:
            chosen[path] = numbers
            total += pages
    return chosen


def _group_pages(
    group: RowGroupStatistics, chunks: Sequence[PartChunk], index: _Index, schema: pq.ParquetSchema
) -> RowGroupPages | None:
    """Return the pages of a row group, or None if none of the requested columns has a page index."""
    columns: dict[str, ColumnPages] = {}
    sizes: dict[bytes, PageSizes] = {}
    for number, chunk in enumerate(chunks):
        locations = index.offsets(chunk)
        if locations is None:
            _add_page_sizes(sizes, np.zeros(1, np.int64), np.array([chunk.size_bytes]), chunk.size_bytes)
            continue
        firsts, stored = page_locations(locations)
        _check_first_rows(firsts, group.rows)
        _add_page_sizes(sizes, firsts, stored, chunk.size_bytes)
        known, column_index_bytes = group.columns.get(chunk.name), index.bounds(chunk)
        if known is not None and column_index_bytes is not None:
            column_index, _ = decode_struct(column_index_bytes)
            counts = np.diff(np.append(firsts, group.rows)).tolist()
            bounds = page_bounds(known, schema.column(number), column_index, counts)
            columns[chunk.name] = ColumnPages(firsts=firsts.tolist(), bounds=bounds)
    return RowGroupPages(columns=columns, chunks=tuple(sizes.values())) if columns else None


def _add_page_sizes(
    sizes: dict[bytes, PageSizes], firsts: PageNumbers, stored: PageNumbers, chunk_bytes: int
) -> None:
    """Add the page sizes of a chunk to ``sizes``.

    Chunks whose pages begin at the same rows share an entry, which has the sums of their sizes.
    """
    other = max(chunk_bytes - int(stored.sum()), 0)
    key = firsts.tobytes()
    if key in sizes:
        stored, other = stored + np.asarray(sizes[key].sizes), other + sizes[key].other_bytes
    sizes[key] = PageSizes(firsts=firsts, sizes=stored, other_bytes=other)  # type: ignore[arg-type]  # of int64


def _check_first_rows(firsts: PageNumbers, rows: int) -> None:
    """Raise ValueError unless the pages begin at ascending rows, from 0 to less than ``rows``."""
    if not len(firsts) or firsts[0] or (np.diff(np.append(firsts, rows)) <= 0).any():
        raise ValueError("the first rows of its pages do not increase")


class FileEnd:
    """A parquet file whose last 256 KiB are read at once. It has the methods that ParquetParts needs."""

    def __init__(self, content: pa.NativeFile) -> None:
        self._content = content
        self._size: int = content.size()
        self._start = max(self._size - _READ_AT_ONCE, 0)
        self._end: bytes = content.read_at(self._size - self._start, self._start)

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self._size

    def read_at(self, count: int, at: int) -> bytes:
        """Return ``count`` bytes from position ``at``."""
        if at >= self._start:
            return self._end[at - self._start : at - self._start + count]
        read: bytes = self._content.read_at(count, at)
        return read


class _Index:
    """The page index of some row groups, read at once: all offset indexes, and some column indexes."""

    def __init__(
        self, source: FileEnd, groups: Iterable[Sequence[PartChunk]], names: Collection[str]
    ) -> None:
        self._names = names
        listed = [chunk for chunks in groups for chunk in chunks]
        wanted = [r for chunk in listed for r in (self._column_index_range(chunk), chunk.index_ranges[1])]
        ranges = [r for r in wanted if r is not None]
        self._start = min((r.start for r in ranges), default=0)
        size = max((r.stop for r in ranges), default=0) - self._start
        if size > MOST_FOOTER_BYTES:
            raise ValueError("the parts of its page index are too far apart to read at once")
        self._bytes = source.read_at(size, self._start) if size else b""

    def bounds(self, chunk: PartChunk) -> bytes | None:
        """Return the column index of a chunk, or None if it is absent or its column was not requested."""
        return self._at(self._column_index_range(chunk))

    def offsets(self, chunk: PartChunk) -> bytes | None:
        """Return the offset index of a chunk, or None if it is absent."""
        return self._at(chunk.index_ranges[1])

    def _column_index_range(self, chunk: PartChunk) -> range | None:
        """Return the byte range of the chunk's column index, or None if its column was not requested."""
        return chunk.index_ranges[0] if chunk.name in self._names else None

    def _at(self, span: range | None) -> bytes | None:
        return None if span is None else self._bytes[span.start - self._start : span.stop - self._start]


def read_footer(source: FileEnd, footer_bytes: int) -> pq.FileMetaData:
    """Return the footer, which has ``footer_bytes`` bytes, of a file whose end was read."""
    size = footer_bytes + TAIL_BYTES
    footer = source.read_at(size, source.size() - size)
    return pq.read_metadata(pa.BufferReader(MAGIC + footer))


def _decode_uniform_locations(data: bytes) -> tuple[PageNumbers, PageNumbers]:
    """Return what :func:`page_locations` returns, by decoding all page entries at once.

    An index with optional or unknown fields raises ValueError; the caller then decodes it field by field.
    """
    if len(data) < 2 or data[0] != OffsetIndex.PAGE_LOCATIONS << 4 | LIST or data[1] & 15 != STRUCT:  # noqa: PLR2004
        raise ValueError("it does not begin with a list")
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < _CONTINUED)
    # The header of the field, then that of the list, which contains lengths below 15; others follow it.
    is_long = data[1] >> 4 == 15  # noqa: PLR2004 - no length in the header
    count, begin = decode_length(data, 2) if is_long else (data[1] >> 4, 2)
    ends = ends[ends >= begin][: count * _TOKENS]
    if len(ends) < count * _TOKENS or not count:
        raise ValueError("it has fewer entries than its header states")
    starts = np.concatenate([[begin], ends[:-1] + 1])
    lengths = ends - starts + 1
    if (lengths > MOST_INTEGER_BYTES).any():
        raise ValueError(f"an integer has more than {MOST_INTEGER_BYTES} bytes")
    within = np.arange(begin, ends[-1] + 1) - np.repeat(starts, lengths)
    parts = (raw[begin : ends[-1] + 1].astype(np.int64) & 0x7F) << (7 * within)
    values = np.add.reduceat(parts, starts - begin).reshape(count, _TOKENS)
    if any((values[:, at] != header).any() for at, header in _FIELDS.items()):
        raise ValueError("its structs have other fields")
    return values[:, 5] >> 1, values[:, 3] >> 1
