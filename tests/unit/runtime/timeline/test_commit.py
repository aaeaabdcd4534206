from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.timeline.commit import CommitMetadata, WriteStat

texts = st.text(max_size=12)
counts = st.integers(0, 2**62)
stats = st.builds(
    WriteStat,
    file_id=texts,
    path=texts,
    partition_path=texts,
    prev_commit=st.none() | st.from_regex(r"[0-9]{17}", fullmatch=True),
    num_writes=counts,
    num_deletes=counts,
    num_update_writes=counts,
    num_inserts=counts,
    file_size_bytes=counts,
)
commits = st.builds(
    CommitMetadata,
    operation=st.sampled_from(["UPSERT", "INSERT_OVERWRITE", "CLUSTER"]),
    stats=st.dictionaries(texts, st.lists(stats, max_size=3).map(tuple), max_size=3),
    extra=st.dictionaries(texts, texts, max_size=3),
    replaced=st.dictionaries(texts, st.lists(texts, max_size=3).map(tuple), max_size=3),
)


@given(commits)
def test_a_commit_survives_its_file(commit):
    assert CommitMetadata.from_json(commit.to_json()) == commit


def test_the_json_has_the_fields_of_a_file_written_by_hudi():
    stat = WriteStat(
        file_id="f-0",
        path="p/f-0_0-0-0_1.parquet",
        partition_path="p",
        num_writes=3,
        num_inserts=3,
        file_size_bytes=9,
    )
    document = json.loads(
        CommitMetadata(operation="UPSERT", stats={"p": (stat,)}, extra={"schema": "{}"}).to_json()
    )
    assert list(document) == ["partitionToWriteStats", "compacted", "extraMetadata", "operationType"]
    assert list(document["partitionToWriteStats"]["p"][0]) == [
        "fileId", "path", "cdcStats", "prevCommit", "numWrites", "numDeletes", "numUpdateWrites", "numInserts",
        "totalWriteBytes", "totalWriteErrors", "tempPath", "partitionPath", "totalLogRecords", "totalLogFilesCompacted",
        "totalLogSizeCompacted", "totalUpdatedRecordsCompacted", "totalLogBlocks", "totalCorruptLogBlock",
        "totalRollbackBlocks", "fileSizeInBytes", "minEventTime", "maxEventTime", "runtimeStats",
    ]  # fmt: skip
    assert document["partitionToWriteStats"]["p"][0]["prevCommit"] == "null"


def test_replacing_operations_always_say_what_they_replaced():
    document = json.loads(CommitMetadata(operation="DELETE_PARTITION").to_json())
    assert document["partitionToReplaceFileIds"] == {}


def test_what_hudi_may_leave_out_gets_defaults_and_what_it_adds_is_passed_over():
    text = """{"partitionToWriteStats": {"a": [{"fileId": "f-0", "path": "a/f", "numUpdates": 7, "prevBaseFile": null}]},
               "extraMetadata": {"schema": "", "none": null}, "wonder": 1}"""
    commit = CommitMetadata.from_json(text)
    assert commit.operation == "UNKNOWN"
    assert commit.stats == {"a": (WriteStat(file_id="f-0", path="a/f", partition_path="a"),)}
    assert commit.schema is None
    assert commit.extra == {"schema": ""}


def test_sizes_come_from_either_field():
    text = '{"partitionToWriteStats": {"": [{"fileId": "f", "path": "f", "totalWriteBytes": 5}]}}'
    (stat,) = CommitMetadata.from_json(text).all_stats()
    assert stat.file_size_bytes == 5


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"partitionToWriteStats": 3}', b'{"partitionToWriteStats": {"p": [7]}}',
     b'{"partitionToReplaceFileIds": {"p": [7]}}', b'{"operationType": 1}'],
)  # fmt: skip
def test_a_half_written_file_is_named(content):
    with pytest.raises(CorruptTableError, match=r"^the place: "):
        CommitMetadata.from_json(content, place="the place")
