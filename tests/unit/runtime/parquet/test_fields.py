"""The numbers of parquet.thrift: what is read by them is what pyarrow's own reader tells."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.parquet import fields
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.thrift import decode_struct, field_value

ROWS = 1000
TABLE = pa.table(
    {
        "number": pa.array(range(ROWS), pa.int32()),
        "text": pa.array([None, "a", "b", "b"] * (ROWS // 4)),
        "amount": pa.array([Decimal("1.50")] * ROWS, pa.decimal128(7, 2)),
        "small": pa.array([7] * ROWS, pa.uint8()),
        "items": pa.array([[1, 2]] * ROWS, pa.list_(pa.int64())),
    }
)


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(
        TABLE,
        path,
        row_group_size=ROWS,
        write_page_index=True,
        compression="zstd",
        store_decimal_as_integer=False,
        sorting_columns=[pq.SortingColumn(0)],
    )
    with pa.OSFile(str(path)) as content:
        yield ParquetParts(content), pq.read_metadata(path)


def test_of_the_footer_and_its_row_groups(stored):
    parts, told = stored
    footer, group = parts.footer, parts.groups[0]
    pairs = field_value(footer, fields.FileMetaData.KEY_VALUES).items
    assert field_value(footer, fields.FileMetaData.ROWS) == told.num_rows
    assert field_value(pairs[0], fields.KeyValue.KEY) in told.metadata
    assert field_value(pairs[0], fields.KeyValue.VALUE) in told.metadata.values()
    assert field_value(group, fields.RowGroup.ROWS) == told.row_group(0).num_rows
    assert field_value(group, fields.RowGroup.BYTES) == told.row_group(0).total_byte_size
    (by,) = field_value(group, fields.RowGroup.SORTING).items
    assert field_value(by, fields.SortingColumn.COLUMN) == 0
    assert field_value(by, fields.SortingColumn.DESCENDING) is False
    assert field_value(by, fields.SortingColumn.NULLS_FIRST) is False


def test_of_column_chunks(stored):
    parts, told = stored
    column = fields.ColumnMetaData
    for place, chunk in enumerate(parts.chunks(0)):
        metadata, said = chunk.metadata, told.row_group(0).column(place)
        assert b".".join(field_value(metadata, column.PATH).items).decode() == said.path_in_schema
        assert fields.CODECS[field_value(metadata, column.CODEC)] == said.compression
        assert field_value(metadata, column.VALUES) == said.num_values
        assert field_value(metadata, column.BYTES) == said.total_uncompressed_size
        assert field_value(metadata, column.COMPRESSED_BYTES) == said.total_compressed_size
        assert field_value(metadata, column.DATA_PAGE) == said.data_page_offset
        assert field_value(metadata, column.DICTIONARY_PAGE, 0) == (said.dictionary_page_offset or 0)
        assert getattr(fields.PhysicalType, said.physical_type) == field_value(metadata, column.TYPE)
        assert len(field_value(metadata, column.ENCODINGS).items) == len(set(said.encodings))
        statistics = field_value(metadata, column.STATISTICS)
        assert field_value(statistics, fields.Statistics.NULL_COUNT) == said.statistics.null_count
        assert fields.ColumnChunk.CRYPTO_METADATA not in chunk.chunk
    numbers = field_value(parts.chunks(0)[0].metadata, column.STATISTICS)
    assert field_value(numbers, fields.Statistics.MIN_VALUE) == (0).to_bytes(4, "little")
    assert field_value(numbers, fields.Statistics.MAX_VALUE) == (ROWS - 1).to_bytes(4, "little")


def test_of_the_schema(stored):
    parts, told = stored
    root, *elements = field_value(parts.footer, fields.FileMetaData.SCHEMA).items
    element = fields.SchemaElement
    assert field_value(root, element.CHILDREN) == TABLE.num_columns
    amount, small, listed = elements[2], elements[3], elements[5]
    assert field_value(amount, element.TYPE) == fields.PhysicalType.FIXED_LEN_BYTE_ARRAY
    assert field_value(amount, element.CONVERTED_TYPE) == fields.ConvertedType.DECIMAL
    assert (field_value(amount, element.PRECISION), field_value(amount, element.SCALE)) == (7, 2)
    assert fields.LogicalType.DECIMAL in field_value(amount, element.LOGICAL_TYPE)
    integer = field_value(small, element.LOGICAL_TYPE)[fields.LogicalType.INTEGER][1]
    assert field_value(integer, fields.IntType.IS_SIGNED) is False
    assert json.loads(told.schema.column(3).logical_type.to_json())["isSigned"] is False
    assert field_value(small, element.CONVERTED_TYPE) == fields.ConvertedType.UINT_8
    assert field_value(listed, element.REPETITION) == fields.Repetition.REPEATED


def test_of_the_page_index(stored):
    parts, _ = stored
    chunk = parts.chunks(0)[0]
    index, _ = decode_struct(chunk.column_index())
    assert field_value(index, fields.ColumnIndex.NULL_PAGES).items == [False]
    assert field_value(index, fields.ColumnIndex.MIN_VALUES).items == [(0).to_bytes(4, "little")]
    assert field_value(index, fields.ColumnIndex.MAX_VALUES).items == [(ROWS - 1).to_bytes(4, "little")]
    assert field_value(index, fields.ColumnIndex.NULL_COUNTS).items == [0]
    assert field_value(index, fields.ColumnIndex.BOUNDARY_ORDER) == fields.BoundaryOrder.ASCENDING
    (page,) = field_value(decode_struct(chunk.offset_index(0))[0], fields.OffsetIndex.PAGE_LOCATIONS).items
    assert field_value(page, fields.PageLocation.OFFSET) == field_value(
        chunk.metadata, fields.ColumnMetaData.DATA_PAGE
    )
    assert field_value(page, fields.PageLocation.FIRST_ROW) == 0
    assert 0 < field_value(page, fields.PageLocation.COMPRESSED_BYTES) <= chunk.size_bytes
