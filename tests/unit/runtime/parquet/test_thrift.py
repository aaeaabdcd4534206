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
