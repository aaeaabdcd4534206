from __future__ import annotations

import io
from dataclasses import replace

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.timeline.avro_model import encode_container
from parquetry.runtime.timeline.commit import CommitMetadata, WriteStat
from parquetry.runtime.timeline.commit_avro import decode_commit, encode_commit, encode_profile
from tests.unit.runtime.timeline.test_commit import commits

STAT = WriteStat(
    file_id="f-0",
    path="p/f-0_0-0-0_1.parquet",
    partition_path="p",
    prev_commit="20260101000000000",
    num_writes=3,
    num_inserts=1,
    num_update_writes=2,
    file_size_bytes=9,
)
UPSERT = CommitMetadata(operation="UPSERT", stats={"p": (STAT,)}, extra={"schema": "{}"})


def record_of(content):
    """The name of the record of a container, and its value."""
    reader = fastavro.reader(io.BytesIO(content))
    return reader.writer_schema["name"].rpartition(".")[2], next(reader)


@given(commits)
def test_a_commit_survives_its_container(commit):
    assert decode_commit(encode_commit(commit)) == commit
    assert decode_commit(encode_profile(commit)) == replace(commit, replaced={})


def test_both_layouts_have_the_same_fields_and_values():
    _, record = record_of(encode_commit(UPSERT))
    document = UPSERT.to_document()
    assert {key: record[key] for key in document} | {"partitionToWriteStats": None} == document | {
        "partitionToWriteStats": None
    }
    (stat,), (described,) = (
        record["partitionToWriteStats"]["p"],
        document["partitionToWriteStats"]["p"],
    )
    assert {key: stat[key] for key in described} == described
    assert {key: stat[key] for key in stat.keys() - described.keys() if stat[key] is not None} == {
        "totalLogReadTimeMs": 0,
        "numUpdates": 0,
    }
    assert record["version"] is None


def test_writes_that_replace_have_a_record_of_their_own_and_profiles_do_not():
    overwrite = CommitMetadata(operation="INSERT_OVERWRITE", replaced={"p": ("f-0",)})
    name, record = record_of(encode_commit(overwrite))
    assert (name, record["partitionToReplaceFileIds"]) == ("HoodieReplaceCommitMetadata", {"p": ["f-0"]})
    assert record_of(encode_commit(CommitMetadata(operation="DELETE_PARTITION")))[0] == name
    assert record_of(encode_profile(overwrite))[0] == "HoodieCommitMetadata"
    assert record_of(encode_commit(UPSERT))[0] == "HoodieCommitMetadata"


def test_equal_commits_give_equal_bytes():
    again = decode_commit(encode_commit(UPSERT))
    assert encode_commit(again) == encode_commit(UPSERT)


def test_another_order_of_fields_and_unknown_fields_are_read():
    schema = {
        "type": "record",
        "name": "elsewhere.HoodieCommitMetadata",
        "fields": [
            {"name": "wonder", "type": "double"},
            {"name": "operationType", "type": ["string", "null"]},
            {
                "name": "partitionToWriteStats",
                "type": {
                    "type": "map",
                    "values": {
                        "type": "array",
                        "items": {
                            "type": "record",
                            "name": "HoodieWriteStat",
                            "fields": [
                                {"name": "path", "type": "string"},
                                {"name": "fileId", "type": "string"},
                            ],
                        },
                    },
                },
            },
        ],
    }
    record = {
        "wonder": 1.5,
        "operationType": "BULK_INSERT",
        "partitionToWriteStats": {"a": [{"path": "a/f", "fileId": "f-0"}]},
    }
    content = io.BytesIO()
    fastavro.writer(content, fastavro.parse_schema(schema), [record])
    assert decode_commit(content.getvalue()) == CommitMetadata(
        operation="BULK_INSERT",
        stats={"a": (WriteStat(file_id="f-0", path="a/f", partition_path="a"),)},
    )


@given(st.integers(0, 400))
def test_a_container_that_is_cut_off_is_refused_with_its_place(cut):
    with pytest.raises(CorruptTableError, match=r"^the place: "):
        decode_commit(encode_commit(UPSERT)[: -cut - 17], place="the place")


@pytest.mark.parametrize("content", [b"", UPSERT.to_json(), b"Obj\x01", b"Obj\x01" + b"\xff" * 40])
def test_what_is_no_container_is_refused_with_its_place(content):
    with pytest.raises(CorruptTableError, match=r"^the place: "):
        decode_commit(content, place="the place")


def test_a_container_of_another_record_has_no_files():
    other = encode_container("HoodieInstantInfo", {"commitTime": "1", "action": "commit"})
    assert decode_commit(other) == CommitMetadata(operation="UNKNOWN")
