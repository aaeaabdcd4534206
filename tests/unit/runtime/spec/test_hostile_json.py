"""JSON of strangers: bounded, and refused with a reason where a later step would stumble over it."""

from __future__ import annotations

import pytest

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.spec.codec import MAX_DEPTH, json_object, parsed_json

HOSTILE = {
    "deep lists": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "rather deep": b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
    "not closed": b"[" * 1_000_000,
    "long integer": b'{"a":' + b"9" * 5_000 + b"}",
    "more than 64 bits": b'{"a":9223372036854775808}',
    "infinite": b'{"a":1e999}',
    "Infinity": b'{"a":-Infinity}',
    "NaN": b'{"a":NaN}',
    "a key twice": b'{"a":1,"a":2}',
    "half a pair": b'{"a":"\\ud800"}',
    "half a pair as key": b'{"\\udfff":1}',
    "no UTF-8": b'{"a":"\xff"}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "a list": b"[]",
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json_is_refused(name):
    with pytest.raises(CorruptTableError, match="place: "):
        json_object(HOSTILE[name], place="place")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":9223372036854775807,"b":-9223372036854775808}', {"a": (1 << 63) - 1, "b": -(1 << 63)}),
        ('{"a":1.5e300,"b":"1e999"}', {"a": 1.5e300, "b": "1e999"}),
        ('{"a":"\\ud83d\\ude00","b":"[[[["}', {"a": "\N{GRINNING FACE}", "b": "[[[["}),
        ('"' + "[" * 1_000 + '"', "[" * 1_000),
    ],
)
def test_what_json_has_is_read(text, value):
    assert parsed_json(text.encode()) == parsed_json(text) == value
    nested = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert parsed_json(nested)
