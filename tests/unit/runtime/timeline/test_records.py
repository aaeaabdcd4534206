from __future__ import annotations

import io
import json

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.timeline.avro_model import decode_container, record_schema
from parquetry.runtime.timeline.clean import CleanedPartition, CleanerPlan, CleanMetadata
from parquetry.runtime.timeline.clustering_plan import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    RequestedReplace,
)
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.restore import RestoreMetadata, RestorePlan, SavepointMetadata
from parquetry.runtime.timeline.rollback import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    RolledBackPartition,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.text("abcdef.-", min_size=1, max_size=8)
longs = st.integers(0, 2**62)
instants = st.builds(InstantInfo, time=texts, action=texts)
undone = st.builds(
    InstantInfo, time=st.from_regex(r"[0-9]{1,20}", fullmatch=True), action=st.sampled_from(Action).map(str)
)
some_undone = st.lists(undone, max_size=3).map(tuple)
some_instants = st.lists(instants, max_size=3).map(tuple)
some_texts = st.lists(texts, max_size=3).map(tuple)
some_names = st.lists(names, max_size=3).map(tuple)
text_map = st.dictionaries(texts, texts, max_size=2)
maybe = st.none() | st.text("0123456789", min_size=1, max_size=17)
rolled_back = st.builds(
    RollbackMetadata,
    start_time=texts,
    time_taken_ms=longs,
    instants=some_instants,
    partitions=st.dictionaries(
        texts, st.builds(RolledBackPartition, deleted=some_texts, failed=some_texts), max_size=2
    ),
)
groups = st.builds(
    ClusteringGroup,
    slices=st.lists(st.builds(ClusteringSlice, partition=texts, file_id=texts, path=texts), max_size=3).map(
        tuple
    ),
    output_files=st.integers(1, 9),
    metrics=st.dictionaries(texts, st.floats(allow_nan=False), max_size=2),
    extra=text_map,
)
records = st.one_of(
    st.builds(
        CleanerPlan,
        policy=texts,
        earliest_commit_to_retain=maybe,
        last_completed_commit=texts,
        files=st.dictionaries(texts, some_texts, max_size=2),
        partitions_to_delete=some_texts,
        extra=text_map,
    ),
    st.builds(
        CleanMetadata,
        start_time=texts,
        time_taken_ms=longs,
        earliest_commit_to_retain=maybe,
        last_completed_commit=texts,
        partitions=st.dictionaries(
            texts,
            st.builds(CleanedPartition, policy=texts, deleted=some_names, failed=some_names, partition_deleted=st.booleans()),
            max_size=2,
        ),
        extra=text_map,
    ),
    st.builds(
        RollbackPlan,
        instant=undone,
        requests=st.lists(st.builds(RollbackRequest, partition=texts, files=some_texts, file_id=texts, base_instant=texts), max_size=2).map(tuple),
    ),
    rolled_back.filter(lambda record: record.instants),
    st.builds(SavepointMetadata, created_by=texts, created_at_ms=longs, comments=texts, files=st.dictionaries(texts, some_texts, max_size=2)),
    st.builds(RestorePlan, instants=some_undone, savepoint=maybe),
    st.builds(
        RestoreMetadata,
        start_time=texts,
        time_taken_ms=longs,
        instants=some_instants.filter(bool),
        rollbacks=st.dictionaries(texts, st.lists(rolled_back.filter(lambda record: record.instants), max_size=2).map(tuple), max_size=2),
    ),
    st.builds(
        RequestedReplace,
        operation=st.none() | texts,
        plan=st.none() | st.builds(ClusteringPlan, groups=st.lists(groups, max_size=2).map(tuple), strategy=names, strategy_params=text_map, extra=text_map),
        extra=text_map,
    ),
)  # fmt: skip


@given(records)
def test_a_record_survives_its_file_and_gives_the_same_bytes_each_time(record):
    content = record.encode()
    assert type(record).decode(content, place="here") == record
    assert record.encode() == content


@given(records)
def test_fastavro_reads_what_hudi_would(record):
    (value,) = fastavro.reader(io.BytesIO(record.encode()), reader_schema=record_schema(record.RECORD))
    assert value == decode_container(record.encode(), place="here")


def test_every_string_is_a_java_string_and_records_are_spelled_out_once():
    text = json.dumps(record_schema("HoodieArchivedMetaEntry"))
    assert '"type": "string"' in text
    assert text.count('"type": "string"') + text.count('"type": "map"') == text.count(
        '"avro.java.string": "String"'
    )
    assert '"string"' not in text.replace('"type": "string"', "")
    assert text.count('"name": "HoodieWriteStat"') == 1


def test_the_restore_record_has_its_instants_where_hudi_first_meets_them():
    schema = record_schema("HoodieRestoreMetadata")
    rollback = schema["fields"][3]["type"]["values"]["items"][1]
    assert rollback["name"] == "HoodieRollbackMetadata"
    assert rollback["fields"][-1]["type"]["items"]["name"] == "HoodieInstantInfo"
    assert schema["fields"][-1]["type"]["items"] == "org.apache.hudi.avro.model.HoodieInstantInfo"


def test_a_clean_of_version_one_held_paths():
    value = CleanMetadata(
        start_time="1", time_taken_ms=1, earliest_commit_to_retain=None,
        partitions={"p": CleanedPartition(policy="KEEP_LATEST_COMMITS", deleted=("f.parquet",))},
    ).to_avro()  # fmt: skip
    value["partitionMetadata"]["p"]["successDeleteFiles"] = ["/data/t/p/f.parquet"]
    value["earliestCommitToRetain"] = ""
    read = CleanMetadata.from_avro(value)
    assert read.partitions["p"].deleted == ("f.parquet",)
    assert read.earliest_commit_to_retain is None


def test_fields_of_newer_writers_are_passed_over():
    schema = record_schema("HoodieRequestedReplaceMetadata")
    schema["fields"].append(
        {"name": "missingSchedulePartitions", "type": {"type": "array", "items": "string"}}
    )
    value = {**RequestedReplace(operation="CLUSTER").to_avro(), "missingSchedulePartitions": ["p"]}
    content = io.BytesIO()
    fastavro.writer(content, schema, [value])
    assert RequestedReplace.decode(content.getvalue(), place="here").is_clustering


def _other_record() -> bytes:
    return RestorePlan(instants=(), savepoint=None).encode()


@pytest.mark.parametrize(
    "content",
    [b"", b"Obj\x01", b"garbage", RestorePlan(instants=(), savepoint="1").encode()[:-20], _other_record()],
)
def test_a_half_written_or_other_file_is_named(content):
    with pytest.raises(CorruptTableError, match=r"^T\.clean: "):
        CleanMetadata.decode(content, place="T.clean")
