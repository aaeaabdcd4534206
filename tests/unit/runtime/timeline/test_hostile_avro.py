"""Avro of strangers on the timeline: no record within itself, no list of nothing, nothing packed."""

from __future__ import annotations

import io
import json
import struct

import fastavro
import pytest

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.spec.avro import columns_from_avro
from parquetry.runtime.timeline.archive_log import decode_log, encode_log
from parquetry.runtime.timeline.avro_model import check_bounded, decode_container, record_schema
from parquetry.runtime.timeline.clean import CleanerPlan

NULLS = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "null"}]}
HOSTILE = {
    "itself": {"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]},
    "itself in a union": {
        "type": "record",
        "name": "x.A",
        "fields": [{"name": "a", "type": ["null", "x.A"]}],
    },
    "a list of nothing": {
        "type": "record",
        "name": "A",
        "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}],
    },
    "a list of empty records": {
        "type": "record",
        "name": "A",
        "fields": [{"name": "n", "type": NULLS}, {"name": "a", "type": {"type": "array", "items": "N"}}],
    },
    "no type": {"type": "record", "name": "A", "fields": [{"name": "a", "type": 7}]},
    "a fixed of no size": {
        "type": "record",
        "name": "A",
        "fields": [{"name": "a", "type": {"type": "fixed"}}],
    },
}


def long(number: int) -> bytes:
    """Avro's zigzag."""
    number = (number << 1) ^ (number >> 63)
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def text(value: bytes) -> bytes:
    return long(len(value)) + value


def container(schema: bytes, body: bytes, *, codec: bytes = b"null") -> bytes:
    meta = long(2) + text(b"avro.schema") + text(schema) + text(b"avro.codec") + text(codec) + long(0)
    return b"Obj\x01" + meta + b"s" * 16 + long(1) + text(body) + b"s" * 16


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_is_refused_before_anything_is_read(name):
    schema = json.dumps(HOSTILE[name]).encode()
    with pytest.raises(CorruptTableError, match="place: "):
        decode_container(container(schema, long(1 << 60) + b"\0" * 100), place="place")
    with pytest.raises(CorruptTableError, match="place: "):
        decode_log(log(schema), place="place")


def log(schema: bytes) -> bytes:
    """A log file whose block has that schema."""
    whole = encode_log([])
    ours = json.dumps(record_schema("HoodieArchivedMetaEntry"), separators=(",", ":")).encode()
    assert ours in whole
    return whole.replace(struct.pack(">i", len(ours)) + ours, struct.pack(">i", len(schema)) + schema)


def test_deep_schemas_are_refused():
    schema = b'{"type":' * 100_000 + b'"null"' + b"}" * 100_000
    for content in (schema, b'{"type":' * 300 + b'"null"' + b"}" * 300):
        with pytest.raises(CorruptTableError, match="place: "):
            decode_container(container(content, b""), place="place")


def test_packed_files_are_refused():
    body = io.BytesIO()
    schema = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "string"}]}
    fastavro.writer(body, fastavro.parse_schema(schema), [{"a": "x" * 100_000}], codec="deflate")
    with pytest.raises(CorruptTableError, match="codec 'deflate'"):
        decode_container(body.getvalue(), place="place")


def test_a_log_does_not_lead_back_into_itself():
    whole = encode_log([])
    looped = whole[:6] + struct.pack(">q", -6) + whole[14:]
    with pytest.raises(CorruptTableError, match="place: "):
        decode_log(looped, place="place")


def test_what_hudi_has_is_bounded():
    for name in (
        CleanerPlan.RECORD,
        "HoodieClusteringPlan",
        "HoodieArchivedMetaEntry",
        "HoodieRollbackMetadata",
    ):
        check_bounded(record_schema(name))


def test_names_do_not_multiply_fields():
    records = [{"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}]
    for level in range(1, 40):
        inner = records[-1]
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{level - 1}"}]
        records.append({"type": "record", "name": f"R{level}", "fields": fields})
    with pytest.raises(CorruptTableError, match="more than 100,000 fields"):
        columns_from_avro(json.dumps(records[-1]))
