"""Assembly of parquet files from existing row groups, in memory or in another file.

Column chunks are copied byte by byte; only their positions are written anew.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from parquetry.runtime.parquet.chunk import Chunk, Piece
from parquetry.runtime.parquet.fields import (
    CODECS,
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    KeyValue,
    OffsetIndex,
    PageLocation,
    PhysicalType,
    RowGroup,
    SchemaElement,
    SortingColumn,
    Statistics,
)
from parquetry.runtime.parquet.tail import MAGIC, TAIL_BYTES, footer_bytes
from parquetry.runtime.parquet.thrift import (
    BINARY,
    I16,
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

_READ_BYTES: Final = 4 * 1024 * 1024
_FIXED_FOOTER_BYTES: Final = 64
_INDEX_POINTER_BYTES: Final = 64


_FLOATING: Final = frozenset({PhysicalType.FLOAT, PhysicalType.DOUBLE})
_BOUNDS: Final = frozenset(
    {
        Statistics.DEPRECATED_MAX,
        Statistics.DEPRECATED_MIN,
        Statistics.MAX_VALUE,
        Statistics.MIN_VALUE,
        Statistics.MAX_IS_EXACT,
        Statistics.MIN_IS_EXACT,
    }
)


class ParquetParts:
    """The row groups of a whole parquet file, to copy from.

    ``content`` is a pyarrow file with ``read_at``. The constructor raises ValueError if the footer is
    damaged.
    """

    def __init__(self, content: pa.NativeFile) -> None:
        self.content = content
        self.size_bytes: int = content.size()
        self.footer_bytes: int = footer_bytes(content)
        start = self.size_bytes - TAIL_BYTES - self.footer_bytes
        try:
            self.footer, _ = decode_struct(content.read_at(self.footer_bytes, start))
        except (IndexError, RecursionError, struct.error) as error:
            raise ValueError("its footer is cut short or garbage") from error
        self.groups: list[ThriftStruct] = field_value(
            self.footer, FileMetaData.ROW_GROUPS, List(STRUCT, [])
        ).items
        self._indexes_from = start
        for chunk in (chunk for group in range(len(self.groups)) for chunk in self.chunks(group)):
            self._indexes_from = min(chunk.indexes_from or start, self._indexes_from)
        self._indexes_to = start
        self._indexes: bytes | None = None
        self._statistics_bytes: list[int] | None = None

    @property
    def columns(self) -> list[ThriftStruct]:
        """The schema elements below the root in depth-first order, without field ids."""
        elements: list[ThriftStruct] = field_value(self.footer, FileMetaData.SCHEMA).items
        return [
            {number: value for number, value in element.items() if number != SchemaElement.FIELD_ID}
            for element in elements[1:]
        ]

    def rows(self, group: int) -> int:
        """Return the number of rows of a row group."""
        return int(field_value(self.groups[group], RowGroup.ROWS))

    def stored_bytes(self, group: int) -> int:
        """Return the compressed size of the row group's chunks."""
        return sum(chunk.size_bytes for chunk in self.chunks(group))

    def encoded_bytes(self, group: int) -> int:
        """Return the size of the row group's chunks before compression."""
        return int(field_value(self.groups[group], RowGroup.BYTES))

    def dictionaries(self, group: int) -> list[str]:
        """Return the dotted names of the columns whose chunks have a dictionary."""
        return [
            chunk.name
            for chunk in self.chunks(group)
            if field_value(chunk.metadata, ColumnMetaData.DICTIONARY_PAGE, 0) > 0
        ]

    def codecs(self, group: int) -> set[str]:
        """Return the compression codecs of the row group's chunks."""
        return {CODECS[field_value(chunk.metadata, ColumnMetaData.CODEC)] for chunk in self.chunks(group)}

    def floating(self, group: int) -> frozenset[int]:
        """Return the column numbers of the row group's floating-point columns."""
        kinds = (field_value(chunk.metadata, ColumnMetaData.TYPE) for chunk in self.chunks(group))
        return frozenset(number for number, kind in enumerate(kinds) if kind in _FLOATING)

    def bounds(self, group: int, column: int) -> tuple[bytes, bytes] | None:
        """Return the smallest and the largest value of a chunk as stored, or None if they are unknown."""
        statistics: ThriftStruct = field_value(
            self.chunks(group)[column].metadata, ColumnMetaData.STATISTICS, {}
        )
        smallest = field_value(statistics, Statistics.MIN_VALUE, None)
        largest = field_value(statistics, Statistics.MAX_VALUE, None)
        return None if smallest is None or largest is None else (smallest, largest)

    def chunks(self, group: int) -> list[PartChunk]:
        """Return the column chunks of a row group, in the order of the schema's leaves."""
        chunks = field_value(self.groups[group], RowGroup.COLUMNS).items
        return [PartChunk(parts=self, chunk=chunk) for chunk in chunks]

    def index(self, start: int, size: int) -> bytes:
        """Return ``size`` bytes of the page index from position ``start`` of the file.

        The first call reads the page index of the whole file.
        """
        if self._indexes is None:
            self._indexes = self.content.read_at(self._indexes_to - self._indexes_from, self._indexes_from)
        start -= self._indexes_from
        return self._indexes[start : start + size]

    def index_bytes(self, group: int) -> int:
        """Return the largest number of bytes that a row group adds to the end of a file.

        These are its page index and its footer entry. The bounds in the entry are counted exactly; the rest
        of it is the mean of all row groups.
        """
        indexes = sum(chunk.index_bytes for chunk in self.chunks(group))
        if self._statistics_bytes is None:
            self._statistics_bytes = [
                sum(statistics_bytes(chunk.metadata) for chunk in self.chunks(number))
                for number in range(len(self.groups))
            ]
        rest = self.footer_bytes - sum(self._statistics_bytes)
        return indexes + self._statistics_bytes[group] + -(-rest // len(self.groups))


def statistics_bytes(metadata: ThriftStruct) -> int:
    """Return the number of bytes of the bounds in the statistics of a chunk's ColumnMetaData."""
    statistics: ThriftStruct = field_value(metadata, ColumnMetaData.STATISTICS, {})
    return sum(len(value) for kind, value in statistics.values() if kind == BINARY)


def end_bytes(chunk: Chunk) -> int:
    """Return how many bytes a chunk adds at most to the end of a file: its page index and footer entry."""
    return chunk.index_bytes + len(encode_struct(chunk.shifted(0, bounds=True))) + _INDEX_POINTER_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class PartChunk:
    """A column chunk of a file."""

    parts: ParquetParts
    chunk: ThriftStruct

    @property
    def metadata(self) -> ThriftStruct:
        """The chunk's ColumnMetaData."""
        metadata: ThriftStruct = field_value(self.chunk, ColumnChunk.METADATA)
        return metadata

    @property
    def start(self) -> int:
        """The position of its first page."""
        data_page: int = field_value(self.metadata, ColumnMetaData.DATA_PAGE)
        dictionary: int = field_value(self.metadata, ColumnMetaData.DICTIONARY_PAGE, 0)
        return min(data_page, dictionary) if dictionary > 0 else data_page

    @property
    def size_bytes(self) -> int:
        """The length of its pages with their headers."""
        return int(field_value(self.metadata, ColumnMetaData.COMPRESSED_BYTES))

    @property
    def encoded_bytes(self) -> int:
        """The length of its pages before compression, with their headers."""
        return int(field_value(self.metadata, ColumnMetaData.BYTES))

    @property
    def pieces(self) -> list[Piece]:
        """The byte range to copy."""
        return [Piece(content=self.parts.content, start=self.start, size=self.size_bytes)]

    @property
    def offset_index_bytes(self) -> int:
        """The length of its offset index, or 0."""
        return int(field_value(self.chunk, ColumnChunk.OFFSET_INDEX_BYTES, 0))

    @property
    def index_bytes(self) -> int:
        """The length of its column index and offset index."""
        return self.offset_index_bytes + int(field_value(self.chunk, ColumnChunk.COLUMN_INDEX_BYTES, 0))

    @property
    def indexes_from(self) -> int | None:
        """The start of the first of its two indexes, or None if it has none."""
        places = [
            field_value(self.chunk, place, 0)
            for place in (ColumnChunk.COLUMN_INDEX, ColumnChunk.OFFSET_INDEX)
        ]
        return min((place for place in places if place), default=None)

    @property
    def name(self) -> str:
        """The dotted name of its column."""
        path = field_value(self.metadata, ColumnMetaData.PATH).items
        return b".".join(path).decode()

    @property
    def index_ranges(self) -> tuple[range | None, range | None]:
        """The byte ranges of its column and offset index in the file; None if absent or encrypted."""
        return (
            self._index_range(ColumnChunk.COLUMN_INDEX, ColumnChunk.COLUMN_INDEX_BYTES),
            self._index_range(ColumnChunk.OFFSET_INDEX, ColumnChunk.OFFSET_INDEX_BYTES),
        )

    def _index_range(self, offset: int, length: int) -> range | None:
        start, size = (field_value(self.chunk, number, 0) for number in (offset, length))
        encrypted = ColumnChunk.CRYPTO_METADATA in self.chunk
        return range(start, start + size) if start > 0 and size > 0 and not encrypted else None

    def column_index(self) -> bytes | None:
        """Return the column index, or None if it is absent.

        It contains no positions, so copies need no change.
        """
        size = field_value(self.chunk, ColumnChunk.COLUMN_INDEX_BYTES, 0)
        if not size:
            return None
        return self.parts.index(field_value(self.chunk, ColumnChunk.COLUMN_INDEX), size)

    def offset_index(self, shift: int) -> bytes | None:
        """Return the offset index for a copy of the chunk that begins ``shift`` bytes further on.

        The result is None if the chunk has none.
        """
        if not self.offset_index_bytes:
            return None
        at = field_value(self.chunk, ColumnChunk.OFFSET_INDEX)
        index, _ = decode_struct(self.parts.index(at, self.offset_index_bytes))
        for page in field_value(index, OffsetIndex.PAGE_LOCATIONS).items:
            page[PageLocation.OFFSET] = (I64, page[PageLocation.OFFSET][1] + shift)
        return encode_struct(index)

    def shifted(self, shift: int, *, bounds: bool) -> ThriftStruct:
        """Return the footer entry for a copy of the chunk that begins ``shift`` bytes further on.

        The entry refers to no page index. ``bounds`` decides whether it contains the smallest and the largest
        value.
        """
        metadata = {
            number: value
            for number, value in self.metadata.items()
            if number not in {ColumnMetaData.BLOOM_FILTER, ColumnMetaData.BLOOM_FILTER_BYTES}
        }
        for field in (ColumnMetaData.DATA_PAGE, ColumnMetaData.INDEX_PAGE, ColumnMetaData.DICTIONARY_PAGE):
            if field_value(metadata, field, 0) > 0:
                metadata[field] = (I64, metadata[field][1] + shift)
        if not bounds and ColumnMetaData.STATISTICS in metadata:
            kind, statistics = metadata[ColumnMetaData.STATISTICS]
            kept = {number: value for number, value in statistics.items() if number not in _BOUNDS}
            metadata[ColumnMetaData.STATISTICS] = (kind, kept)
        return {ColumnChunk.FILE_OFFSET: (I64, 0), ColumnChunk.METADATA: (STRUCT, metadata)}


class ParquetAssembly:
    """Writes one parquet file from row groups of other files with the same columns.

    ``template`` is any file with these columns; the new file has its schema and versions. ``sink`` has
    ``write``. The sink receives nothing except the magic bytes, the chunks as they are appended, and the end
    of the file.
    """

    def __init__(self, sink: Any, template: ParquetParts) -> None:
        self._sink = sink
        self._template = template
        self._groups: list[ThriftStruct] = []
        self._indexes: list[tuple[ThriftStruct, bytes | None, bytes | None]] = []
        self._rows = 0
        self._index_bytes = 0
        self.data_bytes = 0
        self._write(MAGIC)

    @property
    def size_bytes(self) -> int:
        """The largest possible size of the file if it is finished now, without key-value pairs."""
        return self.data_bytes + self._index_bytes + self._template.footer_bytes + _FIXED_FOOTER_BYTES

    def encryption_bytes(self, parts: ParquetParts) -> int:
        """Return 0: the file is not encrypted."""
        del parts
        return 0

    def append(
        self,
        parts: ParquetParts,
        group: int,
        *,
        replaced: Mapping[int, Chunk] | None = None,
        unbounded: Collection[int] = (),
        sorted_by: Iterable[int] = (),
    ) -> None:
        """Copy a row group to the end of the file.

        Args:
            parts: The file that contains the row group.
            group: The number of the row group in that file.
            replaced: Chunks, by column number, that replace those of the row group.
            unbounded: The columns for which readers must not get a smallest and a largest value.
            sorted_by: The columns by which the rows are sorted, ascending with nulls last.
        """
        chunks: list[Chunk] = [*parts.chunks(group)]
        for column, chunk in (replaced or {}).items():
            chunks[column] = chunk
        fields = {
            number: value for number, value in parts.groups[group].items() if number != RowGroup.SORTING
        }
        if sorting := [_sorting_column(column) for column in sorted_by]:
            fields[RowGroup.SORTING] = (LIST, List(STRUCT, sorting))
        self._append(fields, chunks, unbounded)
        self._index_bytes += parts.index_bytes(group)
        for column, chunk in (replaced or {}).items():
            self._index_bytes += max(end_bytes(chunk) - end_bytes(parts.chunks(group)[column]), 0)

    def append_chunks(self, chunks: Sequence[Chunk], rows: int, *, unbounded: Collection[int] = ()) -> None:
        """Write a row group of ``rows`` rows to the end of the file: a copy of one chunk for each column."""
        self._append({RowGroup.ROWS: (I64, rows)}, chunks, unbounded)
        self._index_bytes += sum(map(end_bytes, chunks)) + _FIXED_FOOTER_BYTES

    def _append(self, fields: ThriftStruct, chunks: Sequence[Chunk], unbounded: Collection[int]) -> None:
        first = self.data_bytes
        entries = []
        for column, (chunk, start) in enumerate(zip(chunks, self._copy(chunks), strict=True)):
            shift, bounds = start - chunk.start, column not in unbounded
            entry = chunk.shifted(shift, bounds=bounds)
            entries.append(entry)
            index = chunk.column_index() if bounds else None
            self._indexes.append((entry, index, chunk.offset_index(shift)))
        fields[RowGroup.COLUMNS] = (LIST, List(STRUCT, entries))
        fields[RowGroup.FILE_OFFSET] = (I64, first)
        fields[RowGroup.BYTES] = (I64, sum(chunk.encoded_bytes for chunk in chunks))
        fields[RowGroup.COMPRESSED_BYTES] = (I64, self.data_bytes - first)
        fields[RowGroup.ORDINAL] = (I16, len(self._groups))
        self._groups.append(dict(sorted(fields.items())))
        self._rows += fields[RowGroup.ROWS][1]

    def finish(self, key_values: Mapping[str, str]) -> bytes:
        """Write the page index and the footer, and return the footer with the file's last eight bytes."""
        for entry, index, _ in self._indexes:
            self._put_index(entry, index, ColumnChunk.COLUMN_INDEX, ColumnChunk.COLUMN_INDEX_BYTES)
        for entry, _, index in self._indexes:
            self._put_index(entry, index, ColumnChunk.OFFSET_INDEX, ColumnChunk.OFFSET_INDEX_BYTES)
            for number in sorted(entry):
                entry[number] = entry.pop(number)
        footer = dict(self._template.footer)
        footer[FileMetaData.ROWS] = (I64, self._rows)
        footer[FileMetaData.ROW_GROUPS] = (LIST, List(STRUCT, self._groups))
        footer[FileMetaData.KEY_VALUES] = (LIST, List(STRUCT, list(_pairs(key_values))))
        encoded = encode_struct(dict(sorted(footer.items())))
        tail = encoded + struct.pack("<I", len(encoded)) + MAGIC
        self._write(tail)
        return tail

    def _put_index(self, entry: ThriftStruct, index: bytes | None, offset: int, length: int) -> None:
        """Write an index, and note its position and length in the two named fields of the footer entry."""
        if index is not None:
            entry[offset] = (I64, self.data_bytes)
            entry[length] = (I32, len(index))
            self._write(index)

    def _copy(self, chunks: Iterable[Chunk]) -> list[int]:
        """Copy the pages of chunks one after the other, and return the new start of each chunk."""
        starts = []
        at = self.data_bytes
        runs: list[Piece] = []
        for chunk in chunks:
            starts.append(at)
            for piece in chunk.pieces:
                at += piece.size
                last = runs[-1] if runs else None
                if (
                    last is not None
                    and piece.content is last.content
                    and piece.start == last.start + last.size
                ):
                    runs[-1] = replace(last, size=last.size + piece.size)
                else:
                    runs.append(piece)
        for run in runs:
            end = run.start + run.size
            for start in range(run.start, end, _READ_BYTES):
                self._write(run.content.read_at(min(_READ_BYTES, end - start), start))
        return starts

    def _write(self, data: bytes) -> None:
        self._sink.write(data)
        self.data_bytes += len(data)


def _sorting_column(number: int) -> ThriftStruct:
    return {
        SortingColumn.COLUMN: (I32, number),
        SortingColumn.DESCENDING: (TRUE, False),
        SortingColumn.NULLS_FIRST: (TRUE, False),
    }


def _pairs(key_values: Mapping[str, str]) -> Iterator[ThriftStruct]:
    for key, value in key_values.items():
        yield {KeyValue.KEY: (BINARY, key.encode()), KeyValue.VALUE: (BINARY, value.encode())}
