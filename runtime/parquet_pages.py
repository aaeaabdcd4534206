"""Column chunks made of the data pages of several, which are copied byte by byte.

A page can be read wherever it lies: it says how it is encoded and how long it is. What it needs besides is
its chunk's dictionary, and a chunk has one at most. So pages of chunks without a dictionary, or with the same
one, become one chunk; what tells of them (statistics, page index) is put together from what told of each.
Field numbers are those of parquet.thrift in apache/parquet-format.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Final

from parquetry.runtime.parquet_assembly import PartChunk
from parquetry.runtime.parquet_chunk import Piece
from parquetry.runtime.parquet_order import Key
from parquetry.runtime.parquet_thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    List,
    Struct,
    decode_struct,
    encode_struct,
)

_SCHEMA_REPETITION: Final = 3
_SCHEMA_CHILDREN: Final = 5
_REPEATED: Final = 2

_COLUMN_TYPE: Final = 1
_COLUMN_ENCODINGS: Final = 2
_COLUMN_PATH: Final = 3
_COLUMN_CODEC: Final = 4
_COLUMN_VALUES: Final = 5
_COLUMN_BYTES: Final = 6
_COLUMN_COMPRESSED_BYTES: Final = 7
_COLUMN_DATA_PAGE: Final = 9
_COLUMN_INDEX_PAGE: Final = 10
_COLUMN_DICTIONARY_PAGE: Final = 11
_COLUMN_STATISTICS: Final = 12
_COLUMN_ENCODING_STATS: Final = 13
_COLUMN_SIZE_STATISTICS: Final = 16

_NULL_COUNT: Final = 3
_MAX_VALUE: Final = 5
_MIN_VALUE: Final = 6
_MAX_EXACT: Final = 7
_MIN_EXACT: Final = 8

_INDEX_NULL_PAGES: Final = 1
_INDEX_SMALLEST: Final = 2
_INDEX_LARGEST: Final = 3
_INDEX_ORDER: Final = 4
_INDEX_NULL_COUNTS: Final = 5
_INDEX_HISTOGRAMS: Final = (6, 7)
_UNORDERED, _ASCENDING, _DESCENDING = 0, 1, 2

_GARBLED: Final = (AttributeError, LookupError, TypeError, ValueError, RecursionError, struct.error)
"""What bytes end in that are no index."""

_PAGE_OFFSET, _PAGE_BYTES, _PAGE_FIRST_ROW = 1, 2, 3
_HEADER_BYTES: Final = 2
_DICTIONARY_PAGE: Final = 2
_DICTIONARY_ENCODINGS: Final = frozenset({2, 8})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPages:
    """The pages of a column chunk of ``rows`` rows, as its offset index and its metadata tell alike.

    Those of data lie one behind the other up to the chunk's end, behind the dictionary's if there is one;
    ``locations`` are their entries in the offset index, ``unencoded`` the list beside these, if there is one.
    """

    chunk: PartChunk
    rows: int
    dictionary_bytes: int
    locations: list[Struct]
    unencoded: List | None

    @property
    def values(self) -> int:
        """How many values there are, with nulls and empty lists."""
        return int(_value(self.chunk.metadata, _COLUMN_VALUES))

    @property
    def data_bytes(self) -> int:
        """The length of the data pages with their headers."""
        return self.chunk.size_bytes - self.dictionary_bytes

    def dictionary(self) -> bytes:
        """The dictionary's page with its header; nothing without one."""
        content: bytes = self.chunk.parts.content.read_at(self.dictionary_bytes, self.chunk.start)
        return content


def may_stand_alone(chunk: PartChunk, *, values: int, stored_bytes: int) -> bool:
    """Whether a chunk has no dictionary, and so many values or bytes at least."""
    is_large = _value(chunk.metadata, _COLUMN_VALUES) >= values or chunk.size_bytes >= stored_bytes
    return is_large and _value(chunk.metadata, _COLUMN_DICTIONARY_PAGE, 0) <= 0


def chunk_pages(chunk: PartChunk, rows: int, *, flat: bool) -> ChunkPages | None:
    """Where the pages of a chunk lie; None where that is not told, or is told differently in two places.

    ``flat``: the column has one value per row.
    """
    try:
        return _told_pages(chunk, rows, flat=flat)
    except _GARBLED:
        return None


def _told_pages(chunk: PartChunk, rows: int, *, flat: bool) -> ChunkPages | None:
    metadata = chunk.metadata
    if chunk.places[1] is None or _value(metadata, _COLUMN_INDEX_PAGE, 0):
        return None
    index, _ = decode_struct(chunk.parts.index(chunk.places[1].start, len(chunk.places[1])))
    locations: list[Struct] = index[1][1].items
    offsets = [page[_PAGE_OFFSET][1] for page in locations]
    sizes = [page[_PAGE_BYTES][1] for page in locations]
    firsts = [page[_PAGE_FIRST_ROW][1] for page in locations]
    unencoded: List | None = _value(index, 2, None)
    if unencoded is not None and (unencoded.kind, len(unencoded.items)) != (I64, len(locations)):
        return None
    pages = ChunkPages(
        chunk=chunk,
        rows=rows,
        dictionary_bytes=_value(metadata, _COLUMN_DATA_PAGE) - chunk.start,
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
    needs_dictionary = _DICTIONARY_ENCODINGS.intersection(_value(metadata, _COLUMN_ENCODINGS).items)
    return None if needs_dictionary and not pages.dictionary_bytes else pages


def leaves(columns: Iterable[Struct]) -> list[tuple[Struct, bool]]:
    """The schema's elements that are columns, and whether each has one value per row.

    ``columns`` are all elements in depth-first order below the root.
    """
    found: list[tuple[Struct, bool]] = []
    above: list[tuple[int, bool]] = []
    for column in columns:
        left, flat = above.pop() if above else (1, True)
        if left > 1:
            above.append((left - 1, flat))
        flat = flat and _value(column, _SCHEMA_REPETITION) != _REPEATED
        if children := _value(column, _SCHEMA_CHILDREN, 0):
            above.append((children, flat))
        else:
            found.append((column, flat))
    return found


class JoinedChunk:
    """The pages of chunks of one column and codec, in their order, as one chunk that begins at byte 0.

    All have the same dictionary, or none. ``order`` compares the column's values; without it no bounds are
    told. Bounds are told where they are known of every chunk that has a value.
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
        """Where its bytes are to be copied from, in their order."""
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

    def shifted(self, shift: int, *, bounds: bool) -> Struct:
        """The chunk's entry in a footer when it lies ``shift`` bytes further on, without its indexes."""
        every = [part.chunk.metadata for part in self._pages]
        first = every[0]
        encodings = dict.fromkeys(item for one in every for item in _value(one, _COLUMN_ENCODINGS).items)
        metadata: Struct = {
            _COLUMN_TYPE: first[_COLUMN_TYPE],
            _COLUMN_ENCODINGS: (LIST, List(I32, list(encodings))),
            _COLUMN_PATH: first[_COLUMN_PATH],
            _COLUMN_CODEC: first[_COLUMN_CODEC],
            _COLUMN_VALUES: (I64, sum(part.values for part in self._pages)),
            _COLUMN_BYTES: (I64, self.encoded_bytes),
            _COLUMN_COMPRESSED_BYTES: (I64, self.size_bytes),
            _COLUMN_DATA_PAGE: (I64, shift + self.dictionary_bytes),
        }
        if self.dictionary_bytes:
            metadata[_COLUMN_DICTIONARY_PAGE] = (I64, shift)
        metadata[_COLUMN_STATISTICS] = (STRUCT, self._statistics(bounds=bounds))
        metadata |= _encoding_counts(every) | _size_statistics(every)
        return {2: (I64, 0), 3: (STRUCT, metadata)}

    def column_index(self) -> bytes | None:
        """Its column index, which says nothing about places; None where one or more have none."""
        found = [part.chunk.column_index() for part in self._pages]
        if self._order is None or not self._has_bounds:
            return None
        try:
            return self._joined_index([decode_struct(index)[0] for index in found if index is not None])
        except _GARBLED:
            return None

    def _joined_index(self, indexes: Sequence[Struct]) -> bytes | None:
        """None unless each tells of all its pages; ValueError or the like where one is garbled."""
        if len(indexes) < len(self._pages):
            return None
        joined: Struct = {}
        for number in (_INDEX_NULL_PAGES, _INDEX_SMALLEST, _INDEX_LARGEST):
            joined[number] = (LIST, _concatenated(_value(index, number) for index in indexes))
        if any(len(values.items) != self._count for _, values in joined.values()):
            return None
        joined[_INDEX_ORDER] = (I32, self._boundary_order(joined))
        for number in (_INDEX_NULL_COUNTS, *_INDEX_HISTOGRAMS):
            every = [_value(index, number, List(I64, [])) for index in indexes]
            per_page = {
                len(one.items) / len(part.locations) for one, part in zip(every, self._pages, strict=True)
            }
            if len(per_page) == 1 and per_page != {0}:
                joined[number] = (LIST, _concatenated(every))
        return encode_struct(joined)

    def offset_index(self, shift: int) -> bytes:
        """Its offset index as it is when the chunk lies ``shift`` bytes further on."""
        locations: list[Struct] = []
        at, row = shift + self.dictionary_bytes, 0
        for part in self._pages:
            for page in part.locations:
                first = row + page[_PAGE_FIRST_ROW][1]
                locations.append({1: (I64, at), 2: page[_PAGE_BYTES], 3: (I64, first)})
                at += page[_PAGE_BYTES][1]
            row += part.rows
        index: Struct = {1: (LIST, List(STRUCT, locations))}
        unencoded = [part.unencoded for part in self._pages if part.unencoded is not None]
        if len(unencoded) == len(self._pages):
            index[2] = (LIST, _concatenated(unencoded))
        return encode_struct(index)

    @property
    def _count(self) -> int:
        return sum(len(part.locations) for part in self._pages)

    @cached_property
    def _known(self) -> list[tuple[bytes, bytes, bool | None, bool | None]] | None:
        """Bounds, and whether they are values, of chunks that have values; None where one has none."""
        found = []
        for part in self._pages:
            statistics = _value(part.chunk.metadata, _COLUMN_STATISTICS, {})
            if _value(statistics, _NULL_COUNT, None) == part.values:
                continue
            if _MIN_VALUE not in statistics or _MAX_VALUE not in statistics:
                return None
            exact = [_value(statistics, number, None) for number in (_MIN_EXACT, _MAX_EXACT)]
            found.append((statistics[_MIN_VALUE][1], statistics[_MAX_VALUE][1], *exact))
        return found

    @cached_property
    def _bounds(self) -> tuple[bytes, bytes] | None:
        if not self._known or self._order is None:
            return None
        try:
            return (
                min((low for low, *_ in self._known), key=self._order),
                max((high for _, high, *_ in self._known), key=self._order),
            )
        except ValueError:
            return None

    @property
    def _has_bounds(self) -> bool:
        """Whether every page's bounds are to be believed: those of chunks without a value are, too."""
        return self._known == [] or self._bounds is not None

    def _statistics(self, *, bounds: bool) -> Struct:
        every = [_value(part.chunk.metadata, _COLUMN_STATISTICS, {}) for part in self._pages]
        joined: Struct = {}
        if all(_NULL_COUNT in statistics for statistics in every):
            joined[_NULL_COUNT] = (I64, sum(statistics[_NULL_COUNT][1] for statistics in every))
        if bounds and self._known and self._bounds is not None:
            smallest, largest = self._bounds
            joined |= {_MAX_VALUE: (BINARY, largest), _MIN_VALUE: (BINARY, smallest)}
            lows, highs = (
                {one[2 + place] for one in self._known if one[place] == bound}
                for place, bound in enumerate(self._bounds)
            )
            for number, exact in ((_MAX_EXACT, highs), (_MIN_EXACT, lows)):
                if None not in exact:
                    joined[number] = (TRUE, True in exact)
        return joined

    def _boundary_order(self, index: Struct) -> int:
        """Which order the pages are in by both bounds; ValueError when one is no value of the column."""
        assert self._order is not None
        null_pages, lows, highs = (index[number][1].items for number in (1, 2, 3))
        bounds = [
            [self._order(raw) for raw, is_null in zip(side, null_pages, strict=True) if not is_null]
            for side in (lows, highs)
        ]
        if all(side == sorted(side) for side in bounds):
            return _ASCENDING
        return _DESCENDING if all(side == sorted(side, reverse=True) for side in bounds) else _UNORDERED

    def _dictionary_encoded_bytes(self) -> int:
        """What the dictionary's page takes before compression, with its header."""
        if not self.dictionary_bytes:
            return 0
        header, behind = decode_struct(self._pages[0].dictionary())
        return behind + int(_value(header, _HEADER_BYTES))


def _encoding_counts(every: Sequence[Struct]) -> Struct:
    """How many pages there are of each encoding; the dictionary's is there once."""
    if not all(_COLUMN_ENCODING_STATS in metadata for metadata in every):
        return {}
    counts: Counter[tuple[int, int]] = Counter()
    for metadata in every:
        for entry in metadata[_COLUMN_ENCODING_STATS][1].items:
            kind = entry[1][1], entry[2][1]
            counts[kind] = 1 if kind[0] == _DICTIONARY_PAGE else counts[kind] + entry[3][1]
    entries: list[Struct] = [
        {1: (I32, page), 2: (I32, encoding), 3: (I32, count)} for (page, encoding), count in counts.items()
    ]
    return {_COLUMN_ENCODING_STATS: (LIST, List(STRUCT, entries))}


def _size_statistics(every: Sequence[Struct]) -> Struct:
    """The sums of what all tell: the bytes of unencoded texts, histograms of levels."""
    found: list[Struct] = [_value(metadata, _COLUMN_SIZE_STATISTICS, {}) for metadata in every]
    joined: Struct = {}
    for number in sorted(found[0]):
        if not all(number in statistics for statistics in found):
            continue
        values = [statistics[number][1] for statistics in found]
        if number == 1:
            joined[number] = (I64, sum(values))
        elif number in {2, 3} and len({len(value.items) for value in values}) == 1:
            sums = [sum(levels) for levels in zip(*(value.items for value in values), strict=True)]
            joined[number] = (LIST, List(I64, sums))
    return {_COLUMN_SIZE_STATISTICS: (STRUCT, joined)} if joined else {}


def _concatenated(lists: Iterable[List]) -> List:
    every = list(lists)
    return List(every[0].kind, [item for one in every for item in one.items])


def _value(fields: Struct, number: int, *default: Any) -> Any:
    return fields[number][1] if number in fields or not default else default[0]
