"""Files of some pages of a row group hold the rows that were asked for, and only whole pages."""

from __future__ import annotations

import io
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.selected_pages import file_of_pages

ROWS = 1000
PAGE = 50
NAMES = ["n", "text", "repeats", "point", "flag"]


@cache
def rows(seed):
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 1000, ROWS)
    absent = random.random(ROWS) < 0.2
    return pa.table(
        {
            "n": pa.array(numbers, mask=absent),
            "text": pa.array([f"t{number}" for number in numbers], mask=absent),
            "repeats": pa.array([f"r{number % 3}" for number in numbers]),
            "point": pa.array(
                [
                    None if gone else {"x": float(n), "y": None}
                    for n, gone in zip(numbers, absent, strict=True)
                ],
                pa.struct({"x": pa.float64(), "y": pa.int32()}),
            ),
            "flag": pa.array(numbers % 2 == 0),
            "items": pa.array([[1] * (number % 3) for number in numbers.tolist()]),
        }
    )


def parts_of(table, **options):
    sink = io.BytesIO()
    settings = {"write_page_index": True, "max_rows_per_page": PAGE, "use_dictionary": ["repeats"]} | options
    pq.write_table(table, sink, row_group_size=ROWS // 2, **settings)
    return ParquetParts(pa.BufferReader(sink.getvalue()))


def read(content, names):
    return pq.ParquetFile(pa.BufferReader(content)).read_row_group(0, columns=list(names))


@given(
    seed=st.integers(0, 3),
    group=st.integers(0, 1),
    names=st.sets(st.sampled_from(NAMES), min_size=1),
    starts=st.lists(st.tuples(st.integers(0, ROWS // 2 - 1), st.integers(1, 60)), min_size=1, max_size=3),
    options=st.fixed_dictionaries(
        {
            "data_page_version": st.sampled_from(["1.0", "2.0"]),
            "compression": st.sampled_from(["zstd", "snappy", "none"]),
        }
    ),
)
def test_the_pages_hold_the_rows_in_their_order(seed, group, names, starts, options):
    table = rows(seed)
    stored = table.slice(group * ROWS // 2, ROWS // 2)
    wanted = sorted({row for start, count in starts for row in range(start, min(start + count, ROWS // 2))})
    content = file_of_pages(parts_of(table, **options), group, names, [range(n, n + 1) for n in wanted])
    pages = sorted({row // PAGE for row in wanted})
    if len(pages) * PAGE > ROWS // 4:
        assert content is None
        return
    expected = stored.take([page * PAGE + row for page in pages for row in range(PAGE)])
    assert read(content, sorted(names)).equals(expected.select(sorted(names)))


def test_only_the_bytes_of_the_pages_are_read():
    content = parts_of(rows(1)).content
    calls = []

    class Counted:
        size = staticmethod(content.size)

        @staticmethod
        def read_at(count, at):
            calls.append(count)
            return content.read_at(count, at)

    parts = ParquetParts(Counted())
    assert file_of_pages(parts, 0, ["n"], [range(60, 61)]) is not None
    assert calls[-1] < parts.chunks(0)[0].size_bytes / 5


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["items"]),
        ({}, ["n", "items"]),
        ({"write_page_index": False}, ["n"]),
        ({"max_rows_per_page": ROWS}, ["n"]),
        ({}, ["missing"]),
    ],
)
def test_the_whole_row_group_is_read_where_pages_do_not_help(options, names):
    assert file_of_pages(parts_of(rows(1), **options), 0, names, [range(60, 61)]) is None


def test_rows_of_half_the_pages_are_not_worth_it():
    assert file_of_pages(parts_of(rows(1)), 0, ["n"], [range(251)]) is None
    assert file_of_pages(parts_of(rows(1)), 0, ["n"], [range(250)]) is not None
