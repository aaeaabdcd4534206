"""Bloom filters, byte for byte as real Hudi writes them."""

from __future__ import annotations

import base64
import hashlib
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.parquet.bloom import (
    ALWAYS_TRUE,
    ENTRIES_PER_ROW,
    TYPE_CODE,
    ExactBloomFilter,
    exact_text_bytes,
    hash_positions,
)
from parquetry.runtime.spec.table_spec import EXACT_FILTER_BYTES

# Spark SQL: concat(repeat('k', cast(id % 9 as int)), id, '-日本é', substr('äöü', 1, cast(id % 4 as int)))
FEW = sorted(f"{'k' * (i % 9)}{i}-日本é{'äöü'[: i % 4]}" for i in range(1000))
MANY = sorted(f"key-{i}ä" for i in range(130_000))


def text(keys, *, batch=10**9) -> str:
    bloom = ExactBloomFilter()
    for start in range(0, len(keys), batch):
        bloom.add(pa.array(keys[start : start + batch], pa.string()))
    return bloom.text()


@pytest.mark.parametrize(
    ("keys", "digest"),
    [
        (FEW, "abd7e6b408c6170e16a2f3d13ce095739480a53ce339ee9beb6a7057595bdd10"),
        (MANY, "82e7e18921466b7396920ba5db72efd98df018be31c9e0902175041eb1a132c2"),
    ],
)
def test_the_bytes_are_those_of_hudi(keys, digest):
    """The digests are of the footers that Hudi 0.15.0 and 1.2.0 both wrote for these keys, sorted."""
    assert hashlib.sha256(text(keys).encode()).hexdigest() == digest


@pytest.mark.parametrize("batch", [1, 7_919, 60_000, 60_001])
def test_batches_do_not_matter(batch):
    keys = MANY if batch > 1 else FEW
    assert text(keys, batch=batch) == text(keys)
    bloom = ExactBloomFilter()
    bloom.add(pa.chunked_array([keys[: len(keys) // 3], keys[len(keys) // 3 :]]))
    assert bloom.text() == text(keys)


@pytest.mark.parametrize(
    ("count", "rows", "in_current"),
    [
        (0, 1, 0),
        (1, 1, 1),
        (ENTRIES_PER_ROW, 1, ENTRIES_PER_ROW),
        (ENTRIES_PER_ROW + 1, 2, 1),
        (2 * ENTRIES_PER_ROW, 2, ENTRIES_PER_ROW),
        (2 * ENTRIES_PER_ROW + 5, 2, ENTRIES_PER_ROW + 5),
    ],
)
def test_it_grows_to_two_rows_and_no_further(count, rows, in_current):
    content = base64.b64decode(text([f"{i:06}" for i in range(count)]))
    assert struct.unpack(">iibi", content[:13]) == (-1, 30, 1, 2_587_966)
    assert struct.unpack(">iii", content[13:25]) == (ENTRIES_PER_ROW, in_current, rows)
    assert len(content) == 25 + rows * (13 + 323_496)


def murmur(key: bytes, seed: int) -> int:
    """Hadoop's MurmurHash, one byte after the other, in 32-bit arithmetic."""

    def int32(value):
        return (value + 2**31) % 2**32 - 2**31

    factor = 0x5BD1E995
    state = int32(seed ^ len(key))
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        word = int32(int.from_bytes(key[start : start + 4], "little") * factor)
        word = int32((word ^ ((word & 0xFFFFFFFF) >> 24)) * factor)
        state = int32(int32(state * factor) ^ word)
    signed = [byte - 256 if byte > 127 else byte for byte in key]
    for back in range(len(key) - whole, 0, -1):
        state ^= int32(signed[-back] << 8 * (back - 1))
    if len(key) > whole:
        state = int32(state * factor)
    state = int32((state ^ ((state & 0xFFFFFFFF) >> 13)) * factor)
    return int32(state ^ ((state & 0xFFFFFFFF) >> 15))


@given(st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=20))
@settings(deadline=None)
def test_positions_are_those_of_the_hash_written_out(keys):
    expected = []
    for key in keys:
        seed, line = 0, []
        for _ in range(30):
            seed = murmur(key.encode(), seed)
            line.append(abs(seed) % 2_587_966)
        expected.append(line)
    assert hash_positions(pa.array(keys, pa.string())).tolist() == expected


@pytest.mark.parametrize("bad", [None, ""])
def test_a_key_that_is_null_or_empty_is_refused(bad):
    with pytest.raises(InvalidDataError, match="null or empty"):
        ExactBloomFilter().add(pa.array(["a", bad], pa.string()))


def test_the_always_true_filter_has_every_bit_set():
    content = base64.b64decode(ALWAYS_TRUE)
    header = struct.pack(">iibi", -1, 1, 1, 8)
    assert content == header + struct.pack(">iii", 1, 1, 1) + header + b"\xff"
    assert TYPE_CODE == "DYNAMIC_V0"


@pytest.mark.parametrize("keys", [0, 1, 59_999, 60_000, 60_001, 100_000, 130_000])
def test_the_length_of_the_text_is_known_beforehand(keys):
    bloom = ExactBloomFilter()
    if keys:
        bloom.add(pa.array([str(number) for number in range(keys)], pa.string()))
    assert len(bloom.text()) == exact_text_bytes(keys)
    assert exact_text_bytes(60_000) == EXACT_FILTER_BYTES
