"""Column chunks that are joined from the data pages of several chunks, copied byte by byte.

A page can be read anywhere: it contains its encoding and its length. It also needs the dictionary of its
chunk, and a chunk has at most one. So pages of chunks without a dictionary, or with equal dictionaries, can
form one chunk. Its statistics and its page index are joined from those of the chunks.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final

from parquetry.runtime.parquet.assembly import PartChunk
from parquetry.runtime.parquet.chunk import Piece
from parquetry.runtime.parquet.column_order import Key
from parquetry.runtime.parquet.fields import (
    DICTIONARY_ENCODINGS,
    BoundaryOrder,
    ColumnChunk,
    ColumnIndex,
    ColumnMetaData,
    OffsetIndex,
    PageEncodingStats,
    PageHeader,
    PageLocation,
    PageType,
    Repetition,
    SchemaElement,
    SizeStatistics,
    Statistics,
)
from parquetry.runtime.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    List,
    ThriftStruct,
    decode_struct,
    encode_struct,
    field_value,
)

_LEVELS: Final = (SizeStatistics.REPETITION_LEVELS, SizeStatistics.DEFINITION_LEVELS)
_HISTOGRAMS: Final = (ColumnIndex.REPETITION_LEVELS, ColumnIndex.DEFINITION_LEVELS)

_DECODE_ERRORS: Final = (AttributeError, LookupError, TypeError, ValueError, RecursionError, struct.error)
"""The exceptions from decoding bytes that are not an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPages:
    """The pages of a column chunk of ``rows`` rows. Its offset index and its metadata agree about them.

    The data pages lie without gaps between the dictionary, if there is one, and the end of the chunk.
    ``locations`` are their entries in the offset index; ``unencoded`` is the index's list of unencoded bytes,
    if it has one.
    """

    chunk: PartChunk
    rows: int
    dictionary_bytes: int
    locations: list[ThriftStruct]
    unencoded: List | None

    @property
    def values(self) -> int:
        """The number of values, including nulls and empty lists."""
        return int(field_value(self.chunk.metadata, ColumnMetaData.VALUES))

    @property
    def data_bytes(self) -> int:
        """The length of the data pages with their headers."""
        return self.chunk.size_bytes - self.dictionary_bytes

    def dictionary(self) -> bytes:
        """Return the dictionary page with its header; no bytes if there is no dictionary."""
        content: bytes = self.chunk.parts.content.read_at(self.dictionary_bytes, self.chunk.start)
        return content


def is_joinable_alone(chunk: PartChunk, *, values: int, stored_bytes: int) -> bool:
    """Return whether a chunk is large and has no dictionary.

    A chunk is large if it has at least ``values`` values or at least ``stored_bytes`` bytes.
    """
    is_large = (
        field_value(chunk.metadata, ColumnMetaData.VALUES) >= values or chunk.size_bytes >= stored_bytes
    )
    return is_large and field_value(chunk.metadata, ColumnMetaData.DICTIONARY_PAGE, 0) <= 0


def chunk_pages(chunk: PartChunk, rows: int, *, flat: bool) -> ChunkPages | None:
    """Return the pages of a chunk, or None if their positions are unknown or two sources disagree about them.

    Args:
        chunk: The column chunk of a stored file.
        rows: The number of its rows.
        flat: Whether the column has exactly one value per row.

    """
    try:
        return _consistent_pages(chunk, rows, flat=flat)
    except _DECODE_ERRORS:
        return None


def _consistent_pages(chunk: PartChunk, rows: int, *, flat: bool) -> ChunkPages | None:
    """Return the result of :func:`chunk_pages`. A damaged index causes an exception in ``_DECODE_ERRORS``."""
    metadata = chunk.metadata
    if chunk.index_ranges[1] is None or field_value(metadata, ColumnMetaData.INDEX_PAGE, 0):
        return None
    index, _ = decode_struct(chunk.parts.index(chunk.index_ranges[1].start, len(chunk.index_ranges[1])))
    locations: list[ThriftStruct] = index[OffsetIndex.PAGE_LOCATIONS][1].items
    offsets = [page[PageLocation.OFFSET][1] for page in locations]
    sizes = [page[PageLocation.COMPRESSED_BYTES][1] for page in locations]
    firsts = [page[PageLocation.FIRST_ROW][1] for page in locations]
    unencoded: List | None = field_value(index, OffsetIndex.UNENCODED_BYTES, None)
    if unencoded is not None and (unencoded.kind, len(unencoded.items)) != (I64, len(locations)):
        return None
    pages = ChunkPages(
        chunk=chunk,
        rows=rows,
        dictionary_bytes=field_value(metadata, ColumnMetaData.DATA_PAGE) - chunk.start,
        locations=locations,
        unencoded=unencoded,
    )
    ends = list(accumulate(sizes, initial=chunk.start + pages.dictionary_bytes))
    end = chunk.start + chunk.size_bytes
    if offsets != ends[:-1] or ends[-1] != end or end > chunk.parts.size_bytes or min(sizes, default=0) <= 0:
        return None
    if not firsts or firsts[0] or any(one >= other for one, other in pairwise([*firsts, rows])):
        return None
    if pages.values < rows or (flat and pages.values != rows):
        return None
    needs_dictionary = DICTIONARY_ENCODINGS.intersection(
        field_value(metadata, ColumnMetaData.ENCODINGS).items
    )
    return None if needs_dictionary and not pages.dictionary_bytes else pages


def leaf_columns(columns: Iterable[ThriftStruct]) -> list[tuple[ThriftStruct, bool]]:
    """Return the schema elements of the parquet columns, and whether each column has one value per row.

    ``columns`` are all elements below the root, in depth-first order.
    """
    found: list[tuple[ThriftStruct, bool]] = []
    above: list[tuple[int, bool]] = []
    for column in columns:
        left, flat = above.pop() if above else (1, True)
        if left > 1:
            above.append((left - 1, flat))
        flat = flat and field_value(column, SchemaElement.REPETITION) != Repetition.REPEATED
        if children := field_value(column, SchemaElement.CHILDREN, 0):
            above.append((children, flat))
        else:
            found.append((column, flat))
    return found


class JoinedChunk:
    """The pages of chunks of one column and codec, in order, as one chunk that begins at byte 0.

    Either no chunk has a dictionary or all have equal ones. ``order`` compares the values of the column;
    without it the chunk has no bounds. The chunk has bounds if they are known for every chunk that has a
    value.
    """

    start = 0

    def __init__(self, pages: Sequence[ChunkPages], order: Key | None) -> None:
        self._pages = pages
        self._order = order
        self.dictionary_bytes = pages[0].dictionary_bytes
        self.size_bytes = self.dictionary_bytes + sum(part.data_bytes for part in pages)
        repeated = (len(pages) - 1) * self._dictionary_encoded_bytes()
        self.encoded_bytes = sum(part.chunk.encoded_bytes for part in pages) - repeated
        self.index_bytes = sum(part.chunk.index_bytes for part in pages)

    @property
    def pieces(self) -> list[Piece]:
        """The byte ranges to copy, in order."""
        first = self._pages[0].chunk
        rest = [
            Piece(
                content=part.chunk.parts.content,
                start=part.chunk.start + part.dictionary_bytes,
                size=part.data_bytes,
            )
            for part in self._pages
        ]
        if not self.dictionary_bytes:
            return rest
        return [Piece(content=first.parts.content, start=first.start, size=self.dictionary_bytes), *rest]

    def shifted(self, shift: int, *, bounds: bool) -> ThriftStruct:
        """Return the footer entry for a copy of the chunk that begins ``shift`` bytes further on.

        The entry refers to no page index. ``bounds`` decides whether it contains the smallest and the largest
        value.
        """
        every = [part.chunk.metadata for part in self._pages]
        first = every[0]
        encodings = dict.fromkeys(
            item for one in every for item in field_value(one, ColumnMetaData.ENCODINGS).items
        )
        metadata: ThriftStruct = {
            ColumnMetaData.TYPE: first[ColumnMetaData.TYPE],
            ColumnMetaData.ENCODINGS: (LIST, List(I32, list(encodings))),
            ColumnMetaData.PATH: first[ColumnMetaData.PATH],
            ColumnMetaData.CODEC: first[ColumnMetaData.CODEC],
            ColumnMetaData.VALUES: (I64, sum(part.values for part in self._pages)),
            ColumnMetaData.BYTES: (I64, self.encoded_bytes),
            ColumnMetaData.COMPRESSED_BYTES: (I64, self.size_bytes),
            ColumnMetaData.DATA_PAGE: (I64, shift + self.dictionary_bytes),
        }
        if self.dictionary_bytes:
            metadata[ColumnMetaData.DICTIONARY_PAGE] = (I64, shift)
        metadata[ColumnMetaData.STATISTICS] = (STRUCT, self._statistics(bounds=bounds))
        metadata |= _encoding_counts(every) | _size_statistics(every)
        return {ColumnChunk.FILE_OFFSET: (I64, 0), ColumnChunk.METADATA: (STRUCT, metadata)}

    def column_index(self) -> bytes | None:
        """Return the column index, or None if a chunk has no column index or no bounds."""
        found = [part.chunk.column_index() for part in self._pages]
        if self._order is None or not self._bounds_are_complete:
            return None
        try:
            return self._joined_index([decode_struct(index)[0] for index in found if index is not None])
        except _DECODE_ERRORS:
            return None

    def _joined_index(self, indexes: Sequence[ThriftStruct]) -> bytes | None:
        """Return the joined column index, or None unless every index covers all pages of its chunk.

        A damaged index causes one of the exceptions in ``_DECODE_ERRORS``.
        """
        if len(indexes) < len(self._pages):
            return None
        joined: ThriftStruct = {}
        for number in (ColumnIndex.NULL_PAGES, ColumnIndex.MIN_VALUES, ColumnIndex.MAX_VALUES):
            joined[number] = (LIST, _concatenated(field_value(index, number) for index in indexes))
        if any(len(values.items) != self._page_count for _, values in joined.values()):
            return None
        joined[ColumnIndex.BOUNDARY_ORDER] = (I32, self._boundary_order(joined))
        for number in (ColumnIndex.NULL_COUNTS, *_HISTOGRAMS):
            every = [field_value(index, number, List(I64, [])) for index in indexes]
            per_page = {
                len(one.items) / len(part.locations) for one, part in zip(every, self._pages, strict=True)
            }
            if len(per_page) == 1 and per_page != {0}:
                joined[number] = (LIST, _concatenated(every))
        return encode_struct(joined)

    def offset_index(self, shift: int) -> bytes:
        """Return the offset index for a copy of the chunk that begins ``shift`` bytes further on."""
        locations: list[ThriftStruct] = []
        at, row = shift + self.dictionary_bytes, 0
        for part in self._pages:
            for page in part.locations:
                first = row + page[PageLocation.FIRST_ROW][1]
                locations.append(
                    {
                        PageLocation.OFFSET: (I64, at),
                        PageLocation.COMPRESSED_BYTES: page[PageLocation.COMPRESSED_BYTES],
                        PageLocation.FIRST_ROW: (I64, first),
                    }
                )
                at += page[PageLocation.COMPRESSED_BYTES][1]
            row += part.rows
        index: ThriftStruct = {OffsetIndex.PAGE_LOCATIONS: (LIST, List(STRUCT, locations))}
        unencoded = [part.unencoded for part in self._pages if part.unencoded is not None]
        if len(unencoded) == len(self._pages):
            index[OffsetIndex.UNENCODED_BYTES] = (LIST, _concatenated(unencoded))
        return encode_struct(index)

    @property
    def _page_count(self) -> int:
        return sum(len(part.locations) for part in self._pages)

    @cached_property
    def _chunk_bounds(self) -> list[tuple[bytes, bytes, bool | None, bool | None]] | None:
        """The bounds of each chunk that has a value, or None if the bounds of one of them are unknown.

        Each entry contains the smallest value, the largest value, and for each of the two whether it is
        exact.
        """
        found = []
        for part in self._pages:
            statistics = field_value(part.chunk.metadata, ColumnMetaData.STATISTICS, {})
            if field_value(statistics, Statistics.NULL_COUNT, None) == part.values:
                continue
            if Statistics.MIN_VALUE not in statistics or Statistics.MAX_VALUE not in statistics:
                return None
            exact = [
                field_value(statistics, number, None)
                for number in (Statistics.MIN_IS_EXACT, Statistics.MAX_IS_EXACT)
            ]
            found.append((statistics[Statistics.MIN_VALUE][1], statistics[Statistics.MAX_VALUE][1], *exact))
        return found

    @cached_property
    def _bounds(self) -> tuple[bytes, bytes] | None:
        if not self._chunk_bounds or self._order is None:
            return None
        try:
            return (
                min((low for low, *_ in self._chunk_bounds), key=self._order),
                max((high for _, high, *_ in self._chunk_bounds), key=self._order),
            )
        except ValueError:
            return None

    @property
    def _bounds_are_complete(self) -> bool:
        """True if the bounds of the chunks are known. This is always true if no chunk has a value."""
        return self._chunk_bounds == [] or self._bounds is not None

    def _statistics(self, *, bounds: bool) -> ThriftStruct:
        every = [field_value(part.chunk.metadata, ColumnMetaData.STATISTICS, {}) for part in self._pages]
        joined: ThriftStruct = {}
        if all(Statistics.NULL_COUNT in statistics for statistics in every):
            joined[Statistics.NULL_COUNT] = (
                I64,
                sum(statistics[Statistics.NULL_COUNT][1] for statistics in every),
            )
        if bounds and self._chunk_bounds and self._bounds is not None:
            smallest, largest = self._bounds
            joined |= {Statistics.MAX_VALUE: (BINARY, largest), Statistics.MIN_VALUE: (BINARY, smallest)}
            lows, highs = (
                {one[2 + place] for one in self._chunk_bounds if one[place] == bound}
                for place, bound in enumerate(self._bounds)
            )
            for number, exact in ((Statistics.MAX_IS_EXACT, highs), (Statistics.MIN_IS_EXACT, lows)):
                if None not in exact:
                    joined[number] = (TRUE, True in exact)
        return joined

    def _boundary_order(self, index: ThriftStruct) -> int:
        """Return the order of the pages' bounds.

        Raises:
            ValueError: If a bound is not a value of the column.

        """
        assert self._order is not None
        null_pages, lows, highs = (
            index[number][1].items
            for number in (ColumnIndex.NULL_PAGES, ColumnIndex.MIN_VALUES, ColumnIndex.MAX_VALUES)
        )
        bounds = [
            [self._order(raw) for raw, is_null in zip(side, null_pages, strict=True) if not is_null]
            for side in (lows, highs)
        ]
        if all(side == sorted(side) for side in bounds):
            return BoundaryOrder.ASCENDING
        return (
            BoundaryOrder.DESCENDING
            if all(side == sorted(side, reverse=True) for side in bounds)
            else BoundaryOrder.UNORDERED
        )

    def _dictionary_encoded_bytes(self) -> int:
        """Return the size of the dictionary page before compression, with its header."""
        if not self.dictionary_bytes:
            return 0
        header, behind = decode_struct(self._pages[0].dictionary())
        return behind + int(field_value(header, PageHeader.UNCOMPRESSED_BYTES))


def _encoding_counts(every: Sequence[ThriftStruct]) -> ThriftStruct:
    """Return the ENCODING_STATS field of the joined chunk: the number of pages by type and encoding.

    The dictionary page counts once. If a chunk lacks the field, the result has no field.
    """
    if not all(ColumnMetaData.ENCODING_STATS in metadata for metadata in every):
        return {}
    counts: Counter[tuple[int, int]] = Counter()
    for metadata in every:
        for entry in metadata[ColumnMetaData.ENCODING_STATS][1].items:
            kind = entry[PageEncodingStats.PAGE_TYPE][1], entry[PageEncodingStats.ENCODING][1]
            if kind[0] == PageType.DICTIONARY_PAGE:
                counts[kind] = 1
            else:
                counts[kind] += entry[PageEncodingStats.COUNT][1]
    entries: list[ThriftStruct] = [
        {
            PageEncodingStats.PAGE_TYPE: (I32, page),
            PageEncodingStats.ENCODING: (I32, encoding),
            PageEncodingStats.COUNT: (I32, count),
        }
        for (page, encoding), count in counts.items()
    ]
    return {ColumnMetaData.ENCODING_STATS: (LIST, List(STRUCT, entries))}


def _size_statistics(every: Sequence[ThriftStruct]) -> ThriftStruct:
    """Return the SIZE_STATISTICS field of the joined chunk: sums of unencoded bytes and level histograms.

    A sum is left out if a chunk lacks the figure. Without any sum the result has no field.
    """
    found: list[ThriftStruct] = [
        field_value(metadata, ColumnMetaData.SIZE_STATISTICS, {}) for metadata in every
    ]
    joined: ThriftStruct = {}
    for number in sorted(found[0]):
        if not all(number in statistics for statistics in found):
            continue
        values = [statistics[number][1] for statistics in found]
        if number == SizeStatistics.UNENCODED_BYTES:
            joined[number] = (I64, sum(values))
        elif number in _LEVELS and len({len(value.items) for value in values}) == 1:
            sums = [sum(levels) for levels in zip(*(value.items for value in values), strict=True)]
            joined[number] = (LIST, List(I64, sums))
    return {ColumnMetaData.SIZE_STATISTICS: (STRUCT, joined)} if joined else {}


def _concatenated(lists: Iterable[List]) -> List:
    every = list(lists)
    return List(every[0].kind, [item for one in every for item in one.items])
