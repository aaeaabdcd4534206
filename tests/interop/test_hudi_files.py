"""What our encoders write is what real Hudi writes: schemas, Avro records, properties, footers."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pytest

from parquetry.runtime.spec.avro import table_avro_schema
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.table.properties import parse_properties, table_checksum
from parquetry.runtime.timeline.avro_model import record_schema
from parquetry.runtime.timeline.clean import CleanerPlan, CleanMetadata
from parquetry.runtime.timeline.clustering_plan import RequestedReplace
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.restore import RestoreMetadata, RestorePlan, SavepointMetadata
from parquetry.runtime.timeline.rollback import RollbackMetadata, RollbackPlan
from tests.support.rows import TYPES

pytestmark = [pytest.mark.interop, pytest.mark.spark]

RECORDS = {
    "clean.requested": CleanerPlan,
    "clean": CleanMetadata,
    "rollback.requested": RollbackPlan,
    "rollback": RollbackMetadata,
    "savepoint": SavepointMetadata,
    "restore.requested": RestorePlan,
    "restore": RestoreMetadata,
    "replacecommit.requested": RequestedReplace,
}


def timeline_files(made, action):
    files = sorted(Path(made.table.path, ".hoodie").glob(f"[0-9]*.{action}"))
    return [(file.name, file.read_bytes()) for file in files]


def lost(ours, theirs, place=""):
    """Places where ours says something else than theirs; nothing, null and an empty map mean the same."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            told for key, value in ours.items() for told in lost(value, theirs.get(key), f"{place}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [told for pair in zip(ours, theirs, strict=True) for told in lost(*pair, f"{place}[]")]
    same = ours == theirs or (not ours and not theirs) or (place.endswith(".version") and theirs is None)
    return [] if same else [f"{place}: {ours!r} for {theirs!r}"]


def field_names(schema, found=None):
    """Record name to field names with their types' kinds, for all records inside a schema."""
    found = {} if found is None else found
    match schema:
        case {"type": "record"}:
            found[schema["name"].rsplit(".", 1)[-1]] = {
                (f["name"], _shape(f["type"]), json.dumps(f.get("default", "none"))) for f in schema["fields"]
            }
            for field in schema["fields"]:
                field_names(field["type"], found)
        case {"items": inner} | {"values": inner}:
            field_names(inner, found)
        case list():
            for branch in schema:
                field_names(branch, found)
    return found


def _shape(schema):
    match schema:
        case str():
            return schema.rsplit(".", 1)[-1]
        case list():
            return "|".join(_shape(branch) for branch in schema)
        case {"type": "record"}:
            return schema["name"].rsplit(".", 1)[-1]
        case {"type": "array"}:
            return f"array<{_shape(schema['items'])}>"
        case {"type": "map"}:
            return f"map<{_shape(schema['values'])}>{'!' if 'avro.java.string' in schema else ''}"
        case _:
            return schema["type"] + ("!" if "avro.java.string" in schema else "")


def test_the_schema_of_a_commit_is_named_as_hudi_names_it(all_operations):
    columns = [
        Column(name="id", type="string"),
        Column(name="region", type="string"),
        Column(name="version", type="bigint"),
    ]
    columns += [Column(name=n, type=t.spark) for n, t in TYPES.items()]
    for name, content in timeline_files(all_operations, "commit"):
        theirs = json.loads(json.loads(content)["extraMetadata"]["schema"])
        assert json.loads(table_avro_schema("made", columns)) == theirs, name


@pytest.mark.parametrize("action", RECORDS)
def test_our_records_have_the_fields_of_hudis(action, all_operations, archived):
    kind = RECORDS[action]
    files = timeline_files(all_operations, action) + timeline_files(archived, action)
    assert files
    for name, content in files:
        if not content:
            continue
        reader = fastavro.reader(io.BytesIO(content))
        theirs, ours = (
            field_names(json.loads(reader.metadata["avro.schema"])),
            field_names(record_schema(kind.RECORD)),
        )
        assert theirs.keys() == ours.keys(), name
        for record, fields in ours.items():
            assert fields <= theirs[record], (name, record)
            if all_operations.hudi.version == "0.15.0":
                assert fields == theirs[record], (name, record)


@pytest.mark.parametrize("action", RECORDS)
def test_our_records_hold_what_hudis_held(action, all_operations, archived):
    kind = RECORDS[action]
    for name, content in timeline_files(all_operations, action) + timeline_files(archived, action):
        if not content:
            continue
        theirs = next(fastavro.reader(io.BytesIO(content)))
        ours = kind.decode(content, place=name)
        again = next(fastavro.reader(io.BytesIO(ours.encode())))
        assert not lost(again, theirs, name)


def test_our_commit_metadata_holds_what_hudis_held(all_operations):
    for action in ("commit", "replacecommit"):
        for name, content in timeline_files(all_operations, action):
            theirs = json.loads(content)
            again = json.loads(CommitMetadata.from_json(content, place=name).to_json())
            for stats in theirs["partitionToWriteStats"].values():
                for stat in stats:
                    stat["runtimeStats"] = None
            for stats in again["partitionToWriteStats"].values():
                for stat in stats:
                    stat["runtimeStats"] = None
            assert not lost(again, theirs, name)


def test_properties_are_read_and_their_checksum_agreed(all_operations):
    properties = parse_properties(Path(all_operations.table.path, ".hoodie/hoodie.properties").read_bytes())
    assert properties["hoodie.table.name"] == "made"
    assert table_checksum(properties) == properties["hoodie.table.checksum"]
