from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parquetry.runtime.arrow.sizes import batch_arrow_bytes
from parquetry.runtime.base_file.buffer import CELL_ROWS, RowBuffer
from tests.support.effort import examples
from tests.support.rows import TYPES, arrow_schema, make_row, to_arrow


def texts(lengths: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"text": ["x" * length for length in lengths]})


def rows(seed: int, count: int) -> pa.RecordBatch:
    rnd = random.Random(seed)
    names = [name for name in TYPES if name not in {"c_float", "c_double"}]  # NaN equals nothing
    table = to_arrow([make_row(rnd, names) for _ in range(count)], arrow_schema({}, names))
    return table.combine_chunks().to_batches()[0] if count else table.schema.empty_table().to_batches()[0]


def cut_up(batch: pa.RecordBatch, places: list[int]) -> list[pa.RecordBatch]:
    bounds = [0, *sorted(places), batch.num_rows]
    return [batch.slice(start, end - start) for start, end in pairwise(bounds)]


@given(st.integers(0, 1000), st.lists(st.integers(0, 60), max_size=5))
@settings(max_examples=examples(40), deadline=None)
def test_the_bytes_of_slices_add_up(seed, places):
    batch = rows(seed, 60)
    assert sum(map(batch_arrow_bytes, cut_up(batch, places))) == batch_arrow_bytes(batch)


@given(
    st.integers(0, 1000),
    st.lists(st.integers(0, 100), max_size=6),
    st.lists(st.integers(1, 9000), min_size=1, max_size=5),
)
@settings(max_examples=examples(40), deadline=None)
def test_where_the_buffer_is_cut_does_not_depend_on_batches(seed, places, sizes):
    batch = rows(seed, 100)

    def taken(pieces: list[pa.RecordBatch]) -> list[tuple[int, int]]:
        buffer = RowBuffer()
        for piece in pieces:
            buffer.append(piece)
        found, whole = [], []
        for size in [*sizes, 10**9]:
            cut = buffer.cut_within(size)
            table = buffer.table(cut)
            used = buffer.arrow_bytes_before(cut)
            buffer.drop(cut)
            found.append((table.num_rows, used))
            whole.append(table)
            assert used <= size or table.num_rows <= CELL_ROWS
        assert (buffer.rows, buffer.arrow_bytes) == (0, 0)
        assert pa.concat_tables(whole).combine_chunks().equals(pa.Table.from_batches([batch]))
        return found

    assert taken(cut_up(batch, places)) == taken([batch])


def test_the_first_rows_are_measured_however_they_came():
    batch = rows(3, 100)
    wanted = batch_arrow_bytes(batch.slice(0, 64))
    for pieces in ([batch], cut_up(batch, [3, 50]), cut_up(batch, [64])):
        buffer = RowBuffer()
        for piece in pieces:
            buffer.append(piece)
        assert buffer.measure(64, 1 << 40) == (64, wanted)
        assert buffer.measure(64, wanted) == (64, wanted)
        fewer = buffer.measure(64, wanted - 1)
        assert fewer == (56, batch_arrow_bytes(batch.slice(0, 56)))
        assert buffer.measure(64, 1) == (8, batch_arrow_bytes(batch.slice(0, 8)))
        assert buffer.measure(1024, 1 << 40) == (100, batch_arrow_bytes(batch))


@example([10, 300], [1], 20)
@given(
    st.lists(st.sampled_from([0, 10, 90, 96, 97, 300, 5000]), min_size=1, max_size=40),
    st.lists(st.integers(0, 40), max_size=4),
    st.integers(0, 2000),
)
def test_wide_rows_are_cut_off_however_they_came(lengths, places, size):
    """An offset takes four bytes: a text of more than 96 makes a wide row."""
    batch = texts(lengths)

    def taken(pieces: list[pa.RecordBatch]) -> list[list[str]]:
        buffer = RowBuffer(wide_row_bytes=100)
        for piece in pieces:
            buffer.append(piece)
        found = []
        while buffer.rows:
            smallest = buffer.rows_before_first_cut
            cut = buffer.cut_within(size)
            found.append(buffer.table(cut).column("text").to_pylist())
            assert len(found[-1]) >= smallest
            assert buffer.arrow_bytes_before(cut) <= max(size, 100 * CELL_ROWS) or len(found[-1]) == 1
            buffer.drop(cut)
        return found

    found = taken([batch])
    assert [text for part in found for text in part] == batch.column("text").to_pylist()
    assert taken(cut_up(batch, [place for place in places if place <= len(lengths)])) == found


def test_the_first_rows_can_be_divided():
    buffer = RowBuffer()
    for batch in cut_up(texts(list(range(20))), [3, 12]):
        buffer.append(batch)
    whole = buffer.arrow_bytes
    buffer.divide_first_cell()
    taken = []
    while buffer.rows:
        cut = buffer.cut_within(0)
        taken.append(buffer.table(cut).num_rows)
        buffer.drop(cut)
    assert taken == [1] * CELL_ROWS + [CELL_ROWS, 20 - 2 * CELL_ROWS]
    assert (whole, buffer.arrow_bytes) == (sum(range(20)) + 20 * 4, 0)
