from __future__ import annotations

import math
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.base_file.encoding import page_options
from parquetry.runtime.parquet.assembly import ParquetParts, PartChunk
from parquetry.runtime.parquet.column_order import order_of
from parquetry.runtime.parquet.joined_pages import JoinedChunk, chunk_pages, leaf_columns

ROWS = 30
VALUES, STORED, DATA_PAGE = 5, 7, 9


def chunk_of(values=range(ROWS), **options) -> PartChunk:
    sink = pa.BufferOutputStream()
    shape = {"store_schema": False, "write_page_index": True, "use_dictionary": False, **page_options(7)}
    pq.write_table(pa.table({"n": pa.array(values)}), sink, **(shape | options))
    return ParquetParts(pa.BufferReader(sink.getvalue())).chunks(0)[0]


def test_the_pages_of_a_chunk():
    pages = chunk_pages(chunk_of(), ROWS, flat=True)
    assert pages is not None
    assert [page[3][1] for page in pages.locations] == [0, 7, 14, 21, 28]
    assert (pages.values, pages.dictionary_bytes, pages.data_bytes) == (ROWS, 0, pages.chunk.size_bytes)


def test_a_list_has_more_values_than_rows():
    chunk = chunk_of([[number, None] for number in range(ROWS)])
    pages = chunk_pages(chunk, ROWS, flat=False)
    assert pages is not None
    assert pages.values == 2 * ROWS
    assert chunk_pages(chunk, ROWS, flat=True) is None


@pytest.mark.parametrize(
    ("field", "more"), [(VALUES, 1), (VALUES, -1), (STORED, 1), (STORED, -1), (DATA_PAGE, 1), (DATA_PAGE, -1)]
)
def test_pages_that_do_not_fit_what_else_is_said_are_not_known(field, more):
    chunk = chunk_of()
    kind, value = chunk.metadata[field]
    chunk.metadata[field] = (kind, value + more)
    assert chunk_pages(chunk, ROWS, flat=True) is None


@pytest.mark.parametrize("rows", [28, ROWS - 1, ROWS + 1])
def test_pages_do_not_fit_other_rows(rows):
    assert chunk_pages(chunk_of(), rows, flat=True) is None


def test_without_an_offset_index_nothing_is_known():
    assert chunk_pages(chunk_of(write_page_index=False), ROWS, flat=True) is None


@pytest.mark.parametrize("garbage", [b"\xff" * 9, b"\x19\x0c", b"", b"\x15\x02\x00"])
def test_a_garbled_index_is_left_out(garbage):
    chunk = chunk_of()
    pages = chunk_pages(chunk, ROWS, flat=True)
    assert pages is not None
    joined = JoinedChunk([pages, pages], order_of({1: (5, 2)}))
    assert joined.column_index() is not None
    place = chunk.index_ranges[0]
    assert place is not None
    content = bytearray(chunk.parts.content.read_at(chunk.parts.size_bytes, 0))
    content[place.start : place.stop] = garbage.ljust(len(place), b"\xff")
    damaged = ParquetParts(pa.BufferReader(bytes(content))).chunks(0)[0]
    pages = chunk_pages(damaged, ROWS, flat=True)
    assert pages is not None
    joined = JoinedChunk([pages, pages], order_of({1: (5, 2)}))
    assert joined.column_index() is None
    assert joined.shifted(0, bounds=True)[3][1][VALUES][1] == 2 * ROWS


def test_a_garbled_offset_index_tells_no_pages():
    """Whatever its bytes are: its chunk is decoded then, or copied with what still fits the chunk."""
    whole = chunk_of([f"text {number}" for number in range(ROWS)], compression="none")
    pages = chunk_pages(whole, ROWS, flat=True)
    assert pages is not None
    content = whole.parts.content.read_at(whole.parts.size_bytes, 0)
    place = whole.index_ranges[1]
    assert place is not None
    unknown = 0
    for at in place:
        for byte in (0x00, 0x11, 0x15, 0x18, 0x19, 0x1C, 0x28, 0x88, 0xFF):
            damaged = content[:at] + bytes([byte]) + content[at + 1 :]
            chunk = ParquetParts(pa.BufferReader(damaged)).chunks(0)[0]
            told = chunk_pages(chunk, ROWS, flat=True)
            if told is None:
                unknown += 1
            else:
                JoinedChunk([pages, told], bytes).offset_index(0)
    assert unknown > len(place)


def test_a_dictionary_that_is_nowhere():
    chunk = chunk_of(use_dictionary=True)
    assert chunk_pages(chunk, ROWS, flat=True) is not None
    del chunk.metadata[11]
    assert chunk_pages(chunk, ROWS, flat=True) is None


def test_the_columns_of_a_schema_and_which_are_flat():
    inner = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))])
    schema = pa.schema([("s", inner), ("m", pa.map_(pa.string(), pa.int64())), ("n", pa.int64())])
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    parts = ParquetParts(pa.BufferReader(sink.getvalue()))
    found = leaf_columns(parts.columns)
    assert [(column[4][1], flat) for column, flat in found] == [
        (b"a", True),
        (b"c", False),
        (b"key", False),
        (b"value", False),
        (b"n", True),
    ]


def order_of_type(kind: pa.DataType):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.schema([("n", kind)]).empty_table(), sink)
    ((column, _),) = leaf_columns(ParquetParts(pa.BufferReader(sink.getvalue())).columns)
    return order_of(column)


def test_signed_and_unsigned_numbers():
    small, large = struct.pack("<i", -1), struct.pack("<i", 1)
    for kind, ordered in [(pa.int32(), True), (pa.int16(), True), (pa.uint32(), False), (pa.date32(), True)]:
        key = order_of_type(kind)
        assert (key(small) < key(large)) == ordered, kind
    key = order_of_type(pa.uint64())
    assert key(struct.pack("<q", -1)) > key(struct.pack("<q", 1))


def test_zeros_have_signs_and_nan_has_no_place():
    key = order_of_type(pa.float64())
    assert key(struct.pack("<d", -0.0)) < key(struct.pack("<d", 0.0)) < key(struct.pack("<d", 5e-324))
    with pytest.raises(ValueError, match="NaN"):
        key(struct.pack("<d", math.nan))
    with pytest.raises(ValueError, match="8 bytes"):
        key(b"short")


def test_decimals_are_numbers_and_texts_are_bytes():
    key = order_of_type(pa.decimal128(12, 2))
    assert key(b"\xff\xff") < key(b"\x00") < key(b"\x01\x00")
    assert order_of_type(pa.string())("é".encode()) > order_of_type(pa.string())(b"z")


def test_types_without_a_known_order():
    assert order_of_type(pa.float16()) is None
    interval = {1: (5, 7), 6: (5, 21)}
    int96 = {1: (5, 3)}
    assert order_of(interval) is None
    assert order_of(int96) is None
