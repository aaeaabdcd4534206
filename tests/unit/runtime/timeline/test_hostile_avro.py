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
from parquetry.runtime.timeline.restore import RestorePlan
from parquetry.runtime.timeline.rollback import RollbackPlan

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


def schema_of(value, name="r"):
    """A schema that a value is written with as it is."""
    match value:
        case dict():
            fields = [{"name": key, "type": schema_of(one, f"{name}_{key}")} for key, one in value.items()]
            return {"type": "record", "name": name, "fields": fields}
        case list():
            kinds = {json.dumps(schema_of(one, f"{name}_")): None for one in value} or {'"string"': None}
            return {"type": "array", "items": [json.loads(kind) for kind in kinds]}
    return {str: "string", int: "long", type(None): "null"}[type(value)]


def written(value):
    content = io.BytesIO()
    fastavro.writer(content, fastavro.parse_schema(schema_of(value)), [value])
    return content.getvalue()


UNDONE = {"commitTime": "20260101000000000", "action": "commit"}
REQUEST = {"partitionPath": "p=a", "fileId": None, "latestBaseInstant": None, "filesToBeDeleted": ["/t/f"]}
PLACE = "t/1.requested"


@pytest.mark.parametrize(
    "changes",
    [
        {"action": "explode"},
        {"action": "inflight"},
        {"action": ""},
        {"action": None},
        {"commitTime": "x"},
        {"commitTime": "../../../20260101000000000"},
        {"commitTime": 7},
    ],
)
def test_an_instant_to_undo_that_no_timeline_has_is_refused_with_the_place(changes):
    undone = UNDONE | changes
    with pytest.raises(CorruptTableError, match=rf"^{PLACE}: not a HoodieRollbackPlan"):
        RollbackPlan.decode(
            written({"instantToRollback": undone, "RollbackRequests": [REQUEST]}), place=PLACE
        )
    with pytest.raises(CorruptTableError, match=rf"^{PLACE}: not a HoodieRestorePlan"):
        RestorePlan.decode(
            written({"instantsToRollback": [undone], "savepointToRestoreTimestamp": None}), place=PLACE
        )


CLEAN = {"policy": "KEEP_LATEST_COMMITS"}
NO_TEXTS = [
    (RollbackPlan, {"instantToRollback": UNDONE, "RollbackRequests": [REQUEST | {"filesToBeDeleted": [7]}]}),
    (RollbackPlan, {"instantToRollback": UNDONE, "RollbackRequests": [REQUEST | {"partitionPath": None}]}),
    (RestorePlan, {"instantsToRollback": [UNDONE], "savepointToRestoreTimestamp": 7}),
    (CleanerPlan, CLEAN | {"filePathsToBeDeletedPerPartition": {"p": [{"filePath": None}]}}),
    (CleanerPlan, CLEAN | {"filesToBeDeletedPerPartition": {"p": [7]}}),
    (CleanerPlan, CLEAN | {"partitionsToBeDeleted": ["p", None]}),
]


@pytest.mark.parametrize(("record", "value"), NO_TEXTS)
def test_lists_of_what_is_no_text_are_refused_with_the_place(record, value):
    with pytest.raises(CorruptTableError, match=rf"^{PLACE}: not a {record.RECORD}"):
        record.decode(written(value), place=PLACE)


def test_plans_that_are_sound_are_read():
    plan = {"instantToRollback": UNDONE, "RollbackRequests": [REQUEST]}
    assert RollbackPlan.decode(written(plan), place=PLACE).requests[0].files == ("/t/f",)
    plan = {"instantsToRollback": [UNDONE], "savepointToRestoreTimestamp": "1"}
    assert RestorePlan.decode(written(plan), place=PLACE).savepoint == "1"
