"""Chunks whose pages are copied into one tell what a reader of the values finds."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.runtime.base_file.encoding import page_options
from parquetry.runtime.parquet.assembly import ParquetAssembly, ParquetParts
from parquetry.runtime.parquet.column_order import order_of
from parquetry.runtime.parquet.joined_pages import JoinedChunk, chunk_pages, leaf_columns
from parquetry.runtime.parquet.thrift import decode_struct
from tests.support.effort import examples

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("small", pa.int32()),
        ("yes", pa.bool_()),
        ("x", pa.float64()),
        ("y", pa.float32()),
        ("text", pa.string()),
        ("blob", pa.binary()),
        ("price", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("never", pa.string()),
        ("numbers", pa.list_(pa.int64())),
        ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        ("names", pa.map_(pa.string(), pa.float64())),
    ]
)

FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan, math.inf])
TEXTS = st.text(max_size=4) | st.text(min_size=70, max_size=90)
PLACES = st.fixed_dictionaries({"city": st.none() | TEXTS, "zip": st.none() | st.integers(0, 99999)})
VALUES = {
    "small": st.integers(-(2**31), 2**31 - 1),
    "yes": st.booleans(),
    "x": FLOATS,
    "y": FLOATS,
    "text": TEXTS,
    "blob": st.binary(max_size=5),
    "price": st.decimals(-(10**9), 10**9, places=2, allow_nan=False),
    "day": st.dates(),
    "at": st.datetimes(),
    "never": st.nothing(),
    "numbers": st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=4),
    "place": PLACES,
    "names": st.dictionaries(st.text(max_size=3), st.none() | FLOATS, max_size=3).map(lambda d: [*d.items()]),
}
ROWS = st.fixed_dictionaries(
    {"id": st.integers(-(2**63), 2**63 - 1), **{name: st.none() | kind for name, kind in VALUES.items()}}
)
FILES = st.lists(st.lists(ROWS, min_size=1, max_size=7), min_size=1, max_size=5)
SHAPES = st.fixed_dictionaries(
    {
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "page_rows": st.sampled_from([1, 2, 100]),
        "write_page_index": st.sampled_from([True, True, True, False]),
    }
)


def parquet(rows, codec, *, page_rows, **shape) -> ParquetParts:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    sink = pa.BufferOutputStream()
    options = {**page_options(page_rows), "compression": codec, "use_dictionary": False}
    pq.write_table(table, sink, store_schema=False, **options, **shape)
    return ParquetParts(pa.BufferReader(sink.getvalue()))


def joined(files: list[ParquetParts]) -> pa.Buffer | None:
    """One row group of all; None where a chunk's pages are not told."""
    columns = leaf_columns(files[0].columns)
    chunks = []
    for place, (column, flat) in enumerate(columns):
        pages = [chunk_pages(file.chunks(0)[place], file.rows(0), flat=flat) for file in files]
        if any(one is None for one in pages):
            return None
        chunks.append(JoinedChunk([one for one in pages if one is not None], order_of(column)))
    sink = pa.BufferOutputStream()
    assembly = ParquetAssembly(sink, files[0])
    assembly.append_chunks(chunks, sum(file.rows(0) for file in files))
    assembly.finish({})
    return sink.getvalue()


def values_of(row, path):
    """The values that a row has of a leaf, None for those that are null at any level."""
    if not path:
        return [row]
    if row is None:
        return [None]
    head, *rest = path
    if head == "list":
        return [value for element in row for value in values_of(element, rest[1:])] or [None]
    if head == "key_value":
        at = 0 if rest[0] == "key" else 1
        return [pair[at] for pair in row] or [None]
    return values_of(row[head], rest)


def plain(raw: bytes, kind: pa.DataType):
    if pa.types.is_boolean(kind):
        return raw == b"\1"
    if pa.types.is_floating(kind):
        return struct.unpack("<d" if len(raw) == 8 else "<f", raw)[0]
    if pa.types.is_string(kind):
        return raw.decode()
    if pa.types.is_binary(kind):
        return raw
    if pa.types.is_decimal(kind):
        return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-kind.scale)
    return int.from_bytes(raw, "little", signed=True)


def comparable(value):
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None) - datetime(1970, 1, 1)
        return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    return value.toordinal() - date(1970, 1, 1).toordinal() if isinstance(value, date) else value


def leaf_type(kind: pa.DataType, path) -> pa.DataType:
    for part in path:
        if pa.types.is_struct(kind):
            kind = kind.field(part).type
        elif pa.types.is_map(kind):
            return kind.key_type if path[-1] == "key" else kind.item_type
        elif part == "list":
            kind = kind.value_type
    return kind


def extremes(values):
    present = [v for v in map(comparable, values) if v is not None and not is_nan(v)]
    order = (lambda text: text.encode()) if present and isinstance(present[0], str) else None
    return (min(present, key=order), max(present, key=order)) if present else None


def is_nan(value) -> bool:
    return isinstance(value, float) and math.isnan(value)


@given(FILES, SHAPES, st.sampled_from(["none", "snappy", "zstd", "gzip", "lz4"]))
@settings(max_examples=examples(60), deadline=None)
def test_rows_statistics_and_page_index_are_those_of_the_values(files, shape, codec):
    parts = [parquet(rows, codec, **shape) for rows in files]
    content = joined(parts)
    assert (content is None) == (not shape["write_page_index"])
    if content is None:
        return
    rows = [row for file in files for row in file]
    expected = pa.Table.from_pylist(rows, schema=SCHEMA)
    file = pq.ParquetFile(pa.BufferReader(content))
    # By their text, as NaN differs from itself.
    assert str(file.read().to_pylist()) == str(expected.to_pylist())
    rows = expected.to_pylist()
    group = ParquetParts(pa.BufferReader(content)).chunks(0)
    tells_pages = 0
    for number, chunk in enumerate(group):
        name, *path = chunk.name.split(".")
        kind = leaf_type(SCHEMA.field(name).type, path)
        per_row = [values_of(row[name], path) for row in rows]
        every = [value for values in per_row for value in values]
        said = file.metadata.row_group(0).column(number).statistics
        assert said.null_count == sum(value is None for value in every)
        found = chunk.metadata[12][1]
        if 6 in found:
            assert (plain(found[6][1], kind), plain(found[5][1], kind)) == extremes(every)
        else:
            assert all(value is None for value in every) or any(map(is_nan, every))
        firsts = pages_of(content, chunk, len(rows))
        index = chunk.column_index()
        if index is None:
            assert any(map(is_nan, every))
            continue
        tells_pages += 1
        fields, _ = decode_struct(index)
        null_pages, lows, highs, nulls = (fields[place][1].items for place in (1, 2, 3, 5))
        assert len(null_pages) == len(lows) == len(highs) == len(nulls) == len(firsts) - 1
        bounds = []
        for page in range(len(null_pages)):
            of_page = [v for values in per_row[firsts[page] : firsts[page + 1]] for v in values]
            assert nulls[page] == sum(value is None for value in of_page)
            assert null_pages[page] == all(value is None for value in of_page)
            if not null_pages[page]:
                bounds.append((plain(lows[page], kind), plain(highs[page], kind)))
                assert bounds[-1] == extremes(of_page)
        check_order(fields[4][1], bounds)
    assert tells_pages >= len(group) - 3


def pages_of(content: pa.Buffer, chunk, rows: int) -> list[int]:
    """The first rows of the pages and the number of all, each page being where the offset index says."""
    place = chunk.index_ranges[1]
    index, _ = decode_struct(content.to_pybytes()[place.start : place.stop])
    values, end = 0, chunk.start
    for page in index[1][1].items:
        assert page[1][1] == end
        header, behind = decode_struct(content.to_pybytes(), end)
        end += page[2][1]
        assert behind + header[3][1] == end
        values += header[5 if 5 in header else 8][1][1][1]
    assert end == chunk.start + chunk.size_bytes
    assert values == chunk.metadata[5][1]
    return [*(page[3][1] for page in index[1][1].items), rows]


def check_order(order: int, bounds) -> None:
    """An order that is declared is one; bytes, texts and numbers compare alike in Python but for texts."""
    if bounds and isinstance(bounds[0][0], str):
        bounds = [(low.encode(), high.encode()) for low, high in bounds]
    for side in zip(*bounds, strict=True):
        assert order == 0 or list(side) == sorted(side, reverse=order == 2)


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=2, max_size=4))
@settings(max_examples=examples(30), deadline=None)
def test_chunks_of_one_dictionary_share_it(numbers):
    """Each file has all words first, so that its dictionary is like the others'."""
    words = pa.array(["north", "east", "south", "west"])
    tables = [pa.table({"word": words.take(pa.array([0, 1, 2, 3, *file]))}) for file in numbers]
    files = []
    for table in tables:
        sink = pa.BufferOutputStream()
        options = {"compression": "none", "write_page_index": True, **page_options(2)}
        pq.write_table(table, sink, store_schema=False, **options)
        files.append(ParquetParts(pa.BufferReader(sink.getvalue())))
    content = joined(files)
    assert content is not None
    file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=["word"])
    assert file.read().column(0).to_pylist() == pa.concat_tables(tables).column(0).to_pylist()
    chunk = file.metadata.row_group(0).column(0)
    assert chunk.has_dictionary_page
    assert (chunk.statistics.min, chunk.statistics.max) == ("east", "west")
    assert chunk.total_uncompressed_size == chunk.total_compressed_size
    alone = [part.chunks(0)[0] for part in files]
    dictionary_bytes = alone[0].metadata[9][1] - alone[0].start
    assert (
        chunk.total_compressed_size
        == sum(one.size_bytes - dictionary_bytes for one in alone) + dictionary_bytes
    )
    counts = ParquetParts(pa.BufferReader(content)).chunks(0)[0].metadata[13][1].items
    dictionaries = [entry[3][1] for entry in counts if entry[1][1] == 2]
    assert dictionaries == [1]
