"""The properties that depend on the table version, in new tables and in tables that change their version."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.runtime.apply.properties import differing_properties
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.table_spec import NEW_TABLE_VERSIONS, TABLE_VERSIONS, Column, TableSpec
from parquetry.runtime.table.creation import check_new_spec, check_spec, table_properties
from parquetry.runtime.table.properties import CHECKSUM_KEY
from parquetry.runtime.table.version_properties import INITIAL_VERSION_KEY, changed_properties

COLUMNS = tuple(Column(name=name, type="string") for name in ("id", "rev", "day", "hour"))
SPEC = TableSpec(
    name="events", columns=COLUMNS, record_key=("id",), ordering="rev", partition_by=("day", "hour")
)
SPECS = [
    SPEC,
    replace(SPEC, ordering=None),
    replace(SPEC, partition_by=("day",)),
    replace(SPEC, partition_by=()),
    replace(SPEC, record_key=("id", "rev")),
    replace(SPEC, record_key=(), ordering=None),
]


def of_version(spec, version):
    return table_properties(replace(spec, table_version=version))


def test_a_new_table_of_version_9_has_what_hudi_needs():
    properties = of_version(SPEC, 9)
    assert (
        properties.items()
        >= {
            "hoodie.table.version": "9",
            "hoodie.timeline.layout.version": "2",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.table.initial.version": "9",
            "hoodie.table.keygenerator.type": "CUSTOM",
            "hoodie.table.ordering.fields": "rev",
            "hoodie.table.partition.fields": "day,hour",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        }.items()
    )
    assert not properties.keys() & {"hoodie.table.precombine.field", "hoodie.table.keygenerator.class"}
    unordered = of_version(replace(SPEC, ordering=None), 9)
    assert unordered["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert "hoodie.table.partition.fields" not in of_version(replace(SPEC, partition_by=()), 9)


def test_version_8_has_the_names_that_hudi_1_0_knows():
    properties = of_version(SPEC, 8)
    assert properties["hoodie.table.precombine.field"] == "rev"
    assert properties["hoodie.record.merge.strategy.id"] == "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
    assert properties["hoodie.compaction.payload.class"].endswith(".DefaultHoodieRecordPayload")


def test_an_upgrade_changes_the_properties_as_hudi_does():
    before = of_version(replace(SPEC, partition_by=("day",)), 6) | {"user.note": "kept"}
    after = changed_properties(before, 9)
    assert {key: after.get(key) for key in before.keys() ^ after.keys() | {"user.note"}} == {
        "hoodie.table.initial.version": "6",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.table.ordering.fields": "rev",
        "hoodie.table.precombine.field": None,
        "user.note": "kept",
    }
    assert after["hoodie.archivelog.folder"] == "archived"


def test_a_downgrade_of_a_table_of_hudi_gives_it_the_names_of_version_6():
    hudi = of_version(SPEC, 9) | {
        "hoodie.table.legacy.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    }
    after = changed_properties(hudi, 6)
    assert after == of_version(SPEC, 6) | {
        "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    }


def test_a_payload_that_keeps_the_newest_write_stays_so():
    payload = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    before = of_version(SPEC, 6) | {"hoodie.compaction.payload.class": payload}
    after = changed_properties(before, 9)
    assert after["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert after["hoodie.table.legacy.payload.class"] == payload
    assert changed_properties(after, 6) == before


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("version", TABLE_VERSIONS)
def test_each_version_goes_to_each_other_and_is_no_drift(spec, version):
    before = of_version(spec, version)
    for other in TABLE_VERSIONS:
        changed = changed_properties(before, other)
        known = replace(spec, table_version=other)
        assert not differing_properties(changed, known, made_with=spec, uri="t")
        back = changed_properties(changed, version)
        assert not differing_properties(back, spec, made_with=spec, uri="t")
        assert changed[CHECKSUM_KEY] == before[CHECKSUM_KEY]


def test_the_way_to_version_9_and_back_leaves_every_property_as_it_was():
    for spec in SPECS:
        before = of_version(spec, 6) | {"hoodie.archivelog.folder": "old_logs"}
        assert changed_properties(changed_properties(before, 9), 6) == before


def test_a_folder_of_the_archive_of_version_9_is_no_folder_of_version_6():
    assert changed_properties(of_version(SPEC, 9), 6)["hoodie.archivelog.folder"] == "archived"
    assert INITIAL_VERSION_KEY not in changed_properties(of_version(SPEC, 9), 6)


def test_folders_that_hudi_leaves_out_or_names_otherwise_stay():
    typed = {"hoodie.table.partition.fields": "day:SIMPLE,hour:SIMPLE"}
    live = of_version(SPEC, 9) | {"hoodie.timeline.history.path": "other"} | typed
    after = changed_properties(live, 8)
    assert after["hoodie.timeline.history.path"] == "other"
    assert after.items() >= typed.items()
    assert changed_properties(live, 6)["hoodie.table.partition.fields"] == "day,hour"
    del live["hoodie.timeline.history.path"]
    spec = replace(SPEC, table_version=9)
    assert not differing_properties(live, spec, made_with=spec, uri="t")


def test_a_lost_merge_mode_is_drift():
    live = of_version(SPEC, 9)
    del live["hoodie.record.merge.mode"]
    spec = replace(SPEC, table_version=9)
    (drift,) = differing_properties(live, spec, made_with=spec, uri="t")
    assert (drift.key, drift.applied) == ("hoodie.record.merge.mode", "EVENT_TIME_ORDERING")


def test_an_ordering_field_has_either_name():
    live = of_version(SPEC, 9)
    live["hoodie.table.precombine.field"] = live.pop("hoodie.table.ordering.fields")
    spec = replace(SPEC, table_version=9)
    assert not differing_properties(live, spec, made_with=spec, uri="t")


def test_a_version_that_no_table_has_or_is_created_with_is_refused():
    with pytest.raises(InvalidDataError, match="no table version 7"):
        check_spec(replace(SPEC, table_version=7))
    assert 8 not in NEW_TABLE_VERSIONS
    with pytest.raises(InvalidDataError, match="no table is created with table version 8; choose 6"):
        check_new_spec(replace(SPEC, table_version=8))
    check_spec(replace(SPEC, table_version=8))
