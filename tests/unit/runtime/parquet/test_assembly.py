from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.parquet.assembly import ParquetAssembly, ParquetParts
from parquetry.runtime.parquet.tail import MAGIC
from parquetry.runtime.parquet.thrift import decode_struct

OFFSET_INDEX, PAGE_SIZE_IN_HEADER = 4, 3


def parquet(table: pa.Table, **options) -> ParquetParts:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False, write_page_index=True, **options)
    return ParquetParts(pa.BufferReader(sink.getvalue()))


def table(first: int, rows: int) -> pa.Table:
    numbers = list(range(first, first + rows))
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "word": pa.array([f"word {number % 7}" for number in numbers], pa.string()),
            "texts": pa.array(
                [[str(number), None] if number % 3 else None for number in numbers], pa.list_(pa.string())
            ),
            "unique": pa.array([f"{number:09}" for number in numbers], pa.string()),
        }
    )


class Assembled:
    def __init__(self, template: ParquetParts) -> None:
        self.sink = pa.BufferOutputStream()
        self.assembly = ParquetAssembly(self.sink, template)

    def finish(self, **key_values: str) -> bytes:
        self.tail = self.assembly.finish(key_values)
        self.content = self.sink.getvalue().to_pybytes()
        return self.content

    def read(self) -> pa.Table:
        return pq.ParquetFile(pa.BufferReader(self.content)).read()


def test_row_groups_of_several_files_become_one_file():
    files = [table(0, 5000), table(5000, 10), table(5010, 3000)]
    parts = [parquet(file, row_group_size=2000, data_page_size=3000) for file in files]
    assembled = Assembled(parquet(table(0, 0)))
    for part in parts:
        for group in range(len(part.groups)):
            assembled.assembly.append(part, group)
    content = assembled.finish(colour="blue", empty="")
    assert assembled.read().equals(pa.concat_tables(files))
    metadata = pq.read_metadata(pa.BufferReader(content))
    assert [metadata.row_group(i).num_rows for i in range(6)] == [2000, 2000, 1000, 10, 2000, 1000]
    assert metadata.metadata == {b"colour": b"blue", b"empty": b""}
    assert metadata.num_rows == 8010
    assert assembled.assembly.data_bytes == len(content)
    assert pq.read_metadata(pa.BufferReader(MAGIC + assembled.tail)).equals(metadata)


def test_every_page_lies_where_the_page_index_says():
    part = parquet(table(0, 5000), row_group_size=2500, data_page_size=2000, use_dictionary=False)
    assembled = Assembled(parquet(table(0, 0)))
    assembled.assembly.append(parquet(table(9, 77)), 0)
    for group in (1, 0):
        assembled.assembly.append(part, group)
    content = assembled.finish()
    copy = ParquetParts(pa.BufferReader(content))
    pages = 0
    for group in range(3):
        for chunk in copy.chunks(group):
            place, size = chunk.chunk[OFFSET_INDEX][1], chunk.offset_index_bytes
            index, end = decode_struct(content[place : place + size])
            assert end == size
            assert chunk.column_index() is not None
            for page in index[1][1].items:
                header, behind = decode_struct(content, page[1][1])
                assert behind - page[1][1] + header[PAGE_SIZE_IN_HEADER][1] == page[2][1]
                pages += 1
    assert pages > 30


def test_a_chunk_can_take_the_place_of_another():
    part = parquet(table(0, 3000))
    other = parquet(pa.table({"word": ["new"] * 3000}), compression="zstd")
    assembled = Assembled(parquet(table(0, 0)))
    assembled.assembly.append(part, 0, replaced={1: other.chunks(0)[0]})
    assembled.finish()
    expected = table(0, 3000)
    assert assembled.read().equals(expected.set_column(1, "word", pa.array(["new"] * 3000)))


def test_bounds_are_taken_away_where_they_would_mislead():
    numbers = pa.table({"x": [1.0, float("nan"), None], "y": [1.0, 2.0, 3.0]})
    part = parquet(numbers)
    assembled = Assembled(part)
    assembled.assembly.append(part, 0, unbounded={0})
    assembled.finish()
    group = pq.read_metadata(pa.BufferReader(assembled.content)).row_group(0)
    x, y = group.column(0), group.column(1)
    assert (x.statistics.has_min_max, x.statistics.null_count, x.has_column_index) == (False, 1, False)
    assert x.has_offset_index
    assert (y.statistics.min, y.statistics.max, y.has_column_index) == (1.0, 3.0, True)


def test_the_size_is_known_before_the_end():
    part = parquet(table(0, 20_000), row_group_size=1000)
    assembled = Assembled(parquet(table(0, 0)))
    for group in range(20):
        promised = assembled.assembly.size_bytes + part.stored_bytes(group) + part.index_bytes(group)
        assembled.assembly.append(part, group)
        assert assembled.assembly.size_bytes == promised
    promised = assembled.assembly.size_bytes
    actual = len(assembled.finish())
    assert abs(actual - promised) < 0.01 * actual


def test_bounds_and_codecs_are_told_per_row_group():
    part = parquet(table(0, 3000), row_group_size=2000, compression={"n": "zstd", "word": "snappy"})
    assert part.bounds(1, 3) == (b"000002000", b"000002999")
    assert part.codecs(0) >= {"ZSTD", "SNAPPY"}
    assert [part.rows(group) for group in range(2)] == [2000, 1000]


def test_columns_are_equal_whoever_names_the_schema_and_the_fields():
    plain = pa.schema([pa.field("n", pa.int64()), pa.field("s", pa.string(), nullable=False)])
    numbered = pa.schema([field.with_metadata({"PARQUET:field_id": "7"}) for field in plain])
    assert parquet(plain.empty_table()).columns == parquet(numbered.empty_table()).columns
    other = pa.schema([pa.field("n", pa.int64()), pa.field("s", pa.string())])
    assert parquet(plain.empty_table()).columns != parquet(other.empty_table()).columns


@pytest.mark.parametrize("spoil", ["nothing", "no magic", "cut", "footer longer than file", "garbage"])
def test_what_is_no_parquet_file_is_refused(spoil):
    sink = pa.BufferOutputStream()
    pq.write_table(table(0, 100), sink)
    content = sink.getvalue().to_pybytes()
    size = int.from_bytes(content[-8:-4], "little")
    broken = {
        "nothing": b"",
        "no magic": content[:-1] + b"2",
        "cut": content[: len(content) // 2],
        "footer longer than file": content[:-8] + b"\xff\xff\xff\x7f" + MAGIC,
        "garbage": content[: -8 - size] + b"\x19" * size + content[-8:],
    }[spoil]
    with pytest.raises(ValueError, match=r".+"):
        ParquetParts(pa.BufferReader(broken))
