from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.parquet import thrift
from parquetry.runtime.parquet.thrift import List, decode_struct, encode_struct

INTEGERS = {
    thrift.I16: st.integers(-(2**15), 2**15 - 1),
    thrift.I32: st.integers(-(2**31), 2**31 - 1),
    thrift.I64: st.integers(-(2**63), 2**63 - 1),
}
LEAVES = st.one_of(
    *(st.tuples(st.just(kind), values) for kind, values in INTEGERS.items()),
    st.tuples(st.just(thrift.TRUE), st.booleans()),
    st.tuples(st.just(thrift.BYTE), st.integers(0, 255)),
    st.tuples(st.just(thrift.DOUBLE), st.floats(allow_nan=False)),
    st.tuples(st.just(thrift.BINARY), st.binary(max_size=200)),
)
NUMBERS = st.one_of(st.integers(1, 20), st.integers(1, 2**15 - 1))


def structs(values):
    return st.dictionaries(NUMBERS, values, max_size=6).map(lambda fields: dict(sorted(fields.items())))


def lists(values):
    """Lists of up to 40 elements of the kind of the first value."""
    return st.lists(values, min_size=1, max_size=40).map(
        lambda pairs: (
            thrift.LIST,
            List(pairs[0][0], [value for kind, value in pairs if kind == pairs[0][0]]),
        )
    )


VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(lists(inner), structs(inner).map(lambda fields: (thrift.STRUCT, fields))),
    max_leaves=20,
)


@given(structs(VALUES), st.binary(max_size=5))
def test_a_struct_comes_back_as_it_was(fields, behind):
    encoded = encode_struct(fields)
    assert decode_struct(b"xx" + encoded + behind, 2) == (fields, 2 + len(encoded))


@given(structs(VALUES))
def test_a_struct_cut_short_is_refused(fields):
    encoded = encode_struct(fields)
    for end in range(len(encoded)):
        with pytest.raises((IndexError, ValueError, struct.error)):
            decode_struct(encoded[:end])


def test_a_footer_of_pyarrow_is_encoded_like_pyarrow_does():
    sink = pa.BufferOutputStream()
    table = pa.table({"a": [1, None, 3], "b": [["x"], [], None], "c": [1.5, float("nan"), None]})
    pq.write_table(table, sink, write_page_index=True)
    content = sink.getvalue().to_pybytes()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
    fields, end = decode_struct(footer)
    assert end == len(footer)
    assert encode_struct(fields) == footer


def test_a_type_that_parquet_does_not_use_is_refused():
    with pytest.raises(ValueError, match="11"):
        decode_struct(bytes([0x1B, 0, 0]))


ENDLESS = [
    pytest.param(bytes([1 << 4 | thrift.I64]), id="integer"),
    pytest.param(bytes([thrift.I64]), id="number of a field"),
    pytest.param(bytes([1 << 4 | thrift.BINARY]), id="length of a text"),
    pytest.param(bytes([1 << 4 | thrift.LIST, 15 << 4 | thrift.I64]), id="length of a list"),
    pytest.param(bytes([1 << 4 | thrift.LIST, 1 << 4 | thrift.I64]), id="integer in a list"),
]


@pytest.mark.parametrize("begin", ENDLESS)
def test_an_integer_without_end_is_refused_after_ten_bytes(begin):
    read = CountedBytes(begin + b"\xff" * 400_000)
    with pytest.raises(ValueError, match="an integer has more than 10 bytes"):
        decode_struct(read)
    assert read.looked_at <= len(begin) + thrift.MOST_INTEGER_BYTES + 3


class CountedBytes(bytes):
    looked_at = 0

    def __getitem__(self, place):
        self.looked_at += 1 if isinstance(place, int) else len(range(*place.indices(len(self))))
        return super().__getitem__(place)


def test_a_list_of_more_elements_than_bytes_is_refused_before_it_is_decoded():
    begin = bytes([1 << 4 | thrift.LIST, 15 << 4 | thrift.STRUCT])
    read = CountedBytes(begin + b"\xff\xff\xff\xff\x0f" + b"\0" * 1000)
    with pytest.raises(IndexError, match="end within a list"):
        decode_struct(read)
    assert read.looked_at <= len(begin) + thrift.MOST_INTEGER_BYTES + 3
