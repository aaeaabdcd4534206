from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.base_file.footer import KeyRangeCollector

# Around the borders where UTF-8 and UTF-16 disagree: U+D7FF, U+E000, U+FFFF and U+10000.
CHARACTERS = st.sampled_from("aZ\u00e9\u07ff\ud7ff\ue000\uffff\U00010000\U0010ffff") | st.characters(
    exclude_categories=["Cs"]
)
KEYS = st.text(CHARACTERS, max_size=4)


def java(key: str) -> bytes:
    return key.encode("utf-16-be")


@given(st.lists(st.lists(KEYS, max_size=6), max_size=4), st.integers(0, 2))
def test_the_range_is_that_of_java(chunks, skipped):
    keys = KeyRangeCollector()
    for chunk in chunks:
        keys.add(pa.array(["\uffff" * 9] * skipped + chunk, pa.string()).slice(skipped))
    everything = [key for chunk in chunks for key in chunk]
    assert keys.smallest == min(everything, key=java, default=None)
    assert keys.largest == max(everything, key=java, default=None)


@given(st.lists(KEYS, min_size=1, max_size=8), st.lists(KEYS, max_size=3))
def test_bounds_in_utf_8_order_are_taken_only_where_they_are_those_of_java(copied, others):
    keys = KeyRangeCollector()
    keys.add(pa.array(others, pa.string()))
    in_bytes = sorted(key.encode() for key in copied)
    if keys.add_bounds(in_bytes[0], in_bytes[-1]):
        assert keys.smallest == min(copied + others, key=java)
        assert keys.largest == max(copied + others, key=java)
    else:
        assert any(ord(character) >= 0xE000 for key in copied for character in key)
        assert keys.smallest == min(others, key=java, default=None)


@pytest.mark.parametrize("keys", [[], [None, None]])
def test_no_keys_have_no_range(keys):
    found = KeyRangeCollector()
    found.add(pa.array(keys, pa.string()))
    assert (found.smallest, found.largest) == (None, None)
