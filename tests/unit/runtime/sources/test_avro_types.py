"""Types of Avro that are refused by name, at any depth."""

from __future__ import annotations

import json

import pytest

from parquetry.runtime.sources.avro_types import foreign_columns

NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
DURATION = {"type": "fixed", "name": "org.pause", "size": 12, "logicalType": "duration"}


def record(**types):
    return {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in types.items()]}


@pytest.mark.parametrize(
    "kind",
    [
        NANOS,
        ["null", NANOS],
        {"type": NANOS},
        {"type": "array", "items": ["null", NANOS]},
        {"type": "map", "values": {"type": "array", "items": NANOS}},
        record(x="int", at=["null", NANOS]),
    ],
)
def test_a_type_that_tables_lack_is_found_at_any_depth(kind):
    found, schema = foreign_columns(json.dumps(record(id="long", at=kind)))
    ((name, reason),) = found.items()
    assert "logicalType" not in schema
    assert name == "at"
    assert reason == (
        "column 'at' has the type timestamp-nanos, which tables do not have; write it as timestamp-micros"
    )


def test_a_named_type_is_known_where_its_name_alone_stands():
    types = record(a=DURATION, b="int", c=["null", "org.pause"], d="pause")
    found, _ = foreign_columns(json.dumps(types))
    assert set(found) == {"a", "c", "d"}


def test_types_that_tables_have_are_none():
    tree = {"type": "record", "name": "t", "fields": [{"name": "next", "type": ["null", "t"]}]}
    known = {"type": "long", "logicalType": "timestamp-micros"}
    other = {"type": "string", "logicalType": "of-somebody"}
    schema = record(a=known, b=other, c=tree, d={"type": "enum", "name": "e", "symbols": ["x"]})
    for kind in (schema, "long"):
        found, same = foreign_columns(json.dumps(kind))
        assert (found, json.loads(same)) == ({}, kind)
